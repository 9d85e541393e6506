"""Rows of the facts base. Every row says where it is from, when it was read, and how it is known. ``how`` is
``measured`` (a tool was run on the artefact), ``documented`` (its maker says so), ``reported`` (people saw it) or
``inferred`` (follows from neighbouring facts; the weakest). Versions are strings here and compared through
:mod:`rekindle.model.version`; architectures are :class:`Sm` and :class:`Gfx` values."""

from typing import Literal

from rekindle.model.arch import Gfx, Sm, Xe
from rekindle.model.document import Document, Part

How = Literal["measured", "documented", "reported", "inferred"]
Platform = Literal["linux_x86_64", "linux_aarch64", "windows", "windows_arm64", "macos_x86_64", "macos_arm64"]
Publisher = Literal["pytorch", "amd", "jetson"]
CheckOutcome = Literal["agrees", "drift", "new", "skipped"]


class Row(Part, frozen=True, kw_only=True):
    """What every row carries."""

    source: tuple[str, ...]
    date: str
    how: How
    note: str | None = None


class CudaToolkit(Row, frozen=True, kw_only=True):
    """One toolkit. It takes ``compute_NN`` as PTX target for each ``sm_NN`` it lists."""

    sass: tuple[Sm, ...]
    deprecated: tuple[Sm, ...] = ()
    ptx_isa: str | None = None
    gcc_min: str | None = None
    gcc_max: int | None = None
    clang_min: str | None = None
    clang_max: int | None = None
    msvc_from: int | None = None
    msvc_below: int | None = None
    visual_studio: str | None = None
    glibc: str | None = None
    host_source: str | None = None
    driver_linux: str | None = None
    driver_windows: str | None = None
    minor_driver_linux: str | None = None
    minor_driver_windows: str | None = None
    driver_source: str | None = None


class Cudnn(Row, frozen=True, kw_only=True):
    """``cuda`` maps a toolkit (``11.x`` or ``11.4``) to the oldest architecture cuDNN has code for with it."""

    cuda: dict[str, Sm]
    sass: dict[str, tuple[Sm, ...]] = {}


class CudnnPackage(Row, frozen=True, kw_only=True):
    """cuDNN with headers on the package index, for one major version of CUDA; ``first`` is the oldest per platform."""

    name: str
    cuda: int
    first: dict[Platform, str]


class Release(Row, frozen=True, kw_only=True):
    """One release of torch."""

    released: str
    requires_python: str | None = None
    commit: str | None = None
    pythons: dict[Platform, tuple[str, ...]] = {}
    pypi: dict[Platform, str] = {}
    glibc: dict[Platform, str] = {}
    torchvision: str | None = None
    torchaudio: str | None = None
    triton: str | None = None


class SourceEra(Row, frozen=True, kw_only=True):
    """What the sources want, from release ``since`` on, until the next row."""

    since: str
    cuda_min: str | None = None
    accepts: tuple[str, ...] = ()
    cxx: str | None = None
    gcc_min: str | None = None
    visual_studio: str | None = None
    cmake_min: str | None = None
    capabilities: tuple[str, ...] = ()
    numpy_linux: str = ""
    numpy_windows: str = ""
    cudnn_major: tuple[int, ...] = ()
    setuptools: str | None = None


class ArchSyntax(Row, frozen=True, kw_only=True):
    """How the build's own CMake reads an entry of ``TORCH_CUDA_ARCH_LIST`` from release ``since`` on: a pattern."""

    since: str
    pattern: str


class FrontEndRow(Row, frozen=True, kw_only=True):
    """How a wheel is made from the tree from release ``since`` on, and what must be installed for it."""

    since: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()


class BuildEvidence(Row, frozen=True, kw_only=True):
    """Somebody built these releases with these toolkits for these architectures. No row means untried."""

    torch: str
    cuda: str
    sm: tuple[Sm, ...]
    grade: Literal["proven", "compiled", "reported"]
    os: tuple[str, ...] = ()


class Probe(Row, frozen=True, kw_only=True):
    """Kernel files of a release compiled for one card by ``tools/compile_probe.py``, each with its CPU seconds and GiB;
    the tree has ``of``. ``failed`` holds the first error of those that do not compile, ``without`` the setting that
    leaves such a file out. ``built`` are files of a whole build, not measured one by one. ``level``: ``tree`` by the
    tree's own command, ``device`` its device code alone, ``quick`` that without optimising."""

    torch: str
    cuda: str
    sm: Sm
    level: Literal["tree", "device", "quick"]
    of: int
    compiled: dict[str, tuple[float, float]] = {}
    built: tuple[str, ...] = ()
    failed: dict[str, str] = {}
    without: dict[str, str] = {}

    @property
    def good(self) -> frozenset[str]:
        """Every file that compiled."""
        return frozenset(self.compiled) | frozenset(self.built)


