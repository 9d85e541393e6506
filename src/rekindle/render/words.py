"""Text as it stands: guides, versions, an exported script, variables to paste into a shell."""

import os
import re
from pathlib import Path

from rekindle.model.plan import Step
from rekindle.model.words import Exported, Text, VariantEnvironment, Versions
from rekindle.render.screen import Screen, commands_as_called
from rekindle.scripts.quoting import spell


def _show_text(document: Text, screen: Screen) -> None:
    screen.stream.write(document.text if document.text.endswith("\n") else document.text + "\n")


def _show_versions(document: Versions, screen: Screen) -> None:
    screen.line(f"rekindle {document.rekindle}")
    if screen.verbosity:
        screen.rows([("python", document.python), ("system", document.system)])


def show_guide(document: Text, screen: Screen) -> None:
    """A page of Markdown; its tables as aligned columns."""
    inside = False
    paragraph: list[str] = []

    def flush() -> None:
        if paragraph and paragraph[0].startswith("|"):
            cells = ([_plain(cell.strip()) for cell in row.strip("|").split("|")] for row in paragraph)
            screen.rows(row for row in cells if set("".join(row)) - set("-: "))
        elif paragraph:
            screen.paragraph(_plain(" ".join(paragraph)), indent=0)
        paragraph.clear()

    for line in commands_as_called(document.text).splitlines():
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


def _render_environment(document: VariantEnvironment, screen: Screen) -> None:
    """Variables to paste into a POSIX shell, or into cmd on Windows."""
    windows = os.name == "nt"
    for note in document.notes:
        screen.line(f"rem {note}" if windows else f"# {note}")
    for line in spell([Step(kind="set", env=document.variables)], "cmd" if windows else "sh"):
        screen.line(line)


def _render_exported(document: Exported, screen: Screen) -> None:
    """The script itself, or where it was written and how it is run."""
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
