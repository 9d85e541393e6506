"""Runs the commands of the README's picture and draws what a terminal shows, once light and once dark.

Usage: python tools/make_picture.py [--check]
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

from rekindle.cli.main import main as rekindle

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
COLUMNS = 100
# Each command with how many lines of its answer are shown.
SESSION = (
    ('rekindle plan --gpu "GTX 1080" --driver 580.95 --os linux --python 3.12', 12),
    ("rekindle explain \"nvcc fatal : Unsupported gpu architecture 'compute_35'\"", 11),
)
WIDTH, HEIGHT, FONT, MARGIN, BAR = 8.0, 19, 13, 18, 34
# Background, frame, text, and the terminal's colours by their number.
THEMES = {
    "light": ("#ffffff", "#d0d7de", "#24292f", {"31": "#cf222e", "32": "#1a7f37", "33": "#9a6700", "36": "#0969da"}),
    "dark": ("#0d1117", "#30363d", "#e6edf3", {"31": "#ff7b72", "32": "#3fb950", "33": "#d29922", "36": "#79c0ff"}),
}
_CODE = re.compile(r"\x1b\[([0-9;]*)m")


def session() -> list[str]:
    """The lines of the picture, with the terminal's colour codes."""
    lines: list[str] = []
    os.environ.update(FORCE_COLOR="1", COLUMNS=str(COLUMNS))
    os.environ.pop("NO_COLOR", None)
    for command, count in SESSION:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            rekindle(shlex.split(command)[1:])
        said = out.getvalue().splitlines()
        lines += ["\x1b[1m$ " + command + "\x1b[0m", *said[:count], *(["…"] if len(said) > count else []), ""]
    return lines[:-1]


def draw(lines: list[str], theme: str) -> str:
    """An SVG as a browser and a code host show it: text that can be selected, no script, no font to fetch."""
    background, frame, text, colours = THEMES[theme]
    rows = [row for line in lines for row in _wrapped(line)]
    width, height = int(COLUMNS * WIDTH + 2 * MARGIN), BAR + len(rows) * HEIGHT + MARGIN
    dots = "".join(f'<circle cx="{MARGIN + 4 + 18 * n}" cy="17" r="5" fill="{frame}"/>' for n in range(3))
    body = "".join(
        f'<text x="{MARGIN}" y="{BAR + number * HEIGHT + FONT}">{"".join(_spans(row, colours))}</text>\n'
        for number, row in enumerate(rows)
    )
    words = escape("What two commands of Rekindle print: " + "; ".join(command for command, _ in SESSION), quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{words}" '
        f'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="{FONT}" fill="{text}" '
        f'xml:space="preserve">\n<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" '
        f'fill="{background}" stroke="{frame}"/>\n{dots}\n{body}</svg>\n'
    )


def _wrapped(line: str) -> Iterator[str]:
    """A line that is too long for the window goes on in the next one, as terminals do it."""
    row, used, style = "", 0, ""
    for piece in re.findall(r"\x1b\[[0-9;]*m|.", line):
        if piece.startswith("\x1b"):
            style = piece
        elif used == COLUMNS:
            yield row + "\x1b[0m"
            row, used = style, 0
        used += not piece.startswith("\x1b")
        row += piece
    yield row


def _spans(row: str, colours: dict[str, str]) -> Iterator[str]:
    """Each stretch of one style where it stands, so that a wider font cannot push the others."""
    column, style = 0, ""
    for number, piece in enumerate(_CODE.split(row)):
        if number % 2:
            style = "" if piece in ("", "0") else piece
        elif piece:
            colour = "".join(f' fill="{colours[code]}"' for code in style.split(";") if code in colours)
            bold = ' font-weight="600"' if "1" in style.split(";") else ""
            shown = piece.strip()
            start = column + len(piece) - len(piece.lstrip())
            place = f' x="{MARGIN + start * WIDTH:g}" textLength="{len(shown) * WIDTH:g}"'
            if shown:
                yield f"<tspan{place}{colour}{bold}>{escape(shown, quote=False)}</tspan>"
            column += len(piece)


def main() -> None:
    lines = session()
    PICTURES.mkdir(exist_ok=True)
    for theme in THEMES:
        place = PICTURES / f"session-{theme}.svg"
        drawn = draw(lines, theme)
        if "--check" in sys.argv[1:]:
            if not place.exists() or place.read_text(encoding="utf-8") != drawn:
                raise SystemExit(f"{place.name} is not what the commands say today: run tools/make_picture.py")
        else:
            place.write_text(drawn, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
