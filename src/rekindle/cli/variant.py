"""What installers that choose wheels by GPU should believe about this machine."""

import argparse

from rekindle.cli.verb import Answer, Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("env",), help="env: print the override variables")
    parser.add_argument("--gpu", metavar="NAME", help="let this card decide (default: the oldest one here)")
    parser.add_argument("--machine", metavar="FILE", help="a machine.json instead of this machine")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    machine = api.find_machine(args.machine)[0] if args.machine else None
    answer = api.variant_environment(machine, gpu=args.gpu)
    return Answer(answer, good=answer.variables)
