"""``export table``: which torch for which card, system, driver and Python, as one document that any language reads."""

from rekindle.model.document import Document, Part
from rekindle.model.plan import Answer

# A driver from which on an answer counts ("" where none is known), and the answer's place in the list.
DriverStep = tuple[str, int]


class TableWarning(Part, frozen=True, kw_only=True):
    """What one should know; ``code`` is stable."""

    code: str
    text: str


class TableAnswer(Part, frozen=True, kw_only=True):
    """One answer: what follows ``pip install`` (one list per call), variables to set whenever torch is used, and places
    in the list of warnings. ``cpu`` is what to install instead where there is no wheel for the card. ``python`` is the
    one it is for, which another than the asked one may be."""

    answer: Answer
    torch: str | None = None
    variant: str | None = None
    python: str | None = None
    pip: tuple[tuple[str, ...], ...] = ()
    env: dict[str, str] = {}
    warnings: tuple[int, ...] = ()
    cpu: tuple[tuple[str, ...], ...] = ()


class DecisionTable(Document, frozen=True, kw_only=True):
    """``devices``: PCI vendor → device → card class (an architecture). ``rules``: card class (``none``: no card) →
    system (``linux_x86_64``, ``linux_aarch64``, ``windows``) → Python → steps by driver, rising; the first counts where
    no driver is known. A machine with one card, glibc 2.28 or newer and an x86 CPU with AVX2 is meant."""

    rekindle: str
    facts: str
    systems: tuple[str, ...]
    pythons: tuple[str, ...]
    devices: dict[str, dict[str, str]]
    rules: dict[str, dict[str, dict[str, tuple[DriverStep, ...]]]]
    answers: tuple[TableAnswer, ...]
    warnings: tuple[TableWarning, ...]
