"""CUDA on this machine: every toolkit on the disk, the nvcc that a build takes, and whether that one compiles here."""

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from rekindle.host.asking import Asking
from rekindle.host.protocol import Host
from rekindle.host.text import joined, text_of, version_key
from rekindle.model.arch import Sm
from rekindle.model.machine import Toolkit
from rekindle.toolkits.programs import PLACES, find_below, list_toolkits, program_in

CUDA_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_BIN_PATH")
_USUAL = "/usr/local/cuda"
# The version stands in the first 20 KB of a header of one megabyte.
_HEADER_BYTES = 64 << 10
# "Cuda compilation tools, release 12.4, V12.4.131"
_NVCC_BANNER = re.compile(r"release (\d+\.\d+)(?:, V(\d+(?:\.\d+)+))?")
_GPU_ARCH = re.compile(r"^compute_(\d{2,3})$", re.MULTILINE)
_KERNEL = "__global__ void probe() {}\nint main() { return 0; }\n"


def find_cuda(host: Asking) -> tuple[Toolkit, ...]:
    """Every toolkit, newest first, not only the one on PATH."""
    return list_toolkits(host, "cuda", _list_roots(host), lambda root: _read_version(host, root), "nvcc")


def _list_roots(host: Host) -> list[str]:
    named = (host.env.get(variable) for variable in CUDA_VARIABLES)
    roots = dict.fromkeys(place.rstrip("/\\") for place in named if place)
    if nvcc := host.which("nvcc"):
        root = re.sub(r"[/\\]bin[/\\]nvcc(\.exe)?$", "", host.realpath(nvcc))
        # A wrapper script in /usr/local/bin is no toolkit; the one it leads to is found below.
        # conda puts the headers below targets/.
        marks = (("include", "cuda.h"), ("version.json",), ("targets", "*", "include", "cuda.h"))
        if any(host.glob(joined(host.system, root, *mark)) for mark in marks):
            roots[root] = None
    for pattern in PLACES["cuda_windows" if host.system == "windows" else "cuda"]:
        roots.update(dict.fromkeys(host.glob(pattern)))
    # Debian's package is one toolkit spread over several places: /usr/lib/cuda only links to its headers.
    if "/usr" in roots:
        roots.pop("/usr/lib/nvidia-cuda-toolkit", None)
        header = host.realpath("/usr/include/cuda.h")
        return [root for root in roots if root == "/usr" or host.realpath(f"{root}/include/cuda.h") != header]
    return list(roots)


def _read_version(host: Asking, root: str) -> str | None:
    """By version.json (11.1 on), by version.txt (before), by nvcc, and last by cuda.h."""
    if raw := host.read(joined(host.system, root, "version.json")):
        try:
            return str(json.loads(text_of(raw))["cuda"]["version"])
        except (ValueError, KeyError, TypeError):
            host.gap(f"CUDA toolkit {root}", "its version.json cannot be read")
    old = text_of(host.read(joined(host.system, root, "version.txt")))
    if match := re.search(r"CUDA Version (\d+\.\d+(?:\.\d+)?)", old):
        return match[1]
    if (nvcc := program_in(host, root, "nvcc")) and (answer := ask_release(host, nvcc, host.left(3))):
        return answer[1]
    header = text_of(host.read(joined(host.system, root, "include", "cuda.h"), limit=_HEADER_BYTES))
    number = re.search(r"#define CUDA_VERSION (\d+)", header)
    return f"{int(number[1]) // 1000}.{int(number[1]) % 1000 // 10}" if number else None


def ask_release(host: Host, program: str, timeout: float = 20.0) -> tuple[str, str] | None:
    """Release (12.4) and version (12.4.131) of nvcc or ptxas; None where it does not say."""
    match = _NVCC_BANNER.search(host.run([program, "--version"], timeout=timeout).out)
    return (match[1], match[2] or match[1]) if match else None


def nvcc_release(host: Host, nvcc: str) -> str | None:
    """As 12.4; None where it does not say."""
    answer = ask_release(host, nvcc)
    return answer[0] if answer else None


