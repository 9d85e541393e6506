"""What a plan from elsewhere would make this machine do, said before anything of it is done.

A plan decides which programs compile, what is fetched and what is set; one that came by mail decides that for its
sender. Names that no build of torch knows are refused whoever made the plan (``build_names.toml`` lists the known).
"""

from __future__ import annotations

import fnmatch
import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Set
from importlib import resources
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgspec

from rekindle.errors import BadInput
from rekindle.model.build import ForeignPlan
from rekindle.model.machine import Compiler, Machine
from rekindle.model.pins import pin_requirement
from rekindle.model.plan import Plan

_PATH = re.compile(r"(?:^|[=;:, ])((?:~|[A-Za-z]:)?[/\\][^;,\s]*)")

_KNOWN_WORDS = ("", "Ninja", "ccache", "sccache", "distcc", "icecc", "nvcc", "hipcc")


class _Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    environment: tuple[str, ...]
    programs: tuple[str, ...]
    flags: tuple[str, ...]


@functools.cache
def _names() -> _Names:
    text = resources.files("rekindle.build").joinpath("build_names.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _Names)


def check_names(plan: Plan) -> None:
    """Refuse variables that no build knows, and pins that are more than a package and its versions."""
    recipe = plan.build
    if recipe is None:
        return
    for name in recipe.env:
        if not _among(name, _names().environment):
            raise BadInput(
                f"the plan sets {name}, which is no setting of a build",
                remedy="take it out of the plan; what a build knows stands in docs/security.md",
            )
    for name, pin in recipe.pins.items():
        pin_requirement(name, pin)


def account_of(plan: Plan, machine: Machine) -> ForeignPlan:
    """What the plan would run, fetch and set, and which places of it the doctor did not find on this machine."""
    recipe = plan.build
    settings = {**recipe.env, **recipe.cmake} if recipe else {}
    found = [one.path for one in machine.toolkits] + [one.path for one in machine.compilers]
    known = [Path(path) for path in (*found, *(one.path for one in machine.pythons)) if path]
    runs = [f"{name}={value}" for name, value in settings.items() if _among(name, _names().programs)]
    flags = [f"{name}={value}" for name, value in settings.items() if _among(name, _names().flags)]
    pins = [pin_requirement(name, pin) for name, pin in (recipe.pins.items() if recipe else ())]
    places = ((name, place) for name, value in settings.items() for place in _places(value))
    strange = [f"{name}={place}" for name, place in places if not _in(place, known)]
    names = {one.name for one in known} | {name for one in machine.compilers for name in _versioned(one)}
    strange += [line for line in runs if not _is_program(line.partition("=")[2], known, names)]
    return ForeignPlan(
        title=" ".join(word for word in (plan.project, plan.torch, plan.variant) if word),
        runs=tuple(runs + flags),
        fetches=tuple([*([recipe.source] if recipe else []), *pins]),
        sets=tuple(f"{name}={value}" for name, value in sorted(settings.items())),
        unknown=tuple(dict.fromkeys(strange)),
    )


def _among(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _places(value: str) -> Iterator[str]:
    for found in _PATH.finditer(value):
        yield found[1]


def _in(place: str, known: Iterable[Path]) -> bool:
    # By words, not by asking the disk: a link there may be the sender's.
    pure = PureWindowsPath(place) if re.match(r"[A-Za-z]:", place) else PurePosixPath(place)
    if ".." in pure.parts:
        return False
    return any(place == str(one) or place.startswith((f"{one}/", f"{one}\\")) for one in known)


def _versioned(compiler: Compiler) -> Iterator[str]:
    """The names distributions give it beside the one it was found by: gcc 12.2.0 is gcc-12 too."""
    parts = compiler.version.split(".")
    if parts[0].isdigit():
        yield f"{compiler.kind}-{parts[0]}"
        yield f"{compiler.kind}-{'.'.join(parts[:2])}"


def _is_program(value: str, known: Iterable[Path], names: Set[str]) -> bool:
    """A bare name of a compiler the doctor found (``g++-12``), or the word for a launcher we know."""
    first = value.split()[0] if value.split() else ""
    if "/" in first or "\\" in first:
        return _in(first, known)
    same = {name.replace("clang++", "clang").replace("g++", "gcc") for name in names}
    plain = first.replace("clang++", "clang").replace("g++", "gcc")
    return first in names or plain in same or first in _KNOWN_WORDS
