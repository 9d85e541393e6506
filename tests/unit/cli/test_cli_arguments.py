"""The form in which the options of the verbs are written down: ``cli/options/*.txt``."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from rekindle.cli import verb as arguments
from rekindle.cli.main import VERBS

FOLDER = Path(arguments.__file__).with_name("options")
LINES = [
    "some path FILE > files  which ones",
    "many --gpu GPU          a card",
    "int --jobs, -j N = 3    so many,\n                        at most",
    "--level {smoke,full}",
    "off --no-deps > dependencies",
    "no --no-card > card",
    "the wish:",
    "optional --farm FOLDER",
    "two path --compare A B",
    "float --rate P = 0.5",
    "options:",
    "--dry-run",
    "--quiet  (hidden)",
]


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser:
    monkeypatch.setattr(arguments, "read_sections", lambda verb: {"": ("", LINES)})
    made = argparse.ArgumentParser()
    arguments.add_options(made, "x")
    return made


def test_the_words_before_a_name_say_how_its_value_is_read(parser: argparse.ArgumentParser) -> None:
    assert vars(parser.parse_args(["a"])) == {
        "files": [Path("a")],
        "gpu": [],
        "jobs": 3,
        "level": None,
        "dependencies": True,
        "card": None,
        "farm": None,
        "compare": None,
        "rate": 0.5,
        "dry_run": False,
        "quiet": False,
    }
    line = "a b --gpu x --gpu y -j 4 --level full --no-deps --farm --compare c d --rate 1 --dry-run"
    given = vars(parser.parse_args(line.split()))
    assert given["files"] == [Path("a"), Path("b")] and given["gpu"] == ["x", "y"] and given["jobs"] == 4
    assert given["farm"] == "" and given["compare"] == [Path("c"), Path("d")] and given["rate"] == 1.0
    assert (given["level"], given["dependencies"], given["dry_run"]) == ("full", False, True)
    assert parser.parse_args(["a", "--no-card"]).card is False


def test_the_help_says_what_stands_there(parser: argparse.ArgumentParser) -> None:
    text = parser.format_help()
    assert "so many, at most" in text and "\nthe wish:\n" in text and "--quiet" not in text


def test_every_file_belongs_to_a_verb_and_every_shared_piece_is_used() -> None:
    files = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.txt")}
    assert set(files) <= {*VERBS, "shared", "rekindle"}
    for name in arguments.read_sections("shared"):
        assert not name or any(f"<{name}>" in text for text in files.values()), name
    assert all(len(line) <= 120 for text in files.values() for line in text.splitlines())
