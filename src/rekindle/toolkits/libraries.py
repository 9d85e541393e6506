"""What is installed to build against: toolkits, libraries found by their headers (what a build reads) or files, and
what of a build's needs is missing.

cuDNN and NCCL name in ``note`` the CUDA they were made for, where the place or the package says so.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
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
from rekindle.toolkits.programs import PLACES
from rekindle.toolkits.rocm import find_rocm

_HEADER_BYTES = 64 << 10


def find_toolkits(host: Asking) -> tuple[Toolkit, ...]:
    """CUDA, cuDNN, NCCL, ROCm, oneAPI, MKL and OpenBLAS."""
    cuda = find_cuda(host)
    nvidia = find_cudnn(host, cuda) + find_nccl(host, cuda)
    packaged = packaged_cuda(host) if nvidia else {}
    for number, kit in enumerate(nvidia):
        if (own := packaged.get(kit.version or "")) and "for CUDA" not in (kit.note or ""):
            nvidia[number] = replace(kit, note=", ".join(filter(None, (f"for CUDA {own}", kit.note))))
    return (*cuda, *nvidia, *find_rocm(host), *find_oneapi(host), *find_blas(host))


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
        if (match := re.fullmatch(r"(.+?)(?:_cu(\d+))?", name)) is None or match[1] not in PLACES["pieces"]:
            continue
        kind, version, path = PLACES["pieces"][match[1]], package.version, package.path
        note = "pip" + (f", for CUDA {match[2]}" if match[2] else "")
        # nvidia-cudnn 9.19.0.56 is cuDNN 9.19.0; the fourth number is the package's.
        short = ".".join(version.split(".")[:3]) if kind == "cudnn" else version
        pieces.setdefault((kind, version, path), Toolkit(kind=kind, version=short, path=path, note=note))
    return tuple(pieces.values())


def find_cudnn(host: Asking, kits: Sequence[Toolkit]) -> list[Toolkit]:
    """Every cuDNN, by its headers, else by its libraries."""
    toolkits = _find_by_header(host, "cudnn", ("cudnn_version.h", "cudnn.h"), kits)
    if host.system == "windows":
        # From version 9 on one installation serves several CUDAs, each in a directory of its own.
        for inside in ("", "\\*"):
            for header in host.glob(rf"C:\Program Files\NVIDIA\CUDNN\v*\include{inside}\cudnn_version.h"):
                toolkits += _read_header(host, "cudnn", header, header.split("\\")[-2] if inside else None)
    return toolkits or _find_by_file(host, "cudnn")


def find_nccl(host: Asking, kits: Sequence[Toolkit]) -> list[Toolkit]:
    """Every NCCL, which Windows has not."""
    if host.system == "windows":
        return []
    return _find_by_header(host, "nccl", ("nccl.h",), kits) or _find_by_file(host, "nccl")


def packaged_cuda(host: Asking) -> dict[str, str]:
    """Version of a package → the CUDA in its name, as dpkg and rpm write it (``8.7.0.84-1+cuda11.8``)."""
    words = next((words for words in (("dpkg-query", "-W"), ("rpm", "-qa")) if host.which(words[0])), None)
    asked = ("libcudnn*", "cudnn*", "libnccl*")
    listing = host.run([*words, *asked], timeout=host.left(3)).out if words else ""
    by_version = {m[1]: m[2] for m in re.finditer(r"(\d+\.\d+\.\d+)[\d.]*-\d+[.+]cuda(\d+\.\d+)", listing)}
    # From version 9 on the package's name carries it: libcudnn9-dev-cuda-12 9.3.0.75-1.
    by_name = {m[2]: m[1] for m in re.finditer(r"-cuda-(\d+)[\s-]+(\d+\.\d+\.\d+)", listing)}
    return {**by_name, **by_version}


def _include_folders(host: Asking) -> list[str]:
    """Where headers lie that belong to no toolkit."""
    conda = host.env.get("CONDA_PREFIX")
    if host.system == "windows":
        return [rf"{conda}\Library\include"] if conda else []
    return [*PLACES["includes"], *([f"{conda}/include"] if conda else [])]


def _find_by_header(host: Asking, kind: str, names: Sequence[str], kits: Sequence[Toolkit]) -> list[Toolkit]:
    places = [(joined(host.system, kit.path or "", "include"), kit.version) for kit in kits]
    places += [(place, None) for place in _include_folders(host)]
    found: dict[str, list[Toolkit]] = {}
    for place, cuda in places:
        for header in (path for name in names for path in host.glob(joined(host.system, place, name))):
            if (real := host.realpath(header)) not in found:
                found[real] = _read_header(host, kind, header, ".".join((cuda or "").split(".")[:2]) or None)
    return [toolkit for toolkits in found.values() for toolkit in toolkits]


def _read_header(host: Asking, kind: str, header: str, cuda: str | None) -> list[Toolkit]:
    version = header_version(text_of(host.read(header, limit=_HEADER_BYTES)), kind.upper())
    note = f"for CUDA {cuda}" if cuda else None
    return [Toolkit(kind=kind, version=version, path=_install_root(header), note=note)] if version else []


def header_version(text: str, prefix: str) -> str | None:
    """``8.9.2`` of ``#define CUDNN_MAJOR 8`` and so on (``prefix``: CUDNN, NCCL)."""
    numbers = dict(re.findall(rf"^\s*#\s*define\s+{prefix}_(MAJOR|MINOR|PATCH)(?:LEVEL)?\s+(\d+)", text, re.MULTILINE))
    return ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH")) if len(numbers) == 3 else None


