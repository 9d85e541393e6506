"""Plain text as it stands, and which Rekindle this is."""

from __future__ import annotations

from rekindle.model.words import Text, Versions
from rekindle.render.screen import Screen


def show_text(document: Text, screen: Screen) -> None:
    screen.stream.write(document.text if document.text.endswith("\n") else document.text + "\n")


def show_versions(document: Versions, screen: Screen) -> None:
    screen.line(f"rekindle {document.rekindle}")
    if screen.verbosity:
        screen.rows([("python", document.python), ("system", document.system)])
