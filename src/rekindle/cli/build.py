import sys

from rekindle import api
from rekindle.cli.plan import read_settings
from rekindle.cli.verb import Answer, Session, after_a_yes


def run(session: Session) -> Answer:
    """A plan and a tree into a wheel, without running out of memory."""
    from rekindle.model.build import BuildFailure
    from rekindle.model.build_options import BuildOptions

    args = session.args
    options = session.options(BuildOptions, settings=read_settings(args.settings))
    if args.dry_run:
        return Answer(api.build_script(options))
    outcome = after_a_yes(
        session,
        "This plan was not made here. Build it?",
        lambda trust: api.build(options, trust=trust or args.trust, progress=session.progress),
    )
    if sys.stderr.isatty() and not session.quiet:
        # Hours have passed: call whoever waits.
        sys.stderr.write("\a")
    if isinstance(outcome, BuildFailure):
        if args.bug_report:
            api.save_bug_report(outcome, args.bug_report)
        return Answer(outcome, good=False)
    if args.sign:
        outcome = api.sign_results(outcome, args.sign)
    return Answer(outcome)
