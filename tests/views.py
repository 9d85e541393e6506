"""Documents as people read them, and the texts that they are held against."""

from __future__ import annotations

import io
from pathlib import Path

from rekindle.model.document import Document
from rekindle.render.screen import Screen, find_view


def shown(document: Document, verbosity: int) -> str:
    """On a plain screen of 90 columns."""
    view = find_view(type(document))
    assert view is not None
    out = io.StringIO()
    view(document, Screen(out, color="never", width=90, verbosity=verbosity))
    return out.getvalue()


def shown_both_ways(document: Document) -> str:
    """Without -v, then with it where that says more."""
    short, long = (shown(document, verbosity) for verbosity in (0, 1))
    return short if short == long else f"{short}==== -v\n{long}"


def expected_views(file: Path) -> dict[str, str]:
    """Many in one file, each below a line with its name."""
    parts = file.read_text(encoding="utf-8").split("######## ")[1:]
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}
