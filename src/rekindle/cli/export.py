import sys
from pathlib import Path

from rekindle import api
from rekindle.cli.plan import machine_and_wish
from rekindle.cli.verb import Answer, Session, path

# What the format says about the system where nothing else does.
_WINDOWS = ("bat", "ps1")
_LINUX = ("sh", "slurm", "dockerfile", "devcontainer")


def run(session: Session) -> Answer:
    """The plan as a script, a Dockerfile, a workflow or an environment, for people who do not run rekindle there."""
    from rekindle.model.document import MAX_DOCUMENT_BYTES, decode, load
    from rekindle.model.plan import Plan

    args = session.args
    if args.format == "table":
        return Answer(api.export_table(_place(args.out), progress=session.progress))
    if args.plan is None:
        if args.os is None and not args.machine and (args.gpu or args.cpu):
            args.os = "windows" if args.format in _WINDOWS else "linux" if args.format in _LINUX else None
        machine, wish = machine_and_wish(session)
        plan = api.plan(machine, wish, wheelhouses=args.wheelhouse or None, app=args.app)
    elif args.plan == "-":
        plan = decode(sys.stdin.buffer.read(MAX_DOCUMENT_BYTES), Plan, origin="stdin")
    else:
        plan = load(Path(args.plan), Plan)
    given = {"system": args.os, "arch": args.arch} if args.plan else {}
    return Answer(api.export(plan, args.format, out=_place(args.out), image=args.image, distro=args.distro, **given))


def _place(given: str | None) -> Path | None:
    """Where it goes; a name that ends like a folder's is made one."""
    if given and given.endswith(("/", "\\")):
        Path(given).mkdir(parents=True, exist_ok=True)
    return path(given)
