"""ROCm: one that knows the card; and before a build, a hipified tree and every library that its configure demands. The
CMake packages it demands stand in the tree itself (``cmake/public/LoadHIP.cmake``), so a release needs no list of ours.
What it links without demanding it (roctx) is a row of the supply table."""

import re
from pathlib import PurePosixPath

from rekindle.compat.resources import needs_for, rocm_packages
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.protocol import Host
from rekindle.host.text import text_of, version_key
from rekindle.model.arch import Gfx
from rekindle.model.machine import Machine, Toolkit
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree
from rekindle.readiness.case import Checks, ExaminedMachine, PlannedBuild, build_check
from rekindle.readiness.cuda import Misfit, name_misfits
from rekindle.toolkits.libraries import find_lacks
from rekindle.toolkits.programs import bring_packages, manager_here
from rekindle.toolkits.rocm import rocm_home

_DEMANDED = re.compile(r"^\s*find_package\w*\(\s*(\w[\w-]*)\s[^)]*\bREQUIRED\b", re.MULTILINE)
_FOLDERS = ("lib/cmake", "lib64/cmake", "lib/*-linux-gnu/cmake", "share/cmake", "*/lib/cmake")


def toolkit_of_machine(case: ExaminedMachine) -> Checks:
    """Any ROCm; what AMD lists is what AMD supports, not all that works, so a card that is not listed is a warning."""
    if not case.graphics.amd.gpus:
        return
    rocms = [toolkit for toolkit in case.machine.toolkits if toolkit.kind == "rocm"]
    # Libraries alone compile nothing.
    good = [toolkit for toolkit in rocms if not (toolkit.note or "").startswith("no hipcc")]
    versions = ", ".join(dict.fromkeys(toolkit.version or "?" for toolkit in good or rocms)) or None
    want = "a ROCm with its compiler (hipcc)" if rocms else "a ROCm that knows the card"
    yield case.verdict("rocm", good, versions, want=want)
    for toolkit in rocms:
        if why := rocm_misfit(case.machine, toolkit):
            yield name_misfits("rocm", [Misfit(toolkit=toolkit, why=why)])


def rocm_misfit(machine: Machine, toolkit: Toolkit) -> str | None:
    """A ROCm whose published list has none of the machine's cards; a version the tables lack is no misfit."""
    ours = version_key(toolkit.version)[:2]
    row = next((row for name, row in load_facts().rocm.release.items() if version_key(name)[:2] == ours), None)
    cards = [(gpu.arch, gpu.name) for gpu in machine.gpus if isinstance(gpu.arch, Gfx)]
    if row is None or not cards or {target.name for target in row.gfx} & {arch.name for arch, _ in cards}:
        return None
    names = ", ".join(f"{arch} ({name})" for arch, name in cards)
    return f"AMD does not list {names} for ROCm {toolkit.version}; its libraries may have no code for it"


def rocm_for_build(host: Host, build: PlannedBuild) -> Checks:
    """Every library that configure demands. Only for torch itself; an extension takes what its torch was built with."""
    plan, tree = build.plan, build.tree
    if plan.rocm is None or plan.project != "torch" or host.system != "linux":
        return
    home = rocm_home(host, build.settings)
    if tree is None or home is None:
        return  # the compiler check says that there is no hipcc
    text = text_of(host.read(str(PurePosixPath(tree.root, "cmake/public/LoadHIP.cmake"))))
    # Upper-case HIP is a module of its own that the compiler's package brings.
    names = dict.fromkeys(name for name in _DEMANDED.findall(text) if name != "HIP")
    lacks = {}
    for name in names:
        files = (f"{name}/{name}-config.cmake", f"{name}/{name}Config.cmake")
        if not any(host.glob(str(PurePosixPath(home, folder, file))) for folder in _FOLDERS for file in files):
            lacks[name] = name
    linked = needs_for(tree.version.split("+")[0], backend="rocm") if names else ()
    env = {**host.env, **build.recipe.env}
    # Before 5.2 every part had a folder of its own.
    env["CMAKE_PREFIX_PATH"] = ":".join((home, f"{home}/roctracer", env.get("CMAKE_PREFIX_PATH", "")))
    lacks |= {lack.need.name: f"{lack.need.name} ({', '.join(lack.what)})" for lack in find_lacks(host, linked, env)}
    if lacks:
        text = f"the build will demand {', '.join(lacks.values())}, not found below {home}"
        manager = manager_here(host)
        packages = rocm_packages(lacks, manager, home) if manager else ()
        remedy = f"install the development packages of {', '.join(lacks)}"
        raise BadInput(text, remedy=bring_packages(host, packages, manager) if manager and packages else remedy)
    if names:
        yield build_check("rocm-libraries", "ok", f"{len(names) + len(linked)} demanded, all below {home}")


def refuse_cuda_tree(plan: Plan, tree: SourceTree) -> None:
    """A tree that was not hipified has no kernels to compile for ROCm. ``up`` hipifies by itself."""
    if plan.rocm and plan.project == "torch" and not tree.hipified:
        text = f"{tree.root} is a CUDA tree, and the plan wants ROCm"
        raise BadInput(text, remedy=f"rekindle source hipify {tree.root}")
