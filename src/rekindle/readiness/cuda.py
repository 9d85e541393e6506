"""A CUDA toolkit that fits card and compiler, its cuDNN, NCCL and driver stub; and whether it is the one planned. A
toolkit may be there and still be useless: too old for the card, too old for the compiler, or with a cuDNN made for
another CUDA. Each such misfit is one sentence; no misfit is no sentence; what the tables do not know is no misfit."""

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from rekindle.compat.driver import driver_runs, driver_side, is_board
from rekindle.compat.toolkit import compiler_span, compiles_for, cudnn_covers, newest_compiler, takes_compiler
from rekindle.errors import BadInput, MissingTool
from rekindle.facts import load_facts
from rekindle.host.protocol import Host
from rekindle.host.text import text_of, version_key
from rekindle.model.arch import Sm
from rekindle.model.machine import Check, CheckStatus, Gpu, Machine, Toolkit
from rekindle.model.plan import Plan
from rekindle.model.supply import SupplyNeed
from rekindle.model.toml import read_beside
from rekindle.readiness.case import TO_BUILD, Checks, ExaminedMachine, PlannedBuild, build_check
from rekindle.toolkits.compilers import bring_compiler, build_compilers, read_banner
from rekindle.toolkits.cuda import every_nvcc, find_nvcc, is_release, nvcc_release
from rekindle.toolkits.libraries import find_lacks, header_version
from rekindle.toolkits.programs import bring_lacking
from rekindle.toolkits.rocm import find_hipcc

LIBRARY_FOLDERS = ("lib64", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "targets/*/lib")
_STUBS = ("lib64/stubs", "lib/stubs", "lib/*-linux-gnu/stubs", "lib/*-linux-gnu", "targets/*/lib/stubs", "lib64")
_OTHER_CUDNN = "the same command with --set CUDNN_ROOT=DIR"


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """``blocking``: nothing can be built with it here; else it only leaves out some card."""

    toolkit: Toolkit
    why: str
    blocking: bool = True


def toolkit_of_machine(case: ExaminedMachine) -> Checks:
    """Any one toolkit that fits is enough; those that do not are named beside it."""
    if not case.graphics.nvidia.gpus:
        return
    toolkits = [toolkit for toolkit in case.machine.toolkits if toolkit.kind == "cuda"]
    misfits = {toolkit.path: cuda_misfits(case.machine, toolkit) for toolkit in toolkits}
    good = [toolkit for toolkit in toolkits if not any(misfit.blocking for misfit in misfits[toolkit.path])]
    versions = ", ".join(toolkit.version or "?" for toolkit in good or toolkits) or None
    yield case.verdict("cuda-toolkit", good, versions, want="a CUDA toolkit that fits card and compiler")
    for toolkit in toolkits:
        if misfits[toolkit.path]:
            yield name_misfits("cuda", misfits[toolkit.path])


def name_misfits(kind: str, misfits: Sequence[Misfit]) -> Check:
    """One line for all that is wrong with one toolkit."""
    toolkit, why = misfits[0].toolkit, "; ".join(misfit.why for misfit in misfits)
    status: CheckStatus = "warn" if any(misfit.blocking for misfit in misfits) else "skip"
    return Check(id=f"{kind}-{toolkit.version}", status=status, needed_for=TO_BUILD, found=toolkit.path, why=why)


def cuda_misfits(machine: Machine, toolkit: Toolkit) -> list[Misfit]:
    """Why a CUDA toolkit is not for this machine's compilers and cards, or not for some card."""
    row = load_facts().toolkit(toolkit.version or "")
    misfits = []
    if (toolkit.note or "").startswith("no nvcc"):
        misfits.append(Misfit(toolkit=toolkit, why=f"CUDA {toolkit.version} has no nvcc here: it cannot compile"))
    if row is None:
        return misfits
    compilers = build_compilers(machine.compilers, machine.os.system)
    kinds = ("msvc",) if machine.os.system == "windows" else ("gcc", "clang")
    spans = " or ".join(span for kind in kinds if (span := compiler_span(row, kind)))
    if compilers and spans and all(takes_compiler(row, c.kind, c.version) is False for c in compilers):
        have = ", ".join(f"{c.kind} {c.version}" for c in compilers)
        misfits.append(Misfit(toolkit=toolkit, why=f"CUDA {toolkit.version} takes {spans}; here is {have}"))
    answers = [compiles_for(toolkit.version or "", sm, load_facts(), gpu.name) for gpu, sm in _known_cards(machine)]
    without = [answer for answer in answers if answer.kind == "no"]
    # A second card for the screen may be too old for a toolkit that serves the first well.
    blocking = len(without) == len(_nvidia_cards(machine))
    misfits += [Misfit(toolkit=toolkit, why=answer.text, blocking=blocking) for answer in without]
    misfits += [Misfit(toolkit=toolkit, why=each.text, blocking=False) for each in answers if each.kind == "partly"]
    return misfits


