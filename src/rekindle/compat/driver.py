"""Which NVIDIA drivers run a toolkit's programs, and which still drive a card: floor and ceiling. Three facts decide. A
toolkit has the driver it came with (``own``), and from CUDA 11 on any driver of the same major release runs its machine
code (``floor``, minor-version compatibility), but compiles no PTX of it. A card needs a driver at least as new as the
first toolkit that knew it. And NVIDIA ends old cards with a last branch. A driver given as a bare branch (``470``)
means the newest of that branch; Windows counts on within a branch (R470 reaches 475), so a branch ends where the next
one begins. Tegra's comes with JetPack and is not judged."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from rekindle.compat.answer import CompatAnswer
from rekindle.compat.toolkit import toolkits_for
from rekindle.facts import Facts
from rekindle.model.arch import Sm
from rekindle.model.facts import XeGeneration
from rekindle.model.machine import Os
from rekindle.model.version import is_version, key, minor, reaches

Side = Literal["linux", "windows"]


def driver_side(os: Os) -> Side:
    """Whose driver numbers count: under WSL the driver is the one of Windows."""
    return "windows" if os.system == "windows" or os.wsl else "linux"


def is_board(os: Os, cards: Sequence[Sm], facts: Facts) -> bool:
    """Is this a Tegra board, whose driver comes with JetPack? ``os.arch`` None leaves it to the cards."""
    return os.system == "linux" and os.arch != "x86_64" and bool(cards) and all(facts.is_tegra(sm) for sm in cards)


class ToolkitDriver(NamedTuple):
    """``own`` came with the toolkit and compiles its PTX; ``floor`` is the least that runs its machine code."""

    own: str | None = None
    floor: str | None = None
    source: str | None = None


@functools.lru_cache(maxsize=256)
def toolkit_driver(cuda: str, side: Side, facts: Facts) -> ToolkitDriver:
    """What a toolkit asks of the driver; all None where the tables do not know it."""
    if (row := facts.toolkit(cuda)) is None:
        return ToolkitDriver()
    windows = side == "windows"
    own = row.driver_windows if windows else row.driver_linux
    if windows and own is None and row.driver_linux:
        # From CUDA 13 on NVIDIA names none for Windows; the branch is the same on both systems.
        own = str(branch(row.driver_linux))
    floor = row.minor_driver_windows if windows else row.minor_driver_linux
    # Of 11.0 the toolkit's own driver is older than the floor of minor-version compatibility: the lower one counts.
    drivers = [driver for driver in (own, floor) if driver]
    return ToolkitDriver(own, min(drivers, key=key, default=None), row.driver_source or row.source[0])


class CardDrivers(NamedTuple):
    """``first``: no older driver knows the card (``toolkit`` introduced it). ``last``: the branch that ended it,
    ``below`` where the next one begins, ``fixes`` how long that branch is fixed."""

    first: str | None = None
    toolkit: str | None = None
    last: int | None = None
    below: int | None = None
    source: str | None = None
    fixes: str | None = None


@functools.lru_cache(maxsize=256)
def card_drivers(sm: Sm, side: Side, facts: Facts) -> CardDrivers:
    """The drivers that know a card, from the first to the last branch."""
    kit = next(iter(toolkits_for(sm, facts)), None)
    # What the oldest toolkit of our tables knows may be older than the tables.
    need = toolkit_driver(kit, side, facts) if kit and kit != facts.toolkits[-1] else ToolkitDriver()
    first, toolkit, source = (need.own, kit, need.source) if need.own else (None, None, None)
    if (end := next((row for row in facts.cuda.driver_end if row.first <= sm <= row.last), None)) is None:
        return CardDrivers(first, toolkit, source=source)
    return CardDrivers(first, toolkit, end.branch, end.next_branch, end.source[0], end.fixes)


def branch(driver: str) -> int:
    """470 of ``470.256.02``."""
    return key(driver)[0]


class CommonDriver(NamedTuple):
    """What one driver must be to drive several cards; ``newest`` asks for ``first``, ``oldest`` ends at ``last``."""

    first: str | None = None
    last: int | None = None
    below: int | None = None
    newest: Sm | None = None
    oldest: Sm | None = None
    source: str | None = None

    @property
    def exists(self) -> bool:
        """Is there any driver that drives them all?"""
        return self.first is None or self.below is None or branch(self.first) < self.below


def common_driver(cards: Iterable[Sm], side: Side, facts: Facts) -> CommonDriver:
    """The drivers that all these cards share: none for a K40c beside an H200."""
    spans = {sm: card_drivers(sm, side, facts) for sm in cards}
    firsts = {sm: key(span.first) for sm, span in spans.items() if span.first}
    ends = {sm: span.below for sm, span in spans.items() if span.below}
    newest = max(firsts, key=lambda sm: firsts[sm], default=None)
    oldest = min(ends, key=lambda sm: ends[sm], default=None)
    end = spans[oldest] if oldest else CardDrivers()
    return CommonDriver(spans[newest].first if newest else None, end.last, end.below, newest, oldest, end.source)


def wanted_driver(cuda: str | None, cards: Iterable[Sm], side: Side, facts: Facts, *, ptx: bool = False) -> str | None:
    """The driver to ask for, floor and ceiling: ``525.60.13 or newer``, ``470.x``, ``525.60.13 to 580.x``."""
    cards = tuple(cards)
    common = common_driver(cards, side, facts)
    need = toolkit_driver(cuda, side, facts) if cuda else ToolkitDriver()
    floors = [driver for driver in (need.own if ptx else need.floor, common.first) if driver]
    floor = max(floors, key=key, default=None)
    if common.last is None:
        return f"{floor} or newer" if floor else None
    newest = _spell_branch(common.last, common.below, side)
    if floor is None:
        return f"{newest} or older"
    return newest if branch(floor) >= common.last else f"{floor} to {newest}"


def _spell_branch(last: int | None, below: int | None, side: Side) -> str:
    """A branch for people; on Windows its drivers go by higher numbers too."""
    return f"{last}.x" if side == "linux" else f"R{last} (below {below})"


@functools.lru_cache(maxsize=4096)
def driver_runs(
    driver: str | None,
    cuda: str | None,
    cards: tuple[Sm, ...],
    side: Side,
    facts: Facts,
    *,
    ptx: bool = False,
    names: tuple[str, ...] = (),
) -> CompatAnswer:
    """Does this driver run programs of this toolkit on these cards (by their ``names``)? ``ptx``: only by compiling it.
    ``cuda`` None asks for the cards alone, ``driver`` None whether any could (*unknown* with the need, or *no*)."""
    called: dict[Sm | None, str] = dict(zip(cards, names, strict=False))
    need = toolkit_driver(cuda, side, facts) if cuda else ToolkitDriver()
    common = common_driver(cards, side, facts)
    old, new = (called.get(sm, sm) for sm in (common.oldest, common.newest))
    want = wanted_driver(cuda, cards, side, facts, ptx=ptx)
    if not common.exists:
        ends = f"R{common.last} is its last branch"
        text = f"no driver serves both {old} ({ends}) and {new} (needs {common.first} or newer)"
        return CompatAnswer("no", "driver-none-for-all", text, common.source)
    floor = need.own if ptx else need.floor
    if cuda and floor and common.below is not None and branch(floor) >= common.below:
        task = "compile its PTX" if ptx and need.floor and branch(need.floor) < common.below else f"run CUDA {cuda}"
        text = f"driver {floor} is needed to {task}, and R{common.last} is the last driver branch for {old}"
        return CompatAnswer("no", "driver-branch-ended", text, common.source)
    if driver is None or not is_version(driver):
        if want is None:
            return CompatAnswer("unknown", "driver-not-known", f"which driver CUDA {cuda} needs is not in our tables")
        subject = f"CUDA {cuda}" if cuda else called.get(cards[0], cards[0])
        return CompatAnswer("unknown", "driver-not-told", f"{subject} needs NVIDIA driver {want}", need.source, want)
    for sm in cards:
        span, name = card_drivers(sm, side, facts), called.get(sm, sm)
        if span.below is not None and branch(driver) >= span.below:
            text = f"R{span.last} is the last driver branch for {name}; driver {driver} does not drive it"
            return CompatAnswer("no", "driver-too-new", text, span.source, _spell_branch(span.last, span.below, side))
        # Where the toolkit asks for more than the card, its number is the one to give: that of the card would not do.
        toolkit_asks_more = floor is not None and span.first is not None and branch(floor) > branch(span.first)
        if span.first is not None and branch(driver) < branch(span.first) and not toolkit_asks_more:
            text = f"{name} itself needs a driver of branch {branch(span.first)} or newer"
            text += f" (CUDA {span.toolkit} introduced it); this one is {driver}"
            return CompatAnswer("no", "driver-older-than-card", text, span.source, want)
    if cuda is None:
        return CompatAnswer("yes", "driver", f"driver {driver} drives the cards", common.source)
    if need.floor is None:
        return CompatAnswer("unknown", "driver-not-known", f"which driver CUDA {cuda} needs is not in our tables")
    if not reaches(driver, need.floor):
        text = f"CUDA {cuda} needs NVIDIA driver {want}; this one is {driver}"
        return CompatAnswer("no", "driver-too-old", text, need.source, want)
    native = need.own is None or reaches(driver, need.own)
    if ptx and not native:
        text = f"PTX of CUDA {cuda} can be compiled by driver {need.own} or newer only; this one is {driver}"
        return CompatAnswer("no", "driver-too-old-for-ptx", text, need.source, want)
    text = f"driver {driver} runs CUDA {cuda}: it needs {need.floor}"
    if not native:
        text += f" by minor-version compatibility ({need.own} came with it; PTX cannot be compiled at run time)"
    return CompatAnswer("yes", "driver" if native else "driver-minor-compatible", text, need.source)


def intel_driver(row: XeGeneration, side: Side) -> str | None:
    """What Intel's GPUs of a generation need: the oldest seen at work on Windows, packages and kernel on Linux."""
    return row.driver_windows if side == "windows" else row.driver_linux


