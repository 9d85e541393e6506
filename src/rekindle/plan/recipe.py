"""Everything a source build needs: settings this release honours, pins, toolchain, asserts, losses, costs."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from rekindle.compat import BACKENDS
from rekindle.compat.cpu_names import microarchitecture
from rekindle.compat.hazards import lost_in_build
from rekindle.compat.resources import build_cost, is_planned_cudnn, jobs_for
from rekindle.compat.toolkit import cudnn_floor, emits_for, last_cudnn
from rekindle.model.document import shared_fields
from rekindle.model.plan import BuildRecipe, Plan, Reason
from rekindle.model.supply import ThirdParty
from rekindle.model.version import compare, flavour_name, key, minor
from rekindle.plan.candidates import Assessed, Candidate, hazards_met
from rekindle.plan.question import Question
from rekindle.plan.rules import say
from rekindle.plan.rules_toolchain import visual_studio
from rekindle.plan.steps import cudnn_package, front_end
from rekindle.plan.supply import RecipeDraft, drop_names, plan_blas, settle_third_parties

SOURCE = "https://github.com/pytorch/pytorch"


def planned_cudnn(candidate: Candidate, question: Question) -> str | None:
    """The cuDNN of the wheel, or the one to build with: the newest that has code for every card."""
    if candidate.cuda is None:
        return None
    if candidate.flavour is not None:
        return candidate.flavour.cudnn
    pack = question.jetpack_of(candidate.cuda)
    if pack is not None and pack.cudnn and minor(pack.cuda) == minor(candidate.cuda):
        return pack.cudnn  # it is on the board already
    majors = question.facts.era(candidate.torch).cudnn_major
    oldest = min(question.sms, default=None)

    def serves(version: str, *, known: bool = False) -> bool:
        floor = cudnn_floor(version, candidate.cuda or "", question.facts)
        return not known if floor is None else oldest is None or oldest >= floor.oldest

    asked = question.wish.cudnn
    if asked and key(asked)[0] in majors and serves(asked):
        return asked
    flavours = question.facts.flavours(candidate.torch)
    same = [row for row in flavours if row.cuda and key(row.cuda)[0] == key(candidate.cuda)[0]]
    if official := [row.cudnn for row in same if row.cudnn and serves(row.cudnn)]:
        return ".".join(max(official, key=key).split(".")[:3])
    every = [version for version in question.facts.cudnn.cudnn if not majors or key(version)[0] in majors]
    return max((version for version in every if serves(version, known=True)), key=key, default=None)


class DecidedBuild(NamedTuple):
    """A build with everything about it decided; ``lacks_cudnn`` is the warning where this machine has none, and
    ``blas_folder`` where below the environment its linear algebra lies (None: it is the system's)."""

    recipe: BuildRecipe
    cudnn: str | None = None
    third_parties: tuple[ThirdParty, ...] = ()
    lacks_cudnn: Reason | None = None
    blas_folder: str | None = None


def decide_build(assessed: Assessed, question: Question) -> DecidedBuild:
    """The candidate's settings, its tree's, those by hand, what this machine lacks; patches last: they hang on all."""
    candidate, inputs = assessed.candidate, question.inputs
    backend = BACKENDS[candidate.backend]
    own_archs = _arch_list(candidate, question)
    arch_list = inputs.arch_list if inputs.arch_list and own_archs else own_archs
    version = f"{candidate.torch}+{flavour_name(candidate.cuda, candidate.rocm)}"
    draft = RecipeDraft(env={**backend.build_environment(arch_list), "BUILD_TEST": "0", "USE_NINJA": "1"})
    draft.env |= {"PYTORCH_BUILD_VERSION": version, "PYTORCH_BUILD_NUMBER": "1"}
    hazards = hazards_met(candidate, question)
    for hazard in hazards:
        _join_flags(draft.env, hazard.env)
        draft.cmake |= hazard.cmake
    patches = tuple(hazard.patch for hazard in hazards if hazard.patch)
    _compiler_settings(candidate, question, draft.env)
    _cpu_settings(candidate, question, draft)
    _settle_losses(candidate, question, draft)
    blas = plan_blas(question)
    draft.env["BLAS"] = blas.name
    cost = build_cost(candidate.torch, candidate.backend, question.facts)
    threads = question.machine.cpu.threads or question.machine.cpu.cores or 8
    jobs = jobs_for(question.memory_gib, threads, cost, question.machine.swap_gib)
    if question.memory_gib is not None:
        draft.env["MAX_JOBS"] = str(jobs)
    cudnn = planned_cudnn(candidate, question)
    draft.toolchain = {**_list_toolchain(candidate, question, cudnn), "blas": blas.where}
    draft.pins = {**_choose_pins(candidate, question), **blas.pins}
    # Kernels as planned, and on Linux OpenMP: without it torch computes with one thread, and configure only warns.
    openmp = {"USE_OPENMP": "ON"} if question.machine.os.system == "linux" else {}
    kernels = {name: value for name, value in draft.cmake.items() if name.startswith("CXX_")}
    draft.asserts = {**backend.asserts, **openmp, **kernels, "BLAS": blas.name, "LAPACK": blas.name}
    rows = inputs.third_parties(candidate.torch, candidate.cuda)
    third_parties = tuple(row for row in rows if is_planned_cudnn(row, cudnn))
    settle_third_parties(draft, third_parties, candidate, question.machine)
    # Switches given by hand win, over what is asserted too.
    by_hand = dict(question.wish.settings)
    draft.env |= by_hand
    draft.asserts = drop_names(draft.asserts, by_hand)
    lacks_cudnn = _leave_out_absent_cudnn(draft, candidate, cudnn, question)
    if draft.env.get("USE_CUDNN") in ("0", "OFF"):
        cudnn = None
        draft.toolchain = drop_names(draft.toolchain, ("cudnn",))
    memory = cost.memory_gib  # no more than that many jobs need
    if question.memory_gib is not None:
        memory = max(cost.largest_gib, min(memory, jobs * cost.job_gib))
    cpu_minutes = cost.cpu_minutes
    if candidate.backend != "cpu":
        cpu_minutes += cost.arch_minutes * max(len(arch_list), 1)
    if cost.unoptimised_minutes is not None and _is_unoptimised(by_hand):
        cpu_minutes = cost.unoptimised_minutes
    minutes = max(5, round(cpu_minutes / jobs))
    recipe = BuildRecipe(
        **shared_fields(draft, BuildRecipe),
        source=SOURCE,
        origin=inputs.origin,
        patches=patches,
        compiler=candidate.compiler,
        disk_gib=cost.disk_gib,
        memory_gib=memory,
        minutes=(minutes, minutes * 2),
        arch_list=arch_list,
    )
    if inputs.taken:
        # Nothing of torch itself is patched, asserted or waited for.
        recipe = replace(recipe, taken=inputs.taken, patches=(), asserts={}, losses=(), disk_gib=None, minutes=None)
    else:
        so_far = Plan(**shared_fields(candidate, Plan), cudnn=cudnn, build=recipe)
        recipe = replace(recipe, patches=tuple(dict.fromkeys((*patches, *inputs.patches(so_far)))))
    return DecidedBuild(recipe, cudnn, third_parties, lacks_cudnn, blas.prefix)


_SAYS_WHERE_CUDNN_IS = ("USE_CUDNN", "CUDNN_ROOT", "CUDNN_LIBRARY", "CUDNN_INCLUDE_DIR")


def _leave_out_absent_cudnn(
    draft: RecipeDraft, candidate: Candidate, cudnn: str | None, question: Question
) -> Reason | None:
    """Where this machine has the planned toolkit and no cuDNN, the build goes without; a toolkit to come brings it."""
    if candidate.cuda is None or any(name in draft.env for name in _SAYS_WHERE_CUDNN_IS):
        return None
    if question.has_toolkit("cudnn") or not question.machine.cuda_folders(minor(candidate.cuda)):
        return None
    how = f" ({_cudnn_origin(candidate, cudnn, question)})" if cudnn else ""
    draft.env["USE_CUDNN"] = "0"
    draft.asserts = drop_names(draft.asserts, ("USE_CUDNN",))
    draft.losses += ("cuDNN: there is none on this machine; convolutions and RNNs on the GPU use torch's own kernels",)
    return say("no-cudnn-here", which=f"cuDNN {cudnn}{how}" if cudnn else "cuDNN")


def _join_flags(env: dict[str, str], more: dict[str, str]) -> None:
    """Flags of several origins add up; any other variable has one value."""
    for name, value in more.items():
        env[name] = f"{env[name]} {value}" if name.endswith("FLAGS") and name in env else value


def _arch_list(candidate: Candidate, question: Question) -> tuple[str, ...]:
    listed, cuda = BACKENDS[candidate.backend].arch_list(question.gpus), candidate.cuda or ""
    if not cuda or (row := question.facts.toolkit(cuda)) is None:
        return listed
    # A name sold with several chips lists them all; nvcc of this toolkit may not know each.
    emitted = {emits_for(cuda, sm, question.facts) for sm in question.sms}
    emittable = {sm.dotted for sm in row.sass}
    targets = {arch for arch in listed if arch in emittable} | {sm.dotted for sm in emitted if sm is not None}
    return tuple(sorted(targets, key=key))


def _compiler_settings(candidate: Candidate, question: Question, env: dict[str, str]) -> None:
    kind, _, version = (candidate.compiler or "").partition("-")
    if kind == "gcc":
        number = version.split(".")[0] if key(version)[0] >= 5 else version
        # Only Debian and its kin name a compiler with its number; elsewhere the distribution's own is just ``gcc``.
        row, manager = question.distro, question.manager
        own = row is not None and number == str(row.gcc) and not question.machine.compilers
        end = "" if own and manager is not None and "{version}" not in (manager.cxx or "") else f"-{number}"
        env |= {"CC": f"gcc{end}", "CXX": f"g++{end}"} | ({"CUDAHOSTCXX": f"g++{end}"} if candidate.cuda else {})
    elif kind == "clang":
        env |= {"CC": f"clang-{version.split('.')[0]}", "CXX": f"clang++-{version.split('.')[0]}"}
    elif kind == "msvc":
        env |= {"DISTUTILS_USE_SDK": "1", "CMAKE_GENERATOR": "Ninja"}


def _cpu_settings(candidate: Candidate, question: Question, draft: RecipeDraft) -> None:
    """Kernels for the CPU that is there. setup.py does not forward CXX_AVX2_FOUND, so it goes into a CMake file
    named by CMAKE_PROJECT_INCLUDE; USE_AVX2 and CPU_CAPABILITY_NAMES would do nothing."""
    if question.cpu_lacks(("avx2", "fma")):
        off = ("CXX_AVX2_FOUND", "CXX_AVX512_FOUND", "C_AVX2_FOUND", "C_AVX512_FOUND")
        draft.cmake |= dict.fromkeys(off, "OFF")
    row = microarchitecture(question.machine.cpu.microarchitecture, question.facts)
    if row is not None and row.vendor != "generic" and question.cpu_lacks(("avx2",)):
        flags = row.flags.get((candidate.compiler or "").partition("-")[0], "").split()
        march = next((flag for flag in flags if flag.startswith("-march=")), None)
        _join_flags(draft.env, {"CFLAGS": march, "CXXFLAGS": march} if march else {})


def _settle_losses(candidate: Candidate, question: Question, draft: RecipeDraft) -> None:
    windows = question.machine.os.system == "windows"
    oldest = min(question.sms, default=None)
    if candidate.backend == "cuda":
        if windows or question.tegra:
            draft.env["USE_NCCL"] = "0"
            draft.losses += ("NCCL: there is none for Windows or Tegra; torch.distributed uses gloo",)
        # What one card can use stays in; the others go without it at run time, as with official wheels.
        shared = dict(lost_in_build(max(question.sms), candidate.torch, question.facts)) if question.sms else {}
        for loss, off in lost_in_build(oldest, candidate.torch, question.facts) if oldest is not None else ():
            draft.env.update(off if loss in shared else {})
            draft.losses += (loss if loss in shared else f"{loss}, which {oldest} is not",)
    if windows and candidate.backend == "rocm":
        draft.losses += ("Triton: there is none for ROCm on Windows",)
    if question.cpu_lacks(("avx2", "fma")):
        draft.env["USE_FBGEMM"] = "0"
        draft.losses += ("FBGEMM (quantised operators): it needs AVX2",)
        draft.losses += ("NNPACK: on x86 it needs AVX2 and steps aside by itself",)


def _choose_pins(candidate: Candidate, question: Question) -> dict[str, str]:
    era = question.facts.era(candidate.torch)
    numpy = era.numpy_windows if question.machine.os.system == "windows" else era.numpy_linux
    return {
        "cmake": f">={era.cmake_min or '3.18'}" + (",<4" if compare(candidate.torch, "2.8") < 0 else ""),
        "ninja": "",
        "numpy": numpy or ">=1.26",
        "pyyaml": "",
        "setuptools": era.setuptools or "<60",
        "typing_extensions": "",
        "wheel": "",
        **dict.fromkeys(front_end(candidate.torch, question.facts).needs, ""),
    }


def _list_toolchain(candidate: Candidate, question: Question, cudnn: str | None) -> dict[str, str]:
    cuda, rocm, python = candidate.cuda, candidate.rocm, candidate.python
    kind, _, version = (candidate.compiler or "").partition("-")
    compiler = f"{kind} {version}{_compiler_package(kind, version, question)}" if kind else None
    if kind == "msvc":
        product = f"Visual Studio {visual_studio(version)}, toolset 14.{version.split('.')[1]}"
        place = "https://aka.ms/vs/older-downloads, workload 'Desktop development with C++'"
        compiler = f"MSVC {version} ({product}): {place}"
    last = last_cudnn(min(question.sms), question.facts) if question.sms else None
    ends = last and cudnn and compare(cudnn, last) == 0 and compare(last, "9.20") < 0
    note = f" ({last} is the last with code for {min(question.sms)})" if ends else ""
    kit = {
        "cuda": cuda and f"{cuda}: https://developer.nvidia.com/cuda-toolkit-archive",
        "cudnn": cudnn and f"{cudnn}: {_cudnn_origin(candidate, cudnn, question)}{note}",
        "rocm": rocm and f"{rocm}: https://rocm.docs.amd.com/projects/install-on-linux",
        "compiler": compiler,
        "python": f"{python}: https://www.python.org/downloads (or uv python install {python})",
        "cmake": f"{question.facts.era(candidate.torch).cmake_min or '3.18'} or newer: pip install cmake",
        "git": "https://git-scm.com, with core.longpaths true" if question.machine.os.system == "windows" else None,
    }
    return {name: text for name, text in kit.items() if text}


def _cudnn_origin(candidate: Candidate, cudnn: str, question: Question) -> str:
    package = cudnn_package(candidate, cudnn, question)
    return f"pip install --no-deps {package}" if package else "https://developer.nvidia.com/cudnn-archive"


def _compiler_package(kind: str, version: str, question: Question) -> str:
    """How the distribution installs it; one whose packages do not name their version has only its own gcc for sure."""
    number, row, manager = version.split(".")[0], question.distro, question.manager
    if manager is None:
        return ""
    if manager.name == "apt" and kind == "clang":
        return f": apt install clang-{number}"
    if kind == "gcc" and manager.cxx and ("{version}" in manager.cxx or (row and number == str(row.gcc))):
        install = "apt install" if manager.name == "apt" else manager.install
        return f": {install} {manager.cxx.format(version=number)}"
    return f" ({row.name} itself has gcc {row.gcc})" if row and row.gcc else ""


def _is_unoptimised(settings: Mapping[str, str]) -> bool:
    """Do switches by hand make an -O0 build? Flags of the build type come last on the line, so CXXFLAGS do not."""
    kind = settings.get("CMAKE_BUILD_TYPE", "Release").lower()
    if kind == "debug" or settings.get("DEBUG", "0").lower() in ("1", "on", "yes", "true"):
        return True
    levels = [word for word in settings.get(f"CMAKE_CXX_FLAGS_{kind.upper()}", "").split() if word.startswith("-O")]
    return levels[-1:] == ["-O0"]
