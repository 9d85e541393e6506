"""Every CUDA toolkit on the disk, not only the one on PATH."""

from __future__ import annotations

import json
import re

from rekindle.host.asking import Asking
from rekindle.host.cuda_places import CUDA_PLACES
from rekindle.host.text import text_of, version_key
from rekindle.model.machine import Toolkit

# The version stands in the first 20 KB of a header of one megabyte.
_HEADER_BYTES = 64 << 10
_WINDOWS = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v*"


def find_cuda(host: Asking) -> tuple[Toolkit, ...]:
    found: dict[str, Toolkit] = {}
    for root in _roots(host):
        real = host.realpath(root)
        if real in found:
            continue
        version = _version(host, root)
        if version is not None:
            found[real] = Toolkit(kind="cuda", version=version, path=root, note=_note(host, root))
    return tuple(sorted(found.values(), key=lambda t: version_key(t.version), reverse=True))


def _roots(host: Asking) -> list[str]:
    roots: dict[str, None] = {}
    slash = "\\" if host.system == "windows" else "/"
    for variable in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        if named := host.env.get(variable):
            roots[named.rstrip("/\\")] = None
    nvcc = host.which("nvcc")
    if nvcc:
        root = re.sub(r"[/\\]bin[/\\]nvcc(\.exe)?$", "", host.realpath(nvcc))
        # A wrapper script in /usr/local/bin is no toolkit; the one it leads to is found below.
        # conda puts the headers below targets/.
        marks = (f"include{slash}cuda.h", "version.json", f"targets{slash}*{slash}include{slash}cuda.h")
        if any(host.glob(f"{root}{slash}{mark}") for mark in marks):
            roots[root] = None
    for pattern in (_WINDOWS,) if host.system == "windows" else CUDA_PLACES:
        roots.update(dict.fromkeys(host.glob(pattern)))
    # Debian's package is one toolkit spread over several places: /usr/lib/cuda only links to its headers.
    if "/usr" in roots:
        roots.pop("/usr/lib/nvidia-cuda-toolkit", None)
        return [root for root in roots if root == "/usr" or not _links_to_usr(host, root)]
    return list(roots)


def _links_to_usr(host: Asking, root: str) -> bool:
    return host.realpath(f"{root}/include/cuda.h") == host.realpath("/usr/include/cuda.h")


def _version(host: Asking, root: str) -> str | None:
    """By version.json (11.1 on), by version.txt (before), by nvcc, and last by cuda.h."""
    slash = "\\" if host.system == "windows" else "/"
    raw = host.read(f"{root}{slash}version.json")
    if raw:
        try:
            return str(json.loads(text_of(raw))["cuda"]["version"])
        except (ValueError, KeyError, TypeError):
            host.gap(f"CUDA toolkit {root}", "its version.json cannot be read")
    if match := re.search(r"CUDA Version (\d+\.\d+(?:\.\d+)?)", text_of(host.read(f"{root}{slash}version.txt"))):
        return match[1]
    nvcc = f"{root}{slash}bin{slash}nvcc" + (".exe" if host.system == "windows" else "")
    if host.glob(nvcc):
        done = host.run([nvcc, "--version"], timeout=host.left(3))
        if match := re.search(r"release \d+\.\d+, V(\d+\.\d+\.\d+)", done.out):
            return match[1]
    said = text_of(host.read(f"{root}{slash}include{slash}cuda.h", limit=_HEADER_BYTES))
    if match := re.search(r"#define CUDA_VERSION (\d+)", said):
        number = int(match[1])
        return f"{number // 1000}.{number % 1000 // 10}"
    return None


def _note(host: Asking, root: str) -> str | None:
    slash = "\\" if host.system == "windows" else "/"
    nvcc = f"{root}{slash}bin{slash}nvcc" + (".exe" if host.system == "windows" else "")
    return None if host.glob(nvcc) else "no nvcc in it: libraries only"
