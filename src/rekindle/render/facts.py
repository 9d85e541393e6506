"""Facts for people: tables, sources, and what a new measurement says."""

import json

from rekindle.model.facts import FactsCheck, FactsFormat, SourcesView, TableView
from rekindle.render.screen import Screen

_SHORT = 12
_TELLING = ("arch", "text", "sm", "gfx", "sass", "released", "title", "cuda", "glibc", "microarchitecture", "level")
_MARKS = {"agrees": "ok", "drift": "fail", "new": "warn", "skipped": "skip"}


def _table_view(view: TableView, screen: Screen) -> None:
    if view.table == "tables":
        counts = {name: ", ".join(f"{count} {key}" for key, count in row.items()) for name, row in view.rows.items()}
        screen.rows(counts.items())
        screen.line()
        screen.line("  rekindle facts show TABLE [ROW] shows the rows")
        return
    if len(view.rows) > _SHORT and not screen.verbosity:
        keys = {name: next((key for key in _TELLING if key in row), "") for name, row in view.rows.items()}
        screen.rows([(name, f"{key} {_text(view.rows[name][key])[:90]}" if key else "") for name, key in keys.items()])
        return
    for name, row in view.rows.items():
        screen.rows([(key, _text(value)) for key, value in row.items()], title=f"{view.table} {name}")


def _text(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) if all(" " not in str(item) for item in value) else "; ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _sources_view(view: SourcesView, screen: Screen) -> None:
    counts = ", ".join(f"{count} {how}" for how, count in view.how.items())
    screen.verdict("ok", f"{sum(view.how.values())} rows: {counts}; read {view.oldest} to {view.newest}")
    screen.rows([(str(use.rows), ", ".join(use.tables), use.source) for use in view.sources], most=40)


def _check_view(check: FactsCheck, screen: Screen) -> None:
    status = "fail" if check.drift else "warn" if check.new or not check.agrees else "ok"
    text = f"{check.agrees} facts agree, {check.drift} drifted, {check.new} new, {check.skipped} not looked at"
    screen.verdict(status, text)
    for row in check.compared:
        if row.outcome == "agrees" and not screen.verbosity and "Pythons" in row.what:
            continue
        below = [row.found] if row.outcome == "new" or screen.verbosity else []
        if row.outcome == "drift":
            below = [f"tables: {row.facts}", f"found:  {row.found}"]
        screen.bullet(row.what + (f": {row.note}" if row.note else ""), status=_MARKS[row.outcome], below=below)


def _format_view(done: FactsFormat, screen: Screen) -> None:
    if not done.changed:
        screen.verdict("ok", f"{len(done.files)} files are in their canonical form")
        return
    word = "were rewritten" if done.written else "are not in their canonical form"
    screen.verdict("ok" if done.written else "fail", f"{len(done.changed)} of {len(done.files)} files {word}")
    screen.rows([("", name) for name in done.changed])
