"""Is the GPU toolkit the plan wants here, and can it work with the host compiler? Asked before anything starts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rekindle.build.tools import bring_compiler
from rekindle.compat.toolkit import compiler_span, takes_compiler
from rekindle.errors import BadInput, MissingTool
from rekindle.facts import load_facts
from rekindle.host.cuda_places import CUDA_PLACES
from rekindle.host.protocol import Host
from rekindle.model.facts import CudaToolkit
from rekindle.model.plan import Plan

_NVCC_RELEASE = re.compile(r"release (\d+\.\d+)")
_CUDA_HOMES = ("CUDA_HOME", "CUDA_PATH", "CUDA_BIN_PATH")
_NEWEST = 40  # no compiler has a number as high yet
_MAJOR = re.compile(r"(\d+)\.\d+")
_DRIVER_SETTINGS = ("CUDA_CUDA_LIB", "CMAKE_LIBRARY_PATH")
_STUBS_FOUND = ("lib", "lib64", "lib/stubs", "lib64/stubs")
_STUBS_HIDDEN = ("lib/*-linux-gnu/stubs", "targets/*/lib/stubs")
_HIP_MODULES = ("lib64", "lib/*-linux-gnu")
# What ATen/cuda/CUDAContext.h includes.
_LIBRARY_HEADERS = ("cublas_v2.h", "cublasLt.h", "cusparse.h", "cusolverDn.h")
_BESIDE_TORCH = (
    "import glob,json,os,sys\n"
    "try:\n    import nvidia\n    roots=list(nvidia.__path__)\nexcept ImportError: roots=[]\n"
    "print(json.dumps(sorted({os.path.dirname(f) for r in roots for n in sys.argv[1:]"
    " for f in glob.glob(os.path.join(glob.escape(r),'*','include',n))})))"
)


def check_toolkit(host: Host, plan: Plan, settings: Mapping[str, str], compiler: str) -> dict[str, str]:
    """The toolkit's compiler for the list of tools; empty for a CPU build."""
    if plan.cuda:
        return _check_cuda(host, plan.cuda, settings, compiler)
    if plan.rocm:
        hipcc = _find_hipcc(host, settings)
        if hipcc is None:
            raise MissingTool(
                f"the plan wants ROCm {plan.rocm}, but there is no hipcc on this machine",
                remedy=f"install ROCm {plan.rocm}; where it lies elsewhere than /opt/rocm, --set ROCM_PATH=DIR tells",
            )
        return {"hipcc": hipcc}
    return {}


def find_nvcc(host: Host, settings: Mapping[str, str], cuda: str | None = None) -> str | None:
    """The nvcc that the settings name; else, of all that are here, one of the release ``cuda``; else the first."""
    named = settings.get("CMAKE_CUDA_COMPILER") or settings.get("CUDACXX")
    if named or any(settings.get(name) for name in _CUDA_HOMES):
        return named or _find(host, "nvcc", settings, _CUDA_HOMES, "/usr/local/cuda")
    found = every_nvcc(host)
    if cuda and len(found) > 1:
        return next((nvcc for nvcc in found if is_release(nvcc_release(host, nvcc), cuda)), found[0])
    return found[0] if found else None


def every_nvcc(host: Host) -> tuple[str, ...]:
    """Every nvcc on this machine, each once: what the shell names, the usual one, the first on PATH, all others."""
    usual = _find(host, "nvcc", {}, _CUDA_HOMES, "/usr/local/cuda")
    homes = [home for pattern in CUDA_PLACES for home in host.glob(pattern)]
    # Numbers, not letters: 9.2 comes after 12.4.
    homes.sort(key=lambda home: [int(number) for number in re.findall(r"\d+", PurePosixPath(home).name)], reverse=True)
    packaged = host.glob("/usr/bin/nvcc")
    # Debian's is a script there, which starts the one below /usr/lib: one toolkit in two places.
    beside = [nvcc for home in homes if not (packaged and _of_system(home)) for nvcc in host.glob(f"{home}/bin/nvcc")]
    found: dict[str, str] = {}
    for nvcc in (usual, host.which("nvcc"), *beside, *packaged):
        if nvcc:
            found.setdefault(host.realpath(nvcc), nvcc)
    return tuple(found.values())


def _of_system(home: str) -> bool:
    return PurePosixPath(home).is_relative_to("/usr/lib")


