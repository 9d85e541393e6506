"""Faults of the machine are told as such, with an exit code of their own; only ours are bugs."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import sys
import types

import pytest

from rekindle.cli import main as front
from rekindle.cli.verb import Answer, HelpText, laid_out, terminal_columns
from rekindle.errors import BadInput, CommandFailed, Declined, Exit
from rekindle.model.words import Text


def fail(monkeypatch: pytest.MonkeyPatch, error: BaseException | None, answer: Answer | None = None) -> None:
    """A verb ``fake`` that ends so."""

    def run(session: object) -> Answer:
        if error is not None:
            raise error
        assert answer is not None
        return answer

    module = types.ModuleType("rekindle.cli.fake")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setattr(front, "add_arguments", lambda parser, verb, **steps: None)
    monkeypatch.setitem(sys.modules, "rekindle.cli.fake", module)
    monkeypatch.setitem(front.VERBS, "fake", "a fake")
    monkeypatch.setattr(front, "_forget_output", lambda: None)


@pytest.mark.parametrize(
    ("number", "file", "code", "words"),
    [
        (errno.ENOSPC, None, Exit.NO, "the output cannot be written"),
        (errno.ENOSPC, "/x", Exit.NO, "the disk is full (/x)"),
        (errno.EDQUOT, "/x", Exit.NO, "the disk is full (/x)"),
        (errno.EFBIG, "/x", Exit.NO, "the disk is full (/x)"),
        (errno.EBADF, None, Exit.USAGE, "give the command an open standard output"),
        (errno.EIO, None, Exit.USAGE, "give the command an open standard output"),
        (errno.EIO, "/x", Exit.BUG, "a bug in rekindle"),
        (errno.ENOMEM, None, Exit.USAGE, "the system gave no more"),
        (errno.EMFILE, "/x", Exit.USAGE, "the system gave no more"),
        (errno.EACCES, "/x", Exit.USAGE, "cannot use /x"),
        (errno.EROFS, "/x", Exit.USAGE, "cannot use /x"),
        (errno.EACCES, None, Exit.BUG, "a bug in rekindle"),
        (errno.ENOTEMPTY, "/x", Exit.BUG, "a bug in rekindle"),
    ],
)
def test_each_fault_of_the_system_has_its_code(
    number: int,
    file: str | None,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fail(monkeypatch, OSError(number, os.strerror(number), file))
    assert front.main(["fake"]) == code
    said = capsys.readouterr().err
    assert words in said and os.strerror(number) in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OSError("No usable temporary directory found in []"), Exit.USAGE, "no place for temporary files"),
        (MemoryError(), Exit.USAGE, "not enough memory"),
        (BrokenPipeError(), Exit.YES, ""),
        (KeyboardInterrupt(), Exit.INTERRUPTED, "the same command continues"),
        (BadInput("no such thing", remedy="try another"), Exit.USAGE, "no such thing\n  → try another"),
        (ZeroDivisionError("boom"), Exit.BUG, "ZeroDivisionError: boom"),
    ],
)
def test_every_other_ending_has_its_code(
    error: BaseException,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fail(monkeypatch, error)
    assert front.main(["fake"]) == code
    assert words in capsys.readouterr().err


def test_a_bug_is_told_even_where_no_report_can_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*words: object) -> object:
        raise OSError(errno.ENOSPC, "No space left")

    fail(monkeypatch, ZeroDivisionError("boom"))
    monkeypatch.setattr("rekindle.cli.main.write_crash_report", full)
    assert front.main(["fake"]) == Exit.BUG
    assert "no crash report could be written (No space left)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("good", "exit_code", "code"),
    [(True, None, 0), (False, None, 1), ((), None, 1), (True, 7, 7), (False, 0, 0)],
)
def test_an_answer_ends_with_its_own_code(
    good: object, exit_code: int | None, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail(monkeypatch, None, Answer(Text(text="words\n"), good=good, exit_code=exit_code))
    assert front.main(["fake"]) == code and "words" in capsys.readouterr().out


def test_what_a_failed_command_said_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        importlib.import_module("rekindle.api.explain_log"), "remedy_for", lambda text: f"because of {text}"
    )
    fail(monkeypatch, CommandFailed(["tool"], 1, ["first", "last"]))
    assert front.main(["fake"]) == Exit.NO
    assert "tool ended with exit code 1: last\n  → because of first" in capsys.readouterr().err
    fail(monkeypatch, CommandFailed(["tool"], 1, ["last"], remedy="its own"))
    assert front.main(["fake"]) == Exit.NO and "→ its own" in capsys.readouterr().err


def test_a_no_that_nobody_was_asked_for_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail(monkeypatch, Declined("nothing was done: 3 GB would come", remedy="give --yes"))
    assert front.main(["fake"]) == Declined("x").exit_code
    assert "→ give --yes" in capsys.readouterr().err


@pytest.mark.parametrize("verb", sorted(front.VERBS))
def test_no_option_is_taken_by_its_first_letters(verb: str) -> None:
    parsers = [front.verb_parser(verb, importlib.import_module(f"rekindle.cli.{verb}"))]
    while parsers:
        parser = parsers.pop()
        with pytest.raises(BadInput, match=r"--jso|required|invalid choice"):
            parser.parse_args(["--jso"])
        assert not parser.allow_abbrev
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()


@pytest.mark.parametrize("line", ["source --json -q status", "matrix --json -q status", "farm --json -q status"])
def test_what_every_verb_takes_may_stand_before_a_step_too(line: str) -> None:
    verb, *words = line.split()
    args = front.verb_parser(verb, importlib.import_module(f"rekindle.cli.{verb}")).parse_args(words)
    assert args.json is True and args.quiet is True and (args.color, args.verbose) == ("auto", 0)


def test_the_console_script_ends_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["rekindle", "plan", "--json"])
    monkeypatch.setattr(front, "main", lambda argv: 7 if argv == ["plan", "--json"] else 0)
    with pytest.raises(SystemExit) as ended:
        front.entry()
    assert ended.value.code == 7


@pytest.mark.parametrize(
    "words", [["nothing"], ["nothing", "--help"], ["-q", "nothing"], ["--color", "never", "nothing"]]
)
def test_an_unknown_verb_is_told_even_where_help_is_asked_for(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert front.main(words) == Exit.USAGE and "there is no verb 'nothing'" in capsys.readouterr().err


def test_nothing_at_all_is_the_help_and_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main([]) == Exit.USAGE and capsys.readouterr().out.startswith("usage: rekindle VERB")
    assert front.main(["-q"]) == Exit.USAGE and "name a verb first" in capsys.readouterr().err


@pytest.mark.parametrize(("columns", "width"), [("60", 58), ("120", 118), ("300", 118)])
def test_help_is_as_wide_as_the_terminal_up_to_what_people_read(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert HelpText("rekindle")._width == width


def test_without_a_terminal_help_takes_a_hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda *words: (_ for _ in ()).throw(OSError("no terminal")))
    assert terminal_columns() == 100


def test_verbs_keep_some_room_on_the_narrowest_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(front, "VERBS", {"up": "a b " * 20, "doctor": "looks"})
    first, *more = (front.build_parser().description or "").splitlines()[3:-1]
    assert first.startswith("  up      a b") and all(line.startswith(" " * 10 + "a") for line in more)
    assert max(len(line.strip()) for line in more) == 23, "24 columns, and no word is cut"


def test_words_are_broken_neither_by_length_nor_at_hyphens() -> None:
    assert laid_out("a " + "x" * 30 + " --no-such-option", 12).splitlines() == ["a", "x" * 30, "--no-such-option"]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["plan"], 0),
        (["-q", "plan"], 1),
        (["-qvv", "--json", "plan"], 2),
        (["--color", "never", "-v", "plan"], 3),
        (["--color=never", "plan"], 1),
        (["--quiet", "--verbose", "plan"], 2),
        (["-x", "plan"], 0),
        (["-", "plan"], 0),
        (["--", "plan"], 0),
        (["--qv", "plan"], 0),
        (["-q", "-x", "plan"], 1),
    ],
)
def test_which_words_may_stand_before_the_verb(words: list[str], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(front, "_run_verb", lambda name, argv: ran.append((name, argv)))
    with contextlib.suppress(SystemExit):
        front.main(words)
    assert ran == ([("plan", words[:-1])] if count == len(words) - 1 else [])


@pytest.mark.parametrize(
    ("message", "near"),
    [
        ("unrecognized arguments: --jsn", "did you mean --json? 'rekindle list --help' lists all"),
        ("unrecognized arguments: --colr=x more", "did you mean --color? 'rekindle list --help' lists all"),
        ("unrecognized arguments: --nothing-like-it", "rekindle list --help"),
        ("unrecognized arguments: json", "rekindle list --help"),
        ("something else", "rekindle list --help"),
    ],
)
def test_a_misspelt_option_names_the_one_that_was_meant(message: str, near: str) -> None:
    parser = front.verb_parser("list", importlib.import_module("rekindle.cli.list"))
    with pytest.raises(BadInput) as refused:
        parser.error(message)
    assert refused.value.remedy == near
