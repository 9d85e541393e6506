"""A script that completes verbs, options and their values in bash, zsh, fish or PowerShell."""

from __future__ import annotations

import argparse
import importlib

from rekindle.cli.verb import Answer, Session
from rekindle.render.completion import Command, Option

EXAMPLES = """examples:
  source <(rekindle completion bash)             in ~/.bashrc
  rekindle completion zsh > ~/.zfunc/_rekindle   a folder of your fpath
  rekindle completion fish > ~/.config/fish/completions/rekindle.fish
  rekindle completion powershell | Out-String | Invoke-Expression      in $PROFILE
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "powershell"), help="the shell you type in")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle.model.words import Text
    from rekindle.render.completion import completion_script
    from rekindle.render.words import show_text

    return Answer(document=Text(text=completion_script(args.shell, read_grammar())), view=show_text)


def read_grammar() -> dict[str, Command]:
    """Every verb with its options and its own sub-verbs."""
    from rekindle.cli.main import VERBS, verb_parser

    found = {}
    for verb, summary in VERBS.items():
        parser = verb_parser(verb, importlib.import_module(f"rekindle.cli.{verb}"))
        found[verb] = _command(parser, summary)
    return found


def _command(parser: argparse.ArgumentParser, summary: str) -> Command:
    options: list[Option] = []
    words: tuple[str, ...] = ()
    inner: dict[str, Command] = {}
    for action in parser._actions:  # argparse offers no public way to its own grammar
        if isinstance(action, argparse._SubParsersAction):
            about = {each.dest: each.help or "" for each in action._choices_actions}
            inner = {name: _command(sub, about.get(name, "")) for name, sub in action.choices.items()}
        elif action.option_strings:
            options.append(
                Option(
                    names=tuple(action.option_strings),
                    takes_value=action.nargs != 0,
                    values=tuple(str(one) for one in action.choices or ()),
                    about=_one_line(action.help),
                )
            )
        elif action.choices:
            words += tuple(str(one) for one in action.choices)
    return Command(about=_one_line(summary), options=tuple(options), words=words, inner=inner)


def _one_line(text: str | None) -> str:
    return " ".join((text or "").replace("%(default)s", "").split()) if text != argparse.SUPPRESS else ""
