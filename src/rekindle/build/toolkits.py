"""Is the GPU toolkit the plan wants here, and can it work with the host compiler? Asked before anything starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rekindle.compat.toolkit import compiler_span, takes_compiler
from rekindle.errors import BadInput, MissingTool
from rekindle.facts import load_facts
from rekindle.host.protocol import Host
from rekindle.model.facts import CudaToolkit
from rekindle.model.plan import Plan
from rekindle.toolkits.compilers import bring_compiler, read_banner
from rekindle.toolkits.cuda import CUDA_VARIABLES, cuda_home, every_nvcc, find_nvcc, is_release, nvcc_release
from rekindle.toolkits.rocm import find_hip_clang, find_hipcc, rocm_home

_NEWEST = 40  # no compiler has a number as high yet
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
        hipcc = find_hipcc(host, settings)
        if hipcc is None:
            raise MissingTool(
                f"the plan wants ROCm {plan.rocm}, but there is no hipcc on this machine",
                remedy=f"install ROCm {plan.rocm}; where it lies elsewhere than /opt/rocm, --set ROCM_PATH=DIR tells",
            )
        return {"hipcc": hipcc}
    return {}


def chosen_cuda(host: Host, plan: Plan, settings: Mapping[str, str]) -> dict[str, str]:
    """What configure is told of the toolkit, where the plan names one or more than one is here: torch's FindCUDA asks
    CUDA_PATH and not CUDA_HOME, CMake asks CUDACXX, and each would else take the first by an order of its own."""
    named = ("CMAKE_CUDA_COMPILER", "CUDACXX", *CUDA_VARIABLES)
    if plan.cuda is None or (len(every_nvcc(host)) < 2 and not any(settings.get(name) for name in named)):
        return {}
    nvcc, home = find_nvcc(host, settings, plan.cuda), cuda_home(host, settings, plan.cuda)
    told = dict.fromkeys(("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"), home) | {"CUDACXX": nvcc}
    if settings.get("CMAKE_CUDA_COMPILER"):
        del told["CUDACXX"]
    return {name: place for name, place in told.items() if place and not settings.get(name)}


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
    if "HIP_CLANG_PATH" not in settings and (clang := host.env.get("HIP_CLANG_PATH") or find_hip_clang(host, home)):
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
    banner = read_banner(said.out) if said.ok else None
    if row is None or banner is None or banner.kind not in ("gcc", "clang"):
        return
    kind, version = banner
    short = ".".join(version.split(".")[:2])
    if takes_compiler(row, kind, version) is False:
        raise BadInput(
            f"CUDA {cuda} cannot use {kind} {short} ({compiler}) as its host compiler;"
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
