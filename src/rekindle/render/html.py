"""Any document as a piece of HTML, for notebooks: the text a terminal would show, with its colours.

The JSON form stands in for the few documents nobody shows to people.
"""

from __future__ import annotations

import html
import importlib
import io
import re
from collections.abc import Callable
from typing import Any

from rekindle.model.document import encode
from rekindle.render.screen import Screen

# Where the view of each document is: model module and class, then module and function in this room.
VIEWS = {
    "build.BuildFailure": "build.render_failure",
    "build.BuildResults": "build.render_results",
    "build.BuildScript": "build.render_script",
    "bundle.BundleReport": "bundle.render_bundle",
    "diagnosis.Catalogue": "diagnosis.view_catalogue",
    "diagnosis.Diagnosis": "diagnosis.view_diagnosis",
    "export.Exported": "export.render_exported",
    "facts.FactsFormat": "facts.format_view",
    "facts.FactsCheck": "facts.check_view",
    "facts.SourcesView": "facts.sources_view",
    "facts.TableView": "facts.table_view",
    "journey.Journey": "journey.show_journey",
    "machine.Examination": "machine.show_examination",
    "matrix.CellState": "matrix.render_cell",
    "matrix.MatrixLock": "matrix.render_lock",
    "matrix.MatrixRun": "matrix.render_run",
    "matrix.MatrixScript": "matrix.render_script",
    "matrix.MatrixStatus": "matrix.render_status",
    "matrix.Published": "matrix.render_published",
    "matrix.Simulation": "matrix.render_simulation",
    "plan.Plan": "plan.plan_view",
    "plan.WhyNot": "plan.why_not_view",
    "source.CMakeRewrite": "source.view_rewrite",
    "source.SavedPatches": "source.view_saved",
    "source.SourceTree": "source.view_tree",
    "verify.VerifyComparison": "verify.view_comparison",
    "verify.VerifyReport": "verify.view_verification",
    "wheel.WheelDiff": "wheel.render_diff",
    "wheel.WheelReport": "wheel.render_wheel",
    "wheelhouse.Added": "wheelhouse.render_added",
    "wheelhouse.Found": "wheelhouse.render_found",
    "wheelhouse.PageWritten": "wheelhouse.render_page",
    "wheelhouse.Served": "wheelhouse.render_served",
    "wheelhouse.SiteBuilt": "wheelhouse.render_built",
    "wheelhouse.Yanked": "wheelhouse.render_yanked",
}
_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")
_STYLES = {
    "1": "font-weight:bold", "2": "opacity:.6", "31": "color:#c0392b", "32": "color:#1e8449", "33": "color:#b7791f",
    "34": "color:#2471a3", "35": "color:#884ea0", "36": "color:#117a8b",
}  # fmt: skip


def find_view(document: object) -> Callable[[Any, Screen], None] | None:
    """The function that shows this kind of document to people."""
    kind = type(document)
    place = VIEWS.get(f"{kind.__module__.rsplit('.', 1)[-1]}.{kind.__name__}")
    if place is None:
        return None
    module, name = place.split(".")
    found: Callable[[Any, Screen], None] = getattr(importlib.import_module(f"rekindle.render.{module}"), name)
    return found


def render_html(document: object) -> str:
    """A ``<pre>`` that needs no stylesheet and no script."""
    view = find_view(document)
    if view is None:
        text = html.escape(encode(document).decode("utf-8"))
    else:
        stream = io.StringIO()
        view(document, Screen(stream, color="always", width=100))
        text = _spans(stream.getvalue())
    return f'<pre style="line-height:1.4">{text}</pre>'


def _spans(text: str) -> str:
    """Terminal colours as spans; everything else escaped."""
    out: list[str] = []
    is_open = False
    for number, piece in enumerate(_ESCAPE.split(text)):
        if number % 2 == 0:
            out.append(html.escape(piece))
            continue
        if is_open:
            out.append("</span>")
        styles = [_STYLES[code] for code in piece.split(";") if code in _STYLES]
        is_open = bool(styles)
        if is_open:
            out.append(f'<span style="{";".join(styles)}">')
    return "".join(out) + ("</span>" if is_open else "")
