"""Prove that a torch works, also on an emulated older CPU.

Without --wheel the torch installed in --python is tried (default: the Python on PATH). With --wheel the wheel
is installed into a fresh environment that is thrown away afterwards. A wheel that was not built here runs in a
sandbox without network and home (bubblewrap, on Linux); where there is none, that is said.
"""

import argparse

from rekindle.cli.plan import add_companions, read_companions, read_settings
from rekindle.cli.verb import Answer, Session, add_repeatable, path, place_for, read_options
from rekindle.errors import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wheel", type=path, metavar="FILE", help="install this wheel into a fresh environment")
    parser.add_argument("--python", metavar="VERSION|EXE", help="the interpreter that has, or gets, the package")
    parser.add_argument("--package", metavar="NAME", help="what to import (default: torch, or what the wheel holds)")
    cpu = "with --wheel: on this emulated CPU, by microarchitecture or product name (nehalem, E5-2690 v2, …)"
    parser.add_argument("--cpu", metavar="NAME", help=cpu)
    add_repeatable(parser, "--env", "NAME=VALUE", "set in the target")
    parser.add_argument("--level", choices=("smoke", "full"), default="smoke", help="seconds or minutes")
    add_repeatable(parser, "--only", "ID", "only these checks (stars allowed)")
    add_companions(parser, what="also prove these companions of an installed torch: import and one real operation each")
    planned = "plan.json: version and settings must be as planned"
    parser.add_argument("--plan", type=path, metavar="FILE", help=planned)
    alone = "prove the CPU part alone, where no GPU is at hand"
    parser.add_argument("--no-gpu", dest="gpu", action="store_const", const=False, help=alone)
    bare = "install the wheel without its dependencies"
    parser.add_argument("--no-deps", dest="dependencies", action="store_false", help=bare)
    add_repeatable(parser, "--find-links", "DIR", "where dependencies lie")
    shut = "with --wheel: without network and home; auto: for wheels not built here, where it can be had"
    parser.add_argument("--sandbox", choices=("auto", "yes", "no"), default="auto", help=shut)
    events = "what checks/agent.py wrote on a machine without rekindle"
    parser.add_argument("--events", type=path, metavar="FILE", help=events)
    parser.add_argument("--save", metavar="FILE", help="also write the report as JSON")
    parser.add_argument("--html", metavar="FILE", help="also write the report as one HTML page")
    parser.add_argument("--junit", type=path, metavar="FILE", help="also write the report as JUnit XML")
    parser.add_argument(
        "--compare", nargs=2, type=path, metavar=("A.json", "B.json"), help="two saved reports side by side"
    )

    travel = parser.add_argument_group("proofs that travel")
    shared = "write a record anybody can post: wheel, card, driver, system, checks; nobody's name"
    travel.add_argument("--share", metavar="FILE", help=shared)
    travel.add_argument("--sign", metavar="KEY", help="with --share: sign the record (rekindle key new)")
    listed = "review such records: signature, contradictions, names; exit 1 where one is not good"
    travel.add_argument("--records", metavar="DIR|FILE|URL", help=listed)

    claims = parser.add_argument_group("claims")
    checked = "signature, RECORD, and what it claims against its bytes"
    claims.add_argument("--claims", type=path, metavar="WHEEL", help=checked)
    add_repeatable(claims, "--key", "FILE", "believe only this .pub; repeatable", dest="keys", type=path)
    signed = "the signed statement (default: beside the wheel)"
    claims.add_argument("--statement", type=path, metavar="FILE", help=signed)
    claims.add_argument("--unsigned", action="store_true", help="say yes also where nobody signed, if all else is so")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.model.verify import VerifyOptions

    if args.compare:
        comparison = api.compare_verifications(*args.compare)
        return Answer(comparison, good=not comparison.worse)
    if args.claims:
        return _verify_claims(args, session)
    if args.records:
        review = api.review_records(args.records, keys=args.keys)
        return Answer(review, good=review.good)
    if args.sign and not args.share:
        raise BadInput("--sign signs a record", remedy="add --share RECORD.json")
    if args.wheel and args.package:
        raise BadInput("--package goes with an installed package, not with --wheel")
    if args.beside and (args.wheel or args.events):
        remedy = "give its interpreter with --python EXE"
        raise BadInput("--with proves companions of an installed torch", remedy=remedy)
    saved = place_for(args.save, "verify.json") if args.save else None
    beside = read_companions(args.beside)
    options = read_options(VerifyOptions, args, env=dict(read_settings(args.env, "--env")), beside=beside, save=saved)
    report = api.verify(options, progress=session.progress)
    if args.html:
        written = place_for(args.html, "verify.html")
        api.verify_page(report, written)
        session.progress.note(f"wrote {written}")
    if saved:
        session.progress.note(f"wrote the report to {saved}")
    if args.share:
        record = place_for(args.share, "proof.json")
        api.share_proof(report, record, sign=args.sign)
        session.progress.note(f"wrote the record to {record}: read it before you post it")
    return Answer(report, good=report.good)


def _verify_claims(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    # --cpu names a CPU to emulate; here the keyword says that the wheel's CPU code is read.
    report = session.call(api.verify_claims, args, args.claims, cpu=True)
    good = report.verdict == "proven" or (args.unsigned and report.verdict == "not-proven")
    return Answer(report, good=good)
