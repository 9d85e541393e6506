"""What is installed to build against: toolkits, libraries found by their headers (what a build reads) or files, and
what of a build's needs is missing.

cuDNN and NCCL name in ``note`` the CUDA they were made for, where the place or the package says so.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from msgspec.structs import replace

from rekindle.host.asking import Asking
from rekindle.host.protocol import Host
from rekindle.host.text import joined, text_of, version_key
from rekindle.model.interpreter import Interpreter
from rekindle.model.machine import Toolkit
from rekindle.model.supply import Lack, SupplyNeed, ThirdParty
from rekindle.toolkits.cuda import find_cuda
from rekindle.toolkits.rocm import find_rocm

_UNIX_INCLUDES = ("/usr/include", "/usr/include/*-linux-gnu", "/usr/local/include")
_UNIX_LIBRARIES = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
_HEADER_BYTES = 64 << 10
# Package on PyPI (underscored, any CUDA) -> what it is a piece of. Only those a build or a use asks for.
_PIECES = {
    "nvidia_cudnn": "cudnn",
    "nvidia_nccl": "nccl",
    "nvidia_cuda_nvcc": "cuda",
    "rocm_sdk_core": "rocm",
    "rocm_sdk_devel": "rocm",
    "mkl": "mkl",
}
_INCLUDES = ("/usr/local/include", "/usr/include", "/usr/include/*-linux-gnu*")
_LIBRARIES = ("/usr/local/lib", "/usr/local/lib64", "/usr/lib", "/usr/lib64", "/usr/lib/*-linux-gnu*")


def find_toolkits(host: Asking) -> tuple[Toolkit, ...]:
    """CUDA, cuDNN, NCCL, ROCm, oneAPI, MKL and OpenBLAS."""
    cuda = find_cuda(host)
    nvidia = find_cudnn(host, cuda) + find_nccl(host, cuda)
    if nvidia:
        packaged = packaged_cuda(host)
        nvidia = [_note_cuda(toolkit, packaged) for toolkit in nvidia]
    return (*cuda, *nvidia, *find_rocm(host), *find_oneapi(host), *find_blas(host))


def _note_cuda(toolkit: Toolkit, packaged: Mapping[str, str]) -> Toolkit:
    cuda = packaged.get(toolkit.version or "")
    if cuda is None or "for CUDA" in (toolkit.note or ""):
        return toolkit
    return replace(toolkit, note=", ".join(filter(None, (f"for CUDA {cuda}", toolkit.note))))


def find_libc(host: Host, timeout: float = 5.0) -> tuple[Literal["glibc", "musl"] | None, str | None]:
    """The kind of C library, and the version where it is glibc."""
    text = host.run(["getconf", "GNU_LIBC_VERSION"], timeout=timeout).out
    if match := re.search(r"glibc (\d+\.\d+)", text):
        return "glibc", match[1]
    done = host.run(["ldd", "--version"], timeout=timeout)
    text = done.out + done.err
    if match := re.search(r"(?:GLIBC|GNU libc|GNU C Library)[^\n]*?(\d+\.\d+)\s*$", text, re.MULTILINE | re.IGNORECASE):
        return "glibc", match[1]
    return ("musl" if "musl" in text else None), None


def pip_pieces(answers: Mapping[str, Interpreter]) -> tuple[Toolkit, ...]:
    """Toolkits that live in Pythons' site-packages; each place once, however many links lead there."""
    pieces: dict[tuple[str, str, str], Toolkit] = {}
    for name, package in (item for answer in answers.values() for item in answer.packages.items()):
        match = re.fullmatch(r"(.+?)(?:_cu(\d+))?", name)
        if match is None or match[1] not in _PIECES:
            continue
        kind, version, path = _PIECES[match[1]], package.version, package.path
        note = "pip" + (f", for CUDA {match[2]}" if match[2] else "")
        # nvidia-cudnn 9.19.0.56 is cuDNN 9.19.0; the fourth number is the package's.
        short = ".".join(version.split(".")[:3]) if kind == "cudnn" else version
        pieces.setdefault((kind, version, path), Toolkit(kind=kind, version=short, path=path, note=note))
    return tuple(pieces.values())


def find_cudnn(host: Asking, kits: Sequence[Toolkit]) -> list[Toolkit]:
    toolkits = list(_find_by_header(host, "cudnn", ("cudnn_version.h", "cudnn.h"), "CUDNN", kits))
    if host.system == "windows":
        for header in host.glob(r"C:\Program Files\NVIDIA\CUDNN\v*\include\cudnn_version.h"):
            toolkits += _read_header(host, "cudnn", header, "CUDNN", None)
        # From version 9 on one installation serves several CUDAs, each in a directory of its own.
        for header in host.glob(r"C:\Program Files\NVIDIA\CUDNN\v*\include\*\cudnn_version.h"):
            toolkits += _read_header(host, "cudnn", header, "CUDNN", header.split("\\")[-2])
    return toolkits or _find_by_file(host, "cudnn", "libcudnn.so.*")


