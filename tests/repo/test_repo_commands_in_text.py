"""Every command of ours that a message, a remedy, a fix or a guide names is one: its verb and its options exist."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rekindle.cli.main import VERBS, verb_parser

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "rekindle"
# A command ends with its sentence, its quotation or the next clause.
COMMAND = re.compile(r"(?<![\w/.@:-])rekindle ([a-z]+)((?: (?:--?[a-z][a-z-]*|[^\s'`\",;:()→]+))*)")
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]+")


def texts() -> Iterator[tuple[Path, str]]:
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield file, node.value
            elif isinstance(node, ast.JoinedStr):
                yield file, "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    for file in [*SOURCE.rglob("*.toml"), *SOURCE.rglob("examples/*.txt")]:
        text = file.read_text(encoding="utf-8")
        for value in strings(tomllib.loads(text)) if file.suffix == ".toml" else text.splitlines():
            yield file, value
    for file in (*ROOT.glob("docs/*.md"), *ROOT.glob("docs/guides/*.md"), ROOT / "README.md"):
        for line in file.read_text(encoding="utf-8").splitlines():
            yield file, line


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


def options_of(parser: Any) -> set[str]:
    found: set[str] = set()
    for action in parser._actions:
        found |= set(action.option_strings)
        if isinstance(action.choices, dict):
            for inner in action.choices.values():
                found |= options_of(inner)
    return found


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    return {verb: options_of(verb_parser(verb, importlib.import_module(f"rekindle.cli.{verb}"))) for verb in VERBS}


def test_every_command_that_is_named_exists(known: dict[str, set[str]]) -> None:
    wrong, seen = [], 0
    for file, text in texts():
        for match in COMMAND.finditer(text):
            verb, rest = match[1], match[2].split(" -- ")[0]
            if not re.search(r"(^|\s)--?[a-z]", rest):
                continue  # "rekindle does it" is a sentence
            seen += 1
            missing = [option for option in OPTION.findall(rest) if verb in known and option not in known[verb]]
            if verb not in known or missing:
                wrong.append(f"{file.relative_to(ROOT)}: rekindle {verb}{rest[:80]}")
    assert seen > 100
    assert not wrong, "\n".join(wrong)
