"""A page for every wheel, a list and a grid for every project: static files that can be posted as links.

Each wheel's page is written from its row alone and is written again only when the row changes. Names come from
strangers: the templates escape everything, and links are quoted.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from markupsafe import Markup
from packaging.version import InvalidVersion, Version

from rekindle.compat.sass import ptx_runs, sass_runs
from rekindle.facts import load_facts
from rekindle.index.rows import Piece
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.wheelhouse import Row, RowProof

if TYPE_CHECKING:
    from jinja2 import Environment

# Stands where the wheelhouse's address goes; readable where no script runs.
BASE = "https://WHEELHOUSE/"
WORDS = {"h": "proven", "s": "read, untried", "j": "compiles PTX, untried", "u": "not known", "n": "no code"}
# A grid of thousands of lines helps nobody; every wheel is in the list below it.
MOST_VERSIONS = 60
SIGNS = {"h": "✓", "s": "●", "j": "◐", "u": "?", "n": ""}


class Line(msgspec.Struct):
    """Of a row what its project's page shows; the rest is skipped while reading."""

    file: str
    version: str
    bytes: int
    pythons: tuple[str, ...] = ()
    yanked: str | None = None
    inspected: bool = False
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    cuda: str | None = None
    proofs: tuple[RowProof, ...] = ()


def wheel_page(row: Row) -> bytes:
    code = [*row.sass, *(f"PTX {name}" for name in row.ptx), *row.gfx]
    link = f"{BASE}{quote(row.url)}#sha256={row.sha256}"
    return _render("wheel.html", row=row, code=code, link=link, base=BASE)


def project_page(project: str, pieces: Iterable[Piece]) -> bytes:
    """Thousands of wheels change with each that is added, so their lines are joined, not rendered one by one."""
    rows = msgspec.json.decode(b"[" + b",".join(piece.row for piece in pieces if piece.row) + b"]", type=list[Line])
    rows.sort(key=lambda row: (_version(row.version), row.file), reverse=True)
    newest = list(dict.fromkeys(row.version for row in rows))
    shown = [row for row in rows if row.version in set(newest[:MOST_VERSIONS])]
    columns = sorted({name for row in shown for name in (*row.sass, *row.gfx)}, key=_order)
    return _render(
        "project.html",
        project=project,
        count=len(rows),
        left=max(0, len(newest) - MOST_VERSIONS),
        columns=columns,
        grid=grid(shown, columns),
        words=WORDS,
        lines=Markup("\n".join(map(_line, rows))),  # noqa: S704 (each part of a line is escaped)
    )


def _line(row: Line) -> str:
    gone = ' <span class="pill none">withdrawn</span>' if row.yanked is not None else ""
    link = f'<a class="mono" href="{escape(quote(row.file))}.html">{escape(row.file)}</a>'
    return f"<tr><td>{link}{gone}</td><td>{_size(row.bytes)}</td><td>{_proof(row)}</td></tr>"


def projects_page(counts: Mapping[str, int]) -> bytes:
    return _render("projects.html", projects=list(counts.items()))


def style() -> bytes:
    return (_file("page.css") + _file("wheel.css")).encode()


def grid(rows: Iterable[Row | Line], columns: Sequence[str]) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Versions down, architectures across: (kind, sign, Pythons) of the best wheel of that version."""
    found: dict[str, dict[str, dict[str, set[str]]]] = {}
    for row in rows:
        if row.yanked is None:
            cells = found.setdefault(row.version, {})
            for name in columns:
                kind = standing(row, name)
                cells.setdefault(name, {}).setdefault(kind, set()).update(row.pythons)
    out = []
    for version, cells in found.items():
        line = []
        for name in columns:
            kind = next(kind for kind in "hsjun" if kind in cells[name])
            pythons = sorted(cells[name][kind], key=_version) if kind != "n" else []
            line.append((kind, SIGNS[kind], ", ".join(pythons)))
        out.append((version, line))
    return out


def standing(row: Row | Line, arch: str) -> str:
    """h: a proof on such a card; s: code that it runs was read in the file; j: PTX only; u: not known; n: no code."""
    if any(proof.passed and not proof.failed and arch in _seen(proof.environment) for proof in row.proofs):
        return "h"
    return _read(row.sass, row.ptx, row.gfx, row.cuda, arch)


@functools.lru_cache(maxsize=4096)
def _read(sass: tuple[str, ...], ptx: tuple[str, ...], gfx: tuple[str, ...], cuda: str | None, arch: str) -> str:
    """Wheels of a house have few different contents, so this is asked seldom."""
    if arch in sass or arch in gfx:
        return "s"
    if not arch.startswith("sm_"):
        return "n"
    card, facts = parse_sm(arch), load_facts()
    runs = {sass_runs(code, card, cuda, facts) for code in _codes(sass)}
    if True in runs:
        return "s"
    if any(ptx_runs(code, card) for code in _codes(ptx)):
        return "j"
    return "u" if None in runs else "n"


def _codes(names: Iterable[str]) -> Iterator[Sm]:
    for name in names:
        with contextlib.suppress(ValueError):
            yield parse_sm(name.replace("compute_", "sm_"))


def _seen(environment: Mapping[str, str]) -> set[str]:
    """The architectures of the cards a proof saw: ``gpu0 = "NVIDIA H200, sm_90, 139.8 GiB"``."""
    cards = (value for name, value in environment.items() if name.startswith("gpu"))
    return {word.strip() for card in cards for word in card.split(",")}


def rows_of(pieces: Iterable[Piece]) -> list[Row]:
    return msgspec.json.decode(b"[" + b",".join(piece.row for piece in pieces if piece.row) + b"]", type=list[Row])


def _order(name: str) -> tuple[str, int, str]:
    """sm_61 before sm_120, gfx906 before gfx1030."""
    letters = name.rstrip("0123456789abcdef")
    digits = "".join(char for char in name[len(letters) :] if char.isdigit())
    return letters, int(digits or 0), name


def _proof(row: Line) -> str:
    if not row.proofs:
        return "untried" if row.inspected else "not read"
    good = sum(1 for proof in row.proofs if proof.passed and not proof.failed)
    return f"proven {good}×" if good else "failed"


def _size(count: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"


@functools.lru_cache(maxsize=65536)
def _version(text: str) -> tuple[bool, Any]:
    try:
        return True, Version(text)
    except InvalidVersion:
        return False, text


def _render(name: str, **values: Any) -> bytes:
    return _environment().get_template(name).render(**values).encode()


def _file(name: str) -> str:
    from importlib import resources

    return resources.files("rekindle.index").joinpath("templates", name).read_text(encoding="utf-8")


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(_file), trim_blocks=True)
    made.filters |= {"path": quote, "size": _size}
    return made
