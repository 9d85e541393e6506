"""Plain text and versions, as documents: what ``completion``, ``help``, ``guide`` and ``version`` answer."""

from __future__ import annotations

from rekindle.model.document import Document


class Text(Document, frozen=True, kw_only=True):
    """Text as it stands."""

    text: str


class Versions(Document, frozen=True, kw_only=True):
    """What runs: Rekindle, its Python, the system."""

    rekindle: str
    python: str
    system: str
