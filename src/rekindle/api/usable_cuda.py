"""Which of the machine's CUDA toolkits can really compile here, and for what."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rekindle.host.live import LiveHost
from rekindle.host.protocol import Host
from rekindle.model.arch import Sm
from rekindle.model.machine import Toolkit

_ARCH = re.compile(r"^compute_(\d{2,3})$", re.MULTILINE)
_PROBE = "__global__ void probe() {}\nint main() { return 0; }\n"


class CudaFound(NamedTuple):
    """The toolkit and what its nvcc can compile for; where there is none, the reason."""

    toolkit: Toolkit | None = None
    emits: tuple[Sm, ...] = ()
    why_not: str | None = None


def find_usable_cuda(host: Host | None = None) -> CudaFound:
    """Ask the nvcc on PATH, and let it compile one kernel: what it refuses, it refuses here."""
    host = host or LiveHost()
    nvcc = host.which("nvcc")
    if nvcc is None:
        return CudaFound(why_not="No nvcc was found: CPU only.")
    listed = host.run([nvcc, "--list-gpu-arch"], timeout=10.0)
    emits = tuple(Sm.from_number(int(number)) for number in _ARCH.findall(listed.out))
    if not emits:
        return CudaFound(why_not=f"{nvcc} does not say what it can compile for, so the CUDA part is left out.")
    version = _version(host, nvcc)
    refusal = _refusal(host, nvcc)
    if refusal:
        return CudaFound(why_not=f"nvcc {version} does not compile here ({refusal}), so the CUDA part is left out.")
    return CudaFound(Toolkit(kind="cuda", version=version, path=str(Path(nvcc).parent.parent)), emits)


def _version(host: Host, nvcc: str) -> str | None:
    match = re.search(r"release (\d+\.\d+)", host.run([nvcc, "--version"], timeout=10.0).out)
    return match[1] if match else None


def _refusal(host: Host, nvcc: str) -> str | None:
    """Ask nvcc to preprocess and compile a one-line kernel: a host compiler it refuses shows itself at once."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="rekindle-nvcc-") as folder:
        source = Path(folder) / "probe.cu"
        source.write_text(_PROBE, encoding="ascii")
        said = host.run([nvcc, "-c", str(source), "-o", str(Path(folder) / "probe.o")], timeout=60.0)
    if said.ok:
        return None
    lines = [line.strip() for line in (said.err or said.out).splitlines() if "error" in line or "fatal" in line]
    return (lines or ["it failed without a word"])[0][:200]
