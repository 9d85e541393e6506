from rekindle.cli.verb import Answer, Session


def run(session: Session) -> Answer:
    """What installers that choose wheels by GPU should believe about this machine."""
    from rekindle import api

    args = session.args
    machine = api.find_machine(args.machine)[0] if args.machine else None
    answer = api.variant_environment(machine, gpu=args.gpu)
    return Answer(answer, good=answer.variables)
