"""What a wheel or library really contains: the inspect document."""

from __future__ import annotations

from rekindle.model.document import Document, Part
from rekindle.model.plan import Reason


class ArchSet(Part, frozen=True, kw_only=True):
    """``count`` containers hold code for exactly these architectures."""

    archs: tuple[str, ...]
    count: int


class LibraryGpu(Part, frozen=True, kw_only=True):
    file: str
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    sets: tuple[ArchSet, ...] = ()


class Kernels(Part, frozen=True, kw_only=True):
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()


class WheelGpu(Part, frozen=True, kw_only=True):
    declared: tuple[str, ...] = ()
    torch_kernels: Kernels = Kernels()
    libraries: tuple[LibraryGpu, ...] = ()


class IsaUse(Part, frozen=True, kw_only=True):
    isa: str
    functions: int
    examples: tuple[str, ...] = ()


class WheelCpu(Part, frozen=True, kw_only=True):
    arch: str | None = None
    unconditional: tuple[IsaUse, ...] = ()
    dispatched: tuple[IsaUse, ...] = ()
    runs_from: str | None = None


class Links(Part, frozen=True, kw_only=True):
    needed: tuple[str, ...] = ()
    bundled: tuple[str, ...] = ()
    external: tuple[str, ...] = ()
    glibc: str | None = None
    glibcxx: str | None = None


class Verdict(Part, frozen=True, kw_only=True):
    """``runs`` is None where it cannot be told."""

    machine: str
    runs: bool | None
    because: tuple[Reason, ...] = ()


class WheelReport(Document, frozen=True, kw_only=True):
    name: str | None = None
    version: str | None = None
    tags: tuple[str, ...] = ()
    bytes: int = 0
    gpu: WheelGpu = WheelGpu()
    cpu: WheelCpu = WheelCpu()
    links: Links = Links()
    verdict: Verdict | None = None
