"""A graft: what a wheel lacks for a card, what was made of it, and the file that carries only the new code."""

from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from rekindle.model.arch import Sm
from rekindle.model.document import Document, Part
from rekindle.model.facts import Row

State = Literal["has", "added", "planned", "left-out", "refused"]
WayKind = Literal["ptx", "source", "twin"]


class UnitOutcome(Part, frozen=True, kw_only=True):
    """One container of a library. ``unit`` is the source file it was compiled from, where a name in it tells;
    ``state``: it *has* code for the card, code was *added* (or is *planned*), it was *left-out* since nothing can be
    made of it, or *refused* since what was made differs from the wheel's own; ``why`` says it in words."""

    library: str
    container: int
    unit: str | None = None
    state: State
    arch: str | None = None
    why: str | None = None


class UnitProof(Part, frozen=True, kw_only=True):
    """A unit compiled for an architecture the wheel has: how many of the wheel's ``functions`` were ``named`` the same,
    and how many have the ``same`` machine code; ``why`` they differ."""

    unit: str
    arch: str
    functions: int = 0
    named: int = 0
    same: int = 0
    why: str | None = None


class NewEntry(Part, frozen=True, kw_only=True):
    """A fat-binary entry of a graft file: where it goes, and the member that holds its bytes."""

    library: str
    container: int
    arch: str
    member: str
    bytes: int
    sha256: str


class LibraryBeside(Part, frozen=True, kw_only=True):
    """A closed library that the wheel calls, and what it does on the card: ``code`` is *native*, compiled by the driver
    (*jit*), *none*, or *unknown*; ``inside``: linked into the wheel, where it stays. ``version`` is what the wheel asks
    for, ``exchanged`` what it gets; ``off``: switched off when CUDA starts. ``operators`` do not work there."""

    name: str
    package: str | None = None
    version: str | None = None
    arch: str
    code: Literal["native", "jit", "none", "unknown"]
    inside: bool = False
    exchanged: str | None = None
    off: bool = False
    switch: str | None = None
    operators: tuple[str, ...] = ()
    why: str = ""
    source: str | None = None


class Making(Part, frozen=True, kw_only=True):
    """How the new code was made: from the wheel's PTX, from sources, or of code for a chip of the same kind (twin), by
    which tools, with which flags; and what else has changed: requirements (``requires``), what is switched ``off``."""

    way: WayKind
    archs: tuple[str, ...]
    tools: dict[str, str] = {}
    flags: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    requires: dict[str, str] = {}
    off: dict[str, str] = {}


class GraftFile(Document, frozen=True, kw_only=True):
    """``graft.json`` in a graft file. It belongs to ``wheel``, whose version gets ``local``; ``record_sha256`` is of
    the RECORD that applying it gives, ``grafted_sha256`` of the whole wheel where the same zlib compressed it."""

    kind: Literal["rekindle-graft"] = "rekindle-graft"
    wheel: str
    wheel_sha256: str
    wheel_bytes: int
    name: str
    version: str
    made: Making
    entries: tuple[NewEntry, ...]
    left_out: tuple[UnitOutcome, ...] = ()
    libraries: tuple[LibraryBeside, ...] = ()
    grafted: str = ""
    record_sha256: str | None = None
    grafted_sha256: str | None = None


class GraftOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``graft`` can be told besides the wheel and its cards; everything has a default.

    out                     a folder: default beside a wheel that is a file, else the workspace
    only_file               make the small graft file alone
    python, platform        which wheel is meant by a name
    index, links, offline   where it is looked for: instead of pip's own index, besides it, in no index
    toolkit                 what compiles, where it is not found
    jobs, memory, launcher  how many compilers run, in how much memory, and a compiler cache (ccache) that calls nvcc
    sources                 a tree, or where one is fetched from (git, debian, an archive)
    headers, defines        folders searched before headers are fetched; what the compiler is told besides
    leave_out, without      units that would differ from the wheel's own stay without code; patterns of unwanted units
    prove                   so many units are first compiled for an architecture the wheel has and held against its code
    """

    out: Path | None = None
    only_file: bool = False
    python: str | None = None
    platform: str | None = None
    index: str | None = None
    links: tuple[str, ...] = ()
    offline: bool = False
    workspace: Path | None = None
    toolkit: Path | None = None
    jobs: int | None = None
    memory: str | None = None
    launcher: str | None = None
    sources: str | None = None
    headers: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    leave_out: bool = False
    without: tuple[str, ...] = ()
    prove: int = 0
    dry_run: bool = False


class GraftReport(Document, frozen=True, kw_only=True):
    """What ``graft`` did, or would do in ``minutes``. ``out`` is the grafted wheel, ``graft`` the small file."""

    wheel: str
    wheel_sha256: str
    bytes_before: int
    card: str
    arch: str
    way: WayKind | None = None
    version: str | None = None
    units: tuple[UnitOutcome, ...] = ()
    proof: tuple[UnitProof, ...] = ()
    libraries: tuple[LibraryBeside, ...] = ()
    out: str | None = None
    sha256: str | None = None
    bytes_after: int | None = None
    graft: str | None = None
    graft_bytes: int | None = None
    provenance: str | None = None
    tools: dict[str, str] = {}
    seconds: float | None = None
    minutes: tuple[int, int] | None = None
    jobs: int | None = None
    compiled: int = 0
    notes: tuple[str, ...] = ()
    dry_run: bool = False
    same_bytes: bool | None = None

    @property
    def disproven(self) -> bool:
        """Did a unit compiled as the wheel has it fail, or come out with other names?"""
        return any(row.why is not None and (not row.functions or row.named < row.functions) for row in self.proof)

    def count(self, state: State) -> int:
        """How many units are in that state."""
        return sum(1 for unit in self.units if unit.state == state)


class RecipePart(Part, frozen=True, kw_only=True):
    """What the units below a ``folder`` of the tree need beyond the recipe: ``include`` and ``defines``."""

    folder: str
    include: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()


class HeaderPackage(Row, frozen=True, kw_only=True):
    """Headers that releases (``torch``) need from a package of the index: its ``name`` and ``version``, the digest of
    its ``record`` (of the wheel for x86-64 Linux: only headers are taken, and their digests stand there), the folders
    ``within`` it that are searched, and a ``header`` by which a toolkit shows that it has them itself; ``always``:
    taken whatever the toolkit has, since the wheel's host code was compiled with these (cub chooses launches there)."""

    name: str
    version: str
    torch: str
    record: str
    within: tuple[str, ...]
    header: str
    always: bool = False


