"""Any document as a piece of HTML, for notebooks: the text a terminal would show, with its colours.

The JSON form stands in for the few documents nobody shows to people.
"""

import html
import importlib
import io
import re

from rekindle.model.document import encode
from rekindle.render.screen import Screen, find_view

_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")
_STYLES = {
    "1": "font-weight:bold",
    "2": "opacity:.6",
    "31": "color:#c0392b",
    "32": "color:#1e8449",
    "33": "color:#b7791f",
    "36": "color:#117a8b",
}

_PAGES = {
    "WheelReport": "wheel_page",
    "VerifyReport": "verify_page",
    "Journey": "render_journey_html",
    "MatrixStatus": "render_matrix_html",
}


def render_html(document: object) -> str:
    """A ``<pre>`` that needs no stylesheet; folded below it the page with tables and bars, where a document has one.
    Neither runs a script."""
    view = find_view(type(document))
    if view is None:
        text = html.escape(encode(document).decode("utf-8"))
    else:
        stream = io.StringIO()
        view(document, Screen(stream, color="always"))
        text = _spans(stream.getvalue())
    shown = f'<pre style="line-height:1.4">{text}</pre>'
    name = _PAGES.get(type(document).__name__)
    if name is None:
        return shown
    page = getattr(importlib.import_module("rekindle.render.pages"), name)(document)
    frame = f'<iframe sandbox srcdoc="{html.escape(page)}" style="width:100%;height:36rem;border:0"></iframe>'
    return f"{shown}<details><summary>As a page</summary>{frame}</details>"


def _spans(text: str) -> str:
    """Terminal colours as spans; everything else escaped."""
    first, *rest = _ESCAPE.split(text)
    out = [html.escape(first)]
    for codes, piece in zip(rest[::2], rest[1::2], strict=True):
        style = ";".join(_STYLES[code] for code in codes.split(";") if code in _STYLES)
        out.append(f'<span style="{style}">{html.escape(piece)}</span>' if style else html.escape(piece))
    return "".join(out)
