"""A farm as a build sees it: its folder, what its scheduler says now, and who compiled what. It is sccache's own
scheduler, servers and clients; ``farm.toml`` is ours. A *slot* is one compiler that a worker runs at a time."""

from pathlib import Path
from typing import Literal

from rekindle.model.document import Address, Document, Name, Part, Place, ShortLine
from rekindle.model.machine import Check

# How many objects of a farm stand behind one that is compiled here as well, and compared.
CHECKED_ONE_IN = 50


class FarmFolder:
    """Where a farm's files lie. Those with tokens in them are readable by their owner alone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table = root / "farm.toml"  # what we know of it ourselves: a :class:`Farm`
        self.scheduler = root / "scheduler.conf"  # for ``sccache-dist scheduler --config``
        self.client = root / "client.conf"  # for ``SCCACHE_CONF`` of whoever builds
        self.distrusted = root / "distrusted.json"  # whose bytes differed: :class:`DistrustedWorkers`


class FarmWorker(Part, frozen=True, kw_only=True):
    """A machine that compiles for others. ``address`` is how sccache names it in its counts."""

    name: Name
    address: ShortLine
    slots: int | None = None
    memory_gib: float | None = None


class Farm(Document, frozen=True, kw_only=True):
    """``farm.toml``. ``cache`` is what all its builders share: a folder, ``redis://…`` or ``s3://…``."""

    scheduler: Address
    cache: Place | None = None
    workers: tuple[FarmWorker, ...] = ()

    def name_of(self, address: str) -> str:
        """The worker's name where it is known, else its address."""
        return next((worker.name for worker in self.workers if worker.address == address), address)


class FarmStatus(Part, frozen=True, kw_only=True):
    """What the scheduler says now; ``why`` is set where it is not reached or the client knows no farm."""

    scheduler: str | None = None
    servers: int = 0
    slots: int = 0
    in_progress: int = 0
    why: str | None = None

    @property
    def room(self) -> int:
        """Compilations that workers take at once. sccache's scheduler gives each one more than it has slots, and one
        for every eight more (``load_weight`` in its 0.16.0), so that the next is there when one ends."""
        return self.slots + self.servers + self.servers * (self.slots // max(1, self.servers) // 8)


class LanguageCounts(Part, frozen=True, kw_only=True):
    """Compilations of one language: from the cache, compiled (here or elsewhere), and errors of sccache itself."""

    cached: int = 0
    compiled: int = 0
    errors: int = 0


class FarmCounts(Part, frozen=True, kw_only=True):
    """What sccache counted. It tells languages and workers apart, but not which worker had which language. ``remote``:
    worker's address → compilations it returned. ``local``: what was compiled here, of which ``returned`` were sent out
    first and no worker could do them. ``failed`` are compilations that ended with an error."""

    languages: dict[str, LanguageCounts] = {}
    remote: dict[str, int] = {}
    returned: int = 0
    compiled: int = 0
    failed: int = 0

    @property
    def elsewhere(self) -> int:
        """Compilations that workers returned."""
        return sum(self.remote.values())

    @property
    def local(self) -> int:
        """Compilations of this machine."""
        return max(0, self.compiled - self.elsewhere)

    @property
    def cached(self) -> int:
        """Compilations that the cache saved."""
        return sum(counts.cached for counts in self.languages.values())


class FarmCompilation(Part, frozen=True, kw_only=True):
    """One compilation: the object's file name (sccache tells no folder), what became of it (``cache hit``, ``cache
    miss``, ``compile failed``, …), and the worker's address (empty: here; None: cannot be told)."""

    object: str
    result: str
    language: str | None = None
    where: str | None = ""

    @property
    def from_cache(self) -> bool:
        """Was nothing compiled for it?"""
        return self.result in ("cache hit", "cache error")


class FarmRow(Part, frozen=True, kw_only=True):
    """How many objects of one language came from one place: a worker by its name, ``here``, ``cache``, or ``unknown``
    where the log does not tell; ``failed`` of them did not compile there."""

    language: str
    where: str
    objects: int
    failed: int = 0


class DistrustedWorker(Part, frozen=True, kw_only=True):
    """Who returned other bytes than our own compiler, for which object, and when."""

    address: ShortLine
    object: str
    date: ShortLine


class FarmUse(Part, frozen=True, kw_only=True):
    """What a farm did for one build. ``servers`` and ``slots`` are the most that were there. ``checked`` objects were
    compiled here, too, and the same; of ``unsteady`` ones the compiler here makes other bytes each time; ``wrong`` ones
    differed, and ``redone`` objects were made again here for it. ``compilers``: path → SHA-256."""

    scheduler: str
    servers: int = 0
    slots: int = 0
    counts: FarmCounts = FarmCounts()
    rows: tuple[FarmRow, ...] = ()
    failed: int = 0
    checked: int = 0
    unsteady: tuple[str, ...] = ()
    wrong: tuple[DistrustedWorker, ...] = ()
    redone: int = 0
    compilers: dict[str, str] = {}


class DistrustedWorkers(Document, frozen=True, kw_only=True):
    """Kept in the farm's folder until the user removes it."""

    workers: tuple[DistrustedWorker, ...] = ()


class FarmInvitation(Part, frozen=True, kw_only=True):
    """What lets one worker (or one who builds) into the farm: ``line`` holds a token and is given to them alone."""

    kind: Literal["worker", "client"]
    address: ShortLine | None = None
    line: str


class FarmJoin(Document, frozen=True, kw_only=True):
    """A worker that was let in, or why it cannot be one. ``script`` is what a cluster is to run instead."""

    folder: str
    scheduler: str
    address: str | None = None
    state: Literal["joined", "running", "client", "checked", "refused", "ended", "script"]
    checks: tuple[Check, ...] = ()
    pid: int | None = None
    slots: int | None = None
    memory_gib: float | None = None
    script: str | None = None


class FarmUp(Document, frozen=True, kw_only=True):
    """A farm whose scheduler runs. ``written`` are the files of its folder that were new or changed."""

    folder: str
    scheduler: str
    state: Literal["started", "running", "planned"]
    pid: int | None = None
    written: tuple[str, ...] = ()
    invitations: tuple[FarmInvitation, ...] = ()
    worker: FarmJoin | None = None
    notes: tuple[str, ...] = ()


class FarmMachine(Part, frozen=True, kw_only=True):
    """A worker as the scheduler's log knows it: ``lost`` are compilations that it took and never returned.
    ``expected``: invited and not seen yet; ``silent``: counted as here, but its port does not answer."""

    name: str
    address: str
    state: Literal["up", "silent", "lost", "expected"]
    slots: int | None = None
    compiled: int = 0
    running: int = 0
    lost: int = 0
    last: str | None = None


class FarmFailure(Part, frozen=True, kw_only=True):
    """What went wrong, as a log has it, with its meaning where that is known; ``count`` times, ``when`` the last."""

    where: str
    when: str
    what: str
    why: str | None = None
    fix: str | None = None
    count: int = 1


class FarmReport(Document, frozen=True, kw_only=True):
    """The farm now: what its scheduler says, its machines, and what failed."""

    folder: str
    status: FarmStatus
    pid: int | None = None
    cache: str | None = None
    machines: tuple[FarmMachine, ...] = ()
    failures: tuple[FarmFailure, ...] = ()

    @property
    def works(self) -> bool:
        """Would a build that starts now find somebody to compile for it?"""
        return self.status.why is None and self.status.slots > 0


class FarmDown(Document, frozen=True, kw_only=True):
    """What was ended; empty where nothing ran. ``left`` is what could not be reached, with the reason."""

    folder: str
    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    forgotten: bool = False
