"""Small answers as documents: plain text, versions, exported scripts, variables for installers that choose by GPU."""

from rekindle.model.document import Document


class Text(Document, frozen=True, kw_only=True):
    """Text as it stands."""

    text: str


class Versions(Document, frozen=True, kw_only=True):
    """What runs: Rekindle, its Python, the system."""

    rekindle: str
    python: str
    system: str


# Reported: uv 0.12.0 to 0.13.5 take the CPU wheel without a word. 0.13.7 was seen choosing (docs/travel.md).
UV_WITH_VARIANTS = "0.13.6"


class VariantEnvironment(Document, frozen=True, kw_only=True):
    """``variant env``: variables to set, and what they cannot say."""

    variables: dict[str, str]
    notes: tuple[str, ...] = ()


class Exported(Document, frozen=True, kw_only=True):
    """``path`` is None where the script was only printed; ``text`` is the script itself; ``beside`` are the files it
    needs in a folder beside it, which were written, too.
    """

    format: str
    title: str
    path: str | None = None
    text: str
    run: str
    beside: tuple[str, ...] = ()
