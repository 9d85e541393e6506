"""A CUDA build before it starts: what nvcc can emit, cuDNN's headers and library, the driver's stub, NCCL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from rekindle.compat.supply import how_to_install, managers
from rekindle.errors import BadInput
from rekindle.host.protocol import Host
from rekindle.host.supply import is_root, lacking, manager_here
from rekindle.model.machine import Check
from rekindle.model.plan import Plan
from rekindle.model.supply import Need
from rekindle.toolkits.cuda import find_nvcc
from rekindle.toolkits.libraries import header_version

LIBRARY_FOLDERS = ("lib64", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "targets/*/lib")
_STUBS = ("lib64/stubs", "lib/stubs", "lib/*-linux-gnu/stubs", "lib/*-linux-gnu", "targets/*/lib/stubs", "lib64")


def check_gpu(host: Host, plan: Plan) -> Iterator[Check]:
    if plan.cuda is None or plan.build is None or host.system != "linux":
        return
    settings = {**plan.build.cmake, **plan.build.env}
    nvcc = find_nvcc(host, settings, plan.cuda)
    if nvcc is None:
        return  # the compiler check has said so
    yield from _targets(host, nvcc, plan.arch_list)
    home = settings.get("CUDA_HOME") or str(Path(nvcc).parent.parent)
    if plan.project != "torch":
        return  # what follows is what torch links
    yield from _driver_stub(host, home)
    if settings.get("USE_CUDNN", "1") not in ("0", "OFF"):
        yield from _cudnn(host, settings, home, plan.cudnn)
    if settings.get("USE_NCCL", "0") in ("1", "ON") and settings.get("USE_SYSTEM_NCCL") in ("1", "ON"):
        yield from _nccl(host, settings)


def _targets(host: Host, nvcc: str, wanted: Sequence[str]) -> Iterator[Check]:
    """``nvcc --list-gpu-code`` names what it can emit (since CUDA 11)."""
    said = host.run([nvcc, "--list-gpu-code"], timeout=20.0)
    known = set(re.findall(r"sm_\d+[af]?", said.out)) if said.ok else set()
    if not known:
        return
    names = [f"sm_{arch.removesuffix('+PTX').replace('.', '')}" for arch in wanted]
    lacks = [name for name in names if name not in known]
    if lacks:
        raise BadInput(
            f"{nvcc} cannot make code for {', '.join(lacks)}; it knows {min(known, key=_order)} to"
            f" {max(known, key=_order)}",
            remedy=f"rekindle plan --build --gpu {lacks[0]}",
        )
    yield Check(id="nvcc-targets", status="ok", needed_for=("build",), found=", ".join(names) or "as torch chooses")


def _order(name: str) -> int:
    return int(re.sub(r"\D", "", name))


def _driver_stub(host: Host, home: str) -> Iterator[Check]:
    """torch links libcuda; a machine without a driver needs the toolkit's stub."""
    places = [*(str(PurePosixPath(home, folder)) for folder in _STUBS), "/usr/lib/*-linux-gnu", "/usr/lib64"]
    for place in places:
        if found := host.glob(str(PurePosixPath(place, "libcuda.so*"))):
            yield Check(id="libcuda", status="ok", needed_for=("build",), found=found[0])
            return
    raise BadInput(
        f"there is no libcuda.so and no stub of it below {home}",
        remedy="apt-get install -y nvidia-cuda-dev"
        if home == "/usr"
        else f"install the cuda-driver-dev package into {home}",
    )


def _cudnn(host: Host, settings: Mapping[str, str], home: str, wanted: str | None) -> Iterator[Check]:
    """Headers and library must be of one version: a mismatch compiles for hours and fails at the first convolution."""
    roots = [
        settings.get("CUDNN_ROOT", ""),
        settings.get("CUDNN_INCLUDE_DIR", "").removesuffix("/include"),
        home,
        "/usr",
    ]
    header = library = None
    for root in filter(None, roots):
        header = header or _header_version(host, root)
        library = library or _library_version(host, root)
    if header is None or library is None:
        lacks = "headers" if header is None else "library"
        places = ", ".join(filter(None, dict.fromkeys(roots)))
        raise BadInput(
            f"the plan wants cuDNN {wanted or ''}, but its {lacks} are not in {places}",
            remedy="the same command with --set CUDNN_ROOT=DIR, or with --set USE_CUDNN=0 to build without",
        )
    if header.split(".")[0] != library.split(".")[0] or (
        library.count(".") and header.split(".")[:2] != library.split(".")[:2]
    ):
        raise BadInput(
            f"cuDNN's headers are {header} and its library is {library}",
            remedy="the same command with --set CUDNN_ROOT=DIR, where DIR holds one cuDNN",
        )
    yield Check(id="cudnn", status="ok", needed_for=("build",), found=header, want=wanted)


def _header_version(host: Host, root: str) -> str | None:
    for folder in ("include", "include/*-linux-gnu"):
        for name in ("cudnn_version.h", "cudnn.h"):
            for path in host.glob(str(PurePosixPath(root, folder, name))):
                if version := header_version((host.read(path) or b"").decode("utf-8", "replace"), "CUDNN"):
                    return version
    return None


def _library_version(host: Host, root: str) -> str | None:
    """From the file's own name: libcudnn.so.8.9.2 (the number after .so may only be the major)."""
    for folder in LIBRARY_FOLDERS:
        found = host.glob(str(PurePosixPath(root, folder, "libcudnn.so.*")))
        if found:
            names = [PurePosixPath(host.realpath(path)).name.partition(".so.")[2] for path in found]
            return max(names, key=len)
    return None


def _nccl(host: Host, settings: Mapping[str, str]) -> Iterator[Check]:
    need = Need(
        name="NCCL", torch=">=1.0", headers=("nccl.h",), libraries=("nccl",),
        packages={"apt": ("libnccl-dev",), "dnf": ("libnccl-devel",)}, source=(), date="", how="documented",
    )  # fmt: skip
    env = dict(settings)
    if root := env.get("NCCL_ROOT") or env.get("NCCL_ROOT_DIR"):
        env["CMAKE_PREFIX_PATH"] = ";".join(filter(None, (env.get("CMAKE_PREFIX_PATH", ""), root)))
    lacks = lacking(host, [need], env)
    if lacks:
        fix = how_to_install(lacks, manager_here(host, managers()), root=is_root(host))
        raise BadInput(f"NCCL is planned, and {lacks[0].what[0]} is not here", remedy=fix)
    yield Check(id="nccl", status="ok", needed_for=("build",), found="nccl.h and libnccl")
