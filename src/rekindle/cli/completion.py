"""A script that completes verbs, options and their values in bash, zsh, fish or PowerShell."""

from __future__ import annotations

import argparse

from rekindle.cli.verb import Answer, Session

EXAMPLES = """examples:
  source <(rekindle completion bash)             in ~/.bashrc
  rekindle completion zsh > ~/.zfunc/_rekindle   a folder of your fpath
  rekindle completion fish > ~/.config/fish/completions/rekindle.fish
  rekindle completion powershell | Out-String | Invoke-Expression      in $PROFILE
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "powershell"), help="the shell you type in")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle.cli.grammar import read_grammar
    from rekindle.model.words import Text
    from rekindle.render.completion import completion_script
    from rekindle.render.words import show_text

    return Answer(document=Text(text=completion_script(args.shell, read_grammar())), view=show_text)
