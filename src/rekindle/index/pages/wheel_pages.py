"""A page for every wheel, a list and a grid for every project: static files that can be posted as links.

Each wheel's page is written from its row alone and is written again only when the row changes. Names come from
strangers: the templates escape everything, and links are quoted. Frame, style and components are those of the reports.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from rekindle import __version__
from rekindle.index.pages import fields
from rekindle.index.wheelhouse.rows import Piece, rows_of
from rekindle.model.graft import GraftRow
from rekindle.model.page import header, page, report_style
from rekindle.model.wheelhouse import WheelRow

if TYPE_CHECKING:
    from jinja2 import Environment

# Stands where the wheelhouse's address goes; readable where no script runs.
BASE = "https://WHEELHOUSE/"
# A grid of thousands of lines helps nobody; every wheel is in the list below it.
MOST_VERSIONS = 60
MOST_LIBRARIES = 6


def wheel_page(row: WheelRow) -> bytes:
    verdict, good = _verdict(row)
    title = f"{row.project} {row.version}"
    values: dict[str, Any] = {
        "row": row,
        "code": [*row.sass, *(f"PTX {name}" for name in row.ptx), *row.gfx],
        "link": f"{BASE}{quote(row.url)}#sha256={row.sha256}",
        "base": BASE,
        "pythons": [fields.spoken_python(name) for name in row.pythons],
        "systems": [fields.SYSTEMS.get(name, name) for name in row.systems],
        "most": MOST_LIBRARIES,
    }
    top = header(f"{title}: {verdict}", row.file, good=good, brand=False)
    return _framed(title, "wheel.html", {"../": "all wheels", "./": row.project}, top, **values)


def _verdict(row: WheelRow) -> tuple[str, bool | None]:
    """The short answer to "can I trust it?"."""
    if row.yanked is not None:
        return f"withdrawn{', ' + row.yanked if row.yanked else ''}", False
    good = [proof for proof in row.proofs if proof.good]
    if good:
        seen = ([value for name, value in proof.environment.items() if name.startswith("gpu")] for proof in good)
        cards = ([value.split(",")[0].strip() for value in values] for values in seen)
        places = (" and ".join(dict.fromkeys(filter(None, names))) or "a CPU" for names in cards)
        return f"proven on {', '.join(dict.fromkeys(places))}", True
    if row.proofs:
        return "failed where it was tried", False
    return ("read, not tried yet" if row.inspected else "neither read nor tried"), None


def project_page(project: str, pieces: Iterable[Piece]) -> bytes:
    """Thousands of lines change with each wheel that is added, so they are joined, and few rows are read again."""
    all_pieces = sorted(pieces, key=lambda piece: (fields.version_key(piece.version), piece.file), reverse=True)
    newest = list(dict.fromkeys(piece.version for piece in all_pieces))
    some = set(newest[:MOST_VERSIONS])
    shown = rows_of(piece for piece in all_pieces if piece.version in some)
    columns = fields.columns_of(shown)
    values: dict[str, Any] = {
        "left": max(0, len(newest) - MOST_VERSIONS),
        "columns": columns,
        "grid": fields.field_rows(shown, columns),
        "products": fields.products_of(columns),
        "lines": Markup("\n".join(piece.line for piece in all_pieces)),  # noqa: S704 (each line is escaped)
    }
    about = f"{_count(len(all_pieces), 'wheel')}, {sum(piece.proven for piece in all_pieces)} of them proven"
    top = header(project, about, brand=False)
    return _framed(project, "project.html", {"../": "all wheels"}, top, **values)


def projects_page(counts: Mapping[str, int], grafts: Sequence[GraftRow] = ()) -> bytes:
    """All projects, and the graft files: code for a card that an official wheel lacks."""
    about = f"{_count(sum(counts.values()), 'wheel')} of {_count(len(counts), 'project')}"
    top, values = header("Wheels in this wheelhouse", about, brand=False), {"projects": list(counts.items())}
    return _framed("Wheels", "projects.html", {}, top, up="", grafts=grafts, **values)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def assets() -> dict[str, bytes]:
    """The one stylesheet and the one script of all these pages, by their files' names."""
    return {"style.css": report_style().encode(), "house.js": template_text("house.js").encode()}


def edition() -> str:
    """Changes when any page would look different for the same wheel."""
    parts = [*assets().values(), *(template_text(f"{name}.html").encode() for name in ("wheel", "project", "projects"))]
    return hashlib.sha256(b"\0".join(parts)).hexdigest() + __version__


def _framed(title: str, template: str, way: Mapping[str, str], top: str, *, up: str = "../", **values: Any) -> bytes:
    """A whole page: ``way`` are the links to what it lies in, ``up`` is where style and script lie."""
    links = " / ".join(f'<a href="{escape(href)}">{escape(text)}</a>' for href, text in way.items())
    crumbs = f'<nav class="crumbs" aria-label="Where this is"><span class="brand">Rekindle</span> {links}</nav>'
    body = environment().get_template(template).render(**values)
    return page(title, f"{crumbs}\n{top}\n{body}", stylesheet=f"{up}style.css", script=f"{up}house.js").encode()


def template_text(name: str) -> str:
    """A template, style or script of ours."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


@functools.cache
def environment() -> Environment:
    """Everything is escaped but our own files, which the templates mark ``|safe``."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    loader = FunctionLoader(template_text)
    made = Environment(autoescape=True, undefined=StrictUndefined, loader=loader, trim_blocks=True)
    # A narrow column may break a version before its local part, and nowhere else.
    made.filters |= {
        "path": quote,
        "size": fields.spoken_size,
        "breaks": lambda version: Markup("<wbr>+").join(version.split("+")),
    }
    return made
