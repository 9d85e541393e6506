"""A ROCm build before it starts: is the tree hipified, and is every library there that its configure demands?

The CMake packages it demands stand in the tree itself (``cmake/public/LoadHIP.cmake``), so a release needs no list of
ours. What it links without demanding it (roctx) is a row of the supply table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from rekindle.compat.supply import install_line, managers, needs_for, rocm_packages
from rekindle.errors import BadInput
from rekindle.host.protocol import Host
from rekindle.host.supply import is_root, lacking, manager_here
from rekindle.model.machine import Check
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree
from rekindle.toolkits.rocm import rocm_home

_LOAD = "cmake/public/LoadHIP.cmake"
_DEMANDED = re.compile(r"^\s*find_package\w*\(\s*(\w[\w-]*)\s[^)]*\bREQUIRED\b", re.MULTILINE)
_FOLDERS = (
    "lib/cmake",
    "lib64/cmake",
    "lib/*-linux-gnu/cmake",
    "share/cmake",
    "*/lib/cmake",
)


def check_rocm(host: Host, plan: Plan, tree: SourceTree | None) -> Iterator[Check]:
    """Only for torch itself; an extension takes what its torch was built with."""
    if plan.rocm is None or plan.build is None or plan.project != "torch" or host.system != "linux":
        return
    home = rocm_home(host, {**plan.build.cmake, **plan.build.env})
    if tree is None or home is None:
        return  # the compiler check says that there is no hipcc
    wanted = demanded(host, tree.root)
    lacks = {name: name for name in wanted if not _config(host, home, name)}
    linked = needs_for(tree.version.split("+")[0], backend="rocm") if wanted else ()
    told = {**host.env, **plan.build.env}
    # Before 5.2 every part had a folder of its own.
    told["CMAKE_PREFIX_PATH"] = ":".join((home, f"{home}/roctracer", told.get("CMAKE_PREFIX_PATH", "")))
    lacks |= {lack.need.name: f"{lack.need.name} ({', '.join(lack.what)})" for lack in lacking(host, linked, told)}
    if lacks:
        raise BadInput(
            f"the build will demand {', '.join(lacks.values())}, not found below {home}",
            remedy=_install(host, tuple(lacks), home),
        )
    if wanted:
        found = f"{len(wanted) + len(linked)} demanded, all below {home}"
        yield Check(id="rocm-libraries", status="ok", needed_for=("build",), found=found)


def refuse_cuda_tree(plan: Plan, tree: SourceTree) -> None:
    """A tree that was not hipified has no kernels to compile for ROCm. ``up`` hipifies by itself."""
    if plan.rocm and plan.project == "torch" and not tree.hipified:
        raise BadInput(
            f"{tree.root} is a CUDA tree, and the plan wants ROCm", remedy=f"rekindle source hipify {tree.root}"
        )


def demanded(host: Host, root: str) -> tuple[str, ...]:
    """The CMake packages this tree will not go on without."""
    text = (host.read(str(PurePosixPath(root, _LOAD))) or b"").decode("utf-8", "replace")
    # Upper-case HIP is a module of its own that the compiler's package brings.
    return tuple(dict.fromkeys(name for name in _DEMANDED.findall(text) if name != "HIP"))


def _config(host: Host, home: str, name: str) -> bool:
    files = (f"{name}-config.cmake", f"{name}Config.cmake")
    return any(host.glob(str(PurePosixPath(home, folder, name, file))) for folder in _FOLDERS for file in files)


def _install(host: Host, names: Sequence[str], home: str) -> str:
    manager = manager_here(host, managers())
    packages = rocm_packages(names, manager, home) if manager else ()
    if manager is None or not packages:
        return f"install the development packages of {', '.join(names)}"
    return install_line(packages, manager, root=is_root(host))
