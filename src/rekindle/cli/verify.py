"""Prove that a torch works, also on an emulated older CPU.

Without --wheel the torch installed in --python is tried (default: the Python on PATH). With --wheel the wheel
is installed into a fresh environment that is thrown away afterwards. A wheel that was not built here runs in a
sandbox without network and home (bubblewrap, on Linux); where there is none, that is said.
"""

from __future__ import annotations

import argparse

from rekindle.cli.plan import add_beside, read_beside
from rekindle.cli.verb import Answer, Session
from rekindle.errors import BadInput, Exit

EXAMPLES = """examples:
  rekindle verify                                   the torch of the Python on PATH, in seconds
  rekindle verify --level full                      every check, in minutes
  rekindle verify --wheel torch-2.6.0-cp311-….whl   a wheel, in a fresh environment
  rekindle verify --wheel FILE --cpu ivybridge      the same on an emulated Xeon E5 v2
  rekindle verify --with torchvision,bitsandbytes   and each of these does one real operation right
  rekindle verify --compare before.json after.json
  rekindle verify --claims FILE                     is the wheel what it claims to be? (signature, bytes)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wheel", metavar="FILE", help="install this wheel into a fresh environment")
    parser.add_argument("--python", metavar="VERSION|EXE", help="the interpreter that has, or gets, the package")
    parser.add_argument("--package", metavar="NAME", help="what to import (default: torch, or what the wheel holds)")
    parser.add_argument(
        "--cpu",
        metavar="NAME",
        help="with --wheel: on this emulated CPU, by microarchitecture or product name (nehalem, E5-2690 v2, …)",
    )
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="set in the target")
    parser.add_argument("--level", choices=("smoke", "full"), default="smoke", help="seconds or minutes")
    parser.add_argument("--only", metavar="ID", action="append", default=[], help="only these checks (stars allowed)")
    add_beside(parser, what="also prove these companions of an installed torch: import and one real operation each")
    parser.add_argument("--plan", metavar="FILE", help="plan.json: version and settings must be as planned")
    parser.add_argument("--no-gpu", action="store_true", help="prove the CPU part alone, where no GPU is at hand")
    parser.add_argument("--no-deps", action="store_true", help="install the wheel without its dependencies")
    parser.add_argument("--find-links", metavar="DIR", action="append", default=[], help="where dependencies lie")
    parser.add_argument(
        "--sandbox",
        choices=("auto", "yes", "no"),
        default="auto",
        help="with --wheel: without network and home; auto: for wheels not built here, where it can be had",
    )
    parser.add_argument("--events", metavar="FILE", help="what checks/agent.py wrote on a machine without rekindle")
    parser.add_argument("--save", metavar="FILE", help="also write the report as JSON")
    parser.add_argument("--html", metavar="FILE", help="also write the report as one HTML page")
    parser.add_argument("--junit", metavar="FILE", help="also write the report as JUnit XML")
    parser.add_argument("--compare", nargs=2, metavar=("A.json", "B.json"), help="two saved reports side by side")

    claims = parser.add_argument_group("claims")
    claims.add_argument("--claims", metavar="WHEEL", help="signature, RECORD, and what it claims against its bytes")
    claims.add_argument("--key", metavar="FILE", action="append", default=[], help="believe only this .pub; repeatable")
    claims.add_argument("--statement", metavar="FILE", help="the signed statement (default: beside the wheel)")
    claims.add_argument("--unsigned", action="store_true", help="say yes also where nobody signed, if all else is so")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from pathlib import Path

    from rekindle import api
    from rekindle.cli.verb import place_for
    from rekindle.render.verify import view_comparison, view_verification

    if args.compare:
        comparison = api.compare_verifications(*(Path(name) for name in args.compare))
        return Answer(document=comparison, view=view_comparison, exit_code=Exit.NO if comparison.worse else Exit.YES)
    if args.claims:
        return _claims(args, session)
    if args.wheel and args.package:
        raise BadInput("--package goes with an installed package, not with --wheel")
    if args.beside and (args.wheel or args.events):
        raise BadInput(
            "--with proves companions of an installed torch", remedy="give its interpreter with --python EXE"
        )
    saved = place_for(args.save, "verify.json") if args.save else None
    report = api.verify(
        wheel=Path(args.wheel) if args.wheel else None,
        python=args.python,
        package=args.package,
        events=Path(args.events) if args.events else None,
        cpu=args.cpu,
        env=_settings(args.env),
        level=args.level,
        only=tuple(args.only),
        plan=Path(args.plan) if args.plan else None,
        gpu=False if args.no_gpu else None,
        beside=read_beside(args.beside),
        dependencies=not args.no_deps,
        find_links=tuple(args.find_links),
        sandbox=args.sandbox,
        save=saved,
        junit=Path(args.junit) if args.junit else None,
        progress=session.progress,
    )
    if args.html:
        written = place_for(args.html, "verify.html")
        api.verify_page(report, written)
        session.progress.note(f"wrote {written}")
    if saved:
        session.progress.note(f"wrote the report to {saved}")
    return Answer(document=report, view=view_verification, exit_code=Exit.YES if report.good else Exit.NO)


def _claims(args: argparse.Namespace, session: Session) -> Answer:
    from pathlib import Path

    from rekindle import api
    from rekindle.render.claims import view_claims

    report = api.verify_claims(
        Path(args.claims),
        keys=tuple(map(Path, args.key)),
        statement=Path(args.statement) if args.statement else None,
        progress=session.progress,
    )
    unsigned = args.unsigned and report.verdict == "not-proven"
    return Answer(
        document=report, view=view_claims, exit_code=Exit.YES if report.verdict == "proven" or unsigned else Exit.NO
    )


def _settings(words: list[str]) -> dict[str, str]:
    for word in words:
        if "=" not in word:
            raise BadInput(f"--env {word} has no '='", remedy="--env NAME=VALUE")
    return dict(word.split("=", 1) for word in words)