def is_release(release: str | None, planned: str) -> bool:
    """Is an nvcc of ``release`` (12.4) what a plan for ``planned`` (12.4, 12.4.1) means?"""
    return release is not None and f"{planned}.".startswith(f"{release}.")


def every_nvcc(host: Host) -> tuple[str, ...]:
    """Every nvcc on this machine, each once: what the shell names, the usual one, the first on PATH, all others."""
    # Numbers, not letters: 9.2 comes after 12.4.
    roots = sorted(_list_roots(host), key=lambda root: version_key(PurePosixPath(root).name), reverse=True)
    packaged = host.glob("/usr/bin/nvcc")
    # Debian's is a script there, which starts the one below /usr/lib: one toolkit in two places.
    separate = [root for root in roots if not (packaged and PurePosixPath(root).is_relative_to("/usr/lib"))]
    usual = find_below(host, "nvcc", {}, CUDA_VARIABLES, _USUAL)
    by_file: dict[str, str] = {}
    for nvcc in (usual, host.which("nvcc"), *(program_in(host, root, "nvcc") for root in separate), *packaged):
        if nvcc:
            by_file.setdefault(host.realpath(nvcc), nvcc)
    return tuple(by_file.values())


def find_nvcc(host: Host, settings: Mapping[str, str], cuda: str | None = None) -> str | None:
    """The nvcc that the settings name; else, of all that are here, one of the release ``cuda``; else the first."""
    named = settings.get("CMAKE_CUDA_COMPILER") or settings.get("CUDACXX")
    if named or any(settings.get(name) for name in CUDA_VARIABLES):
        return named or find_below(host, "nvcc", settings, CUDA_VARIABLES, _USUAL)
    nvccs = every_nvcc(host)
    if cuda and len(nvccs) > 1:
        return next((nvcc for nvcc in nvccs if is_release(nvcc_release(host, nvcc), cuda)), nvccs[0])
    return nvccs[0] if nvccs else None


def cuda_home(host: Host, settings: Mapping[str, str], cuda: str | None = None) -> str | None:
    """The toolkit of the nvcc that is used. Extensions look for it beside the first nvcc on PATH, which may be a
    script or a link far from its headers."""
    nvcc = find_nvcc(host, settings, cuda)
    homes = [Path(path).parent.parent for path in ((nvcc, host.realpath(nvcc)) if nvcc else ())]
    return next((str(home) for home in homes if host.glob(str(home / "include" / "cuda_runtime.h"))), None)


class UsableCuda(NamedTuple):
    """The toolkit and what its nvcc can compile for; where there is none, the reason."""

    toolkit: Toolkit | None = None
    emits: tuple[Sm, ...] = ()
    why_not: str | None = None


def find_usable_cuda(host: Host) -> UsableCuda:
    """Let the nvcc that a build would take compile one kernel: what it refuses, it refuses here."""
    if (nvcc := find_nvcc(host, {})) is None:
        return UsableCuda(why_not="No nvcc was found: CPU only.")
    listed = host.run([nvcc, "--list-gpu-arch"], timeout=10.0)
    emits = tuple(Sm.from_number(int(number)) for number in _GPU_ARCH.findall(listed.out))
    if not emits:
        return UsableCuda(why_not=f"{nvcc} does not say what it can compile for, so the CUDA part is left out.")
    version = nvcc_release(host, nvcc)
    # A host compiler that nvcc refuses shows itself at a one-line kernel.
    with tempfile.TemporaryDirectory(prefix="rekindle-nvcc-") as folder:
        source = Path(folder) / "probe.cu"
        source.write_text(_KERNEL, encoding="ascii")
        done = host.run([nvcc, "-c", str(source), "-o", str(Path(folder) / "probe.o")], timeout=60.0)
    if not done.ok:
        lines = [line.strip() for line in (done.err or done.out).splitlines() if "error" in line or "fatal" in line]
        why = (lines or ["it failed without a word"])[0][:200]
        return UsableCuda(why_not=f"nvcc {version} does not compile here ({why}), so the CUDA part is left out.")
    return UsableCuda(Toolkit(kind="cuda", version=version, path=str(Path(nvcc).parent.parent)), emits)
