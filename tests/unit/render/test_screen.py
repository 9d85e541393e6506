"""The screen: no colour in pipes, no control characters from strangers."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rekindle.model.diagnosis import Match
from rekindle.model.words import Text
from rekindle.render import screen as screens
from rekindle.render.screen import Screen, printable, screen_text
from rekindle.render.words import show_guide


def test_no_colour_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    out = io.StringIO()
    Screen(out).verdict("ok", "fine")
    assert "\x1b" not in out.getvalue()


def test_escape_sequences_from_strangers_are_harmless() -> None:
    assert "\x1b" not in printable("evil\x1b[2J")


def test_rows_align_and_long_lines_wrap() -> None:
    out = io.StringIO()
    screen = Screen(out, width=40)
    screen.rows([("a", "one"), ("long", "two")])
    screen.paragraph("word " * 30)
    lines = out.getvalue().splitlines()
    assert lines[0].index("one") == lines[1].index("two")
    assert max(map(len, lines)) <= 40


def test_rows_are_marked_in_colour_and_their_texts_hang_behind_the_mark() -> None:
    out = io.StringIO()
    Screen(out, color="always").rows([("a", "one"), ("long", "two")], statuses=("ok", "fail"))
    assert out.getvalue() == "  \x1b[32m✓\x1b[0m a     one\n  \x1b[31m✗\x1b[0m long  two\n"


def test_an_old_code_page_gets_plain_marks() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="cp1252")
    Screen(out).verdict("fail", "no → sorry")
    out.flush()
    assert raw.getvalue().startswith(b"x no -> sorry")


@pytest.mark.parametrize(
    ("called", "text", "shown"),
    [
        ("./rekindle", "rekindle up --yes", "./rekindle up --yes"),
        ("", "rekindle up", "rekindle up"),
        ("./rekindle", "python -m rekindle up", "python -m rekindle up"),
        ("./rekindle", "rekindled up", "rekindled up"),
    ],
)
def test_commands_are_named_as_the_reader_called_them(
    called: str, text: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REKINDLE_CALLED_AS", called)
    out = io.StringIO()
    Screen(out).command(text)
    assert out.getvalue() == f"  {shown}\n"


def test_a_section_stands_only_above_what_it_holds() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.bullets([], title="Nothing")
    screen.commands("Nothing", [])
    assert out.getvalue() == ""
    screen.bullets(["a", "b"], title="Notes", status="warn")
    screen.commands("Next", ["rekindle up"])
    screen.labels([("a", "x"), ("long", "y")])
    assert out.getvalue() == "\nNotes\n  ! a\n  ! b\n\nNext\n  rekindle up\n  a     x\n  long  y\n"


def test_a_cause_is_told_with_its_confidence_and_its_fix() -> None:
    out = io.StringIO()
    Screen(out).causes([Match(id="x", confidence="low", cause="Because.", fix=("do this",))], "Why")
    assert out.getvalue() == "\nWhy (low confidence)\n  Because.\n  - do this\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1 wheels of 1 projects", "1 wheel of 1 project"),
        ("11 wheels, 0 keys", "11 wheels, 0 keys"),
        ("reading 1 native files", "reading 1 native file"),
        ("torch 2.1 wheels", "torch 2.1 wheels"),
        ("plan: 1 combinations", "plan: 1 combination"),
    ],
)
def test_one_is_no_plural(text: str, shown: str) -> None:
    assert screen_text(text) == shown


def test_a_table_of_a_guide_stands_in_columns() -> None:
    out = io.StringIO()
    show_guide(
        Text(text="# A\n\n| where | what |\n|---|:--|\n| here | `all` |\n| elsewhere | [none](x.md) |\n"), Screen(out)
    )
    assert out.getvalue().splitlines()[2:] == ["  where      what", "  here       all", "  elsewhere  none"]


def test_a_guide_is_read_without_its_marks() -> None:
    out = io.StringIO()
    text = "# A\none line\n\ntwo `lines`\nof [text](x.md)\n  set in\n```\n$ rekindle up\nits answer\n```\nlast"
    show_guide(Text(text=text), Screen(out, color="never"))
    assert out.getvalue() == "A\none line\n\ntwo lines of text\n  set in\n  rekindle up\n    its answer\nlast\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("variable", "links"), [("VTE_VERSION", True), ("REKINDLE_NO_SUCH", False)])
def test_paths_are_whole_and_links_where_the_terminal_shows_them(
    variable: str, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in screens._LINKING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "7600")
    out = Terminal()
    place = str(Path("/a place").absolute() / ("long" * 40) / "report.html")
    Screen(out, color="always", width=40).places([("report", place)])
    assert place in out.getvalue() and out.getvalue().count("\n") == 1
    assert (f"\x1b]8;;{Path(place).as_uri()}\x1b" in out.getvalue()) is links
    piped = io.StringIO()
    Screen(piped, color="always").places([("report", place)])
    assert "\x1b]8" not in piped.getvalue()