def newest_cuda(driver: str, side: Side, facts: Facts) -> str | None:
    """The newest CUDA whose own driver is no newer than this one; None for a driver older than our tables."""
    return _newest_cuda(lambda own: reaches(driver, own), side, facts)


def _newest_cuda(serves: Callable[[str], bool], side: Side, facts: Facts) -> str | None:
    drivers = ((cuda, toolkit_driver(cuda, side, facts).own) for cuda in facts.toolkits)
    return max((minor(cuda) for cuda, own in drivers if own and serves(own)), key=key, default=None)


def least_cuda(cuda: str, side: Side, facts: Facts) -> str | None:
    """The CUDA number a driver must at least say to run this toolkit's machine code (minor-version compatibility)."""
    floor = toolkit_driver(cuda, side, facts).floor
    return newest_cuda(floor, side, facts) if floor else None


def last_cuda(sm: Sm, side: Side, facts: Facts) -> str | None:
    """The CUDA number that the last driver branch of a card says; None where NVIDIA still drives it."""
    # On Windows a branch goes by higher numbers too (R470 up to 475): it ends where the next one begins.
    below = card_drivers(sm, side, facts).below
    return None if below is None else _newest_cuda(lambda own: branch(own) < below, side, facts)


@functools.lru_cache(maxsize=128)
def distinct_drivers(card: Sm, side: Side, facts: Facts) -> tuple[str, ...]:
    """The drivers with which a card begins to run something else than with older ones, oldest first: the first stands
    for all that are older. Only floors of toolkits and ends of branches are tried; drivers between them are alike."""
    span = card_drivers(card, side, facts)
    ends = [str(number) for number in (branch(span.first) if span.first else None, span.below) if number]
    drivers = {"1.0"}
    for kit in facts.toolkits:
        need = toolkit_driver(kit, side, facts)
        # A bare branch would mean the newest of it.
        names = {name if "." in name else f"{name}.0" for name in (*ends, need.own, need.floor) if name}
        before = None
        for driver in ("1.0", *sorted(names, key=key)):
            # Wherever another driver runs machine code, it begins or ends to compile the PTX of some toolkit, too.
            answer = driver_runs(driver, kit, (card,), side, facts, ptx=True)
            reply = answer.kind, answer.code
            drivers |= {driver} if reply != before else set()
            before = reply
    return tuple(sorted(drivers, key=key))