class JetPack(Row, frozen=True, kw_only=True):
    """What a JetPack brings to its boards; ``torch`` are the releases NVIDIA published wheels of for it, empty where
    the boards take the wheels of any other aarch64 system."""

    name: str
    cuda: str
    cudnn: str | None = None
    python: str
    sm: tuple[Sm, ...]
    torch: str = ""
    wheels: str = ""
    distro: str


class Flavour(Row, frozen=True, kw_only=True):
    """A kind of published wheel: ``cu126`` of torch 2.7, with its architectures per platform. A platform that is
    missing has no such wheel. ``only`` limits it to some patch releases. ``companions`` are the torchvision and
    torchaudio on an index of its own maker, ``url`` is a wheel that lies on no index."""

    torch: str
    name: str
    publisher: Publisher = "pytorch"
    status: Literal["stable", "experimental"] = "stable"
    cuda: str | None = None
    rocm: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    sm: dict[Platform, tuple[str, ...]] = {}
    gfx: dict[Platform, tuple[Gfx, ...]] = {}
    untested: dict[Platform, tuple[Gfx, ...]] = {}
    xpu: dict[Platform, tuple[Xe, ...]] = {}
    companions: dict[str, str] = {}
    platforms: tuple[Platform, ...] = ()
    pythons: dict[Platform, tuple[str, ...]] = {}
    only: tuple[str, ...] = ()
    glibc: str | None = None
    index: str | None = None
    url: str | None = None


class CompanionWheel(Row, frozen=True, kw_only=True):
    """A version of torchvision or torchaudio: the torch releases it goes with, and where wheels of it exist. ``pypi``
    holds the Pythons per platform there, ``pythons`` those on PyTorch's own indexes where they differ. ``indexes`` and
    ``absent`` are flavours whose index has it, or not; others are unknown. ``lacks``: gaps (``cu111 windows``)."""

    package: str
    version: str
    torch: tuple[str, ...]
    pypi: dict[Platform, tuple[str, ...]] = {}
    pythons: dict[Platform, tuple[str, ...]] = {}
    indexes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


class GfxRow(Row, frozen=True, kw_only=True):
    """Targets of which something holds: that they exist only inside processors, or that code for a generic target
    (``gfx11-generic``) runs on them. Such code carries a version; in LLVM all are still 1, so none is kept."""

    gfx: tuple[Gfx, ...]


class Rocm(GfxRow, frozen=True, kw_only=True):
    """A ROCm release: targets AMD supports, and the torch releases AMD names for it."""

    torch: tuple[str, ...] = ()


class MathGap(GfxRow, frozen=True, kw_only=True):
    """Targets that ROCm's math libraries lack from one version on, though wheels list them."""

    rocm_from: str
    rocm_below: str | None = None
    library: str
    publisher: Publisher = "pytorch"


class GfxOverride(Row, frozen=True, kw_only=True):
    """``HSA_OVERRIDE_GFX_VERSION`` that lets a card run its neighbour's code."""

    gfx: Gfx
    runs: Gfx
    value: str
    rocm_below: str | None = None
    risk: str | None = None


class ChipRow(Row, frozen=True, kw_only=True):
    """A GPU chip: its architecture and the products made of it (name → PCI device ids)."""

    arch: str
    family: str
    products: dict[str, str] = {}
    ids: str = ""


class XeGeneration(Row, frozen=True, kw_only=True):
    """A generation of Intel's GPUs: the first torch whose XPU wheels drive it (None: none does), per platform where
    they differ, the drivers that Intel names for them, and what Intel's compiler calls its devices."""

    arch: Xe
    title: str
    devices: tuple[str, ...] = ()
    torch: str | None = None
    windows: str | None = None
    driver_windows: str | None = None
    driver_linux: str | None = None
    integrated: bool = False


class Jetson(Row, frozen=True, kw_only=True):
    """A Tegra board; its driver comes with JetPack, so CUDA is bound to it."""

    name: str
    arch: Sm
    chip: str
    cuda: tuple[str, ...] = ()
    memory_gib: float | None = None
    device_tree: str | None = None
    aliases: tuple[str, ...] = ()


class Superchip(Row, frozen=True, kw_only=True):
    """A GPU that is sold only together with a CPU, so that naming the one tells the other's architecture."""

    name: str
    cpu: Literal["x86_64", "aarch64"]


class DriverEnd(Row, frozen=True, kw_only=True):
    """The last driver branch that still drives an architecture. Windows counts on within a branch (R470 goes up to
    475), so the branch ends where the next one begins. ``fixes`` says how long it is fixed, ending a sentence."""

    first: Sm
    last: Sm
    branch: int
    next_branch: int
    fixes: str | None = None


