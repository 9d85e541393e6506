"""What ``export`` answers: the script, or where it was written."""

from __future__ import annotations

from rekindle.model.document import Document


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
