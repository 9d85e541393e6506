"""Every command the README shows exists, and what can be tried without a card says what is shown under it."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.cli.main import VERBS, verb_parser

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the README's lines for sh")
ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def typed() -> list[tuple[str, list[str]]]:
    """Each command of the README with the lines shown under it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:].removeprefix("./"), []))
            elif found:
                found[-1][1].append(line)
    return [one for one in found if one[0].startswith("rekindle ")]


def test_every_command_of_the_readme_is_one() -> None:
    assert len(typed()) >= 4
    for command, _ in typed():
        _, verb, *words = shlex.split(command, comments=True)
        assert verb in VERBS, command
        verb_parser(verb, importlib.import_module(f"rekindle.cli.{verb}")).parse_args(words)


def test_what_can_be_tried_without_a_card_says_what_the_readme_shows(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT / "src")}
    tried = [one for one in typed() if " plan " in f" {one[0]} " and "--gpu" in one[0]]
    assert tried
    for command, lines in tried:
        words = shlex.split(command, comments=True)[1:]
        done = subprocess.run(
            [sys.executable, "-m", "rekindle", *words], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0 and done.stderr == "", done.stderr
        shown = [line for line in lines if line.strip() and line.strip() != "…"]
        said = done.stdout.splitlines()
        assert shown[:1] == said[:1], command
    # Planning leaves nothing behind in a home but what was asked for.
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert all("cache" in name or "facts" in name for name in left), left


def test_the_picture_shows_what_the_commands_say_today(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT / "src")}
    argv = [sys.executable, str(ROOT / "tools" / "make_picture.py"), "--check"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(f"docs/pictures/session-{theme}.svg" in README for theme in ("light", "dark"))
