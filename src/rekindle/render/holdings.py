"""What we keep, for people: the largest first within each place, with ages; and what went."""

from collections.abc import Iterable

from rekindle.model.holdings import Cleaning, Holding, Holdings
from rekindle.model.spoken import spoken_age, spoken_bytes
from rekindle.render.screen import Screen


def _show_holdings(document: Holdings, screen: Screen) -> None:
    if not document.items:
        screen.verdict("ok", "Rekindle keeps nothing on this machine")
        screen.paragraph(f"(looked in {', '.join(document.places)})")
        return
    screen.verdict("ok", f"Rekindle keeps {spoken_bytes(document.total_bytes)} on this machine")
    groups: dict[str, list[Holding]] = {}
    for item in document.items:
        place = item.workspace or (item.path if item.kind == "workspace" else "")
        groups.setdefault(place or "elsewhere", []).append(item)
    for place, items in sorted(groups.items(), key=lambda pair: (pair[0] == "elsewhere", pair[0])):
        screen.rows(holding_rows(items), title=f"{place}  {spoken_bytes(sum(item.bytes for item in items))}")
    screen.section("To make room")
    screen.command("rekindle clean")
    screen.paragraph("removes build trees, caches and logs; 'rekindle clean --all' everything, after asking.")


def holding_rows(items: Iterable[Holding]) -> list[tuple[str, ...]]:
    """Size, kind, age and name of each, the largest first."""
    rows: list[tuple[str, ...]] = []
    for item in sorted(items, key=lambda item: -item.bytes):
        note = f" ({item.note})" if item.note and item.kind in ("source", "wheels", "wheelhouse") else ""
        rows.append((spoken_bytes(item.bytes).rjust(8), item.kind, spoken_age(item.age_seconds), item.name + note))
    return rows


def _show_cleaning(document: Cleaning, screen: Screen) -> None:
    if not document.removed and not document.kept:
        screen.verdict("ok", "There is nothing of that kind to remove")
        return
    words = "would be free (dry run: nothing was removed)" if document.dry_run else "are free again"
    screen.verdict("warn" if document.kept else "ok", f"{spoken_bytes(document.freed_bytes)} {words}")
    screen.rows(holding_rows(document.removed))
    screen.bullets((f"{item.path}: {item.why}" for item in document.kept), status="warn", title="Not removed")