def _install_root(header: str) -> str:
    """The place one names to a build: the directory above ``include``."""
    head, mark, _ = header.replace("\\", "/").rpartition("/include/")
    return header[: len(head)] if mark and head else header


def _find_by_file(host: Asking, kind: str) -> list[Toolkit]:
    """The libraries alone, without headers: enough to use, not to build."""
    if host.system == "windows":
        return []
    by_version: dict[str, Toolkit] = {}
    for place in PLACES["libraries"]:
        for path in host.glob(f"{place}/lib{kind}.so.*"):
            if match := re.search(r"\.so\.(\d+\.\d+\.\d+)$", path):
                by_version.setdefault(match[1], Toolkit(kind=kind, version=match[1], path=path, note="no headers"))
    return sorted(by_version.values(), key=lambda t: version_key(t.version), reverse=True)


def find_blas(host: Asking) -> list[Toolkit]:
    """MKL and OpenBLAS, as a build finds them."""
    by_version: dict[tuple[str, str], Toolkit] = {}
    for kind, name in (("mkl", "mkl_version.h"), ("openblas", "openblas_config.h")):
        headers = (path for place in _blas_folders(host, kind) for path in host.glob(joined(host.system, place, name)))
        for header in {host.realpath(header): header for header in headers}.values():
            if version := _blas_version(text_of(host.read(header, limit=_HEADER_BYTES))):
                by_version.setdefault((kind, version), Toolkit(kind=kind, version=version, path=_install_root(header)))
    return list(by_version.values())


def _blas_version(text: str) -> str | None:
    if match := re.search(r'OPENBLAS_VERSION\s+"\s*OpenBLAS\s+(\d+(?:\.\d+)+)', text):
        return match[1]
    numbers = dict(re.findall(r"^\s*#define __INTEL_MKL_(?:(MINOR|UPDATE)_)?_\s+(\d+)", text, re.MULTILINE))
    if len(numbers) != 3:
        return None
    year, minor, update = numbers[""], numbers["MINOR"], numbers["UPDATE"]
    # Since oneAPI the update is what the product calls its minor version.
    return f"{year}.{update}.0" if int(year) >= 2021 and minor == "0" else f"{year}.{minor}.{update}"


