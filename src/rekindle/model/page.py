"""The face that all pages share: colours, components, and the frame of a page that stands alone. A page loads nothing
from elsewhere, and a report runs no script; all are readable on a phone, in the dark and on paper."""

import functools
import html
from pathlib import Path

_FOLDER = Path(__file__).with_name("pages")


@functools.cache
def report_style() -> str:
    """The palette, light and dark, and the components of the reports."""
    return "".join((_FOLDER / name).read_text(encoding="utf-8") for name in ("colours.css", "report.css"))


def page(
    title: str, body: str, *, more_style: str = "", stylesheet: str | None = None, script: str | None = None
) -> str:
    """One HTML document. ``body`` is markup that is already escaped; ``title`` is text. It stands alone, unless
    ``stylesheet`` says where :func:`report_style` lies for many pages at once."""
    style = f"<style>\n{report_style()}{more_style}</style>"
    if stylesheet is not None:
        style = f'<link rel="stylesheet" href="{html.escape(stylesheet)}">'
    if script is not None:
        style += f'\n<script src="{html.escape(script)}" defer></script>'
    head = (
        '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)} – Rekindle</title>\n{style}"
    )
    inside = f"<body>\n<main>\n{body}\n</main>\n</body>"
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n{inside}\n</html>\n'


def header(verdict: str, about: str = "", *, good: bool | None = None, brand: bool = True) -> str:
    """Brand, the verdict with its mark, and one soft line. Text, not markup."""
    mark = {True: "✓ ", False: "✗ ", None: ""}[good]
    kind = {True: ' class="good"', False: ' class="bad"', None: ""}[good]
    name = '<div class="brand">Rekindle</div>\n' if brand else ""
    soft = f'\n<div class="soft about">{html.escape(about)}</div>' if about else ""
    return f"<header>\n{name}<h1{kind}>{mark}{html.escape(verdict)}</h1>{soft}\n</header>"
