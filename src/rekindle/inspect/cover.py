"""On which cards does each library's GPU code run? Counted by the real rule, container by container. Specialised
kernels (for one chip beside general ones) are left out: nobody misses them on another card."""

import functools
import re
from typing import NamedTuple

from rekindle.compat.images import GpuCode, covers
from rekindle.facts import load_facts
from rekindle.model.arch import Gfx, Sm, parse_gfx_code, parse_sm
from rekindle.model.wheel import LibraryGpu, WheelReport

# What people call a card by, best first: one of a desktop, of a server, of a board; then whatever a table has.
_KNOWN = (
    re.compile(r"GeForce (?:GTX?|RTX) \d+(?: Ti| SUPER)*$|GeForce \d+ GTX?$|Radeon RX (?:Vega|\d+)"),
    re.compile(r"(?:Tesla|TITAN|Instinct|[ABH]\d{2,3}\b)"),
    re.compile(r"GeForce (?!.*Engineering)|Radeon|Jetson|Quadro"),
)


class Cover(NamedTuple):
    """``runs`` of ``total`` containers of one library run on a card: all, some or none of them."""

    runs: int
    total: int

    @property
    def word(self) -> str:
        """All, some or none of them."""
        return "yes" if self.runs == self.total else "partly" if self.runs else "no"


def cards_of(report: WheelReport) -> list[Sm | Gfx]:
    """The architectures worth a column: those of any library, without code for one chip only (``sm_90a``)."""
    nvidia = {parse_sm(arch) for library in report.gpu.libraries for arch in library.sass}
    # A switch of the card (xnack+) is no other card.
    amd = {parse_gfx_code(arch.split(":")[0]) for library in report.gpu.libraries for arch in library.gfx}
    chips = (code for code in amd if code.name.startswith("gfx") and not code.generic)
    return [*sorted(sm for sm in nvidia if not sm.suffix), *sorted(chips)]


def cover(library: LibraryGpu, card: Sm | Gfx, cuda: str | None = None) -> Cover | None:
    """None where the library has nothing for cards of that maker; ``cuda`` is the toolkit that made it."""
    general = [group for group in library.sets if group.origin != "specialised"]
    nvidia = ("sm_", "compute_", "lto_")
    mine = [group for group in general if isinstance(card, Sm) == group.archs[0].startswith(nvidia)]
    if not mine:
        return None
    facts = load_facts()
    # An override is left to the verdict: the table shows what runs as it is.
    runs = [group.count for group in mine if covers(GpuCode(group.archs, cuda), card, "windows", facts).runs != "no"]
    return Cover(sum(runs), sum(group.count for group in mine))


@functools.cache
def families() -> dict[str, tuple[str, str]]:
    """Architecture -> (family, a product people know), from the facts."""
    facts = load_facts()
    rows: dict[str, list[tuple[str, str]]] = {}
    for chip in (*facts.nvidia.chip.values(), *facts.amd.chip.values()):
        rows.setdefault(chip.arch, []).extend((chip.family, name) for name in sorted(chip.products) or [""])
    return {arch: min(named, key=lambda row: _rank(row[1])) for arch, named in rows.items()}


def _rank(product: str) -> int:
    """The less, the better known; no name at all comes last."""
    return next((rank for rank, pattern in enumerate(_KNOWN) if pattern.match(product)), len(_KNOWN) + (not product))
