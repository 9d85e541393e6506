"""A guide's page on a terminal: headings, paragraphs wrapped to its width, commands to paste."""

from __future__ import annotations

import re

from rekindle.model.words import Text
from rekindle.render.screen import Screen


def show_guide(document: Text, screen: Screen) -> None:
    inside = False
    paragraph: list[str] = []

    def flush() -> None:
        if paragraph:
            screen.paragraph(_plain(" ".join(paragraph)), indent=0)
            paragraph.clear()

    for line in document.text.splitlines():
        if line.startswith("```"):
            flush()
            inside = not inside
        elif inside:
            screen.line(f"  {screen.style(line[2:], 'cyan')}" if line.startswith("$ ") else f"    {line}")
        elif line.startswith("#"):
            flush()
            screen.line(screen.style(line.lstrip("# "), "bold"))
        elif line.startswith("  "):
            flush()
            screen.line(line)
        elif line.strip():
            paragraph.append(line)
        else:
            flush()
            screen.line()
    flush()


def _plain(text: str) -> str:
    """Without the marks of Markdown."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text).replace("`", "")
