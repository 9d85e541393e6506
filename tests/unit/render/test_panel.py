"""The build on one screen: never wider or taller than the terminal, drawn over itself, plain lines in a pipe."""

from __future__ import annotations

import dataclasses
import io
import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from rekindle.model.progress import BuildView, JobView, Silent, show_build
from rekindle.render.progress import LineProgress, panel_lines
from views import expected_views

JOBS = tuple(
    JobView(
        name=f"RegisterAutogradDispatchKernel_{n}.cpp.o", seconds=90.0 - n, bytes=(n + 1) * 10**8, expected=95.0,
        paused=n == 3,
    )
    for n in range(12)
)  # fmt: skip
VIEW = BuildView(
    done=512, total=1215, per_minute=18.2, left=2400.0, used=5 << 30, free=9 << 30, running=6, allowed=8, paused=1,
    jobs=JOBS, hits=412, misses=100,
)  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_says_what_compiles_with_time_and_memory_giants_cache_and_time_left() -> None:
    lines = panel_lines(VIEW, columns=160, rows=40)
    assert "42 %" in lines[0] and "512/1215" in lines[0] and "about 40 minutes left" in lines[0]
    assert "cache 412 of 512" in lines[0] and "jobs 6/8 +1 paused" in lines[0]
    assert "1 min 30 s" in lines[1] and "100 MB" in lines[1] and "(a giant: about 1 min 35 s)" in lines[1]
    assert "paused: waits for memory" in lines[4] and lines[-1].strip() == "and 4 more"


@pytest.mark.parametrize(("columns", "rows"), [(60, 5), (60, 24), (100, 40), (200, 60), (20, 3)])
def test_it_fits_the_terminal(columns: int, rows: int) -> None:
    lines = panel_lines(VIEW, columns=columns, rows=rows)
    assert max(map(len, lines)) < columns and len(lines) <= max(1, rows - 1)


def test_without_unicode_the_bar_is_plain() -> None:
    assert panel_lines(VIEW, columns=100, rows=9, unicode=False)[0].isascii()


def test_it_is_drawn_over_itself_and_cleared_before_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.render.progress.PANEL_EVERY_SECONDS", -1.0)
    out = Terminal()
    progress = LineProgress(out)
    progress.panel(VIEW)
    height = out.getvalue().count("\n") + 1
    assert height > 2
    progress.panel(VIEW)
    assert f"\x1b[{height - 1}A" in out.getvalue()
    before = len(out.getvalue())
    progress.note("a word")
    after = out.getvalue()[before:]
    assert after.startswith(f"\r\x1b[{height - 1}A\x1b[J") and after.endswith("  a word\n")
    monkeypatch.setattr("rekindle.render.progress.LIVE_EVERY_SECONDS", -1.0)
    progress.step(1, 2, "x")
    progress.close()
    assert out.getvalue().endswith("\r   50 %  x\x1b[K\x1b[J\r\x1b[J")
    cleared = out.getvalue()
    progress.close()
    assert out.getvalue() == cleared, "what is cleared is not cleared again"


def test_a_pipe_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.render.progress.PLAIN_EVERY_SECONDS", -1.0)
    out = io.StringIO()
    LineProgress(out).panel(VIEW)
    said = out.getvalue()
    assert "\x1b" not in said and said.count("\n") == 1 and "slow: RegisterAutogradDispatchKernel_0.cpp.o 90 s" in said


def test_a_listener_without_a_panel_gets_steps() -> None:
    class Steps(Silent):
        said: tuple[float, float | None, str] = (0, None, "")

        def step(self, done: float, total: float | None, detail: str = "") -> None:
            self.said = (done, total, detail)

    listener = Steps()
    show_build(listener, VIEW)
    assert listener.said[:2] == (512, 1215) and "about 40 minutes left" in listener.said[2]


@pytest.mark.parametrize(("seconds", "expected", "giant"), [(19.9, 19.9, False), (20.0, None, True), (1.0, 20.0, True)])
def test_giants_begin_at_twenty_seconds(seconds: float, expected: float | None, giant: bool) -> None:
    assert JobView(name="x", seconds=seconds, expected=expected).is_giant is giant


def test_what_does_not_fit_beside_the_bar_stands_below_it() -> None:
    lines = panel_lines(VIEW, columns=80, rows=24)
    assert "about 40 minutes left" in lines[0] and "mem 5.0 GiB (9.0 free)  jobs 6/8 +1 paused" in lines[1]
    assert lines[1].startswith(" " * 10) and "RegisterAutograd" in lines[2]