class ClosedLibrary(Row, frozen=True, kw_only=True):
    """A library without sources that torch calls: its device code (``sass``, ``ptx``, made by ``cuda``) in one
    ``version`` of a ``package``, or as it is linked into the wheels of a release (``torch``). ``operators`` need it;
    ``switch`` is what torch calls it where torch can do without."""

    name: str
    package: str | None = None
    version: str | None = None
    torch: str | None = None
    cuda: str | None = None
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    switch: str | None = None


class ChipTwins(Row, frozen=True, kw_only=True):
    """AMD chips of one kind: but for the chip's name, an object for any of ``code`` is one for each it ``serves``."""

    code: tuple[str, ...]
    serves: tuple[str, ...]


class ChipFiles(Row, frozen=True, kw_only=True):
    """A library of AMD that keeps its code in files per chip in a ``folder``; ``operators`` need it."""

    name: str
    folder: str
    operators: tuple[str, ...]


class GraftRecipe(Row, frozen=True, kw_only=True):
    """How a release compiles its device code, as far as neither wheel nor tree says it themselves.

    ``releases`` of a ``package`` are a specifier; ``folders`` hold its kernel files (none: torch's). ``include`` are
    folders of the tree, ``parts`` what single folders need more. ``extra_archs``: units that are also compiled for one
    more variant where the first is compiled (``RowwiseScaledMM_cu``: 90 -> 90a). ``generated`` are units that the
    release's generator writes; ``standins`` are headers of submodules, with what kernel files need of them. ``like``:
    what is not said here is as in the recipe of those releases. An ``inferred`` one is used only after a proof."""

    releases: str
    package: str = "torch"
    folders: tuple[str, ...] = ()
    like: str | None = None
    standard: str = ""
    defines: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    parts: tuple[RecipePart, ...] = ()
    extra_archs: dict[str, dict[str, str]] = {}
    generated: tuple[str, ...] = ()
    generator: tuple[str, ...] = ()
    standins: dict[str, str] = {}


class GraftCost(Row, frozen=True, kw_only=True):
    """What compiling the device code of a release (``torch``, wheels of ``cuda``) by nvcc of ``toolkit`` took.
    ``units`` containers were compiled; ``seconds`` are of one core, for the long ones by their names (``NAME.a``: code
    that one chip alone has), ``rest_seconds`` the others' mean, ``other_seconds`` reading, packing and writing.
    ``job_gib`` is a large compiler. ``proven``: architectures whose graft was run on a card."""

    torch: str
    cuda: str
    toolkit: str
    units: int
    rest_seconds: float
    other_seconds: float
    job_gib: float
    disk_gib: float
    seconds: dict[str, float] = {}
    proven: tuple[Sm, ...] = ()


class GraftTime(NamedTuple):
    """A graft's time: ``seconds`` on so many ``jobs``, for ``units`` compiled; ``cpu_seconds`` of one core in all."""

    seconds: float
    cpu_seconds: float
    units: int
    jobs: int

    @property
    def minutes(self) -> tuple[int, int]:
        """From what was measured to a quarter more."""
        low = max(1, round(self.seconds / 60))
        return low, max(low + 1, round(self.seconds / 48))


class GraftRow(Part, frozen=True, kw_only=True):
    """A graft file: new code for ``archs``, for the official ``wheel`` of that digest, which becomes ``version``."""

    file: str
    url: str
    project: str
    wheel: str
    wheel_sha256: str
    version: str
    archs: tuple[str, ...]
    bytes: int
    sha256: str
    added: str
