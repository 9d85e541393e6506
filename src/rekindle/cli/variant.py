"""What installers that choose wheels by GPU should believe about this machine."""

import argparse

from rekindle.cli.verb import Answer, Session, options_of

add_arguments = options_of("variant")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    machine = api.find_machine(args.machine)[0] if args.machine else None
    answer = api.variant_environment(machine, gpu=args.gpu)
    return Answer(answer, good=answer.variables)
