"""A machine as the doctor found it, or as the user described it. Unknown is None, never a guess."""

import re
from typing import Literal

from rekindle.model.arch import GpuArch
from rekindle.model.document import Document, Part
from rekindle.model.facts import Row
from rekindle.model.version import same_prefix

System = Literal["linux", "windows", "macos"]
Vendor = Literal["nvidia", "amd", "intel"]
CheckStatus = Literal["ok", "warn", "fail", "skip"]
Purpose = Literal["build", "use"]
_ALSO = {"amd64": "x86_64", "x64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64"}
_PROCESSOR = re.compile(r"(?:x86_64|amd64|aarch64|arm64|i686)$")


class Os(Part, frozen=True, kw_only=True):
    """``libc`` is the kind of C library; ``glibc`` the version of that kind."""

    system: System
    distro: str | None = None
    glibc: str | None = None
    libc: Literal["glibc", "musl"] | None = None
    arch: str | None = None
    kernel: str | None = None
    wsl: bool | None = None
    container: str | None = None
    virtual_machine: str | None = None
    model: str | None = None
    long_paths: bool | None = None


class Cpu(Part, frozen=True, kw_only=True):
    """``allowed`` is how many processors a container or an affinity leaves, where that is less than all."""

    name: str | None = None
    vendor: str | None = None
    microarchitecture: str | None = None
    features: tuple[str, ...] = ()
    cores: int | None = None
    threads: int | None = None
    allowed: float | None = None


class Gpu(Part, frozen=True, kw_only=True):
    """A card; ``arch`` None where it is not known which chip it is."""

    vendor: Vendor
    name: str | None = None
    arch: GpuArch | None = None
    memory_gib: float | None = None
    how: str = "given"
    pci_id: str | None = None
    pci_slot: str | None = None
    note: str | None = None
    possible: tuple[GpuArch, ...] = ()  # other chips sold under this name; only the PCI id can tell


class Drivers(Part, frozen=True, kw_only=True):
    """``l4t`` is the release of a Tegra board's system, which brings its driver and fixes its CUDA."""

    nvidia: str | None = None
    amdgpu: str | None = None
    intel: str | None = None
    l4t: str | None = None


class Toolkit(Part, frozen=True, kw_only=True):
    """An installed toolkit or library: cuda, cudnn, nccl, rocm, mkl, openblas or oneapi."""

    kind: str
    version: str | None = None
    path: str | None = None
    note: str | None = None


class Compiler(Part, frozen=True, kw_only=True):
    """A C++ compiler."""

    kind: Literal["gcc", "clang", "msvc"]
    version: str
    path: str | None = None
    note: str | None = None


class Python(Part, frozen=True, kw_only=True):
    """An interpreter; ``kind`` says where it comes from (system, venv, conda, uv)."""

    version: str
    path: str | None = None
    abi: str | None = None
    kind: str | None = None
    note: str | None = None


class Volume(Part, frozen=True, kw_only=True):
    """Free space at a place that matters."""

    purpose: str
    path: str
    free_gib: float


class InstalledTorch(Part, frozen=True, kw_only=True):
    """A torch found in some Python; ``works`` is None where nobody tried."""

    version: str
    python: str
    path: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    archs: tuple[str, ...] = ()
    built_with: tuple[str, ...] = ()
    works: bool | None = None
    gpu_works: bool | None = None
    why: str | None = None


class Machine(Document, frozen=True, kw_only=True):
    """What the doctor found out about a machine; unknown is None or missing."""

    os: Os
    cpu: Cpu = Cpu()
    memory_gib: float | None = None
    memory_physical_gib: float | None = None
    memory_limited_by: str | None = None
    swap_gib: float | None = None
    disk_free_gib: float | None = None
    disks: tuple[Volume, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    no_gpu: bool | None = None
    drivers: Drivers = Drivers()
    toolkits: tuple[Toolkit, ...] = ()
    compilers: tuple[Compiler, ...] = ()
    pythons: tuple[Python, ...] = ()
    tools: dict[str, str | None] = {}
    torches: tuple[InstalledTorch, ...] = ()

    def cuda_folders(self, version: str) -> tuple[str, ...]:
        """Where CUDA toolkits of this version lie; 11.8 is the version of an 11.8.89."""
        kits = ((kit.path, kit.version) for kit in self.toolkits if kit.kind == "cuda")
        return tuple(path for path, release in kits if path and release and same_prefix(release, version))


class Check(Part, frozen=True, kw_only=True):
    """One line of the doctor's table."""

    id: str
    status: CheckStatus
    needed_for: tuple[Purpose, ...] = ()
    found: str | None = None
    want: str | None = None
    fix: str | None = None
    why: str | None = None


class Ready(Part, frozen=True, kw_only=True):
    """Is the machine ready to build torch, and to use it?"""

    build: bool
    use: bool


class Gap(Part, frozen=True, kw_only=True):
    """Something the doctor asked and could not learn."""

    what: str
    why: str


class ProbeEvidence(Part, frozen=True, kw_only=True):
    """What was asked for a part of the picture, and what it said, in one line."""

    probe: str
    asked: str
    said: str


class Examination(Machine, frozen=True, kw_only=True):
    """``doctor --json``: the machine plus verdicts."""

    checks: tuple[Check, ...] = ()
    ready: Ready = Ready(build=False, use=False)
    gaps: tuple[Gap, ...] = ()
    evidence: tuple[ProbeEvidence, ...] = ()
    seconds: float | None = None

    @property
    def machine(self) -> Machine:
        """The machine without the verdicts."""
        return Machine(**{name: getattr(self, name) for name in Machine.__struct_fields__})


def cpu_arch(name: str) -> str:
    """
    >>> cpu_arch("AMD64"), cpu_arch("arm64"), cpu_arch("riscv64")
    ('x86_64', 'aarch64', 'riscv64')
    """
    return _ALSO.get(name.lower(), name.lower())


def platform_of(tag: str) -> tuple[str | None, str | None]:
    """The system and the processor family of a wheel's platform tag; None for what it leaves open or nobody knows.

    >>> platform_of("manylinux_2_28_x86_64"), platform_of("win_amd64"), platform_of("any")
    (('linux', 'x86_64'), ('windows', 'x86_64'), (None, None))
    """
    system = "windows" if tag.startswith("win") else "macos" if tag.startswith("macosx") else None
    processor = _PROCESSOR.search(tag)
    return system or ("linux" if "linux" in tag else None), cpu_arch(processor[0]) if processor else None


class Microarchitecture(Row, frozen=True, kw_only=True):
    """A CPU generation: its level, features, and what it descends from; ``part`` is its number in Arm's registers."""

    vendor: str
    family: str
    level: str
    features: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    products: str | None = None
    flags: dict[str, str] = {}
    part: str | None = None


class CpuName(Row, frozen=True, kw_only=True):
    """Product names that mean a microarchitecture. First row that fits wins. A name is words and one model number.
    ``words`` must all be there, one of ``any``, none of ``without``. ``line`` is what may stand before the number
    (``i7``, ``e5``; nothing if not given), ``model`` its masks (``#`` a digit, ``?`` a letter; ``5100-5199`` a range;
    ``*`` any model or none; none given: the name has no number), ``suffix`` what may follow (anything if not given),
    ``version`` the ``v2`` behind (``""``: there is none)."""

    microarchitecture: str
    words: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    line: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    suffix: tuple[str, ...] | None = None
    version: str | None = None


class CpuRun(Row, frozen=True, kw_only=True):
    """A wheel seen running (or crashing) on an emulated CPU."""

    torch: str
    cpu: str
    result: Literal["passes", "partly"]
    detail: str = ""
