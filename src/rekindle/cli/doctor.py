from rekindle import api
from rekindle.cli.verb import Answer, Session, place_for


def run(session: Session) -> Answer:
    """What this machine is, what is missing, and what fixes it."""
    args = session.args
    save = place_for(args.save, "machine.json") if args.save else None
    workspace = str(args.workspace) if args.workspace else None
    examination = session.call(api.doctor, save=save, workspace=workspace)
    for what, place in (("the machine", save), ("a capture of this machine", args.capture)):
        if place is not None:
            session.progress.note(f"wrote {what} to {place}")
    ready = examination.ready.build if args.purpose == "build" else examination.ready.use
    if session.json or args.details or session.verbosity:
        return Answer(examination, good=ready)
    from rekindle.render.machine import show_glance

    plan = None if args.plan else api.plan(examination.machine)
    return Answer(examination, good=ready, view=lambda document, screen: show_glance(document, plan, screen))
