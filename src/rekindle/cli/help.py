import argparse
import importlib

from rekindle.cli.verb import Answer, Session
from rekindle.errors import BadInput


def run(session: Session) -> Answer:
    """What a verb does, with all its options: the same as 'rekindle VERB --help'."""
    from rekindle.cli.main import VERBS, build_parser, unknown_verb, verb_parser
    from rekindle.model.words import Text

    if not session.args.words:
        return Answer(Text(text=build_parser().format_help()))
    verb, *rest = session.args.words
    if verb not in VERBS:
        raise unknown_verb(verb)
    parser = verb_parser(verb, importlib.import_module(f"rekindle.cli.{verb}"))
    for word in rest:
        steps = next((entry.choices for entry in parser._actions if isinstance(entry, argparse._SubParsersAction)), {})
        if word not in steps:
            remedy = f"its steps are {', '.join(steps)}" if steps else "it has no steps"
            raise BadInput(f"'{parser.prog}' has no step {word!r}", remedy=remedy)
        parser = steps[word]
    return Answer(Text(text=parser.format_help()))
