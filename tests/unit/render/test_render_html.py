"""Documents in a notebook: every one that people are shown has its view, and nothing strangers wrote is markup."""

from __future__ import annotations

import ast
import html
import importlib
import re
from pathlib import Path

import pytest

import pages
from rekindle import api
from rekindle.model.diagnosis import Diagnosis, Match
from rekindle.model.document import Document, encode
from rekindle.model.machine import Machine, Os
from rekindle.render.pages import _spans, render_html, render_journey_html
from rekindle.render.screen import find_view

ROOM = Path(__file__).parents[3] / "src" / "rekindle" / "render"
MODEL = ROOM.with_name("model")


def views_in_the_room() -> dict[str, list[str]]:
    """Document class -> the functions of this room that could show it, in the order of their module."""
    found: dict[str, list[str]] = {}
    parts = re.findall(r"^class (\w+)\(Part\b", "\n".join(map(Path.read_text, MODEL.glob("*.py"))), re.M)
    for path in ROOM.glob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and len(node.args.args) == 2:
                first, second = (ast.unparse(arg.annotation or arg).split(".")[-1] for arg in node.args.args)
                if second == "Screen" and re.fullmatch(r"[A-Z]\w+", first) and first not in parts:
                    found.setdefault(first, []).append(f"{path.stem}.{node.name}")
    return found


def test_every_document_with_a_view_is_shown_by_it() -> None:
    """By the name of the module of model/ in which it lies, or by the table of those that stand elsewhere."""
    views = views_in_the_room()
    assert len(views) > 20
    modules = [importlib.import_module(f"rekindle.model.{path.stem}") for path in MODEL.glob("*.py")]
    for name, places in views.items():
        kinds = {vars(module)[name] for module in modules if name in vars(module)}
        shown = [view for kind in kinds if (view := find_view(kind)) is not None]
        names = [f"{view.__module__.rsplit('.', 1)[-1]}.{view.__name__}" for view in shown]
        assert len(names) == 1 and names == places[:1], f"{name}: a view stands before what helps it"


def test_the_text_is_what_the_terminal_shows() -> None:
    found = api.explain("nvcc fatal   : Unsupported gpu architecture 'compute_120'")
    page = found._repr_html_()
    assert page is not None and page.count("<span") == page.count("</span>") > 0
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    assert found.matches[0].cause.split(".")[0][:40] in " ".join(text.split()) and "\x1b" not in text


def test_colours_are_spans_that_end_where_the_colour_does() -> None:
    red, bold = "color:#c0392b", "font-weight:bold"
    text = "a\x1b[31mb\x1b[0mc\x1b[1;31md\x1b[32me\x1b[0m\x1b[0m<\x1b[1mf"
    assert _spans(text) == (
        f'a<span style="{red}">b</span>c<span style="{bold};{red}">d</span>'
        f'<span style="color:#1e8449">e</span>&lt;<span style="{bold}">f</span>'
    )


def test_what_strangers_wrote_stays_text() -> None:
    evil = "<script>alert(1)</script>\x1b[31m"
    match = Match(id="x", confidence="low", cause=evil, evidence=evil, title=evil, fix=(evil,))
    page = render_html(Diagnosis(matches=(match,)))
    assert "<script" not in page and "&lt;script&gt;" in page and "\x1b" not in page


def test_without_a_view_the_json_is_shown() -> None:
    machine = Machine(os=Os(system="linux", distro="<b>"))
    assert find_view(Machine) is None
    assert render_html(machine) == f'<pre style="line-height:1.4">{html.escape(encode(machine).decode())}</pre>'


def test_nobody_knows_how_without_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Document, "_repr_html_", None)
    assert Document()._repr_html_ is None


def test_the_page_of_a_walk_tells_what_becomes_of_companions() -> None:
    text = pages.journey().plan
    assert text is not None
    page = render_journey_html(pages.journey())
    for one in text.companions:
        assert f">{one.name}{' ' + one.version if one.version else ''}<" in page
        assert html.escape(one.why, quote=False).split("'")[0] in page
