"""All cells on one HTML page that needs no network: a grid first, then a row per cell."""

from __future__ import annotations

from rekindle.host.redact import without_secrets
from rekindle.model.matrix import CellRow, CellState, MatrixStatus
from rekindle.model.page import header, page
from rekindle.model.spoken import spoken_seconds
from rekindle.render.build import size
from rekindle.render.templates import filled

_STYLE = """
.proven { color: var(--ok); font-weight: 600; } .built { color: var(--ok); }
.failed { color: var(--no); font-weight: 600; }
.running { color: var(--accent); } .waiting, .cancelled { color: var(--soft); } td a { color: inherit; }
.cells th:first-child { overflow-wrap: anywhere; min-width: 9rem; }
"""


def render_matrix_html(status: MatrixStatus) -> str:
    body = filled(
        "matrix.html.j2",
        first_failed=sorted(status.rows, key=lambda row: row.state.stage != "failed"),
        status=status,
        pythons=_pythons(status),
        grid=_grid(status),
        duration=spoken_seconds,
        size=size,
        figures=_figures,
    )
    verdict = ", ".join(f"{count} {stage}" for stage, count in sorted(status.counts.items())) or "no cells"
    failed, proven = status.counts.get("failed", 0), status.counts.get("proven", 0)
    good = False if failed else True if proven == len(status.rows) and status.rows else None
    return page(verdict, f"{header(verdict, str(without_secrets(status.root)), good=good)}\n{body}", more_style=_STYLE)


def _figures(state: CellState) -> list[str]:
    """What the grid shows of a cell; a space inside a figure does not break."""
    found = [
        spoken_seconds(state.seconds) if state.seconds is not None else "",
        size(state.peak_memory_bytes) if state.peak_memory_bytes else "",
        f"cache {state.cache['hit rate']}" if "hit rate" in state.cache else "",
        state.proof.split(",")[0],
    ]
    return [text.replace(" ", "\u00a0") for text in found if text]


def _python(row: CellRow) -> str:
    return next((part[2:] for part in row.name.split("-") if part.startswith("py")), "")


def _pythons(status: MatrixStatus) -> list[str]:
    return sorted({_python(row) for row in status.rows}, key=lambda text: [int(p) for p in text.split(".") if p])


def _grid(status: MatrixStatus) -> dict[str, dict[str, CellRow]]:
    """Everything but the Python down, Pythons across."""
    grid: dict[str, dict[str, CellRow]] = {}
    for row in status.rows:
        python = _python(row)
        grid.setdefault(row.name.replace(f"-py{python}", ""), {})[python] = row
    return grid
