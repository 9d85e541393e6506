"""The front door: verbs, exit codes, one-line errors."""

from __future__ import annotations

import contextlib
import importlib
import json
import subprocess
import sys
import types

import pytest

from rekindle.cli import main as front
from rekindle.cli.verb import Answer
from rekindle.errors import Exit


@pytest.mark.parametrize("verb", sorted(front.VERBS))
def test_every_verb_has_help_with_the_common_options(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        front.main([verb, "--help"])
    assert end.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        front.main(["--help"])
    out = capsys.readouterr().out
    assert all(verb in out for verb in front.VERBS)


def test_a_misspelt_verb_is_one_line_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main(["pln"]) == Exit.USAGE
    assert "rekindle plan" in capsys.readouterr().err


def test_a_verb_behind_its_own_options_is_known_as_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main(["--level=full", "verify"]) == Exit.USAGE
    said = capsys.readouterr().err
    assert "options of 'verify' stand after it" in said and "no verb" not in said


@pytest.mark.parametrize("ahead", [["-q"], ["--json"], ["-qv"], ["--color", "never"], ["--color=never", "--json"]])
def test_common_options_are_taken_before_the_verb_too(ahead: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main([*ahead, "plan", "--gpu", "RTX 3060", "--os", "linux"]) == Exit.YES
    assert capsys.readouterr().out.startswith("{") == ("--json" in ahead)


@pytest.mark.parametrize("words", [["-q"], ["-q", "pln"], ["--color"], ["-x", "plan"]])
def test_options_ahead_of_no_verb_are_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        assert front.main(words) == Exit.USAGE
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["index", "add", "--root", "R", "a.whl", "b.whl"],
        ["index", "--root", "R", "add", "a.whl", "b.whl"],
        ["index", "add", "a.whl", "b.whl", "--root", "R"],
        ["index", "add", "a.whl", "--root", "R", "b.whl"],
    ],
)
def test_options_may_stand_between_words(words: list[str]) -> None:
    args = front.verb_parser("index", importlib.import_module("rekindle.cli.index")).parse_args(words[1:])
    assert (args.action, args.what, args.root) == ("add", ["a.whl", "b.whl"], "R")


def test_options_may_stand_between_the_words_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main(["facts", "show", "cuda", "--json", "12.8"]) == 0
    assert list(json.loads(capsys.readouterr().out)["rows"]) == ["12.8"]


def test_only_words_that_must_be_there_are_missed(capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main(["index"]) == 2
    assert "required: ACTION\n" in capsys.readouterr().err


def test_a_wrong_option_is_usage_not_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main(["plan", "--no-such-option"]) == Exit.USAGE
    err = capsys.readouterr().err
    assert "--no-such-option" in err and "Traceback" not in err


def _with_verb(monkeypatch: pytest.MonkeyPatch, run: object) -> None:
    module = types.ModuleType("rekindle.cli.fake")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setattr(front, "add_arguments", lambda parser, verb, **steps: None)
    monkeypatch.setitem(sys.modules, "rekindle.cli.fake", module)
    monkeypatch.setitem(front.VERBS, "fake", "a fake")


def test_a_bug_is_exit_4_with_a_report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def explode(session: object) -> Answer:
        raise ZeroDivisionError("boom")

    _with_verb(monkeypatch, explode)
    assert front.main(["fake"]) == Exit.BUG
    assert "rekindle-crash-" in capsys.readouterr().err


def test_ctrl_c_is_exit_3(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(session: object) -> Answer:
        raise KeyboardInterrupt

    _with_verb(monkeypatch, interrupt)
    assert front.main(["fake"]) == Exit.INTERRUPTED


@pytest.mark.parametrize("verb", [[], ["plan"], ["up"], ["doctor"]])
def test_help_imports_nothing_heavy(verb: list[str]) -> None:
    """Start-up is held by what is imported, not by a clock."""
    script = (
        f"import sys; sys.argv = ['rekindle', *{verb!r}, '--help']\n"
        "from rekindle.cli.main import entry\n"
        "try: entry()\n"
        "except SystemExit: pass\n"
        "heavy = {'msgspec', 'numpy', 'rich', 'jinja2', 'psutil', 'archspec', 'packaging', 'tomllib', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
