"""A bundling for people: sizes, what came in and why, what stayed outside."""

from __future__ import annotations

from rekindle.model.bundle import BundleReport
from rekindle.render.screen import Screen
from rekindle.render.wheelhouse import size
from rekindle.scripts.quoting import pasted


def render_bundle(document: BundleReport, screen: Screen) -> None:
    count = len(document.brought)
    if document.out is None:
        screen.verdict("ok", f"{count} libraries would go in")
    else:
        after = document.bytes_after or 0
        screen.verdict("ok", f"{count} libraries inside: {size(document.bytes_before)} became {size(after)}")
        screen.bullet(document.out)
    if document.brought:
        screen.section("Brought along")
        screen.rows([[size(b.bytes), b.file, b.why, b.licence or "licence unknown"] for b in document.brought])
    if document.trimmed:
        screen.section("Device code taken out")
        for item in document.trimmed:
            if item.kept_whole:
                screen.bullet(f"{item.file} is left whole: {item.kept_whole}", status="warn")
            else:
                screen.bullet(f"{item.file}: {size(item.bytes)} of {', '.join(item.archs)}", status="ok")
        screen.paragraph("The files keep their size on disk; the wheel is smaller because zeros take no room in it.")
    if document.missing:
        screen.section("Not found, and left out as you asked")
        for left in document.missing:
            screen.bullet(f"{left.name} (needed by {left.needed_by})", status="fail")
    if document.left and screen.verbosity:
        screen.section("Left to the machine")
        screen.rows([[left.name, left.why] for left in document.left])
    if document.biggest and screen.verbosity:
        screen.section("Biggest parts of the wheel")
        screen.rows([[size(part.bytes), part.file] for part in document.biggest])
    for note in document.notes:
        screen.bullet(note, status="warn")
    if document.out:
        screen.section("Next")
        screen.command(f"rekindle verify --wheel {pasted(document.out)}")
