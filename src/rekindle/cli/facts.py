from rekindle import api
from rekindle.cli.verb import Answer, Session

STEPS = "show|sources|check|format"


def run(session: Session) -> Answer:
    """The tables behind every answer, with their sources; measured again on request."""
    args = session.args
    if args.step == "show":
        return Answer(api.facts_show(args.table, args.row))
    if args.step == "sources":
        return Answer(api.facts_sources())
    if args.step == "format":
        done = api.facts_format(args.files, write=not args.check)
        return Answer(done, good=not (args.check and done.changed))
    checked = session.call(api.facts_check)
    # Nothing measured is no yes.
    return Answer(checked, good=checked.agrees and not (checked.drift or checked.new))
