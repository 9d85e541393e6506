"""Small answers as documents: plain text, versions, exported scripts, variables for installers that choose by GPU, and
which torch for which card, system, driver and Python, as one table that any language reads."""

from rekindle.model.document import Document, Part
from rekindle.model.plan import Answer

# Reported: uv 0.12.0 to 0.13.5 take the CPU wheel without a word. 0.13.7 was seen choosing (docs/travel.md).
UV_WITH_VARIANTS = "0.13.6"
# A driver from which on an answer counts ("" where none is known), and the answer's place in the list.
DriverStep = tuple[str, int]


class Text(Document, frozen=True, kw_only=True):
    """Text as it stands."""

    text: str


class Versions(Document, frozen=True, kw_only=True):
    """What runs: Rekindle, its Python, the system."""

    rekindle: str
    python: str
    system: str


class VariantEnvironment(Document, frozen=True, kw_only=True):
    """``variant env``: variables to set, and what they cannot say."""

    variables: dict[str, str]
    notes: tuple[str, ...] = ()


class Exported(Document, frozen=True, kw_only=True):
    """``path`` is None where the script was only printed; ``text`` is the script itself; ``beside`` are the files it
    needs in a folder beside it, which were written, too."""

    format: str
    title: str
    path: str | None = None
    text: str
    run: str
    beside: tuple[str, ...] = ()


class TableWarning(Part, frozen=True, kw_only=True):
    """What one should know; ``code`` is stable."""

    code: str
    text: str


class TableAnswer(Part, frozen=True, kw_only=True):
    """One answer: what follows ``pip install`` (one list per call), variables for whenever torch is used, and places in
    the warnings. ``cpu`` is what to install without a wheel for the card; ``python`` may not be the one asked."""

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
