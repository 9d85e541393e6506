"""What configure must be told of the GPU toolkit that was found, since it would look elsewhere or take another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rekindle.build.companion import finds_torch
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.protocol import Host
from rekindle.model.build import Fact
from rekindle.model.plan import Plan
from rekindle.model.version import same_prefix
from rekindle.readiness.cuda import LIBRARY_FOLDERS
from rekindle.scripts.quoting import paste_with, pasted
from rekindle.toolkits.cuda import CUDA_VARIABLES, cuda_home, every_nvcc, find_nvcc
from rekindle.toolkits.rocm import find_hip_clang, rocm_home

# A toolkit may be the compiler alone.
_OF_A_WHOLE_TOOLKIT = ("libcudart", "libcublas")
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
