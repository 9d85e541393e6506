"""A verification as one HTML page: the verdict, what failed or is missing, then every check."""

from __future__ import annotations

import html

from rekindle.host.redact import without_secrets
from rekindle.model.page import header, page
from rekindle.model.spoken import spoken_seconds
from rekindle.model.verify import VerifyReport
from rekindle.render.summary import summarise_proof

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