def nvcc_release(host: Host, nvcc: str) -> str | None:
    """As 12.4; None where it does not say."""
    match = _NVCC_RELEASE.search(host.run([nvcc, "--version"], timeout=20.0).out)
    return match[1] if match else None


def is_release(release: str | None, wanted: str) -> bool:
    """Is an nvcc of ``release`` (12.4) what a plan for ``wanted`` (12.4, 12.4.1) means?"""
    return release is not None and f"{wanted}.".startswith(f"{release}.")


def chosen_cuda(host: Host, plan: Plan, settings: Mapping[str, str]) -> dict[str, str]:
    """What configure is told of the toolkit, where the plan names one or more than one is here: torch's FindCUDA asks
    CUDA_PATH and not CUDA_HOME, CMake asks CUDACXX, and each would else take the first by an order of its own."""
    named = ("CMAKE_CUDA_COMPILER", "CUDACXX", *_CUDA_HOMES)
    if plan.cuda is None or (len(every_nvcc(host)) < 2 and not any(settings.get(name) for name in named)):
        return {}
    nvcc, home = find_nvcc(host, settings, plan.cuda), cuda_home(host, settings, plan.cuda)
    told = dict.fromkeys(("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"), home) | {"CUDACXX": nvcc}
    if settings.get("CMAKE_CUDA_COMPILER"):
        del told["CUDACXX"]
    return {name: place for name, place in told.items() if place and not settings.get(name)}


def rocm_home(host: Host, settings: Mapping[str, str]) -> str | None:
    """The folder whose ``bin`` has the hipcc that a build will take: /opt/rocm, or /usr for a distribution's own."""
    hipcc = _find_hipcc(host, settings)
    return str(Path(hipcc).parent.parent) if hipcc else None


def toolkit_places(host: Host, plan: Plan, settings: Mapping[str, str]) -> dict[str, str]:
    """What configure must be told to take the toolkit that was found: it looks for ROCm in /opt/rocm alone, and
    without one there it goes on for the CPU. HIP's CMake module it looks for in ``lib/cmake`` alone; Debian's lies one
    folder deeper. HIP's clang is sought in ``llvm/bin`` below ROCm, as AMD's packages have it: configure goes
    through without it, and no kernel compiles."""
    if plan.rocm is None or (home := rocm_home(host, settings)) is None:
        return {}
    told = {} if "ROCM_PATH" in settings else {"ROCM_PATH": home}
    usual = host.glob(f"{home}/lib/cmake/hip/FindHIP.cmake")
    deeper = [found for place in _HIP_MODULES for found in host.glob(f"{home}/{place}/cmake/hip/FindHIP.cmake")]
    if deeper and not usual and "CMAKE_MODULE_PATH" not in settings:
        told["CMAKE_MODULE_PATH"] = str(PurePosixPath(deeper[0]).parent)
    if "HIP_CLANG_PATH" not in settings and (clang := host.env.get("HIP_CLANG_PATH") or _hip_clang(host, home)):
        told["HIP_CLANG_PATH"] = clang
    return told


