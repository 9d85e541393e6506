"""What we keep, for people: the largest first within each place, with ages; and what went."""

from rekindle.model.holdings import Cleaning, Holding, Holdings
from rekindle.model.spoken import spoken_age, spoken_bytes
from rekindle.render.screen import Screen


def show_holdings(document: Holdings, screen: Screen) -> None:
    if not document.items:
        screen.verdict("ok", "Rekindle keeps nothing on this machine")
        screen.paragraph(f"(looked in {', '.join(document.places)})")
        return
    screen.verdict("ok", f"Rekindle keeps {spoken_bytes(document.total_bytes)} on this machine")
    for title, items in _by_workspace(document.items):
        total = spoken_bytes(sum(item.bytes for item in items))
        screen.section(f"{title}  {total}")
        screen.rows(holding_rows(items))
    screen.section("To make room")
    screen.command("rekindle clean")
    screen.paragraph("removes build trees, caches and logs; 'rekindle clean --all' everything, after asking.")


def holding_rows(items: tuple[Holding, ...] | list[Holding]) -> list[tuple[str, str, str, str]]:
    """Size, kind, age and name of each, the largest first."""
    rows = sorted(items, key=lambda item: -item.bytes)
    return [(spoken_bytes(row.bytes).rjust(8), row.kind, spoken_age(row.age_seconds), _full_name(row)) for row in rows]


def _full_name(item: Holding) -> str:
    return item.name + (f" ({item.note})" if item.note and item.kind in ("source", "wheels", "wheelhouse") else "")


def _by_workspace(items: tuple[Holding, ...]) -> list[tuple[str, list[Holding]]]:
    groups: dict[str, list[Holding]] = {}
    for item in items:
        title = item.workspace or (item.path if item.kind == "workspace" else "")
        groups.setdefault(title or "elsewhere", []).append(item)
    return sorted(groups.items(), key=lambda pair: (pair[0] == "elsewhere", pair[0]))


def show_cleaning(document: Cleaning, screen: Screen) -> None:
    freed = spoken_bytes(document.freed_bytes)
    if not document.removed and not document.kept:
        screen.verdict("ok", "There is nothing of that kind to remove")
        return
    words = f"{freed} would be free (dry run: nothing was removed)" if document.dry_run else f"{freed} are free again"
    screen.verdict("warn" if document.kept else "ok", words)
    screen.rows(holding_rows(document.removed))
    screen.bullets((f"{item.path}: {item.why}" for item in document.kept), status="warn", title="Not removed")
