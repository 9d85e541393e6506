"""What a wheel or library really contains: the inspect document. ``gpu`` is kept per library and container, ``cpu`` per
instruction set, ``links`` per library: a union would lie."""

from typing import Literal

import msgspec

from rekindle.model.document import Document, Part
from rekindle.model.machine import Machine
from rekindle.model.plan import Reason

# suspected: read, not tried. refuses: an error that a program can catch. not-tried: no known call reaches the code.
Outcome = Literal["suspected", "crashes", "runs", "refuses", "no-answer", "not-tried"]
Origin = Literal["own", "specialised", "static", "other"]
Axis = Literal["system", "python", "cpu", "gpu", "driver", "libc", "libraries", "integrity"]
Runs = Literal["yes", "partly", "unknown", "no"]


class InspectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a wheel is read; everything has a default.

    quick             read as little as possible
    cpu               audit the CPU code
    python, platform  for a name on the index: what the wheel is for; an interpreter: what is installed there
    machine           adds a verdict about this machine, which is called ``machine_name`` in it"""

    quick: bool = False
    cpu: bool = True
    python: str | None = None
    platform: str | None = None
    machine: Machine | None = None
    machine_name: str = "the machine"


class OperatorTrial(Part, frozen=True, kw_only=True):
    """``functions`` use the instruction sets ``isa`` without asking; ``operator`` is None where nobody knows a call
    that leads to them. ``avoid`` says how to go round it."""

    operator: str | None
    functions: tuple[str, ...] = ()
    isa: tuple[str, ...] = ()
    outcome: Outcome = "suspected"
    detail: str = ""
    avoid: str | None = None

    @property
    def name(self) -> str:
        """The operator, or the functions where no call that leads to them is known."""
        return self.operator or ", ".join(self.functions)

    @property
    def harms(self) -> bool:
        """Was it tried, and did the process die or never answer?"""
        return self.outcome in ("crashes", "no-answer")


class KeptTrials(Document, frozen=True, kw_only=True):
    """What ``verify`` found about one build on one kind of CPU, kept so that ``inspect`` says the same."""

    subject: str
    date: str
    verdict: str
    crash: str | None = None  # how a check died of an instruction the CPU lacks: it does not run there
    trials: tuple[OperatorTrial, ...] = ()


class ArchSet(Part, frozen=True, kw_only=True):
    """``count`` containers hold code for exactly these architectures. ``origin``: the wheel's *own*, *specialised* for
    a few chips beside general ones, a vendor's *static* library, or *other*. ``kernels``: who is inside."""

    archs: tuple[str, ...]
    count: int
    origin: Origin | None = None
    kernels: tuple[str, ...] = ()


class ArchUse(Part, frozen=True, kw_only=True):
    """How much code one library has for one architecture."""

    arch: str
    entries: int
    bytes: int


class RowLibrary(Part, frozen=True, kw_only=True):
    """A library with GPU code: the union, and how many containers hold which set (a union alone lies)."""

    file: str
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    sets: tuple[ArchSet, ...] = ()


class LibraryGpu(RowLibrary, frozen=True, kw_only=True):
    """``lto`` is what nvJitLink compiles at run time, ``sycl`` counts SYCL modules by target (``spir64``), ``ahead``
    names Intel's devices with code of their own, ``unknown`` counts code of kinds and targets without a name here."""

    uses: tuple[ArchUse, ...] = ()
    compression: dict[str, int] = {}
    unknown: dict[str, int] = {}
    lto: tuple[str, ...] = ()
    sycl: dict[str, int] = {}
    ahead: tuple[str, ...] = ()


class Kernels(Part, frozen=True, kw_only=True):
    """Architectures that *every* one of these containers has; ``partial`` are in some of them only."""

    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    containers: int = 0


class DataFiles(Part, frozen=True, kw_only=True):
    """A ROCm library's kernel files (rocBLAS, hipBLASLt, MIOpen) and the targets they exist for."""

    library: str
    gfx: tuple[str, ...]
    files: int


class WheelGpu(Part, frozen=True, kw_only=True):
    """The GPU axis: what the wheel says of itself, what its own kernels hold, and every library. ``torch_kernels`` are
    the own kernels of torch, by the name that scripts know, and not there for other packages."""

    declared: tuple[str, ...] = ()
    own_kernels: Kernels = Kernels()
    torch_kernels: Kernels | msgspec.UnsetType = msgspec.UNSET
    static_libraries: Kernels = Kernels()
    libraries: tuple[LibraryGpu, ...] = ()
    data_files: tuple[DataFiles, ...] = ()

    @property
    def kernels(self) -> Kernels:
        """The wheel's own kernels, also of a report that was written before they had a name for every package."""
        return self.torch_kernels or self.own_kernels


class CodeEvidence(Part, frozen=True, kw_only=True):
    """A function that shows the use of an instruction set."""

    function: str
    file: str
    isa: tuple[str, ...]
    why: str
    address: str | None = None
    callers: tuple[str, ...] = ()