def find_nccl(host: Asking, kits: Sequence[Toolkit]) -> list[Toolkit]:
    if host.system == "windows":
        return []
    return list(_find_by_header(host, "nccl", ("nccl.h",), "NCCL", kits)) or _find_by_file(host, "nccl", "libnccl.so.*")


def packaged_cuda(host: Asking) -> dict[str, str]:
    """Version of a package → the CUDA in its name, as dpkg and rpm write it (``8.7.0.84-1+cuda11.8``)."""
    listing = ""
    if host.which("dpkg-query"):
        listing = host.run(["dpkg-query", "-W", "libcudnn*", "cudnn*", "libnccl*"], timeout=host.left(3)).out
    elif host.which("rpm"):
        listing = host.run(["rpm", "-qa", "libcudnn*", "cudnn*", "libnccl*"], timeout=host.left(3)).out
    by_version = {m[1]: m[2] for m in re.finditer(r"(\d+\.\d+\.\d+)[\d.]*-\d+[.+]cuda(\d+\.\d+)", listing)}
    # From version 9 on the package's name carries it: libcudnn9-dev-cuda-12 9.3.0.75-1.
    by_name = {m[2]: m[1] for m in re.finditer(r"-cuda-(\d+)[\s-]+(\d+\.\d+\.\d+)", listing)}
    return {**by_name, **by_version}


def _include_folders(host: Asking) -> list[str]:
    """Where headers lie that belong to no toolkit."""
    conda = host.env.get("CONDA_PREFIX")
    if host.system == "windows":
        return [rf"{conda}\Library\include"] if conda else []
    return [*_UNIX_INCLUDES, *([f"{conda}/include"] if conda else [])]


def _find_by_header(
    host: Asking, kind: str, names: Sequence[str], prefix: str, kits: Sequence[Toolkit]
) -> Iterator[Toolkit]:
    places = [(joined(host.system, kit.path or "", "include"), kit.version) for kit in kits]
    places += [(place, None) for place in _include_folders(host)]
    files: set[str] = set()
    for place, cuda in places:
        for header in (path for name in names for path in host.glob(joined(host.system, place, name))):
            if (real := host.realpath(header)) not in files:
                files.add(real)
                yield from _read_header(host, kind, header, prefix, ".".join((cuda or "").split(".")[:2]) or None)


def _read_header(host: Asking, kind: str, header: str, prefix: str, cuda: str | None) -> list[Toolkit]:
    version = header_version(text_of(host.read(header, limit=_HEADER_BYTES)), prefix)
    if version is None:
        return []
    return [Toolkit(kind=kind, version=version, path=_install_root(header), note=f"for CUDA {cuda}" if cuda else None)]


def header_version(text: str, prefix: str) -> str | None:
    """``8.9.2`` of ``#define CUDNN_MAJOR 8`` and so on (``prefix``: CUDNN, NCCL)."""
    numbers = dict(re.findall(rf"^\s*#\s*define\s+{prefix}_(MAJOR|MINOR|PATCH)(?:LEVEL)?\s+(\d+)", text, re.MULTILINE))
    return ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH")) if len(numbers) == 3 else None


def _install_root(header: str) -> str:
    """The place one names to a build: the directory above ``include``."""
    head, mark, _ = header.replace("\\", "/").rpartition("/include/")
    return header[: len(head)] if mark and head else header


def _find_by_file(host: Asking, kind: str, pattern: str) -> list[Toolkit]:
    """The libraries alone, without headers: enough to use, not to build."""
    if host.system == "windows":
        return []
    by_version: dict[str, Toolkit] = {}
    for place in _UNIX_LIBRARIES:
        for path in host.glob(f"{place}/{pattern}"):
            if match := re.search(r"\.so\.(\d+\.\d+\.\d+)$", path):
                by_version.setdefault(match[1], Toolkit(kind=kind, version=match[1], path=path, note="no headers"))
    return sorted(by_version.values(), key=lambda t: version_key(t.version), reverse=True)


def find_blas(host: Asking) -> list[Toolkit]:
    """MKL and OpenBLAS, as a build finds them."""
    by_version: dict[tuple[str, str], Toolkit] = {}
    for kind, name, folder, read_version in (
        ("mkl", "mkl_version.h", "mkl", _mkl_version),
        ("openblas", "openblas_config.h", "openblas*", _openblas_version),
    ):
        for header in _blas_headers(host, name, folder):
            if version := read_version(text_of(host.read(header, limit=_HEADER_BYTES))):
                by_version.setdefault((kind, version), Toolkit(kind=kind, version=version, path=_install_root(header)))
    return list(by_version.values())


def _mkl_version(text: str) -> str | None:
    numbers = dict(re.findall(r"^\s*#define __INTEL_MKL_(?:(MINOR|UPDATE)_)?_\s+(\d+)", text, re.MULTILINE))
    if len(numbers) != 3:
        return None
    # Since oneAPI the update is what the product calls its minor version.
    if int(numbers[""]) >= 2021 and numbers["MINOR"] == "0":
        return f"{numbers['']}.{numbers['UPDATE']}.0"
    return f"{numbers['']}.{numbers['MINOR']}.{numbers['UPDATE']}"


