"""The one door between a document and a compiler: what a plan from elsewhere would make this machine do is said before
anything of it is done.

A plan decides which programs compile, what is fetched and what is set; one that came by mail (as plan.json, inside a
provenance statement, in a matrix's lock) decides that for its sender. :func:`admit` lets through what was made here and
what the user said yes to. Names that no build of torch knows are refused whoever made the plan (``build_names.toml``
lists the known).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgspec

from rekindle.build.environment import build_names, is_among
from rekindle.errors import BadInput, Untrusted
from rekindle.host.made import was_made_here
from rekindle.model.build import ForeignPlan
from rekindle.model.machine import Compiler, Machine, Os
from rekindle.model.plan import Plan
from rekindle.model.version import pin_requirement

_PATH = re.compile(r"(?:^|[=;:, ])((?:~|[A-Za-z]:)?[/\\][^;,\s]*)")

_KNOWN_WORDS = ("", "Ninja", "ccache", "sccache", "distcc", "icecc", "nvcc", "hipcc")
# Words of a flags setting that name neither a file nor a program: -march=native, -O2, -DNAME=1, -Wno-error, -fPIC.
_PLAIN_FLAG = re.compile(
    r"-(m[\w=.+-]+|O[0-3s]?|g[0-3]?|[DU]\w+(=[\w.+-]*)?|W(no-)?[a-z0-9+-]+(=\w+)?|f[A-Za-z0-9-]+|std=[\w+]+)"
)

_PLAIN_COMPILER = re.compile(r"(gcc|g\+\+|clang|clang\+\+)(-\d+(\.\d+)?)?")


def check_names(plan: Plan) -> None:
    """Refuse variables that no build knows, and pins that are more than a package and its versions."""
    recipe = plan.build
    if recipe is None:
        return
    for name in recipe.env:
        if not is_among(name, build_names().environment):
            raise BadInput(
                f"the plan sets {name}, which is no setting of a build",
                remedy="take it out of the plan; what a build knows stands in docs/security.md",
            )
    for name, pin in recipe.pins.items():
        pin_requirement(name, pin)


def admit(
    plan: Plan,
    *,
    machine: Callable[[], Machine],
    trust: bool = False,
    document: msgspec.Struct | None = None,
    kind: str = "plan",
    signed: str = "",
    python: str | None = None,
) -> None:
    """Pass, or :class:`~rekindle.errors.Untrusted` with what the plan would do: the only way to the engine.

    ``document`` is what was made here or not where that is more than the plan (a matrix's cell); ``python`` an
    interpreter that the document names; ``machine`` is asked only where there is something to tell.
    """
    check_names(plan)
    if trust or was_made_here(plan if document is None else document):
        return
    account = account_of(plan, machine(), python=python, signed=signed)
    raise Untrusted(
        f"the {kind} was not made here, and it decides what runs, is fetched and set",
        account,
        remedy="look at what it would do, then give --trust; or make it anew with 'rekindle plan --build'",
    )


def admit_to_be_checked(plan: Plan, machine: Machine) -> None:
    """Pass for a look at the machine's compilers, which runs them: every program the plan names must be known here."""
    check_names(plan)
    if was_made_here(plan):
        return
    if unknown := account_of(plan, machine).unknown:
        raise BadInput(
            f"the plan was not made here and names what is not on this machine ({unknown[0]}); it is not run",
            remedy="make the plan here with 'rekindle plan --build', or take that setting out of it",
        )


def names_places(plan: Plan) -> bool:
    """Whether the plan names programs or places, other than compilers by their plain names (``gcc-12``): where they
    come from a machine's file or a matrix's table, they are its maker's."""
    strange = account_of(plan, Machine(os=Os(system="linux"))).unknown
    return not all(_PLAIN_COMPILER.fullmatch(line.partition("=")[2]) for line in strange)


def account_of(plan: Plan, machine: Machine, *, python: str | None = None, signed: str = "") -> ForeignPlan:
    """What the plan would run, fetch and set, and which places of it the doctor did not find on this machine."""
    recipe = plan.build
    settings = {**recipe.env, **recipe.cmake} if recipe else {}
    installed = [each.path for each in machine.toolkits] + [each.path for each in machine.compilers]
    known = [Path(path) for path in (*installed, *(each.path for each in machine.pythons)) if path]
    programs = [f"{name}={value}" for name, value in settings.items() if is_among(name, build_names().programs)]
    flags = [f"{name}={value}" for name, value in settings.items() if is_among(name, build_names().flags)]
    pins = [pin_requirement(name, pin) for name, pin in (recipe.pins.items() if recipe else ())]
    places = ((name, match[1]) for name, value in settings.items() for match in _PATH.finditer(value))
    strange = [f"{name}={place}" for name, place in places if not _lies_in(place, known)]
    names = {path.name for path in known} | {name for each in machine.compilers for name in _versioned(each)}
    strange += [line for line in programs if not _is_program(line.partition("=")[2], known, names)]
    strange += [line for line in flags if not all(map(_PLAIN_FLAG.fullmatch, line.partition("=")[2].split()))]
    if python and not re.fullmatch(r"\d+(\.\d+)*", python):
        programs.append(f"python={python}")
        strange += [] if _lies_in(python, known) else [f"python={python}"]
    return ForeignPlan(
        title=" ".join(word for word in (plan.project, plan.torch, plan.variant) if word),
        signed=signed,
        runs=tuple(programs + flags),
        fetches=tuple([*([recipe.source] if recipe else []), *pins]),
        sets=tuple(f"{name}={value}" for name, value in sorted(settings.items())),
        unknown=tuple(dict.fromkeys(strange)),
    )


def _lies_in(place: str, known: Iterable[Path]) -> bool:
    # By words, not by asking the disk: a link there may be the sender's.
    pure = PureWindowsPath(place) if re.match(r"[A-Za-z]:", place) else PurePosixPath(place)
    if ".." in pure.parts:
        return False
    return any(place == str(folder) or place.startswith((f"{folder}/", f"{folder}\\")) for folder in known)


def _versioned(compiler: Compiler) -> Iterator[str]:
    """The names distributions give it beside the one it was found by: gcc 12.2.0 is gcc-12 too."""
    parts = compiler.version.split(".")
    if parts[0].isdigit():
        yield f"{compiler.kind}-{parts[0]}"
        yield f"{compiler.kind}-{'.'.join(parts[:2])}"


def _is_program(value: str, known: Iterable[Path], names: Set[str]) -> bool:
    """Bare names of compilers the doctor found (``g++-12``), words for launchers we know, plain flags; nothing else."""
    same = {name.replace("clang++", "clang").replace("g++", "gcc") for name in names}

    def is_known(word: str) -> bool:
        if "/" in word or "\\" in word:
            return _lies_in(word, known)
        plain = word.replace("clang++", "clang").replace("g++", "gcc")
        return word in names or plain in same or word in _KNOWN_WORDS

    first, *others = re.split(r"[\s;]+", value.strip())
    return is_known(first) and all(is_known(word) or _PLAIN_FLAG.fullmatch(word) for word in others)