class IsaUse(Part, frozen=True, kw_only=True):
    """How many functions use an instruction set, with a few names."""

    isa: str
    functions: int
    examples: tuple[str, ...] = ()


class GuardUse(Part, frozen=True, kw_only=True):
    """Functions behind one kind of run-time dispatch."""

    guard: str
    functions: int


class WheelCpu(Part, frozen=True, kw_only=True):
    """``required`` is what every CPU must have: the unconditional uses, less those in one corner of a library that
    dispatches otherwise, which crash only there. ``suspects`` are reached by code that asks no CPU, maybe never on an
    old one; ``silent`` instructions (lzcnt) give wrong numbers there instead of stopping. ``untold`` is what may or may
    not be needed by everybody: where it asks more than ``required`` does, ``runs_from`` is None and ``at_least`` says
    what is certain. ``at_load`` is executed whenever the libraries are loaded: without it nothing starts."""

    arch: str | None = None
    unconditional: tuple[IsaUse, ...] = ()
    dispatched: tuple[IsaUse, ...] = ()
    suspects: tuple[IsaUse, ...] = ()
    silent: tuple[IsaUse, ...] = ()
    untold: tuple[IsaUse, ...] = ()
    guards: tuple[GuardUse, ...] = ()
    evidence: tuple[CodeEvidence, ...] = ()
    required: tuple[str, ...] = ()
    runs_from: str | None = None
    at_least: str | None = None
    oldest: tuple[str, ...] = ()
    functions: int | None = None
    notes: tuple[str, ...] = ()
    at_load: tuple[str, ...] = ()


class LibraryLinks(Part, frozen=True, kw_only=True):
    """What one library asks of the loader."""

    file: str
    soname: str | None = None
    needed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    glibc: str | None = None
    glibcxx: str | None = None


class External(Part, frozen=True, kw_only=True):
    """A library the wheel does not bring; ``package`` is what brings it, if it is known."""

    library: str
    needed_by: tuple[str, ...]
    package: str | None = None
    system: bool = False


class Links(Part, frozen=True, kw_only=True):
    """The link axis of the whole wheel: what it needs, brings, and expects outside."""

    needed: tuple[str, ...] = ()
    bundled: tuple[str, ...] = ()
    external: tuple[str, ...] = ()
    glibc: str | None = None
    glibcxx: str | None = None
    cxx_abi: str | None = None
    manylinux_claim: str | None = None
    manylinux_fact: str | None = None
    sources: tuple[External, ...] = ()
    libraries: tuple[LibraryLinks, ...] = ()


class WheelFinding(Part, frozen=True, kw_only=True):
    """Something wrong or remarkable in the wheel itself, whatever machine it goes to."""

    code: str
    text: str
    severity: Literal["error", "warning", "note"] = "warning"


class AxisVerdict(Part, frozen=True, kw_only=True):
    """What one axis says about a machine."""

    axis: Axis
    runs: Runs
    code: str
    text: str
    remedy: str | None = None


class Verdict(Part, frozen=True, kw_only=True):
    """``runs`` is None where it cannot be told. ``axes`` has the worst first. ``operators`` are those that this CPU
    may crash in, as :mod:`rekindle.compat.processor` names them, tried or not."""

    machine: str
    runs: bool | None
    because: tuple[Reason, ...] = ()
    axes: tuple[AxisVerdict, ...] = ()
    operators: tuple[OperatorTrial, ...] = ()


class WheelReport(Document, frozen=True, kw_only=True):
    """What a wheel, a library or an installed package really contains."""

    name: str | None = None
    version: str | None = None
    tags: tuple[str, ...] = ()
    bytes: int = 0
    gpu: WheelGpu = WheelGpu()
    cpu: WheelCpu = WheelCpu()
    links: Links = Links()
    verdict: Verdict | None = None
    target: str | None = None
    kind: Literal["wheel", "library", "directory", "installed"] = "wheel"
    quick: bool = False
    cuda: str | None = None
    rocm: str | None = None
    requires: tuple[str, ...] = ()
    requires_python: str | None = None
    findings: tuple[WheelFinding, ...] = ()
    read_bytes: int | None = None


class Difference(Part, frozen=True, kw_only=True):
    """Either a value that changed (``before``, ``after``) or entries that went and came."""

    what: str
    before: str | None = None
    after: str | None = None
    gone: tuple[str, ...] = ()
    come: tuple[str, ...] = ()


class WheelShelf(Document, frozen=True, kw_only=True):
    """The wheels of one directory or archive; ``findings`` are those that could not be read."""

    place: str
    wheels: tuple[WheelReport, ...] = ()
    findings: tuple[WheelFinding, ...] = ()


class WheelDiff(Document, frozen=True, kw_only=True):
    """What changed from one wheel to another."""

    before: str
    after: str
    differences: tuple[Difference, ...] = ()
