"""A plan and a tree into a wheel, without running out of memory."""

import argparse
import sys

from rekindle.cli.plan import add_compiling, add_settings, read_settings
from rekindle.cli.verb import Answer, Session, add_repeatable, add_workspace, after_a_yes, path, read_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    package = "an extension of torch, by its name on the package index, such as torch-scatter==2.1.2"
    parser.add_argument("package", nargs="?", help=package)
    plan = "the plan (default: plan.json of the workspace; for an extension one is made for this machine)"
    parser.add_argument("--plan", type=path, metavar="FILE", help=plan)
    tree = "the source tree, also of any extension of torch (default: the workspace's)"
    parser.add_argument("--source", type=path, metavar="DIR", help=tree)
    parser.add_argument("--project", help="torch, torchvision, torchaudio, spark or an extension's name")
    several = "a path or version; repeat for several wheels from one build tree (default: the plan's)"
    add_repeatable(parser, "--python", "P", several, dest="pythons")
    target = "build only this CMake target or file of the build tree (several: with commas), make no wheel"
    parser.add_argument("--target", metavar="NAMES", help=target)
    add_compiling(parser)
    parser.add_argument("--cmake", metavar="PATH", help="use this CMake")
    add_settings(parser)
    torch = "the torch that an extension is compiled against: a wheel, or torch==2.6.0 (default: the workspace's)"
    parser.add_argument("--against", metavar="TORCH", help=torch)
    as_is = "build in the Python of --python with the packages it has, its torch too; nothing is installed"
    parser.add_argument("--as-is", action="store_true", help=as_is)
    cards = "for an extension: these cards instead of the ones here; repeatable"
    add_repeatable(parser, "--gpu", "GPU", cards, dest="gpus")
    parser.add_argument("--clean", action="store_true", help="remove the build tree first")
    account = "on failure, save an account to post, names left out"
    parser.add_argument("--bug-report", type=path, metavar="FILE", help=account)
    parser.add_argument("--trust", action="store_true", help="build a plan that was made elsewhere without asking")
    parser.add_argument("--sign", metavar="KEY", help="sign the wheel's provenance with this key (rekindle key new)")
    parser.add_argument("--dry-run", action="store_true", help="print the build as a script and do nothing")
    add_workspace(parser)


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.model.build import BuildFailure
    from rekindle.model.build_options import BuildOptions

    options = read_options(BuildOptions, args, settings=read_settings(args.settings))
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
