"""No option is dropped on its way: each is a keyword of what its verb calls, a field of its options, or is read."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from collections.abc import Iterator

import pytest

from rekindle import api
from rekindle.cli.main import VERBS
from rekindle.cli.verb import add_arguments
from rekindle.model.adopt import AdoptOptions
from rekindle.model.build_options import BuildOptions
from rekindle.model.graft import GraftOptions
from rekindle.model.journey import UpOptions
from rekindle.model.matrix import RunOptions
from rekindle.model.pack import PackOptions
from rekindle.model.plan import Wish
from rekindle.model.source import FetchOptions, PatchOptions
from rekindle.model.verify import VerifyOptions
from rekindle.model.wheel import InspectOptions
from rekindle.model.wheelhouse import SearchOptions

# Read for every verb, by the front door and by the help.
EVERYWHERE = {"help", "json", "color", "quiet", "verbose", "yes"}
# Planning never asks an index, so there is nothing to switch off; scripts may say it all the same.
WITHOUT_EFFECT = {"plan": {"offline"}, "export": {"offline"}}
OPTIONS = (
    AdoptOptions,
    BuildOptions,
    FetchOptions,
    GraftOptions,
    InspectOptions,
    PackOptions,
    PatchOptions,
    RunOptions,
    SearchOptions,
    UpOptions,
    VerifyOptions,
    Wish,
)
FIELDS = {kind.__name__: set(kind.__struct_fields__) for kind in OPTIONS}


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The names of a parser's arguments, with those of its sub-verbs."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from options(inner)
        if action.dest != argparse.SUPPRESS:
            yield action.dest


def keywords(source: str) -> set[str]:
    """What the verb's calls of the api take by name."""
    found: set[str] = set()
    for name in re.findall(r"session\.call\((?:api\.)?(\w+)", source):
        found |= set(inspect.signature(getattr(api, name)).parameters)
    for kind, fields in FIELDS.items():
        found |= fields if kind in source else set()
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_is_used(verb: str) -> None:
    module = importlib.import_module(f"rekindle.cli.{verb}")
    parser = argparse.ArgumentParser()
    add_arguments(parser, verb)
    source = inspect.getsource(module)
    # A verb that takes options of another reads them by that one's functions.
    for name in re.findall(r"from rekindle\.cli\.(\w+) import", source):
        source += inspect.getsource(importlib.import_module(f"rekindle.cli.{name}"))
    known = keywords(source) | set(re.findall(r"\bargs\.(\w+)", source)) | EVERYWHERE
    known |= WITHOUT_EFFECT.get(verb, set())
    dropped = sorted(name for name in set(options(parser)) - known if f'"{name}"' not in source)
    assert dropped == []