def _nvidia_cards(machine: Machine) -> list[Gpu]:
    return [gpu for gpu in machine.gpus if gpu.vendor == "nvidia"]


def _known_cards(machine: Machine) -> list[tuple[Gpu, Sm]]:
    return [(gpu, gpu.arch) for gpu in _nvidia_cards(machine) if isinstance(gpu.arch, Sm)]


def find_toolkit(host: Host, plan: Plan, settings: Mapping[str, str], compiler: str) -> dict[str, str]:
    """The planned toolkit's compiler, refused where missing, another, or not taking ``compiler``; empty for a CPU."""
    if not (cuda := plan.cuda):
        if not plan.rocm:
            return {}
        if (hipcc := find_hipcc(host, settings)) is None:
            remedy = f"install ROCm {plan.rocm}; where it lies elsewhere than /opt/rocm, --set ROCM_PATH=DIR tells"
            raise MissingTool(f"the plan wants ROCm {plan.rocm}, but there is no hipcc on this machine", remedy=remedy)
        return {"hipcc": hipcc}
    if (nvcc := find_nvcc(host, settings, cuda)) is None:
        remedy = f"install CUDA {cuda}; where it lies elsewhere than /usr/local/cuda, --set CUDA_HOME=DIR tells"
        raise MissingTool(f"the plan wants CUDA {cuda}, but there is no nvcc on this machine", remedy=remedy)
    if (release := nvcc_release(host, nvcc)) and not is_release(release, cuda):
        releases = {path: nvcc_release(host, path) or "unknown" for path in every_nvcc(host) if path != nvcc}
        others = "".join(f", {path} is {other}" for path, other in releases.items())
        or_else = f"the same command with --set CUDA_HOME=DIR of a toolkit {cuda}"
        remedy = f"rekindle plan --build --cuda {release}   # or {or_else}"
        raise BadInput(f"the plan wants CUDA {cuda}, but {nvcc} is {release}{others}", remedy=remedy)
    _refuse_host_compiler(host, release or cuda, settings.get("CUDAHOSTCXX") or compiler)
    return {"nvcc": f"{release or 'unknown'} ({nvcc})"}


def _refuse_host_compiler(host: Host, cuda: str, compiler: str) -> None:
    row = load_facts().toolkit(cuda)
    done = host.run([compiler, "--version"], timeout=20.0)
    banner = read_banner(done.out) if done.ok else None
    if row is None or banner is None or banner[0] not in ("gcc", "clang"):
        return
    kind, version = banner
    short = ".".join(version.split(".")[:2])
    if takes_compiler(row, kind, version) is False:
        # The line that brings the newest one nvcc takes, and how it is named to the build.
        name = f"{'g++' if kind == 'gcc' else 'clang++'}-{newest_compiler(row, kind)}"
        use = f"the same command with --set CUDAHOSTCXX={name}"
        raise BadInput(
            f"CUDA {cuda} cannot use {kind} {short} ({compiler}) as its host compiler;"
            f" it takes {compiler_span(row, kind)} [{row.host_source or row.source[0]}]",
            remedy=use if host.which(name) else f"{bring_compiler(host, name)}   # then {use}",
        )


