"""The card before the question: what a yes brings, measured where it can be, said to be unknown where it cannot; and
where the planned index does not answer, lines for what can be had instead, each of a wheel that the planner takes for
this machine."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rekindle.api.plan_torch import plan as make_plan
from rekindle.compat.resources import Demand, first_shortage
from rekindle.errors import BadInput, NotReady, StageFailed
from rekindle.facts import load_facts
from rekindle.formats.simple_index import IndexWheel, wheels_of
from rekindle.host.download import why_unreachable
from rekindle.host.files import free_space
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Host
from rekindle.host.redact import without_password
from rekindle.inspect.published import Places, list_files, pip_places
from rekindle.journey.resolve import largest
from rekindle.journey.target import InstallTarget
from rekindle.model.journey import Card, Package, UpOptions
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan, Request, Wish
from rekindle.model.spoken import GIB, spoken_bytes
from rekindle.plan.question import Question
from rekindle.scripts.quoting import pasted

# The plan, and what makes its card: the index is asked for it, so it is made only where somebody reads it.
Confirm = Callable[[Plan, Callable[[], Card]], bool]

_SHOWN = 6
_ANSWER_SECONDS = 5.0
_MOST_WHEELS = 40


def make_card(
    plan: Plan,
    requests: Sequence[Request],
    packages: Sequence[Package] | None,
    target: InstallTarget,
    *,
    places: Sequence[str],
    network: str | None,
    installer: str,
    companions: Sequence[str] = (),
    reachable: Sequence[str] = (),
) -> Card:
    """``packages`` is what the installer foresees, None where it cannot tell; ``companions`` is what a build makes
    besides torch, in words: it fetches sources instead."""
    build = plan.build if plan.answer == "build" else None
    graft = plan.graft
    sizes = [package.bytes for package in packages or () if package.bytes is not None]
    free = free_bytes(target.folder or Path(target.python))
    installed = load_facts().costs.use[plan.backend].disk_gib
    disk = build.disk_gib if build else installed + (graft.disk_gib or 0 if graft else 0)
    return Card(
        what=_spoken_items(plan, requests, companions),
        places=tuple(map(without_password, places)),
        packages=None if packages is None else len(packages),
        download_bytes=sum(sizes) if packages is not None and (sizes or not packages) else None,
        download_unknown=len(packages or ()) - len(sizes),
        largest=largest(packages or ()),
        disk_gib=disk,
        disk_free_gib=None if free is None else round(free / GIB, 1),
        memory_gib=build.memory_gib if build else None,
        minutes=build.minutes if build else graft.minutes if graft else None,
        into=str(target.folder or target.python),
        new=not target.exists,
        python=plan.python,
        installer=installer,
        network=network,
        reachable=tuple(reachable),
        wont=(*(graft.losses if graft else ()), *(warning.text for warning in plan.warnings if not warning.handled)),
        others=tuple(
            f"{other.answer} torch {other.torch or '?'}{'+' + other.variant if other.variant else ''}: {other.why}"
            for other in plan.alternatives[:_SHOWN]
        ),
    )


def free_bytes(place: Path) -> int | None:
    """The room on the disk that a place lies on, or will."""
    disk = LiveHost().disk(str(place.absolute()))
    return disk.free if disk else None


def look_for_network(places: Sequence[str]) -> str | None:
    """Why one of these addresses cannot be reached; None where all answer."""
    for place in dict.fromkeys(places):
        if (why := why_unreachable(place)) is not None:
            return f"{without_password(place)} does not answer: {without_password(why)[:300]}"
    return None


def refuse_unreachable(network: str | None, reachable: Sequence[str] = ()) -> None:
    """``network`` is why a place does not answer; ``reachable`` are lines that would work from here."""
    if network:
        ways = f"what can be had from here: {' or '.join(reachable)}; or " if reachable else ""
        raise StageFailed(
            f"no network: {network}",
            remedy=f"{ways}connect (or set HTTPS_PROXY) and run the same command again; or fetch from a mirror with "
            "--index URL, from a folder of wheels with --find-links DIR, and ask no index with --offline",
        )


def refuse_hopeless(card: Card, host: Host) -> None:
    """What cannot end well is not begun: no way to the place, or a disk that cannot hold even the files."""
    refuse_unreachable(card.network, card.reachable)
    need = 2 * (card.download_bytes or 0)  # the files, and once more unpacked: never less than that
    if card.disk_free_gib is not None and card.disk_free_gib * GIB < need:
        raise NotReady(
            f"{spoken_bytes(card.disk_free_gib * GIB)} are free at {card.into}, and the files alone take "
            f"{spoken_bytes(need)}",
            remedy="make room ('rekindle clean' removes what earlier runs left), or name another place with --venv",
        )
    # pip downloads into the temporary directory, which may be another disk than the environment's, and a small one.
    place, fetches = tempfile.gettempdir(), any(place.startswith(("http:", "https:")) for place in card.places)
    demands = [Demand("download", place, card.download_bytes)] if card.installer == "pip" and fetches else []
    if short := first_shortage(demands, free_space(host)):
        raise NotReady(
            f"pip downloads {spoken_bytes(card.download_bytes or 0)} into {place}, and {spoken_bytes(short.free)} are"
            " free there",
            remedy="set TMPDIR to a folder on a larger disk, or make room there",
        )


def _spoken_items(plan: Plan, requests: Sequence[Request], companions: Sequence[str]) -> tuple[str, ...]:
    if plan.build and plan.build.taken:
        return (f"{plan.build.taken.split(' ')[0]} as it is", *companions)
    if plan.answer == "build":
        name = f"torch {plan.torch}" + (f" for {' '.join(plan.arch_list)}" if plan.arch_list else "")
        kit = f" with CUDA {plan.cuda}" if plan.cuda else f" with ROCm {plan.rocm}" if plan.rocm else ""
        return (f"{name}{kit}, compiled here", *companions)
    names = [f"{request.name} {request.version or request.specifier or ''}".strip() for request in requests]
    if plan.graft is not None:
        graft = plan.graft
        missing = "which is not here (its compiler is enough: pip install nvidia-cuda-nvcc)"
        nvcc = f"nvcc of CUDA {graft.toolkit}, {f'in {graft.toolkit_here}' if graft.toolkit_here else missing}"
        names[0] = f"{graft.wheel}, grafted for {', '.join(graft.archs)} by {graft.file or nvcc}"
    return tuple(names)


def reachable_ways(machine: Machine, options: UpOptions) -> tuple[str, ...]:
    """Lines that install a torch from places that answer, the newest of each place; empty where there is none."""
    settings = pip_places()
    asked = () if options.offline else settings.indexes
    answering = tuple(url for url in asked if why_unreachable(url, timeout=_ANSWER_SECONDS) is None)
    indexed, _ = list_files("torch", Places(indexes=answering, certificates=settings.certificates))
    _, linked = list_files("torch", Places(links=(*options.find_links, *settings.links)))
    links = "".join(f" --find-links {pasted(place)}" for place in options.find_links)
    # What torch needs beside it may lie elsewhere, and its own companions seldom lie beside it.
    rest = f"{' --index default' if answering else ' --offline'} --torch-only"
    places = ((linked, links + rest), (indexed, ""))
    ways = (_newest_way(wheels_of(files, "torch"), machine, how) for files, how in places)
    reachable = [way for way in ways if way is not None]
    # Without a card, what only a card uses is offered where nothing smaller is there.
    small = [way for way in reachable if way[0] == "cpu" and not machine.gpus]
    return tuple(line for _, line in small or reachable)


def _newest_way(wheels: list[IndexWheel], machine: Machine, how: str) -> tuple[str, str] | None:
    """The flavour and the line; ``wheels`` come newest first."""
    for torch, flavour, python in dict.fromkeys(_usable_builds(wheels[:_MOST_WHEELS], machine)):
        wish = Wish(torch=f"=={torch}", variant=flavour, python=python)
        try:
            plan = make_plan(machine, wish, wheelhouses=())
        except BadInput:  # a release or flavour that the tables do not have
            continue
        if plan.answer == "install" and plan.torch == torch and not plan.changes:
            return flavour, f"rekindle up --torch {torch} --variant {flavour} --python {python}{how}"
    return None


def _usable_builds(wheels: list[IndexWheel], machine: Machine) -> Iterator[tuple[str, str, str]]:
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
