"""What a build takes from elsewhere: third parties of its tree, packages, container images, and memory, disk and time.

A third party comes as ``submodule`` (the folder as git brings it), ``system`` (a library of this machine, which
settings name to the tree), ``copy`` (headers that a distribution keeps beside the tree), ``index`` (headers that a
package of the index holds), ``stand-in`` (a few lines of ours) or ``off`` (left out by a setting, or not used)."""

from typing import Annotated, Literal, NamedTuple

import msgspec

from rekindle.model.document import Part
from rekindle.model.facts import Row

Way = Literal["submodule", "system", "copy", "index", "stand-in", "off"]
DiskPhase = Literal["fetch", "environment", "compile", "wheel", "bundle", "verify"]


class Manager(Row, frozen=True, kw_only=True):
    """A package manager: the distributions whose packages are known by its names (``others`` have it too), the command
    that installs unasked, and the packages with the headers of Python and the compiler of gcc ``{version}``."""

    name: str
    system: Literal["linux", "windows"] = "linux"
    distros: tuple[str, ...]
    others: tuple[str, ...] = ()
    install: str
    python_headers: str | None = None
    cxx: str | None = None


class RocmPackages(Row, frozen=True, kw_only=True):
    """How one maker's packages of ROCm are called: a distribution's own lie below /usr, AMD's in /opt/rocm. ``named``
    are those that do not follow the ``pattern``."""

    manager: str
    maker: Literal["distribution", "amd"]
    pattern: str
    named: dict[str, str] = {}


class Generate(Part, frozen=True, kw_only=True):
    """A file of the tree that must be made again with this machine's program."""

    program: str
    arguments: tuple[str, ...]
    folder: str
    makes: str


class VersionMacro(Part, frozen=True, kw_only=True):
    """A header that says its own version as a number: FMT_VERSION 90100 is 9.1.0."""

    header: str
    macro: str


class OldHeader(Part, frozen=True, kw_only=True):
    """A header that says no version: one that ``lacks`` this text is called ``name`` by the patches that ask."""

    header: str
    lacks: str
    name: str


class FileForProcessor(Part, frozen=True, kw_only=True):
    """The same package for another processor."""

    file: str
    sha256: str


class FromIndex(Part, frozen=True, kw_only=True):
    """One file of the package index, by its checksum: ``take`` is what of it goes where (place in the third party's
    folder → place in the file), ``links`` what is linked there to what beside it. Only a build with ``backend`` needs
    it; others go without. ``processors`` has the files for other processors than x86-64, where each has its own;
    ``url`` is where a file lies that pip would build when asked for it; ``root`` the setting that names the folder."""

    package: str
    version: str
    file: str
    sha256: str
    take: dict[str, str]
    links: dict[str, str] = {}
    processors: dict[str, FileForProcessor] = {}
    url: str | None = None
    root: str | None = None
    backend: Literal["cuda", "rocm"] | None = None

    @property
    def pin(self) -> str:
        """As pip takes it."""
        return f"{self.package}=={self.version}"


class SupplyNeed(Row, frozen=True, kw_only=True):
    """Something a build takes from the system. ``gpu`` are settings for builds with a GPU back end only, ``cuda``
    and ``rocm`` for those with that one; ``backend`` names the one that alone has this need."""

    name: str
    torch: str
    backend: Literal["cuda", "rocm"] | None = None
    headers: tuple[str, ...] = ()
    any_header: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    any_library: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    packages: dict[str, tuple[str, ...]] = {}
    settings: dict[str, str] = {}
    gpu: dict[str, str] = {}
    cuda: dict[str, str] = {}
    rocm: dict[str, str] = {}
    pins: dict[str, str] = {}
    why: str | None = None


class CompanionNeed(SupplyNeed, frozen=True, kw_only=True):
    """What a companion's build looks for on the system and leaves out, with a warning in the log, where it is not.
    ``switch`` is the companion's own word for it; ``asked`` says that a build without it must be wished for."""

    project: str
    switch: str
    asked: bool = False