def _blas_folders(host: Asking, kind: str) -> list[str]:
    """Distributions put headers into a folder of their own, called as the library."""
    root = host.env.get("MKLROOT")
    own = [joined(host.system, root, "include")] if root else []
    if host.system == "windows":
        oneapi = (r"C:\Program Files (x86)\Intel\oneAPI", r"C:\Program Files\Intel\oneAPI")
        return [*own, *(rf"{place}\mkl\*\include" for place in oneapi), *_include_folders(host)]
    inside = "mkl" if kind == "mkl" else "openblas*"
    return [*own, *_include_folders(host), *PLACES["blas"], *(f"{place}/{inside}" for place in PLACES["includes"])]


def find_oneapi(host: Asking) -> list[Toolkit]:
    """Intel's compilers, by their directories, which carry the version."""
    windows = host.system == "windows"
    pattern = r"C:\Program Files (x86)\Intel\oneAPI\compiler\*" if windows else "/opt/intel/oneapi/compiler/*"
    names = {path: re.split(r"[/\\]", path)[-1] for path in host.glob(pattern)}
    fitting = {path: name for path, name in names.items() if re.fullmatch(r"\d+\.\d+(\.\d+)?", name)}
    return [Toolkit(kind="oneapi", version=name, path=path) for path, name in fitting.items()]


def find_lacks(host: Host, rows: Iterable[SupplyNeed], env: Mapping[str, str] | None = None) -> tuple[Lack, ...]:
    """What these rows ask of the system and it does not have. ``env``: the plan's, which may name other places."""
    settings = {**host.env, **(env or {})}
    includes, libraries = _searched(settings, "headers"), _searched(settings, "libraries")

    def has_header(name: str) -> bool:
        return any(host.glob(str(PurePosixPath(place, name))) for place in includes)

    def has_library(name: str) -> bool:
        files = [f"lib{name}{ending}" for ending in (".so", ".a", ".dylib")]
        return any(host.glob(str(PurePosixPath(place, file))) for file in files for place in libraries)

    lacks = []
    for row in rows:
        missing = [f"<{name}>" for name in row.headers if not has_header(name)]
        if row.any_header and not any(map(has_header, row.any_header)):
            missing.append(" or ".join(f"<{name}>" for name in row.any_header))
        missing += [f"lib{name}" for name in row.libraries if not has_library(name)]
        missing += [name for name in row.programs if host.which(name) is None]
        if row.any_library and not any(map(has_library, row.any_library)):
            missing.append(" or ".join(f"lib{name}" for name in row.any_library))
        if missing:
            lacks.append(Lack(need=row, what=tuple(missing)))
    return tuple(lacks)


def system_version(host: Host, row: ThirdParty) -> str | None:
    """The version a system header says of itself, as 9.1.0."""
    if row.version is None:
        return None
    for place in _searched(host.env, "headers"):
        # fmt 11 keeps the macro in base.h, which core.h includes.
        for path in host.glob(str(PurePosixPath(place, row.version.header).with_name("*.h"))):
            if match := re.search(rf"#\s*define\s+{row.version.macro}\s+(\d+)", text_of(host.read(path))):
                number = int(match[1])
                return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return None


def system_kind(host: Host, row: ThirdParty) -> str | None:
    """What the patches call a system header that says no version: its old name, or "usual"."""
    if row.old is None:
        return None
    for place in _searched(host.env, "headers"):
        for path in host.glob(str(PurePosixPath(place, row.old.header))):
            return "usual" if row.old.lacks.encode() in (host.read(path) or b"") else row.old.name
    return None


def _searched(env: Mapping[str, str], what: str) -> list[str]:
    """Where a compiler looks for headers or libraries, in its order; CMake looks below its prefixes beside the usual
    places."""
    row = PLACES["searched"][what]
    prefixes = re.split(r"[:;]", env.get("CMAKE_PREFIX_PATH", ""))
    prefixes += [env.get("OpenBLAS_HOME", ""), env.get("CONDA_PREFIX", "")]
    named = [place for place in env.get(row["variable"], "").split(os.pathsep) if place]
    return [*named, *(str(PurePosixPath(prefix, row["folder"])) for prefix in prefixes if prefix), *row["usual"]]
