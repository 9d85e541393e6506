"""A line as it is typed, with something else in the place of what its verb calls."""

from __future__ import annotations

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


def run(line: str, session: Session | None = None) -> Answer:
    verb, *words = shlex.split(line)
    module = importlib.import_module(f"rekindle.cli.{verb}")
    answer: Answer = module.run(verb_parser(verb, module).parse_args(words), session or Session(quiet=True))
    return answer
