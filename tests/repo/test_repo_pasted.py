"""Commands of ours that messages name are commands: the verb is one, and so is each option written after it."""

from __future__ import annotations

import argparse
import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rekindle.cli.main import VERBS, verb_parser

SOURCE = Path(__file__).resolve().parents[2] / "src" / "rekindle"
# A command in a message ends where its quotes, its line or the sentence's bracket ends.
COMMAND = re.compile(r"\brekindle ([a-z][a-z-]*)((?: (?!rekindle\b)[^'`\n;()→]*)?)")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Each text of a module with its line; what is filled in stands as X."""
    tree = ast.parse(path.read_text("utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values]
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


@cache
def options_of(verb: str) -> frozenset[str]:
    """All that the verb takes, its steps' own included."""
    found: set[str] = set()
    waiting: list[argparse.ArgumentParser] = [verb_parser(verb, importlib.import_module(f"rekindle.cli.{verb}"))]
    while waiting:
        for action in waiting.pop()._actions:
            found.update(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
    return frozenset(found)


def wrong_commands(text: str) -> list[str]:
    wrong = []
    for match in COMMAND.finditer(text):
        verb, rest = match[1], match[2].partition(" -- ")[0]
        options = re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest.partition(", ")[0])
        if verb not in VERBS:
            wrong += [match[0]] if options else []
        else:
            wrong += [f"{verb} {option}" for option in options if option not in options_of(verb)]
    return wrong


def test_every_command_in_a_message_exists() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{line}": wrong
        for path in sorted(SOURCE.rglob("*.py"))
        if "spark/tree" not in path.as_posix()
        for line, text in texts(path)
        if (wrong := wrong_commands(text))
    }
    assert not found


def test_the_reader_notices_what_does_not_exist() -> None:
    assert wrong_commands("'rekindle plan --nosuch'") == ["plan --nosuch"]
    assert wrong_commands("rekindle nosuch --gpu X") == ["rekindle nosuch --gpu X"]
    assert not wrong_commands("rekindle index build --root X")
