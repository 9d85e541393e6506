"""A companion before it is compiled: what its build leaves out in silence, what it would download, and what torch's own
CMake files ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from rekindle.build.extension import finds_torch
from rekindle.build.preflight_cuda import LIBRARY_FOLDERS
from rekindle.compat.supply import companion_downloads, companion_needs, how_to_install, managers
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.protocol import Host
from rekindle.host.supply import is_root, lacking, manager_here
from rekindle.model.build import Fact
from rekindle.model.machine import Check
from rekindle.model.plan import Plan
from rekindle.model.supply import Lack
from rekindle.model.version import same_prefix
from rekindle.scripts.quoting import paste_with, pasted
from rekindle.toolkits.cuda import cuda_home

# A toolkit may be the compiler alone.
_OF_A_WHOLE_TOOLKIT = ("libcudart", "libcublas")
_NVJPEG = "TORCHVISION_USE_NVJPEG"
_OFF = ("0", "off", "no", "false")


def check_companion(host: Host, plan: Plan) -> Iterator[Check]:
    """Nothing for torch itself, and on systems whose libraries are not looked for in folders."""
    if plan.build is None or plan.torch is None or host.system != "linux":
        return
    yield from _libraries(host, plan)
    yield from _of_the_toolkit(host, plan)
    yield from _downloads(plan)


def toolkit_for_cmake(host: Host, plan: Plan, torch: Fact, root: Path) -> str | None:
    """CMake files of a torch with CUDA want a whole toolkit found, even where nothing is compiled for it: its place, so
    that it is named; None where none is wanted, or the plan's own is."""
    if plan.build is None or plan.cuda or plan.rocm or "(CUDA " not in (torch.found or "") or not finds_torch(root):
        return None
    home = cuda_home(host, {**plan.build.cmake, **plan.build.env}, plan.cuda)
    if home and all(
        any(host.glob(str(PurePosixPath(home, folder, f"{name}*"))) for folder in LIBRARY_FOLDERS)
        for name in _OF_A_WHOLE_TOOLKIT
    ):
        return home
    release = (plan.torch or "").split("+")[0]
    rows = load_facts().wheels.flavour
    index = next((row.index for row in rows if row.name == "cpu" and row.index and same_prefix(release, row.torch)), "")
    wanted = {"PIP_EXTRA_INDEX_URL": index} if index else {}
    line = paste_with(wanted, f"rekindle build --source {pasted(str(root))} --against torch=={release}+cpu")
    raise BadInput(
        f"{plan.project}'s CMake reads torch's own CMake files, and those of torch {torch.found} stop where there is no"
        " CUDA toolkit with its libraries, for a CPU build too",
        remedy=f"install the toolkit, or: {line}",
    )


def _libraries(host: Host, plan: Plan) -> Iterator[Check]:
    assert plan.build is not None and plan.torch is not None
    env = plan.build.env
    rows = companion_needs(plan.project, plan.torch.split("+")[0])
    wanted = {row.name: row for row in rows if env.get(row.switch, "1").lower() not in _OFF}
    if not wanted:
        return
    lacks = lacking(host, wanted.values(), _places(env))
    manager, root = manager_here(host, managers()), is_root(host)
    for asked in (True, False):
        short = [lack for lack in lacks if wanted[lack.need.name].asked is asked]
        if not short:
            continue
        words = "; ".join(f"{lack.need.name} ({lack.what[0]}): {lack.need.why}" for lack in short)
        switches = " ".join(f"--set {wanted[lack.need.name].switch}=0" for lack in short)
        yield Check(
            id="libraries" if asked else "libraries-left-out",
            status="fail" if asked else "warn",
            needed_for=("build",),
            found=f"missing on this system: {words}" + ("" if asked else "; built without"),
            fix=_fix(short, how_to_install(short, manager, root=root), switches if asked else None),
        )
    there = [name for name in wanted if name not in {lack.need.name for lack in lacks}]
    if there:
        yield Check(id="libraries-there", status="ok", needed_for=("build",), found=", ".join(there))


def _of_the_toolkit(host: Host, plan: Plan) -> Iterator[Check]:
    """torchvision links nvJPEG where the toolkit has it. No torch brings that library, and without it no picture of any
    kind is opened, since all decoders are one library."""
    assert plan.build is not None
    env = plan.build.env
    if plan.project != "torchvision" or plan.cuda is None or env.get(_NVJPEG, "1").lower() in _OFF:
        return
    home = cuda_home(host, {**plan.build.cmake, **env}, plan.cuda)
    if home and host.glob(str(PurePosixPath(home, "include", "nvjpeg.h"))):
        yield Check(
            id="nvjpeg",
            status="warn",
            needed_for=("build",),
            found="nvJPEG of this toolkit is used, and torch does not bring it: where there is no libnvjpeg, the wheel"
            " opens no pictures",
            fix=f"rekindle bundle WHEEL puts it inside; or build without: the same command with --set {_NVJPEG}=0",
        )


def _fix(lacks: list[Lack], install: str | None, switches: str | None) -> str:
    install = install or f"install the development packages of {', '.join(lack.need.name for lack in lacks)}"
    return f"{install}   # or build without: the same command with {switches}" if switches else install


def _places(env: dict[str, str]) -> dict[str, str]:
    """Where a build was told to look, in the words every compiler knows."""
    found = dict(env)
    for name, theirs in (("CPATH", "TORCHVISION_INCLUDE"), ("LIBRARY_PATH", "TORCHVISION_LIBRARY")):
        found[name] = os.pathsep.join(filter(None, (env.get(theirs), env.get(name))))
    return found


def _downloads(plan: Plan) -> Iterator[Check]:
    assert plan.build is not None and plan.torch is not None
    env = plan.build.env
    for row in companion_downloads(plan.project, plan.torch.split("+")[0]):
        if env.get(row.switch, "1").lower() in _OFF or (row.instead and env.get(row.instead)):
            continue
        yield Check(
            id=f"download-{row.switch.lower()}",
            status="warn",
            needed_for=("build",),
            found=f"{row.switch}=1: {row.what} are downloaded in the middle of the build",
            fix=f"the same command with --set {row.switch}=0 needs no network",
        )
