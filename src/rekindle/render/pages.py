"""Walks, matrices and proofs as HTML pages that need no network. No name of a stranger's becomes markup on them, and no
secret stays."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from rekindle.host.redact import all_without_secrets, without_secrets
from rekindle.model.document import encode
from rekindle.model.journey import Journey
from rekindle.model.matrix import CellRow, CellState, MatrixStatus
from rekindle.model.page import header, page
from rekindle.model.spoken import spoken_seconds
from rekindle.model.verify import VerifyReport
from rekindle.render.build import size
from rekindle.render.summary import summarise_proof

_FOLDER = Path(__file__).with_name("templates")


def filled(template: str, **values: Any) -> str:
    # Late: most commands write no page, and jinja2 takes long to import.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=without_secrets,
    )
    return environment.get_template(template).render(**values)


def render_journey_html(journey: Journey) -> str:
    longest = max((leg.seconds for leg in journey.legs), default=0.0) or 1.0
    body = filled(
        "journey.html.j2",
        journey=journey,
        longest=longest,
        total=sum(leg.seconds for leg in journey.legs),
        # Before it is written as JSON: behind escapes nothing is recognised.
        document=encode(all_without_secrets(json.loads(encode(journey)))).decode("utf-8"),
        spoken=spoken_seconds,
        build_page=_build_page(journey),
    )
    verdict = str(without_secrets(journey.verdict))
    top = header(verdict, str(without_secrets(journey.machine or "")), good=journey.arrived)
    return page(verdict, f"{top}\n{body}")


def _build_page(journey: Journey) -> str | None:
    """The build's own page, if one lies beside the report."""
    beside = Path(journey.report).with_name("build.html") if journey.report else None
    return beside.name if beside is not None and beside.is_file() else None


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


_MARKS = {"passed": ("✓", "good"), "failed": ("✗", "bad"), "skipped": ("–", "soft")}
_OPEN_ROWS = 20


def _e(text: str) -> str:
    return html.escape(str(without_secrets(text)))


def verify_page(report: VerifyReport) -> str:
    good = True if report.good else False if report.verdict == "failed" else None
    wrong = [
        f"<li><b class='bad'>{_e(one.id)}</b> {_e(one.detail)}</li>" for one in report.checks if one.status == "failed"
    ]
    wrong += [f"<li><b class='partly'>{_e(one.id)}</b> {_e(one.why)}</li>" for one in report.missing]
    parts = [header(summarise_proof(report), str(without_secrets(report.subject)), good=good)]
    if wrong:
        parts.append(f"<section>\n<h2>Failed or missing</h2>\n<ul>{''.join(wrong)}</ul>\n</section>")
    named = {one.id for one in report.missing}
    left = [
        f"<li><b>{_e(one.id)}</b> {_e(one.detail)}</li>"
        for one in report.checks
        if one.status == "skipped" and one.id not in named
    ]
    if left:
        parts.append(f"<section>\n<h2>Not tried</h2>\n<ul>{''.join(left)}</ul>\n</section>")
    rows = []
    for one in report.checks:
        mark, kind = _MARKS[one.status]
        rows.append(
            f'<tr><td class="{kind}">{mark} {one.status}</td><th scope="row">{_e(one.id)}</th>'
            f'<td class="n">{spoken_seconds(one.seconds)}</td><td>{_e(one.detail)}</td></tr>'
        )
    state = " open" if len(rows) <= _OPEN_ROWS else ""
    parts.append(
        f'<section>\n<details{state}><summary>All {len(rows)} checks</summary>\n<div class="scroll" tabindex="0">'
        f'<table class="rows">{"".join(rows)}</table></div></details>\n</section>'
    )
    table = "".join(
        f"<dt>{_e(name)}</dt><dd><code>{_e(value)}</code></dd>" for name, value in report.environment.items()
    )
    parts.append(f"<section>\n<details><summary>Where it ran</summary><dl>{table}</dl></details>\n</section>")
    return page(summarise_proof(report), "\n".join(parts))
