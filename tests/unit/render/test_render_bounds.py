"""Where views stop: how many are shown, from which size on a number is told, what is drawn over on a terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest

from rekindle.model.build import ForeignPlan
from rekindle.model.machine import Compiler, Examination, Os, Python, Toolkit
from rekindle.model.matrix import MatrixCost, MatrixLock
from rekindle.model.plan import Reason
from rekindle.model.progress import BuildView
from rekindle.model.wheelhouse import Found
from rekindle.render import progress
from rekindle.render.build import render_foreign, size
from rekindle.render.machine import _glance_rows, _join_few
from rekindle.render.matrix import render_lock
from rekindle.render.progress import LineProgress
from rekindle.render.screen import Screen, wants_color
from rekindle.render.wheelhouse import render_found


def shown(view: Any, document: Any, **how: Any) -> str:
    out = io.StringIO()
    view(document, Screen(out, color="never", width=120, **how))
    return out.getvalue()


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1024**2 - 1024, "1023 KiB"),
        (1024**2, "1 MiB"),
        (1024**3, "1.0 GiB"),
        (1.5 * 1024**4, "1536.0 GiB"),
    ],
)
def test_sizes_as_compilers_count_them(count: float, text: str) -> None:
    assert size(count) == text


def test_what_a_strangers_plan_would_do_is_listed_by_kind() -> None:
    text = shown(render_foreign, ForeignPlan(title="torch", runs=("one", "two"), sets=("A=1",)))
    lines = [line.split() for line in text.splitlines()]
    assert ["runs", "one"] in lines and ["two"] in lines and ["sets", "A=1"] in lines
    assert "fetches" not in text and "signed" not in text


@pytest.mark.parametrize(("count", "line"), [(1, "1"), (4, "1, 2, 3, 4"), (5, "1, 2, 3, 4 and 1 more")])
def test_a_few_are_named_and_the_rest_is_counted(count: int, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.render.machine._SHOWN_VERSIONS", 4)
    assert _join_few(str(number + 1) for number in range(count)) == line
    assert _join_few(["3.11", "3.11"]) == "3.11", "each once"


def test_a_glance_has_a_row_only_for_what_is_there() -> None:
    bare = dict(_glance_rows(Examination(os=Os(system="linux"))))
    assert bare["pythons"] == "none found" and not {"toolkits", "compilers", "torch"} & set(bare)
    full = Examination(
        os=Os(system="linux"),
        toolkits=(Toolkit(kind="cuda", version="12.4", path="/c"), Toolkit(kind="cudnn", version=None, path="/d")),
        compilers=(Compiler(kind="gcc", version="12.2.0"),),
        pythons=(Python(version="3.11.2", path="/p"),),
    )
    rows = dict(_glance_rows(full))
    assert (rows["toolkits"], rows["compilers"], rows["pythons"]) == ("cuda 12.4, cudnn ?", "gcc 12.2.0", "3.11.2")


@pytest.mark.parametrize(("gib", "text"), [(0.9, "less than 1 GiB"), (1.0, "1 GiB"), (1.9, "2 GiB")])
def test_the_disk_of_a_matrix_is_told_from_one_gib_on(gib: float, text: str) -> None:
    cost = MatrixCost(trees=0, serial_hours=0.0, cold_hours=0.0, disk_gib=gib)
    lock = MatrixLock(rekindle="1", table="m.toml", root="/r", table_sha256="0", cells=(), cost=cost)
    said = shown(render_lock, lock)
    assert f"disk                   {text}\n" in said and said.startswith("✗ 0 cells planned") and "Next" not in said


@pytest.mark.parametrize(("count", "lines"), [(50, 50), (51, 50)])
def test_of_many_that_do_not_run_fifty_are_told(count: int, lines: int) -> None:
    refused = tuple(Reason(code="x", text=f"wheel {number}") for number in range(count))
    text = shown(render_found, Found(root="/r", looked_at=count, wanted={"gpu": "K80"}, refused=refused))
    assert sum("wheel " in line for line in text.splitlines()) == lines


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "10")
    for name in ("LIVE_EVERY_SECONDS", "PANEL_EVERY_SECONDS"):
        monkeypatch.setattr(progress, name, -1.0)
    return Terminal()


def test_a_step_is_drawn_over_the_last_one_and_fits_its_line(terminal: Terminal) -> None:
    line = LineProgress(terminal, color="never")
    line.step(1, 2, "x" * 40)
    assert terminal.getvalue() == "\r" + ("   50 %  " + "x" * 40)[:19] + "\x1b[K\x1b[J"
    line.close()
    assert terminal.getvalue().endswith("\x1b[J\r\x1b[J")


def test_a_panel_of_one_line_is_cleared_where_it_stands(terminal: Terminal) -> None:
    line = LineProgress(terminal, color="never")
    line.panel(BuildView(done=1, total=2))
    drawn = terminal.getvalue()
    line.close()
    assert terminal.getvalue()[len(drawn) :] == "\r\x1b[J"


@pytest.mark.parametrize(
    ("choice", "env", "person", "wants"),
    [
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
        ("auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"TERM": "xterm"}, True, True),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {"TERM": "xterm"}, False, False),
    ],
)
def test_who_decides_about_colour(
    choice: str, env: dict[str, str], person: bool, wants: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert wants_color(Terminal() if person else io.StringIO(), choice) is wants