def cuda_for_build(host: Host, build: PlannedBuild) -> Checks:
    """What nvcc can emit, and what torch links: the driver's stub, cuDNN, NCCL."""
    plan, settings = build.plan, build.settings
    if plan.cuda is None or host.system != "linux":
        return
    if (nvcc := find_nvcc(host, settings, plan.cuda)) is None:
        return  # the compiler check has said so
    yield from _check_targets(host, nvcc, plan.arch_list)
    if plan.project != "torch":
        return  # what follows is what torch links
    home = settings.get("CUDA_HOME") or str(Path(nvcc).parent.parent)
    yield from _check_stub(host, home)
    # What the package index will bring with the sources cannot be looked at before.
    awaited = {row.name for row in build.from_index} if build.tree is None else set()
    if settings.get("USE_CUDNN", "1") not in ("0", "OFF") and "cudnn" not in awaited:
        yield from _check_cudnn(host, settings, home, plan.cudnn)
    system_nccl = settings.get("USE_NCCL", "0") in ("1", "ON") and settings.get("USE_SYSTEM_NCCL") in ("1", "ON")
    if system_nccl and "nccl" not in awaited:
        yield from _check_nccl(host, settings)


def _check_targets(host: Host, nvcc: str, archs: Sequence[str]) -> Checks:
    """``nvcc --list-gpu-code`` names what it can emit (since CUDA 11)."""
    done = host.run([nvcc, "--list-gpu-code"], timeout=20.0)
    targets = set(re.findall(r"sm_\d+[af]?", done.out)) if done.ok else set()
    if not targets:
        return
    names = [f"sm_{arch.removesuffix('+PTX').replace('.', '')}" for arch in archs]
    if lacks := [name for name in names if name not in targets]:
        known = sorted(targets, key=lambda name: int(re.sub(r"\D", "", name)))
        text = f"{nvcc} cannot make code for {', '.join(lacks)}; it knows {known[0]} to {known[-1]}"
        raise BadInput(text, remedy=f"rekindle plan --build --gpu {lacks[0]}")
    yield build_check("nvcc-targets", "ok", ", ".join(names) or "as torch chooses")


def _check_stub(host: Host, home: str) -> Checks:
    """torch links libcuda; a machine without a driver needs the toolkit's stub."""
    places = [*(str(PurePosixPath(home, folder)) for folder in _STUBS), "/usr/lib/*-linux-gnu", "/usr/lib64"]
    for place in places:
        if paths := host.glob(str(PurePosixPath(place, "libcuda.so*"))):
            yield build_check("libcuda", "ok", paths[0])
            return
    debian = "apt-get install -y nvidia-cuda-dev"
    remedy = debian if home == "/usr" else f"install the cuda-driver-dev package into {home}"
    raise BadInput(f"there is no libcuda.so and no stub of it below {home}", remedy=remedy)


def _check_cudnn(host: Host, settings: Mapping[str, str], home: str, wanted: str | None) -> Checks:
    """Headers and library must be of one version: a mismatch compiles for hours and fails at the first convolution."""
    named = settings.get("CUDNN_ROOT"), settings.get("CUDNN_INCLUDE_DIR", "").removesuffix("/include")
    roots = list(filter(None, dict.fromkeys((*named, home, "/usr"))))
    headers = itertools.product(roots, ("include", "include/*-linux-gnu"), ("cudnn_version.h", "cudnn.h"))
    paths = (path for parts in headers for path in host.glob(str(PurePosixPath(*parts))))
    header = next(filter(None, (header_version(text_of(host.read(path)), "CUDNN") for path in paths)), None)
    library = next(filter(None, (_library_version(host, root) for root in roots)), None)
    if header is None or library is None:
        lacks = "headers" if header is None else "library"
        text = f"the plan wants cuDNN {wanted or ''}, but its {lacks} are not in {', '.join(roots)}"
        raise BadInput(text, remedy=f"{_OTHER_CUDNN}, or with --set USE_CUDNN=0 to build without")
    told = 2 if "." in library else 1  # how many numbers of the version both tell
    if header.split(".")[:told] != library.split(".")[:told]:
        text = f"cuDNN's headers are {header} and its library is {library}"
        raise BadInput(text, remedy=f"{_OTHER_CUDNN}, where DIR holds one cuDNN")
    yield build_check("cudnn", "ok", header, want=wanted)


