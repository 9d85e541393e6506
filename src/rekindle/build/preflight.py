"""Everything that can fail at the end is asked at the start, in seconds, and all of it is told at once.

Each question gives a :class:`Check`; the ones that fail carry one line that can be pasted. Nothing is changed here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.build.companion import compiles_against_torch
from rekindle.build.naming import wheel_name
from rekindle.build.preflight_companion import check_companion
from rekindle.build.preflight_compiler import check_compiler
from rekindle.build.preflight_cuda import check_gpu
from rekindle.build.preflight_disk import check_disk
from rekindle.build.preflight_index import check_index
from rekindle.build.preflight_python import check_linker, check_release
from rekindle.build.preflight_rocm import check_rocm
from rekindle.build.target import find_build_python, requirements
from rekindle.build.toolkits import check_toolkit
from rekindle.compat.supply import from_index, how_to_install, managers, needs_for, parts_for
from rekindle.errors import BadInput, NotReady, RekindleError
from rekindle.facts import load_facts
from rekindle.host.protocol import Host
from rekindle.host.supply import is_root, lacking, manager_here
from rekindle.model.machine import Check
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree
from rekindle.model.supply import DiskPhase, Need
from rekindle.model.version import at_least, compare
from rekindle.toolkits.compilers import find_compilers
from rekindle.toolkits.cuda import every_nvcc
from rekindle.toolkits.programs import find_cmake, find_ninja


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is to be built. ``tree`` is None before there is one; ``place`` is where it will lie. ``installs``: an
    environment is to be made, and other things come first (in ``build`` making it is the first thing). ``workspace`` is
    where all but the build tree goes (default: there as well), ``places`` where phases after the build write."""

    plan: Plan
    python: str
    place: Path
    tree: SourceTree | None = None
    cmake: str | None = None
    ninja: str | None = None
    installs: bool = False
    workspace: Path | None = None
    places: Mapping[DiskPhase, Path] = field(default_factory=dict)


def preflight(host: Host, asked: Asked) -> tuple[Check, ...]:
    """One check per question that this plan raises."""
    if asked.plan.build is None:
        return ()
    found: list[Check] = []
    for name, question in _QUESTIONS:
        try:
            found += question(host, asked)
        except RekindleError as error:
            found.append(_check(name, "fail", error.message, fix=error.remedy))
    return tuple(found)


def refuse_unready(checks: Sequence[Check]) -> None:
    """Raise with everything that is missing, and the lines that bring it."""
    failed = [check for check in checks if check.status == "fail"]
    if not failed:
        return
    fixes = list(dict.fromkeys(check.fix for check in failed if check.fix))
    said = "; ".join(f"{check.found or check.id}" for check in failed)
    raise NotReady(f"this machine is not ready for the build: {said}", remedy="\n".join(fixes) or None)


# CMake expands $ and <>, and ends lists at ;, ninja expands $, and PATH ends at :. Quotes and backslashes end strings.
MEANINGFUL = '$;:"\\<>'


def _place(host: Host, asked: Asked) -> Iterator[Check]:
    """A path that some tool on the way reads otherwise than it is written ends in an error nobody understands."""
    letters = [letter for letter in MEANINGFUL if letter in str(asked.place)]
    if letters and host.system != "windows":
        raise BadInput(
            f"the path {asked.place} holds {' '.join(letters)}, which CMake, ninja or PATH read as something else",
            remedy="use a workspace and a source folder without such letters (spaces and umlauts are fine)",
        )
    cut = [letter for letter in ",'" if letter in str(asked.place)]
    if cut and asked.plan.cuda and host.system != "windows":
        raise BadInput(
            f"the path {asked.place} holds {' '.join(cut)}, at which nvcc cuts the folders after -I in two",
            remedy="use a workspace and a source folder without such letters (spaces and umlauts are fine)",
        )
    yield from ()


def _compilers(host: Host, asked: Asked) -> Iterator[Check]:
    plan = asked.plan
    assert plan.build is not None
    settings = {**plan.build.cmake, **plan.build.env}
    _, cxx = find_compilers(host, settings)
    yield _check("compiler", "ok", f"{cxx.path} {cxx.version}", want=plan.build.compiler)
    yield from check_compiler(host, plan)
    if "nvcc" in (found := check_toolkit(host, plan, settings, cxx.path)):
        others = len(every_nvcc(host)) - 1
        which = f", the one that the plan names of {others + 1} toolkits here" if others > 0 else ""
        yield _check("nvcc", "ok", found["nvcc"] + which, want=plan.cuda)


def _cmake(host: Host, asked: Asked) -> Iterator[Check]:
    plan = asked.plan
    assert plan.build is not None
    if "cmake" in plan.build.pins and not asked.cmake:
        yield _check("cmake", "ok", f"cmake{plan.build.pins['cmake']} from the index, for this build alone")
        return
    cmake = find_cmake(host, asked.cmake)
    # An extension has a build of its own: what torch's CMake wants is not asked of it.
    torch = None if compiles_against_torch(plan.project) else plan.torch
    least = load_facts().era(torch).cmake_min if torch else None
    settings = {**plan.build.cmake, **plan.build.env}
    if least and not at_least(cmake.version, least):
        raise BadInput(
            f"CMake {cmake.version} is too old: torch {plan.torch} wants {least}", remedy="pip install -U cmake"
        )
    policy = "CMAKE_POLICY_VERSION_MINIMUM" in settings
    if torch and compare(torch, "2.8") < 0 and at_least(cmake.version, "4.0") and not policy:
        raise BadInput(
            f"CMake {cmake.version} refuses the CMake files of torch {plan.torch}", remedy="pip install 'cmake<4'"
        )
    yield _check("cmake", "ok", f"{cmake.path} {cmake.version}", want=least)