class SmAlone(Row, frozen=True, kw_only=True):
    """A Tegra chip that runs only machine code made for itself; code of toolkit ``lifted`` or later is shared."""

    sm: Sm
    lifted: str | None = None


class SmSame(Row, frozen=True, kw_only=True):
    """Numbers that mean one chip, which shares machine code with no other."""

    sm: tuple[Sm, ...]


class SmFeature(Row, frozen=True, kw_only=True):
    """Something that begins with an architecture, in the releases ``torch``. ``text`` tells the owner of an older card,
    ``loss`` and ``env`` belong to a build for it."""

    name: str
    first: Sm
    torch: str | None = None
    text: str | None = None
    loss: str | None = None
    env: dict[str, str] = {}


class SourceEnd(Row, frozen=True, kw_only=True):
    """The last torch whose sources were seen (or are expected) to compile for an old architecture. ``torch_last`` is
    ``none`` where no release ever did; ``proven`` is the last with official builds of it."""

    first: Sm
    last: Sm
    torch_last: str
    cuda_last: str | None = None
    proven: str | None = None


class RocmSpan(Row, frozen=True, kw_only=True):
    """The first ROCm release that knows a target, and the last that anybody made work with it."""

    gfx: Gfx
    rocm: str
    last: str | None = None


class GfxSwitch(GfxRow, frozen=True, kw_only=True):
    """How a feature of these chips stands unless somebody changes it; ``fixed`` where nobody can."""

    usual: str
    fixed: bool = False


class Distro(Row, frozen=True, kw_only=True):
    """A Linux distribution: its C library, compiler and Python; or an old Windows: the last Python that runs there and
    the first branch of NVIDIA's drivers that does not. ``names`` are other names it goes by (``amzn``)."""

    name: str
    names: tuple[str, ...] = ()
    glibc: str | None = None
    libc: Literal["glibc", "musl"] = "glibc"
    gcc: int | None = None
    python: str | None = None
    python_last: str | None = None
    driver_below: int | None = None


class Manylinux(Row, frozen=True, kw_only=True):
    """The glibc that a platform tag of the old kind stands for; newer tags say it themselves."""

    glibc: str


class Hazard(Row, frozen=True, kw_only=True):
    """Something known to go wrong. Empty conditions match everything; a toolkit in a folder of ``spares`` is not met.
    ``wrong``: it runs and computes what is not right. ``env`` is for a build, ``running`` for using torch."""

    id: str
    concerns: Literal["wheel", "build", "both"]
    effect: Literal["breaks", "warns", "wrong"]
    text: str
    remedy: str
    torch: str | None = None
    os: tuple[str, ...] = ()
    arch: tuple[str, ...] = ()
    backend: tuple[str, ...] = ()
    flavour: tuple[str, ...] = ()
    cuda: str | None = None
    rocm: str | None = None
    python: str | None = None
    glibc: str | None = None
    compiler: str | None = None
    compiler_version: str | None = None
    cpu_lacks: tuple[str, ...] = ()
    sm: str | None = None
    gfx: tuple[str, ...] = ()
    tegra: bool | None = None
    wsl: bool | None = None
    spares: tuple[str, ...] = ()
    env: dict[str, str] = {}
    running: dict[str, str] = {}
    cmake: dict[str, str] = {}
    patch: str | None = None


class Profile(Row, frozen=True, kw_only=True):
    """A machine people plan for, by name: the flags that describe it."""

    title: str
    flags: dict[str, str | tuple[str, ...] | float]
    torch: str | None = None


class TableView(Document, frozen=True, kw_only=True):
    """``facts show``: the rows of a table, as they stand in its file. Without a table: the tables themselves."""

    table: str
    rows: dict[str, dict[str, object]]


class SourceUse(Part, frozen=True, kw_only=True):
    """A source and how many rows rest on it."""

    source: str
    rows: int
    tables: tuple[str, ...]


class SourcesView(Document, frozen=True, kw_only=True):
    """``facts sources``: where the facts come from, most used first; ``how`` counts rows by kind of knowledge."""

    sources: tuple[SourceUse, ...]
    how: dict[str, int]
    oldest: str
    newest: str


class Compared(Part, frozen=True, kw_only=True):
    """One fact measured again. ``new`` is something the tables do not know yet."""

    what: str
    outcome: CheckOutcome
    facts: str | None = None
    found: str | None = None
    source: str | None = None
    note: str | None = None


class FactsCheck(Document, frozen=True, kw_only=True):
    """``facts check``: what was measured again, and whether the tables agree."""

    compared: tuple[Compared, ...]
    agrees: int
    drift: int
    new: int
    skipped: int


class FactsFormat(Document, frozen=True, kw_only=True):
    """``facts format``: the files looked at, and those whose form was (or, with ``--check``, would be) changed."""

    files: tuple[str, ...]
    changed: tuple[str, ...]
    written: bool