def _openblas_version(text: str) -> str | None:
    match = re.search(r'OPENBLAS_VERSION\s+"\s*OpenBLAS\s+(\d+(?:\.\d+)+)', text)
    return match[1] if match else None


def _blas_headers(host: Asking, name: str, folder: str) -> list[str]:
    """Each header once; distributions put them into a ``folder`` of their own."""
    root = host.env.get("MKLROOT")
    places = [joined(host.system, root, "include")] if root else []
    if host.system == "windows":
        oneapi = (r"C:\Program Files (x86)\Intel\oneAPI", r"C:\Program Files\Intel\oneAPI")
        places += [*(rf"{place}\mkl\*\include" for place in oneapi), *_include_folders(host)]
    else:
        places += [
            *_include_folders(host),
            "/opt/intel/oneapi/mkl/*/include",
            "/opt/intel/mkl/include",
            "/opt/OpenBLAS/include",
        ]
        places += [f"{place}/{folder}" for place in _UNIX_INCLUDES]
    headers = [header for place in places for header in host.glob(joined(host.system, place, name))]
    return list({host.realpath(header): header for header in headers}.values())


def find_oneapi(host: Asking) -> list[Toolkit]:
    """Intel's compilers, by their directories, which carry the version."""
    if host.system == "windows":
        pattern, slash = r"C:\Program Files (x86)\Intel\oneAPI\compiler\*", "\\"
    else:
        pattern, slash = "/opt/intel/oneapi/compiler/*", "/"
    return [
        Toolkit(kind="oneapi", version=name, path=path)
        for path in host.glob(pattern)
        if re.fullmatch(r"\d+\.\d+(\.\d+)?", name := path.rsplit(slash, 1)[-1])
    ]


def find_lacks(host: Host, rows: Iterable[SupplyNeed], env: Mapping[str, str] | None = None) -> tuple[Lack, ...]:
    """What these rows ask of the system and it does not have. ``env``: the plan's, which may name other places."""
    settings = {**host.env, **(env or {})}
    includes = _searched_includes(settings)
    libraries = [*_places_in(settings, "LIBRARY_PATH"), *_below_prefixes(settings, "lib"), *_LIBRARIES]
    lacks = []
    for row in rows:
        missing = [f"<{name}>" for name in row.headers if not _lies_in_any(host, includes, name)]
        if row.any_header and not any(_lies_in_any(host, includes, name) for name in row.any_header):
            missing.append(" or ".join(f"<{name}>" for name in row.any_header))
        missing += [f"lib{name}" for name in row.libraries if not _has_library(host, libraries, name)]
        missing += [name for name in row.programs if host.which(name) is None]
        if row.any_library and not any(_has_library(host, libraries, name) for name in row.any_library):
            missing.append(" or ".join(f"lib{name}" for name in row.any_library))
        if missing:
            lacks.append(Lack(need=row, what=tuple(missing)))
    return tuple(lacks)


def system_version(host: Host, row: ThirdParty) -> str | None:
    """The version a system header says of itself, as 9.1.0."""
    if row.version is None:
        return None
    for place in _searched_includes(host.env):
        # fmt 11 keeps the macro in base.h, which core.h includes.
        for path in host.glob(str(PurePosixPath(place, row.version.header).with_name("*.h"))):
            text = (host.read(path) or b"").decode("utf-8", "replace")
            if match := re.search(rf"#\s*define\s+{row.version.macro}\s+(\d+)", text):
                number = int(match[1])
                return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return None


def system_kind(host: Host, row: ThirdParty) -> str | None:
    """What the patches call a system header that says no version: its old name, or "usual"."""
    if row.old is None:
        return None
    for place in _searched_includes(host.env):
        for path in host.glob(str(PurePosixPath(place, row.old.header))):
            return "usual" if row.old.lacks.encode() in (host.read(path) or b"") else row.old.name
    return None


def _searched_includes(env: Mapping[str, str]) -> list[str]:
    """Where a compiler finds headers, in its order."""
    return [*_places_in(env, "CPATH"), *_below_prefixes(env, "include"), *_INCLUDES]


def _places_in(env: Mapping[str, str], name: str) -> list[str]:
    return [place for place in env.get(name, "").split(os.pathsep) if place]


def _below_prefixes(env: Mapping[str, str], folder: str) -> list[str]:
    """Where CMake looks beside the usual places."""
    prefixes = [*re.split(r"[:;]", env.get("CMAKE_PREFIX_PATH", "")), env.get("OpenBLAS_HOME", "")]
    prefixes.append(env.get("CONDA_PREFIX", ""))
    return [str(PurePosixPath(prefix, folder)) for prefix in prefixes if prefix]


def _lies_in_any(host: Host, places: Iterable[str], name: str) -> bool:
    return any(host.glob(str(PurePosixPath(place, name))) for place in places)


def _has_library(host: Host, places: Sequence[str], name: str) -> bool:
    return any(_lies_in_any(host, places, f"lib{name}{ending}") for ending in (".so", ".a", ".dylib"))