def _ninja(host: Host, asked: Asked) -> Iterator[Check]:
    ninja = find_ninja(host, asked.ninja)
    yield _check("ninja", "ok", f"{ninja.path} {ninja.version}")


def _python(host: Host, asked: Asked) -> Iterator[Check]:
    plan = asked.plan
    interpreter = find_build_python(host, asked.python)
    yield _check("python", "ok", f"{interpreter.path} {interpreter.version}, with Python.h", want=plan.python)
    yield from check_release(plan, interpreter)
    yield from check_linker(host, plan, interpreter)
    name = wheel_name(plan, asked.tree, interpreter.tag, host)
    if name:
        yield _check("wheel", "ok", name)


def _system(host: Host, asked: Asked) -> Iterator[Check]:
    """Libraries, headers and programs of the system, one line to install them all."""
    plan = asked.plan
    if compiles_against_torch(plan.project):
        yield from check_companion(host, plan)
        return
    if plan.project != "torch" or plan.torch is None or host.system != "linux":
        return
    assert plan.build is not None
    release = plan.torch.split("+")[0]
    # A BLAS that pip brings for this build is no question to the system.
    brought = any(name.startswith("mkl") for name in plan.build.pins)
    rows: list[Need] = [row for row in needs_for(release) if not (brought and "BLAS" in row.settings)]
    if asked.tree is not None:
        taken = {part.path for part in asked.tree.parts if part.way != "submodule"}
        rows += [row for row in parts_for(release) if row.folder in taken]
    elif plan.build.packages and plan.build.origin not in ("git", "tarball"):
        rows += parts_for(release)
    lacks = lacking(host, rows, plan.build.env)
    if not lacks:
        asked_of = [row for row in rows if row.headers or row.libraries or row.programs or row.any_library]
        yield _check("third-parties", "ok", f"{len(asked_of)} libraries taken from this system, all there")
        return
    words = ", ".join(f"{lack.need.name} ({lack.what[0]})" for lack in lacks)
    fix = how_to_install(lacks, manager_here(host, managers()), root=is_root(host))
    fix = fix or f"install the development packages of {words}"
    yield _check("third-parties", "fail", f"missing on this system: {words}", fix=fix)


def _tree(host: Host, asked: Asked) -> Iterator[Check]:
    tree = asked.tree
    if tree is None or not tree.missing_submodules:
        return
    fixes = [part.fix for part in tree.parts if not part.ready and part.fix]
    fix = fixes[0] if fixes else f"rekindle source fill {tree.root}"
    if tree.commit is not None:
        fix = f"git -C {tree.root} submodule update --init --recursive"
    count = len(tree.missing_submodules)
    words = (
        f"{count} third part{'ies are' if count > 1 else 'y is'} missing in {tree.root}: {tree.missing_submodules[0]}"
    )
    yield _check("submodules", "fail", words, fix=fix)


def _headers(host: Host, asked: Asked) -> Iterator[Check]:
    """A tree that was filled for another back end lacks what only this one takes from the package index."""
    tree, plan = asked.tree, asked.plan
    if tree is None or plan.torch is None or plan.project != "torch":
        return
    backend = plan.backend
    empty = {part.path for part in tree.parts if part.way == "off"}
    rows = parts_for(plan.torch.split("+")[0])
    for row in rows:
        if backend in row.stops and row.folder in empty:
            words = f"{row.folder} in {tree.root} is empty: {row.stops[backend]}"
            yield _check("headers", "fail", words, fix="the same command with --from git, on a machine with git")
    taken = {part.path: part.origin or "" for part in tree.parts if part.way == "index"}
    for row in from_index(rows, backend):
        assert row.index is not None
        fix = f"rekindle source fill {shlex.quote(tree.root)}"
        if row.folder in empty:
            words = f"{row.folder} in {tree.root} has no headers, and a build with {backend} includes them"
            yield _check("headers", "fail", words, fix=fix)
        elif row.index.sha256 not in taken.get(row.folder, row.index.sha256):
            words = f"{row.folder} in {tree.root} holds other headers than those of {row.index.pin}"
            yield _check("headers", "fail", words, fix=fix)


def _index(host: Host, asked: Asked) -> Iterator[Check]:
    assert asked.plan.build is not None
    if asked.installs:
        wanted = requirements(asked.plan.build.pins, (), pep517=False)
        yield from check_index(host, find_build_python(host, asked.python).path, wanted)


def _disk(host: Host, asked: Asked) -> Iterator[Check]:
    here = asked.workspace or asked.place
    places: dict[DiskPhase, Path] = {"environment": here, "compile": asked.place, "wheel": here}
    yield from check_disk(host, asked.plan, {"fetch": here, **places, **asked.places}, asked.tree)


def _gpu(host: Host, asked: Asked) -> Iterator[Check]:
    yield from check_gpu(host, asked.plan)
    yield from check_rocm(host, asked.plan, asked.tree)


def _check(name: str, status: str, found: str, *, want: str | None = None, fix: str | None = None) -> Check:
    return Check(id=name, status=status, needed_for=("build",), found=found, want=want, fix=fix)  # type: ignore[arg-type]


Question = Callable[[Host, Asked], Iterator[Check]]
_QUESTIONS: tuple[tuple[str, Question], ...] = (
    ("place", _place),
    ("compiler", _compilers),
    ("cmake", _cmake),
    ("ninja", _ninja),
    ("python", _python),
    ("third-parties", _system),
    ("submodules", _tree),
    ("headers", _headers),
    ("gpu", _gpu),
    ("index", _index),
    ("disk", _disk),
)
