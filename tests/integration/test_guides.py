"""Every command in the guides: run where it can run here, read by its own parser where it cannot; outputs are real."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest

from rekindle.cli.main import VERBS, main, verb_parser

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))
WANTED = {"app", "kepler", "rtx50", "left-out", "old-cpu", "amd", "arc", "pascal-volta", "jetson", "no-card", "offline"}


def commands(path: Path) -> list[str]:
    return re.findall(r"^\$ (rekindle .*)$", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_there_is_one_for_each_person() -> None:
    assert {path.stem for path in GUIDES} == WANTED


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_what_a_page_shows_is_what_the_command_says(path: Path) -> None:
    from make_guides import refreshed

    text = path.read_text(encoding="utf-8")
    assert refreshed(text) == text, "stale: run python tools/make_guides.py"


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_every_command_is_one(path: Path) -> None:
    found = commands(path)
    assert len(found) >= 3 and any(command.startswith(("rekindle up", "rekindle adopt")) for command in found)
    for command in found:
        _, verb, *words = shlex.split(command.split(" > ")[0], comments=True)  # what a shell takes itself
        assert verb in VERBS, command
        verb_parser(verb, importlib.import_module(f"rekindle.cli.{verb}")).parse_args(words)


def test_a_stale_page_would_be_noticed() -> None:
    from make_guides import refreshed

    page = '```console 1\n$ rekindle plan --gpu "GTX 1080" --os linux --python 3.12\n✓ Install torch 0.0.1\n…\n```'
    assert "0.0.1" not in refreshed(page) and "✓ Install torch" in refreshed(page)


@pytest.mark.parametrize("name", ["k80", "GTX 1080", "v100", "no-card", None])
def test_the_terminal_shows_them(name: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guide", *([name] if name else [])]) == 0
    said = capsys.readouterr().out
    assert ("rekindle up" in said or name is None) and "```" not in said and "##" not in said
    assert main(["guide", "kepplr"]) == 2 and "rekindle guide kepler" in capsys.readouterr().err


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    docs = ROOT / "docs"
    link = re.compile(r"\]\(([^)#]+\.md)(?:#[^)]*)?\)")
    linked = {name for page in ("index.md", "diagnoses.md") for name in link.findall((docs / page).read_text("utf-8"))}
    there = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    pages = {name for name in there if name != "index.md" and not name.startswith("evidence/")}
    assert pages <= linked <= there
