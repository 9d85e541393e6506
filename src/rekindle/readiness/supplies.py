"""What a build takes from elsewhere: the system's libraries, the tree's third parties, pip's packages, and what a
companion leaves out in silence or would download."""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from rekindle.compat.resources import from_index, needs_for, parts_for, rows_for
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.protocol import Host
from rekindle.interpreters.installer import telling_lines
from rekindle.model.plan import Plan
from rekindle.model.source import compiles_against_torch
from rekindle.model.supply import CompanionNeed, SupplyNeed
from rekindle.readiness.case import Checks, PlannedBuild, build_check
from rekindle.readiness.programs import find_build_python
from rekindle.scripts.quoting import paste_line, pasted
from rekindle.toolkits.cuda import cuda_home
from rekindle.toolkits.libraries import find_lacks
from rekindle.toolkits.programs import bring_lacking

_NVJPEG = "TORCHVISION_USE_NVJPEG"
# The smallest package that every build environment gets.
_PROBE = "wheel"
_SECONDS = 60.0
# pip's own words: nothing was wrong with the index, the question was.
_NOT_ASKED = ("no such option", "No module named pip")


def libraries_for_build(host: Host, build: PlannedBuild) -> Checks:
    """Libraries, headers and programs of the system, one line to install them all."""
    plan = build.plan
    if compiles_against_torch(plan.project):
        yield from check_companion(host, plan)
        return
    if plan.project != "torch" or build.release is None or host.system != "linux":
        return
    recipe = build.recipe
    # A BLAS that pip brings for this build is no question to the system.
    brought = any(name.startswith("mkl") for name in recipe.pins)
    rows: list[SupplyNeed] = [row for row in needs_for(build.release) if not (brought and "BLAS" in row.settings)]
    if build.tree is not None:
        folders = {part.path for part in build.tree.parts if part.way != "submodule"}
        rows += [row for row in parts_for(build.release, cuda=plan.cuda) if row.folder in folders]
    elif recipe.packages and recipe.origin not in ("git", "tarball"):
        rows += parts_for(build.release, cuda=plan.cuda)
    if not (lacks := find_lacks(host, rows, recipe.env)):
        demands = ("headers", "any_header", "libraries", "any_library", "programs")
        demanding = [row for row in rows if any(getattr(row, name) for name in demands)]
        yield build_check("third-parties", "ok", f"{len(demanding)} libraries taken from this system, all there")
        return
    words = ", ".join(f"{lack.need.name} ({lack.what[0]})" for lack in lacks)
    fix = bring_lacking(host, lacks) or f"install the development packages of {words}"
    yield build_check("third-parties", "fail", f"missing on this system: {words}", fix=fix)


def submodules_for_build(host: Host, build: PlannedBuild) -> Checks:
    """Third parties that the tree should hold itself."""
    if (tree := build.tree) is None or not tree.missing_submodules:
        return
    fixes = (part.fix for part in tree.parts if not part.ready and part.fix)
    fix = next(fixes, f"rekindle source fill {tree.root}")
    if tree.commit is not None:
        fix = f"git -C {tree.root} submodule update --init --recursive"
    count = len(tree.missing_submodules)
    parts = "parties are" if count > 1 else "party is"
    problem = f"{count} third {parts} missing in {tree.root}: {tree.missing_submodules[0]}"
    yield build_check("submodules", "fail", problem, fix=fix)


def headers_for_build(host: Host, build: PlannedBuild) -> Checks:
    """A tree that was filled for another back end lacks what only this one takes from the package index."""
    tree, backend = build.tree, build.plan.backend
    if tree is None or build.release is None or build.plan.project != "torch":
        return
    empty = {part.path for part in tree.parts if part.way == "off"}
    rows = parts_for(build.release, cuda=build.plan.cuda, processor=host.machine)
    for row in rows:
        if backend in row.stops and row.folder in empty:
            problem = f"{row.folder} in {tree.root} is empty: {row.stops[backend]}"
            yield build_check("headers", "fail", problem, fix="the same command with --from git, on a machine with git")
    origins = {part.path: part.origin or "" for part in tree.parts if part.way == "index"}
    fix = f"rekindle source fill {pasted(tree.root)}"
    for row in from_index(rows, backend):
        assert row.index is not None
        where = f"{row.folder} in {tree.root}"
        if row.folder in empty:
            problem = f"{where} has no headers, and a build with {backend} includes them"
            yield build_check("headers", "fail", problem, fix=fix)
        elif row.index.sha256 not in origins.get(row.folder, row.index.sha256):
            yield build_check("headers", "fail", f"{where} holds other headers than those of {row.index.pin}", fix=fix)


def index_for_build(host: Host, build: PlannedBuild) -> Checks:
    """Can pip bring what the build environment needs? Asked before sources are fetched for an hour."""
    if build.packages:
        yield from check_index(host, find_build_python(host, build.python).path, build.packages)


