"""Single lines of views that depend on one fact: they are there where it is, and only there."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rekindle.model.graft import GraftReport
from rekindle.model.journey import Card, Journey, Leg
from rekindle.model.matrix import Attempt, Cell, CellRow, CellState, MatrixCost, MatrixLock, MatrixStatus, RefusedCell
from rekindle.model.pack import Pack, PackedFile
from rekindle.model.plan import Plan, Reason
from rekindle.model.progress import BuildView, JobView
from rekindle.model.source import AppliedPatch, SourceTree
from rekindle.model.verify import Missing, RecordReview, VerifyCheck, VerifyReport, WeighedRecord
from rekindle.model.wheel import IsaUse, Links, OperatorTrial, WheelCpu, WheelReport
from rekindle.render import progress
from rekindle.render.machine import private
from rekindle.render.matrix import watch
from rekindle.render.pages import _instruction_sets, render_matrix_html, verify_page
from rekindle.render.progress import LineProgress, panel_lines
from rekindle.render.screen import Screen
from rekindle.render.source import view_diff
from rekindle.render.summary import summarise
from views import shown


def row(name: str = "cell", **state: Any) -> CellRow:
    return CellRow(cell=name, name=name, state=CellState(id=name, **state), rebuild=False, because="x")


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({"stage": "running", "phase": "compile"}, "running · compile; rebuild"),
        ({"stage": "running"}, "running; rebuild"),
        ({"stage": "failed", "phase": "compile"}, "failed; rebuild"),
        ({"stage": "built", "seconds": 60.0, "peak_memory_bytes": 1 << 30}, "built · 1 min · 1.0 GiB; rebuild"),
        ({"stage": "built", "cache": {"hit rate": "9 %"}, "targets": ("a", "b")}, "built · cache 9 % · a b; rebuild"),
        ({"stage": "proven", "proof": "smoke"}, "proven · smoke; rebuild: no, because x"),
    ],
)
def test_what_is_known_of_a_cell(state: dict[str, Any], line: str) -> None:
    assert line in shown(MatrixStatus(root="/r", rows=(row(**state),), counts={state["stage"]: 1}), 0)


def test_names_of_cells_stand_in_one_column_up_to_a_width() -> None:
    lines = shown(MatrixStatus(root="/r", rows=(row("a"), row("long-name"))), 0).splitlines()[1:]
    assert lines[0].index("waiting") == lines[1].index("waiting")
    wide = shown(MatrixStatus(root="/r", rows=(row("a"), row("x" * 70))), 0)
    assert f"a{' ' * 60}waiting" in wide
    refused = RefusedCell(name="no", axes={}, because=(Reason(code="x", text="why not"),))
    assert "refused: no: why not" in shown(MatrixStatus(root="/r", rows=(), refused=(refused,)), 0)


@pytest.mark.parametrize("over", [0, 1])
def test_what_is_not_listed_is_counted(over: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.render.matrix.MAX_ROWS", 3)
    refused = tuple(RefusedCell(name=f"c{n}", axes={}, because=()) for n in range(3 + over))
    cost = MatrixCost(trees=0, serial_hours=0.0, cold_hours=0.0, disk_gib=1.0)
    same: dict[str, Any] = {
        "project": "torch",
        "tree": "t",
        "source": "git",
        "identity": "i",
        "system": "linux",
        "python": "3.12",
    }
    cells = tuple(
        Cell(id=f"id{n}", name=f"cell {n}", axes={}, plan=Plan(answer="build"), **same) for n in range(3 + over)
    )
    lock = MatrixLock(rekindle="1", table="t", table_sha256="0", root="/r", cells=cells, refused=refused, cost=cost)
    said = shown(lock, 0)
    assert said.count("no reason given") == said.count("  cell ") == 3 and said.count("1 more") == 2 * over


CARD = Card(what=("torch 2.6.0",), into="/e", python="3.12")
LEGS = (Leg(name="plan", status="done", seconds=1.0), Leg(name="install", status="kept", detail="torch"))


@pytest.mark.parametrize(
    ("fields", "promises", "places"),
    [
        ({"card": CARD}, True, False),
        ({"card": CARD, "report": "/r.html"}, False, True),
        ({"report": "/r.html"}, False, True),
        ({}, False, False),
    ],
)
def test_a_dry_run_says_what_a_yes_brings_and_a_walk_where_all_lies(
    fields: dict[str, Any], promises: bool, places: bool
) -> None:
    walk = Journey(goal="torch", arrived=True, verdict="done", workspace="/w", legs=LEGS, **fields)
    said = shown(walk, 0)
    assert ("What a yes brings" in said) is promises and ("Where everything lies" in said) is places
    lines = [line for line in said.splitlines() if "plan" in line or "install" in line]
    assert len(lines) >= 2 and "✓ plan   " in said and "✓ install" in said, "names stand in one column"
    assert "The way" in shown(Journey(goal="torch", arrived=False, verdict="no", workspace="/w"), 0)


@pytest.mark.parametrize(
    ("new", "python", "words"),
    [(True, "3.12", "a new environment, /e, Python 3.12 (with uv)"), (False, None, "/e (with uv)")],
)
def test_where_torch_goes(new: bool, python: str | None, words: str) -> None:
    card = Card(what=("torch",), into="/e", new=new, python=python, installer="uv")
    assert words in shown(Journey(goal="t", arrived=True, verdict="v", workspace="/w", card=card), 0)


@pytest.mark.parametrize(
    ("state", "verbosity", "told"),
    [("applied", 1, True), ("clean", 1, True), ("not-needed", 1, False), ("applied", 0, False)],
)
def test_what_a_patch_stands_for_is_a_detail_of_one_that_is_there(state: str, verbosity: int, told: bool) -> None:
    patches = (AppliedPatch(id="a", state=state, instead="a flag"), AppliedPatch(id="b", state=state))  # type: ignore[arg-type]
    said = shown(SourceTree(project="torch", version="2.6.0", root="/t", patches=patches), verbosity)
    assert said.count("instead: a flag") == int(told) and "instead: None" not in said


@pytest.mark.parametrize(("good", "mark"), [(True, "✓"), (False, "✗")])
def test_records_are_counted_by_what_they_are_worth(good: bool, mark: str) -> None:
    standings = ("counts", "hearsay", "hearsay", "doubtful", "unreadable")
    records = tuple(WeighedRecord(place=f"r{n}", standing=each, why="odd") for n, each in enumerate(standings))  # type: ignore[arg-type]
    said = shown(RecordReview(place="/r", good=good, records=records), 0)
    assert said.startswith(f"{mark} 5 records: 1 count, 2 are signed by nobody")
    assert " ".join(said.split()).count("r3: doubtful: odd") == 1 and "r4: unreadable: odd" in said and "r0" not in said


def test_the_size_of_a_grafted_wheel_is_told() -> None:
    report = GraftReport(
        wheel="w.whl",
        wheel_sha256="0",
        bytes_before=2_000_000,
        card="X",
        arch="sm_120",
        out="/o.whl",
        bytes_after=3_000_000,
    )
    assert "/o.whl (3.0 MB; the official one has 2.0 MB)" in " ".join(shown(report, 0).split())


@pytest.mark.parametrize(("verdict", "kind"), [("proven", "good"), ("failed", "bad"), ("not-proven", "")])
def test_a_page_of_a_proof_is_marked_by_its_verdict(verdict: str, kind: str) -> None:
    page = verify_page(VerifyReport(verdict=verdict, checks=(VerifyCheck(id="a", status="passed"),)))  # type: ignore[arg-type]
    assert (f'<h1 class="{kind}">' if kind else "<h1>") in page


def test_an_inspection_names_what_the_wheel_has() -> None:
    report = WheelReport(target="w", links=Links(glibc="2.28"))
    assert summarise(report) == "no GPU code; glibc 2.28"
    assert summarise(WheelReport(target="w")) == "no GPU code"


def test_only_operators_with_a_name_are_told_to_crash() -> None:
    trials = (OperatorTrial(operator="", outcome="crashes"), OperatorTrial(operator="add", outcome="runs"))
    assert "crash" not in summarise(VerifyReport(verdict="proven", operators=trials))


def test_a_panel_is_drawn_with_blocks_and_with_plain_signs_elsewhere() -> None:
    view = BuildView(done=1, total=2, jobs=tuple(JobView(name=f"j{n}", seconds=1.0, bytes=10**n) for n in range(12)))
    lines = panel_lines(view, columns=80, rows=30)
    assert lines[0].startswith("  " + "█" * 15 + "░" * 15 + "  50 %") and lines[-1] == "  and 4 more"
    assert panel_lines(view, columns=80, rows=30, unicode=False)[0].startswith("  " + "#" * 15 + "." * 15)
    assert "1.0 MB" in lines[7] and "MB" not in lines[6] and "kB" not in lines[6], "a little memory is not told"
    assert len(panel_lines(view, columns=80, rows=4)) <= 4


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("jobs", [0, 1, 3])
def test_the_next_panel_is_drawn_over_the_whole_last_one(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "30")
    for name in ("LIVE_EVERY_SECONDS", "PANEL_EVERY_SECONDS"):
        monkeypatch.setattr(progress, name, -1.0)
    out = Terminal()
    line = LineProgress(out, color="never")
    view = BuildView(done=1, total=2, jobs=tuple(JobView(name=f"j{n}", seconds=1.0) for n in range(jobs)))
    line.panel(view)
    first = out.getvalue()
    line.panel(view)
    second = out.getvalue()[len(first) :]
    up = f"\r\x1b[{jobs}A" if jobs else "\r"
    assert second.startswith(f"{up}  ")
    line.step(1, 2, "x")
    assert out.getvalue()[len(first) + len(second) :] == f"{up}   50 %  x\x1b[K\x1b[J"


@pytest.mark.parametrize(
    ("counts", "stages", "kind"),
    [
        ({"proven": 1}, ["proven"], "good"),
        ({"proven": 1, "failed": 1}, ["proven", "failed"], "bad"),
        ({"built": 1}, ["built"], ""),
        ({"proven": 1, "built": 1}, ["proven", "built"], ""),
        ({}, [], ""),
    ],
)
def test_a_page_of_a_matrix_is_good_where_every_cell_is_proven(
    counts: dict[str, int], stages: list[str], kind: str
) -> None:
    rows = tuple(row(f"c{n}-py3.11", stage=stage) for n, stage in enumerate(stages))
    page = render_matrix_html(MatrixStatus(root="/r", rows=rows, counts=counts))
    assert (f'<h1 class="{kind}">' if kind else "<h1>") in page


def test_functions_of_a_wheel_stand_under_their_instruction_set() -> None:
    cpu = WheelCpu(
        unconditional=(IsaUse(isa="avx", functions=3), IsaUse(isa="avx2", functions=1200)),
        dispatched=(IsaUse(isa="avx2", functions=7),),
    )
    found = _instruction_sets(WheelReport(target="w", cpu=cpu))
    assert found["sets"][1:] == [["avx", "3", "·", "·"], ["avx2", "1,200", "·", "7"]]
    assert found["set_marks"] == [["bad", "none", "none"], ["bad", "none", "plain"]]


@pytest.mark.parametrize(("count", "rest"), [(6, ""), (7, " and 1 more")])
def test_of_checks_that_never_ran_six_are_named(count: int, rest: str) -> None:
    missing = tuple(Missing(id=f"c{n}", why="did not run") for n in range(count))
    said = " ".join(shown(VerifyReport(missing=missing), 0).split())
    assert f"never ran: c0, c1, c2, c3, c4, c5{rest}" in said and ("more" in said) is bool(rest)


def test_words_on_a_screen_are_broken_neither_by_length_nor_at_hyphens() -> None:
    out = io.StringIO()
    Screen(out, color="never", width=20).paragraph("see " + "x" * 30 + " and --no-such-option-at-all")
    assert "x" * 30 in out.getvalue() and "--no-such-option-at-all" in out.getvalue()


@pytest.mark.parametrize(
    ("made", "card", "promised"), [(False, True, True), (True, True, False), (False, False, False)]
)
def test_a_pack_that_was_not_made_says_what_a_yes_brings(made: bool, card: bool, promised: bool) -> None:
    pack = Pack(
        title="torch 2.6.0",
        folder="/p",
        system="linux",
        arch="x86_64",
        python="3.12",
        files=(PackedFile(path="a.whl", sha256="0" * 64, bytes=1),) if made else (),
        card=CARD if card else None,
    )
    said = shown(pack, 0)
    assert ("What a yes brings" in said) is promised and ("On that machine" in said or "check /p" in said) is made


@pytest.mark.parametrize("lines", [6, 8, 30])
def test_a_watched_matrix_is_drawn_in_place_with_what_runs_first(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", str(lines))
    monkeypatch.setattr("rekindle.render.matrix.time", SimpleNamespace(time=lambda: 190.0))
    stages = ("proven", "waiting", "running", "cancelled", "failed", "built")
    tries = tuple(Attempt(number=n, started=n * 70.0) for n in (1, 2))
    rows = tuple(row(stage, stage=stage, phase="compile", attempts=tries) for stage in stages)
    out = Terminal()
    progress, status = LineProgress(out), MatrixStatus(root="/r", rows=rows, counts={"running": 1})
    assert watch([status], progress) is status
    drawn = [line.removesuffix("\x1b[J").removesuffix("\x1b[K").split() for line in out.getvalue()[1:].split("\n")]
    assert drawn[0] == ["1", "running"] and drawn[1] == ["running", "running", "compile", "50", "s"]
    assert (
        drawn[2:]
        == [[stage] * 2 for stage in ("failed", "waiting", "cancelled", "built", "proven")][: max(2, lines - 5)]
    )
    first = out.getvalue()
    watch([status], progress)
    assert out.getvalue()[len(first) :].startswith(f"\r\x1b[{len(drawn) - 1}A")


def test_elsewhere_a_watched_matrix_is_a_line_per_change() -> None:
    out = io.StringIO()
    stages = ("waiting", "waiting", "running")
    watch([MatrixStatus(root="/r", rows=(row("a", stage=stage),)) for stage in stages], LineProgress(out))
    assert out.getvalue() == "a: waiting\na: running\n"
    quiet = io.StringIO()
    watch([MatrixStatus(root="/r", rows=(row("a"),))], LineProgress(quiet, quiet=True))
    assert quiet.getvalue() == ""


@pytest.mark.parametrize(("columns", "width"), [("300", 120), ("120", 120), ("80", 80), ("20", 40)])
def test_a_screen_is_as_wide_as_people_read(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert Screen(Terminal(), color="never").width == width
    assert Screen(io.StringIO(), color="never").width == 100, "a pipe has no width of its own"


def test_a_change_is_shown_in_colours_and_what_git_is_there_is_used_to_fetch() -> None:
    tree = SourceTree(
        project="t", version="1", root="/t", diff="@@ -1 +1 @@\n-old\n+new\n same", missing_submodules=("a",)
    )
    out = io.StringIO()
    view_diff(tree, Screen(out, color="always"))
    lines = ["\x1b[36m@@ -1 +1 @@\x1b[0m", "\x1b[31m-old\x1b[0m", "\x1b[32m+new\x1b[0m", " same"]
    assert out.getvalue().splitlines()[-4:] == lines and "rekindle source fill /t" in out.getvalue()
    assert "git -C /t submodule update" in shown(msgspec.structs.replace(tree, commit="abc"), 0)


def test_only_checks_that_failed_are_named_after_their_count() -> None:
    checks = (VerifyCheck(id="good", status="passed"), VerifyCheck(id="bad", status="failed"))
    assert summarise(VerifyReport(verdict="failed", checks=checks, failed=1)).startswith(
        "failed: 0 passed, 1 failed (bad),"
    )


def test_short_homes_are_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for home, told in (("/rt", "/rt/x"), ("/usr", "~/x")):
        monkeypatch.setenv("USERPROFILE", home)
        assert private(f"{home}/x") == told