class CompanionSwitches(Row, frozen=True, kw_only=True):
    """What a companion's build is told for each kind of torch, and the variables of its ``own`` that a plan may set."""

    project: str
    cpu: dict[str, str]
    cuda: dict[str, str]
    rocm: dict[str, str]
    own: tuple[str, ...] = ()


class CompanionDownload(Row, frozen=True, kw_only=True):
    """What a companion's build fetches in the middle of compiling unless ``switch`` is off, which it is here by
    default; a setting ``instead`` names a copy that is there."""

    project: str
    torch: str
    switch: str
    what: str
    instead: str | None = None


class ThirdParty(SupplyNeed, frozen=True, kw_only=True):
    """One third party of the tree and what takes its place where the submodule is not there. ``files`` are stand-ins
    (name in the folder → name of ours); ``inner`` are folders in it that setup.py also looks into; ``needs`` what a
    copy must hold; ``index`` the package that has it; ``toolkit`` the releases of CUDA a row speaks of. ``stops`` says
    of a back end (cuda, rocm) why no build with it can go without."""

    way: Way
    toolkit: str | None = None
    path: str | None = None
    files: dict[str, str] = {}
    inner: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    generate: Generate | None = None
    index: FromIndex | None = None
    version: VersionMacro | None = None
    old: OldHeader | None = None
    loss: str | None = None
    stops: dict[str, str] = {}

    @property
    def folder(self) -> str:
        """Where it belongs in the tree."""
        return self.path or f"third_party/{self.name}"


class TreePart(Part, frozen=True, kw_only=True):
    """A third party as it is in one tree. ``ready`` False: it is missing; ``detail`` says why, ``fix`` what helps."""

    name: str
    path: str
    way: Way
    ready: bool = True
    origin: str | None = None
    detail: str | None = None
    fix: str | None = None


class Lack(NamedTuple):
    """Something a build takes from the system that is not there; ``what`` names the very files."""

    need: SupplyNeed
    what: tuple[str, ...]


class UseCost(Row, frozen=True, kw_only=True):
    """What an installed torch needs."""

    disk_gib: float


class DiskCost(Row, frozen=True, kw_only=True):
    """What one phase of a build leaves on the disk, as it was measured: never what to have, always at least this.
    ``origin`` is where the sources come from, where that matters. A row counts from torch ``since`` on."""

    phase: DiskPhase
    project: str
    since: str
    gib: float
    backend: Literal["cpu", "gpu"] | None = None
    origin: str | None = None


class BuildCost(Row, frozen=True, kw_only=True):
    """What a build takes; ``job_gib`` is a large compiler, ``largest_gib`` the largest of all, which one machine must
    hold even alone; ``arch_minutes`` are added for each GPU architecture; ``unoptimised_minutes``: at -O0."""

    backend: Literal["cpu", "gpu"]
    since: str
    disk_gib: float
    memory_gib: float
    job_gib: float
    largest_gib: float
    cpu_minutes: int
    arch_minutes: int = 0
    unoptimised_minutes: int | None = None


class ContainerImage(Row, frozen=True, kw_only=True):
    """Where a toolkit's container lies: ``build`` has its compilers, ``run`` only its libraries (None: the same).
    ``only`` names the CPU architectures it exists for, where that is known to be few."""

    build: str
    run: str | None = None
    only: tuple[str, ...] = ()


class ImageDigest(Row, frozen=True, kw_only=True):
    """What an image's tag stood for; ``sha256`` as 64 hexadecimal digits."""

    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class HostedRunner(Row, frozen=True, kw_only=True):
    """What a hosted runner of GitHub has; ``remove`` are folders of its own that a build may throw away."""

    label: str
    cores: int
    memory_gib: int
    disk_gib: int
    minutes: int
    remove: tuple[str, ...] = ()