def check_index(host: Host, python: str, packages: Sequence[str]) -> Checks:
    """One small package is fetched by pip itself, with its own settings: an index, a mirror or wheels at hand."""
    with tempfile.TemporaryDirectory(prefix="rekindle-index-") as folder:
        words = ("download", "--no-deps", "--disable-pip-version-check", "--no-input", "--retries", "1")
        for interpreter in (python, sys.executable):
            done = host.run([interpreter, "-m", "pip", *words, "--dest", folder, _PROBE], timeout=_SECONDS)
            if done.ok:
                yield build_check("index", "ok", "pip reaches the packages it needs")
                return
            if not any(word in done.err for word in _NOT_ASKED):
                break
        else:
            return  # no pip to ask; the environment's own will tell
    lines = telling_lines(done.err)
    windows = host.system == "windows"
    wheels = r"%CD%\wheels" if windows else "$PWD/wheels"
    fix = (
        f"pip download -d wheels {paste_line(packages, windows=windows)}   # where there is a network; then here:"
        f' PIP_NO_INDEX=1 PIP_FIND_LINKS="{wheels}" and the same command (a mirror: PIP_INDEX_URL=ADDRESS)'
    )
    if done.code is None or not lines:
        # A slow machine or network is no missing index.
        problem = f"pip gave no answer in {_SECONDS:.0f} seconds; without an index the build environment cannot be made"
        yield build_check("index", "warn", problem, fix=fix)
        return
    needs = f"the build environment needs {', '.join(packages)}"
    raise BadInput(f"pip finds no packages here ({lines[-1]}), and {needs}", remedy=fix)


def check_companion(host: Host, plan: Plan) -> Checks:
    """Nothing for torch itself, and on systems whose libraries are not looked for in folders."""
    if plan.build is None or plan.torch is None or host.system != "linux":
        return
    release, env = plan.torch.split("+")[0], plan.build.env
    rows = rows_for(plan.project, release, load_facts().supply.companion)
    yield from _companion_libraries(host, {row.name: row for row in rows if not _is_off(env, row.switch)}, env)
    if plan.project == "torchvision" and plan.cuda is not None and not _is_off(env, _NVJPEG):
        home = cuda_home(host, {**plan.build.cmake, **env}, plan.cuda)
        # torchvision links nvJPEG where the toolkit has it. No torch brings that library, and without it no picture of
        # any kind is opened, since all decoders are one library.
        if home and host.glob(str(PurePosixPath(home, "include", "nvjpeg.h"))):
            text = "nvJPEG of this toolkit is used, and torch does not bring it: where there is no libnvjpeg, the wheel"
            text += " opens no pictures"
            fix = f"rekindle bundle WHEEL puts it inside; or build without: the same command with --set {_NVJPEG}=0"
            yield build_check("nvjpeg", "warn", text, fix=fix)
    for row in rows_for(plan.project, release, load_facts().supply.download):
        if not (_is_off(env, row.switch) or (row.instead and env.get(row.instead))):
            text = f"{row.switch}=1: {row.what} are downloaded in the middle of the build"
            fix = f"the same command with --set {row.switch}=0 needs no network"
            yield build_check(f"download-{row.switch.lower()}", "warn", text, fix=fix)


def _is_off(env: Mapping[str, str], switch: str) -> bool:
    return env.get(switch, "1").lower() in ("0", "off", "no", "false")


def _companion_libraries(host: Host, needs: Mapping[str, CompanionNeed], env: Mapping[str, str]) -> Checks:
    # Where a build was told to look, in the words every compiler knows.
    places = dict(env)
    for name, theirs in (("CPATH", "TORCHVISION_INCLUDE"), ("LIBRARY_PATH", "TORCHVISION_LIBRARY")):
        places[name] = os.pathsep.join(filter(None, (env.get(theirs), env.get(name))))
    lacks = find_lacks(host, needs.values(), places)
    for asked in (True, False):
        if not (short := [lack for lack in lacks if needs[lack.need.name].asked is asked]):
            continue
        words = "; ".join(f"{lack.need.name} ({lack.what[0]}): {lack.need.why}" for lack in short)
        switches = " ".join(f"--set {needs[lack.need.name].switch}=0" for lack in short)
        problem = f"missing on this system: {words}" + ("" if asked else "; built without")
        names = ", ".join(lack.need.name for lack in short)
        fix = bring_lacking(host, short) or f"install the development packages of {names}"
        fix += f"   # or build without: the same command with {switches}" if asked else ""
        yield build_check("libraries" if asked else "libraries-left-out", "fail" if asked else "warn", problem, fix=fix)
    if present := [name for name in needs if name not in {lack.need.name for lack in lacks}]:
        yield build_check("libraries-there", "ok", ", ".join(present))
