"""A line as it is typed, with something else in the place of what its verb calls."""

from __future__ import annotations

import argparse
import importlib
import shlex
from typing import Any

from rekindle.cli.main import verb_parser
from rekindle.cli.verb import Answer, Session


class Called:
    """Stands in the place of a function of the api: keeps what it is called with and gives the answer."""

    def __init__(self, real: Any, answer: object) -> None:
        self.__code__ = real.__code__
        self.answer = answer
        self.words: tuple[Any, ...] = ()
        self.named: dict[str, Any] = {}

    def __call__(self, *words: Any, **named: Any) -> object:
        self.words, self.named = words, {name: value for name, value in named.items() if name != "progress"}
        return self.answer


def session(**settings: Any) -> Session:
    """A session of somebody who typed nothing but ``settings``."""
    usual = {"json": False, "quiet": False, "verbose": 0, "color": "auto"}
    return Session(argparse.Namespace(**usual | settings))


def run(line: str, **settings: Any) -> Answer:
    verb, *words = shlex.split(line)
    module = importlib.import_module(f"rekindle.cli.{verb}")
    args = verb_parser(verb, module).parse_args(words)
    vars(args).update({"quiet": True} | settings)
    answer: Answer = module.run(Session(args))
    return answer
