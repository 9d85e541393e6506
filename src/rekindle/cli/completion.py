import argparse

from rekindle.cli.verb import Answer, Session, add_arguments, add_common

# shtab's zsh script can be evaluated, ours also be sourced; Windows finds the command under two names.
_WIDER = {
    "$zsh_eval_context[-1] == eval": "$zsh_eval_context[-1] == (eval|file)",
    "-CommandName rekindle ": "-CommandName @('rekindle', 'rekindle.cmd') ",
}


def run(session: Session) -> Answer:
    """A script that completes verbs, options and their values in bash, zsh, fish or PowerShell."""
    from rekindle.model.words import Text

    return Answer(Text(text=completion_script(session.args.shell)))


def completion_script(shell: str) -> str:
    """Plain text to source; it starts nothing of ours while one types."""
    import shtab

    from rekindle.cli.main import VERBS

    parser = argparse.ArgumentParser(prog="rekindle")
    parser.add_argument("--version", action="version", help="which Rekindle this is")
    verbs = parser.add_subparsers()
    for verb, summary in VERBS.items():
        added = verbs.add_parser(verb, help=summary)
        add_arguments(added, verb)
        add_common(added)
        _offer_files(added, shtab.FILE)
    script: str = shtab.complete(parser, shell)
    for its_own, ours in _WIDER.items():
        script = script.replace(its_own, ours)
    return f"{script}\n"


def _offer_files(parser: argparse.ArgumentParser, files: object) -> None:
    """Files are offered wherever a word is free."""
    for action in parser._actions:  # argparse offers no public way to its own grammar
        if isinstance(action, argparse._SubParsersAction):
            for step in action.choices.values():
                _offer_files(step, files)
        elif action.nargs != 0 and not action.choices:
            action.complete = files  # type: ignore[attr-defined]
