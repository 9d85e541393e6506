from rekindle import api
from rekindle.cli.plan import read_companions, read_settings
from rekindle.cli.verb import Answer, Session, place_for
from rekindle.errors import BadInput


def run(session: Session) -> Answer:
    """Prove that a torch works, also on an emulated older CPU.

    Without --wheel the torch installed in --python is tried (default: the Python on PATH). With --wheel the wheel is
    installed into a fresh environment that is thrown away afterwards. A wheel that was not built here runs in a sandbox
    without network and home (bubblewrap, on Linux); where there is none, that is said.
    """
    from rekindle.model.verify import VerifyOptions

    args = session.args
    if args.compare:
        comparison = api.compare_verifications(*args.compare)
        return Answer(comparison, good=not comparison.worse)
    if args.claims:
        # --cpu names a CPU to emulate; here the keyword says that the wheel's CPU code is read.
        claims = session.call(api.verify_claims, args.claims, cpu=True)
        return Answer(claims, good=claims.verdict == "proven" or (args.unsigned and claims.verdict == "not-proven"))
    if args.records:
        review = api.review_records(args.records, keys=args.keys)
        return Answer(review, good=review.good)
    if args.sign and not args.share:
        raise BadInput("--sign signs a record", remedy="add --share RECORD.json")
    if args.wheel and args.package:
        raise BadInput("--package goes with an installed package, not with --wheel")
    if args.companions and (args.wheel or args.events):
        remedy = "give its interpreter with --python EXE"
        raise BadInput("--with proves companions of an installed torch", remedy=remedy)
    if args.share and not (args.wheel or args.events):
        api.check_shareable()
    saved = place_for(args.save, "verify.json") if args.save else None
    companions = read_companions(args.companions)
    options = session.options(
        VerifyOptions, env=dict(read_settings(args.env, "--env")), companions=companions, save=saved
    )
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