@pytest.mark.parametrize(
    ("left", "seconds", "expected", "told"),
    [
        (9.9, 20.1, 13.0, "longer than expected"),
        (10.0, 20.1, 13.0, "about 10 s left"),
        (0.0, 20.0, 13.0, "almost done"),
        (0.0, 20.1, 13.4, "almost done"),
        (0.0, 20.1, None, "longer than expected"),
    ],
)
def test_almost_done_is_not_said_of_a_giant_that_is_overdue(
    left: float, seconds: float, expected: float | None, told: str
) -> None:
    """Seen on a real build: "almost done" stood there for 25 s while one file of unknown length compiled."""
    job = JobView(name="heavy.cpp.o", seconds=seconds, expected=expected)
    assert told in BuildView(done=24, total=28, left=left, jobs=(job,)).words


def test_a_long_note_breaks_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    out, pipe = Terminal(), io.StringIO()
    for stream in (out, pipe):
        progress = LineProgress(stream, color="always" if stream is out else "never")
        progress.note("no official wheel has code for it, so it is built")
        progress.stage("build", "C++ libraries, Python extension, wheel")
        progress.note(f"--no-such-option-at-all-here {'x' * 40}")
    assert out.getvalue().splitlines() == [
        "  no official wheel has code", "    for it, so it is built",
        "\x1b[1mbuild\x1b[0m: C++ libraries, Python", "  extension, wheel",
        "  --no-such-option-at-all-here", f"    {'x' * 40}",
    ]  # fmt: skip
    assert pipe.getvalue().splitlines() == [
        "  no official wheel has code for it, so it is built", "build: C++ libraries, Python extension, wheel",
        f"  --no-such-option-at-all-here {'x' * 40}",
    ]  # fmt: skip


def test_remarks_get_shorter_before_they_go() -> None:
    job = JobView(name="x" * 30, seconds=90.0, bytes=10**9, expected=95.0)
    full, about, giant = "  (a giant: about 1 min 35 s)", "  (about 1 min 35 s)", "  (a giant)"
    for columns, told in ((84, full), (83, about), (75, about), (74, giant), (66, giant), (65, "")):
        last = panel_lines(BuildView(done=1, total=2, jobs=(job,)), columns=columns, rows=9)[-1]
        assert last[54:] == told, columns


@pytest.mark.parametrize(
    ("live", "what", "every"),
    [(True, "step", 0.1), (True, "panel", 0.25), (False, "step", 15.0), (False, "panel", 15.0)],
)
def test_it_is_shown_at_once_and_then_not_too_often(
    live: bool, what: str, every: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((0.0, 0.9 * every, every, 1.9 * every, 2 * every))
    monkeypatch.setattr("rekindle.render.progress.time", SimpleNamespace(monotonic=lambda: next(clock)))
    out = Terminal() if live else io.StringIO()
    progress = LineProgress(out, color="never")
    shown = []
    for moment in (0.0, 0.9 * every, every, 1.9 * every, 2 * every):
        before = out.getvalue()
        progress.step(1, 2, "x") if what == "step" else progress.panel(VIEW)
        shown.append(out.getvalue() != before)
    assert shown == [True, False, True, False, True]


SIZES = ((200, 40), (81, 24), (66, 7), (62, 6), (58, 5), (60, 4), (60, 3), (24, 9))
LATE = (
    JobView(name="late.cpp.o", seconds=95.0, expected=95.0),
    JobView(name="unknown.cpp.o", seconds=90.0),
    JobView(name="small.cpp.o", seconds=2.0, expected=3.0),
)
PICTURES = {
    **{f"{columns} {rows}": (VIEW, columns, rows) for columns, rows in SIZES},
    "late": (BuildView(done=3, total=3, jobs=LATE), 80, 24),
    "begun": (BuildView(done=0, total=0), 80, 24),
}
PANELS = expected_views(Path(__file__).parent / "views" / "panels.txt")


@pytest.mark.parametrize("name", PICTURES)
def test_a_build_is_seen_as_it_was_drawn(name: str) -> None:
    view, columns, rows = PICTURES[name]
    lines = panel_lines(view, columns=columns, rows=rows)
    assert "".join(f"{line.rstrip()}\n" for line in lines) == PANELS[name], (
        "if the new one is better, write it into panels.txt"
    )


def test_no_word_of_the_head_is_cut_and_no_line_is_begun_too_early() -> None:
    for columns in range(65, 130):
        lines = panel_lines(dataclasses.replace(VIEW, jobs=()), columns=columns, rows=24)
        assert "  ".join(line.strip() for line in lines).endswith("  ".join(VIEW.words)), columns
        for line, below in itertools.pairwise(lines):
            assert 4 + len(line.strip()) + len(below.strip().split("  ")[0]) >= columns, columns
