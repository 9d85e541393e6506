import sys

from rekindle import api
from rekindle.cli.verb import Answer, Session
from rekindle.errors import NeedsInvitation


def run(session: Session) -> Answer:
    """One build on many machines: a scheduler here, workers wherever there is a Linux machine, ended together.

    The farm is sccache's own (sccache-dist): C, C++ and CUDA files are preprocessed here, compiled on whichever worker
    has a free slot, and come back as the same bytes; what no worker takes is compiled here. 'up' starts the scheduler
    and prints one line for each worker; that line holds a token, so give it to that machine alone. Then build with
    --farm.
    """
    args = session.args
    if args.step == "up":
        raised = session.call(api.farm_up)
        return Answer(raised, good=raised.worker is None or raised.worker.state != "refused")
    if args.step == "status":
        report = session.call(api.farm_status)
        return Answer(report, good=report.works)
    if args.step == "down":
        ended = session.call(api.farm_down)
        return Answer(ended, good=not ended.left)
    if args.slurm:
        return Answer(session.call(api.farm_slurm))
    given = None if args.ssh or sys.stdin is None or sys.stdin.isatty() else sys.stdin.readline().strip()
    try:
        joined = session.call(api.farm_join, given or None)
    except NeedsInvitation:
        if not session.can_ask():
            raise
        import getpass

        # Not in the command line, where other users of the machine could read it.
        joined = session.call(api.farm_join, getpass.getpass("Paste the line for this machine (not shown): "))
    return Answer(joined, good=joined.state != "refused")