def _library_version(host: Host, root: str) -> str | None:
    """From the file's own name: libcudnn.so.8.9.2 (the number after .so may only be the major)."""
    for folder in LIBRARY_FOLDERS:
        if paths := host.glob(str(PurePosixPath(root, folder, "libcudnn.so.*"))):
            names = [PurePosixPath(host.realpath(path)).name.partition(".so.")[2] for path in paths]
            return max(names, key=len)
    return None


def _check_nccl(host: Host, settings: Mapping[str, str]) -> Checks:
    need = read_beside(__file__, "nccl.toml", SupplyNeed)
    env = dict(settings)
    if root := env.get("NCCL_ROOT") or env.get("NCCL_ROOT_DIR"):
        env["CMAKE_PREFIX_PATH"] = ";".join(filter(None, (env.get("CMAKE_PREFIX_PATH", ""), root)))
    if lacks := find_lacks(host, [need], env):
        raise BadInput(f"NCCL is planned, and {lacks[0].what[0]} is not here", remedy=bring_lacking(host, lacks))
    yield build_check("nccl", "ok", "nccl.h and libnccl")


def cudnn_of_machine(case: ExaminedMachine) -> Checks:
    """A cuDNN with headers that belongs to a toolkit here and has code for a card."""
    if not case.graphics.nvidia.gpus:
        return
    cudnns = [t for t in case.machine.toolkits if t.kind == "cudnn" and "no headers" not in (t.note or "")]
    wrong = cudnn_misfits(case.machine)
    bad = {misfit.toolkit for misfit in wrong if misfit.blocking}
    good = [toolkit for toolkit in cudnns if toolkit not in bad]
    versions = ", ".join(dict.fromkeys(toolkit.version or "?" for toolkit in good)) or None
    want = "a cuDNN for the toolkit (torch builds without it, slower)"
    yield case.verdict("cudnn", good, versions, want=want, bad="warn")
    # One installation of cuDNN 9 serves several CUDAs: the half that is not for this one is no trouble.
    fitting = {toolkit.version for toolkit in good}
    misfits = [misfit for misfit in wrong if not (misfit.blocking and misfit.toolkit.version in fitting)]
    for toolkit in dict.fromkeys(misfit.toolkit for misfit in misfits):
        yield name_misfits("cudnn", [misfit for misfit in misfits if misfit.toolkit == toolkit])


def cudnn_misfits(machine: Machine) -> list[Misfit]:
    """cuDNNs a build would take that belong to no CUDA toolkit of this machine, or have no code for a card of it."""
    # What pip brought is no toolkit that a build takes.
    kept = [t for t in machine.toolkits if not (t.note or "").startswith("pip")]
    cuda, cards = [t for t in kept if t.kind == "cuda" and t.version], _nvidia_cards(machine)
    misfits = []
    for toolkit in kept:
        made_for = re.search(r"for CUDA ((\d+)(?:\.\d+)?)", toolkit.note or "")
        if toolkit.kind != "cudnn" or made_for is None:
            continue
        if cuda and not any(version_key(t.version)[0] == int(made_for[2]) for t in cuda):
            have = ", ".join(str(t.version) for t in cuda)
            why = f"cuDNN {toolkit.version} is made {toolkit.note}; the toolkit here is CUDA {have}"
            misfits.append(Misfit(toolkit=toolkit, why=why))
        known = cards if toolkit.version else []
        answers = [(gpu, cudnn_covers(toolkit.version or "", made_for[1], gpu.arch, load_facts())) for gpu in known]
        without = [f"{answer.text} ({gpu.name})" for gpu, answer in answers if answer.kind == "partly"]
        misfits += [Misfit(toolkit=toolkit, why=why, blocking=len(without) == len(cards)) for why in without]
    return misfits


def driver_misfit(machine: Machine, cuda: str | None, *, ptx: bool = False) -> str | None:
    """Does the driver not run programs of this CUDA here (None: not drive the cards at all)? Too old, or too new."""
    cards, driver = _known_cards(machine), machine.drivers.nvidia
    sms = tuple(sm for _, sm in cards)
    if driver is None or is_board(machine.os, sms, load_facts()):
        return None
    names = tuple(f"{gpu.name or 'the card'} ({sm})" for gpu, sm in cards)
    answer = driver_runs(driver, cuda, sms, driver_side(machine.os), load_facts(), ptx=ptx, names=names)
    return answer.text if answer.kind == "no" else None
