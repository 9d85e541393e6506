"""What can be had where the planned index does not answer: wheels of torch that lie here, and those of pip's own index.

Each way is a line that can be pasted; one is told only if the planner takes that very wheel for this machine.
"""

from collections.abc import Iterator

from rekindle.api.plan import plan
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.formats.simple_index import IndexWheel, wheels_of
from rekindle.host.download import why_unreachable
from rekindle.inspect.published import Places, list_files, pip_places
from rekindle.model.machine import Machine
from rekindle.model.plan import Wish
from rekindle.model.up_options import UpOptions
from rekindle.plan.question import Question
from rekindle.scripts.quoting import pasted

_ANSWER_SECONDS = 5.0
_MOST_WHEELS = 40


def reachable_ways(machine: Machine, options: UpOptions) -> tuple[str, ...]:
    """Lines that install a torch from places that answer, the newest of each place; empty where there is none."""
    settings = pip_places()
    asked = () if options.offline else settings.indexes
    answering = tuple(url for url in asked if why_unreachable(url, timeout=_ANSWER_SECONDS) is None)
    indexed, _ = list_files("torch", Places(indexes=answering, certificates=settings.certificates))
    _, linked = list_files("torch", Places(links=(*options.find_links, *settings.links)))
    own = "".join(f" --find-links {pasted(place)}" for place in options.find_links)
    # What torch needs beside it may lie elsewhere, and its own companions seldom lie beside it.
    rest = f"{' --index default' if answering else ' --offline'} --torch-only"
    ways = (
        _newest_way(wheels_of(linked, "torch"), machine, own + rest),
        _newest_way(wheels_of(indexed, "torch"), machine, ""),
    )
    return tuple(way for way in ways if way is not None)


def _newest_way(wheels: list[IndexWheel], machine: Machine, how: str) -> str | None:
    """``wheels`` come newest first."""
    for torch, flavour, python in dict.fromkeys(_named(wheels[:_MOST_WHEELS], machine)):
        wish = Wish(torch=f"=={torch}", variant=flavour, python=python)
        try:
            made = plan(machine, wish, wheelhouses=())
        except BadInput:  # a release or flavour that the tables do not have
            continue
        if made.answer == "install" and made.torch == torch and not made.changes:
            return f"rekindle up --torch {torch} --variant {flavour} --python {python}{how}"
    return None


def _named(wheels: list[IndexWheel], machine: Machine) -> Iterator[tuple[str, str, str]]:
    """(release, flavour, Python) of each wheel for this system that a Python of this machine can use."""
    facts = load_facts()
    platform = Question(machine, Wish(), facts).platform
    system, _, arch = platform.partition("_")
    ending = {"windows": "win_amd64", "linux": f"_{arch}"}.get(system, arch)
    here = {".".join(python.version.split(".")[:2]) for python in machine.pythons}
    for wheel in wheels:
        release = facts.release(wheel.version.public)
        flavour = wheel.version.local or (release.pypi.get(platform) if release else None)
        for tag in wheel.tags:
            digits = tag.interpreter.removeprefix("cp")
            python = f"{digits[:1]}.{digits[1:]}"
            if flavour and tag.platform.endswith(ending) and python in here and tag.abi == tag.interpreter:
                yield wheel.version.public, flavour, python