def driver_stub(host: Host, plan: Plan, settings: Mapping[str, str]) -> dict[str, str]:
    """CMake's own setting for libcuda where configure would not find it: torch looks below the toolkit in ``lib`` and
    ``lib/stubs`` and CMake where the system has its libraries; Debian's stub lies in a folder of neither. Only this one
    file is told, since the folder has stubs of libraries that are here whole."""
    if plan.cuda is None or host.system != "linux" or any(name in settings for name in _DRIVER_SETTINGS):
        return {}
    home = cuda_home(host, settings, plan.cuda)
    if home is None or any(host.glob(f"{home}/{place}/libcuda.so") for place in _STUBS_FOUND):
        return {}
    if any(host.glob(f"{place}/libcuda.so") for place in ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib")):
        return {}
    stubs = [found for place in _STUBS_HIDDEN for found in host.glob(f"{home}/{place}/libcuda.so")]
    return {"CUDA_CUDA_LIB": stubs[0]} if stubs else {}


def _hip_clang(host: Host, home: str) -> str | None:
    """The folder of HIP's clang where it is not the one that FindHIP takes for granted."""
    if host.glob(f"{home}/llvm/bin/clang++"):
        return None
    said = host.run([f"{home}/bin/hipconfig", "--hipclangpath"], timeout=20.0)
    place = said.out.strip() if said.ok else ""
    return place if place and host.glob(str(PurePosixPath(place, "clang++"))) else None


def _find_hipcc(host: Host, settings: Mapping[str, str]) -> str | None:
    return _find(host, "hipcc", settings, ("ROCM_PATH", "ROCM_HOME", "HIP_PATH"), "/opt/rocm")


def cuda_home(host: Host, settings: Mapping[str, str], cuda: str | None = None) -> str | None:
    """The toolkit of the nvcc that is used. Extensions look for it beside the first nvcc on PATH, which may be a
    script or a link far from its headers."""
    nvcc = find_nvcc(host, settings, cuda)
    for path in (nvcc, host.realpath(nvcc)) if nvcc else ():
        home = Path(path).parent.parent
        if host.glob(str(home / "include" / "cuda_runtime.h")):
            return str(home)
    return None


def headers_beside_torch(host: Host, python: str, home: str) -> tuple[str, ...]:
    """Folders with headers that torch includes and the toolkit lacks, from the packages that came with torch.

    A toolkit may be the compiler alone; what pip installed beside torch has the libraries' headers too.
    """
    lacking = [name for name in _LIBRARY_HEADERS if not host.glob(str(Path(home) / "include" / name))]
    if not lacking:
        return ()
    said = host.run([python, "-I", "-c", _BESIDE_TORCH, *lacking], timeout=30.0)
    try:
        found = json.loads(said.out) if said.ok else []
    except ValueError:
        return ()
    return tuple(str(folder) for folder in found)


def _check_cuda(host: Host, wanted: str, settings: Mapping[str, str], compiler: str) -> dict[str, str]:
    nvcc = find_nvcc(host, settings, wanted)
    if nvcc is None:
        raise MissingTool(
            f"the plan wants CUDA {wanted}, but there is no nvcc on this machine",
            remedy=f"install CUDA {wanted}; where it lies elsewhere than /usr/local/cuda, --set CUDA_HOME=DIR tells",
        )
    release = nvcc_release(host, nvcc)
    if release and not is_release(release, wanted):
        others = [f"{other} is {nvcc_release(host, other) or 'unknown'}" for other in every_nvcc(host) if other != nvcc]
        raise BadInput(
            f"the plan wants CUDA {wanted}, but {nvcc} is {release}{''.join(f', {one}' for one in others)}",
            remedy=f"rekindle plan --build --cuda {release}   # or the same command with --set CUDA_HOME=DIR of a"
            f" toolkit {wanted}",
        )
    _check_host_compiler(host, release or wanted, settings.get("CUDAHOSTCXX") or compiler)
    return {"nvcc": f"{release or 'unknown'} ({nvcc})"}


def _check_host_compiler(host: Host, cuda: str, compiler: str) -> None:
    row = load_facts().toolkit(cuda)
    said = host.run([compiler, "--version"], timeout=20.0)
    match = _MAJOR.search(said.out)
    if row is None or not said.ok or match is None:
        return
    kind = "clang" if "clang" in said.out.lower() else "gcc"
    if takes_compiler(row, kind, match[0]) is False:
        raise BadInput(
            f"CUDA {cuda} cannot use {kind} {match[0]} ({compiler}) as its host compiler;"
            f" it takes {compiler_span(row, kind)} [{row.host_source or row.source[0]}]",
            remedy=_other_compiler(host, row, kind, cuda),
        )


def _other_compiler(host: Host, row: CudaToolkit, kind: str, cuda: str) -> str:
    """The line that brings the newest one nvcc takes, and how it is named to the build."""
    newest = next((number for number in range(_NEWEST, 3, -1) if takes_compiler(row, kind, f"{number}.0")), None)
    if newest is None:
        return f"rekindle plan --build --cuda {cuda}"
    name = f"{'g++' if kind == 'gcc' else 'clang++'}-{newest}"
    use = f"the same command with --set CUDAHOSTCXX={name}"
    return use if host.which(name) else f"{bring_compiler(host, name)}   # then {use}"


def _find(host: Host, name: str, settings: Mapping[str, str], homes: tuple[str, ...], usual: str) -> str | None:
    for variable in homes:
        if (said := settings.get(variable)) and not host.glob(str(Path(said) / "bin" / name)):
            raise MissingTool(
                f"the plan says {variable}={said}, but there is no {name} in {Path(said) / 'bin'}",
                remedy=f"install the toolkit there, or correct {variable} in the plan's environment",
            )
    for home in (*(settings.get(variable) or host.env.get(variable) for variable in homes), usual):
        if home and (found := host.glob(str(Path(home) / "bin" / name))):
            return found[0]
    return host.which(name)
