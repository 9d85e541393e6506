"""An exported script for people: the script itself, or where it lies and how to run it."""

from __future__ import annotations

from pathlib import Path

from rekindle.model.export import Exported
from rekindle.render.screen import Screen


def render_exported(document: Exported, screen: Screen) -> None:
    if document.path is None:
        # Printed to be piped into a file: exactly the script, with the line ends it needs, nothing else.
        raw = getattr(screen.stream, "buffer", None)
        if raw is None:
            screen.stream.write(document.text)
            return
        screen.stream.flush()
        raw.write(document.text.encode("utf-8"))
        raw.flush()
        return
    screen.verdict("ok", f"{document.title} is written to {document.path}")
    if document.beside:
        screen.line(f"  It needs {len(document.beside)} files beside it: {Path(document.beside[0]).parent}")
    screen.section("Run it")
    screen.command(document.run)
