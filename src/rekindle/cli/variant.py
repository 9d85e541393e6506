from rekindle import api
from rekindle.cli.verb import Answer, Session


def run(session: Session) -> Answer:
    """What installers that choose wheels by GPU should believe about this machine."""
    machine = api.find_machine(session.args.machine)[0] if session.args.machine else None
    answer = api.variant_environment(machine, gpu=session.args.gpu)
    return Answer(answer, good=answer.variables)
