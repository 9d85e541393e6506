"""One build on many machines: a scheduler here, workers wherever there is a Linux machine, ended together.

The farm is sccache's own (sccache-dist): C, C++ and CUDA files are preprocessed here, compiled on whichever worker has
a free slot, and come back as the same bytes; what no worker takes is compiled here. 'up' starts the scheduler and
prints one line for each worker; that line holds a token, so give it to that machine alone. Then build with --farm.
"""

import argparse
import sys

from rekindle.cli.verb import Answer, Session, add_common, add_repeatable, path
from rekindle.errors import NeedsInvitation

STEPS = {
    "up": "write the configuration, start the scheduler, print the line for each worker",
    "join": "make this machine a worker (reads the line), or another one: --ssh, --slurm",
    "status": "machines, slots, load, what each compiled, what failed and why",
    "down": "end what was started from this folder, and nothing else",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True)
    for name, summary in STEPS.items():
        sub = steps.add_parser(name, help=summary, description=summary)
        add_common(sub, inner=True)
        own = "the farm's folder (default: REKINDLE_FARM, or 'farm' in your configuration folder)"
        sub.add_argument("--farm", type=path, metavar="FOLDER", help=own)
        if name in ("up", "join"):
            sub.add_argument("--dry-run", action="store_true", help="only check and say; nothing is written or started")
            room = "toolchains and compilations of a worker go there: a local disk"
            sub.add_argument("--scratch", type=path, metavar="DIR", help=room)
        if name == "up":
            _add_up(sub)
        elif name == "join":
            _add_join(sub)
        elif name == "down":
            sub.add_argument(
                "--forget", action="store_true", help="also remove the farm's files: its tokens end with them"
            )


def _add_up(sub: argparse.ArgumentParser) -> None:
    where = "this machine's address that the others reach (default: 127.0.0.1; port 10600)"
    sub.add_argument("--listen", metavar="ADDRESS[:PORT]", help=where)
    add_repeatable(sub, "--invite", "ADDRESS[:PORT]", "print the line for the worker at this address; repeatable")
    sub.add_argument("--client", action="store_true", help="print a line for a machine that builds with the farm")
    sub.add_argument("--worker", action="store_true", help="start a worker on this machine, too")
    shared = "a cache that all builders share: dir:PATH, redis://HOST or s3://BUCKET/PREFIX"
    sub.add_argument("--cache", metavar="PLACE", help=shared)
    sub.add_argument("--url", metavar="URL", help="how the others reach the scheduler, where HTTPS stands before it")
    safe = "strangers cannot read the network between the machines"
    sub.add_argument("--private-network", action="store_true", help=safe)


def _add_join(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--address", metavar="ADDRESS[:PORT]", help="where this worker answers (default: as invited; port 10501)"
    )
    sub.add_argument("--wait", action="store_true", help="stay until the worker ends; Ctrl-C or TERM ends it")
    sub.add_argument("--ssh", metavar="HOST", help="start the worker on HOST, from where the scheduler is")
    there = "with --ssh: how Rekindle is called on HOST, e.g. 'sudo -n /opt/rekindle/bin/rekindle'"
    sub.add_argument("--remote", metavar="COMMAND", default="rekindle", help=there)
    sub.add_argument("--slurm", action="store_true", help="print a Slurm script that starts workers")
    sub.add_argument("--nodes", type=int, default=4, metavar="N", help="with --slurm: how many workers (default: 4)")
    sub.add_argument("--cores", type=int, default=8, metavar="N", help="with --slurm: cores of each (default: 8)")
    memory = "with --slurm: GiB of each (default: 16)"
    sub.add_argument("--memory-gib", type=int, default=16, metavar="N", help=memory)
    sub.add_argument("--hours", type=int, default=4, metavar="N", help="with --slurm: how long (default: 4)")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    if args.step == "up":
        raised = session.call(api.farm_up, args)
        return Answer(raised, good=raised.worker is None or raised.worker.state != "refused")
    if args.step == "status":
        report = session.call(api.farm_status, args)
        return Answer(report, good=report.works)
    if args.step == "down":
        ended = session.call(api.farm_down, args)
        return Answer(ended, good=not ended.left)
    if args.slurm:
        return Answer(session.call(api.farm_slurm, args))
    given = None if args.ssh or sys.stdin is None or sys.stdin.isatty() else sys.stdin.readline().strip()
    try:
        joined = session.call(api.farm_join, args, given or None)
    except NeedsInvitation:
        if not session.can_ask():
            raise
        import getpass

        # Not in the command line, where other users of the machine could read it.
        joined = session.call(api.farm_join, args, getpass.getpass("Paste the line for this machine (not shown): "))
    return Answer(joined, good=joined.state != "refused")
