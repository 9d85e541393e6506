"""An official wheel with native code for a card it lacks: no build, and everything else stays the official one.

The wheel's own PTX is compiled for the card (ptxas, no sources). A torch without PTX gets the device code of its own
kernel files: compiled by nvcc, nothing configured, no host code, no link. An AMD card gets the wheel's code for a chip
of the same kind, or code that hipcc makes of the package's sources. The new code is held against the code the
wheel has and put into its libraries. 'make' writes only the new code, a small file; 'apply' puts such a file into the
wheel it belongs to, on any machine, without compiler or GPU.
"""

import argparse

from rekindle.cli.verb import Answer, Session, add_repeatable, add_workspace, path
from rekindle.errors import BadInput


def add_arguments(parser: argparse.ArgumentParser) -> None:
    words = "the official wheel; after 'make' the same, after 'apply' the wheel and the graft file"
    parser.add_argument("words", nargs="+", metavar="WHEEL|NAME==VERSION", help=words)
    add_repeatable(parser, "--gpu", "CARD", "product name, sm_120 or gfx1031")
    place = "where the result goes (default: beside the wheel, or the workspace)"
    parser.add_argument("--out", type=path, metavar="DIR", help=place)
    toolkit = "the CUDA toolkit to compile with (default: the oldest that can)"
    parser.add_argument("--toolkit", type=path, metavar="DIR", help=toolkit)
    parser.add_argument("--python", metavar="X.Y", help="for a name on the index: the Python it is for")
    parser.add_argument("--platform", metavar="TAG", help="for a name on the index: e.g. manylinux_2_28_x86_64")
    parser.add_argument("--index", metavar="URL", help="for a name: ask this package index instead of pip's own")
    links = "for a name: wheels to look through besides the index"
    add_repeatable(parser, "--find-links", "DIR|URL", links, dest="links")
    parser.add_argument("--offline", action="store_true", help="for a name: ask no index, only --find-links")
    parser.add_argument("--jobs", metavar="N", type=int, help="at most so many compilers at once")
    parser.add_argument("--memory", metavar="SIZE", help="budget for all compilers together, such as 8G")
    parser.add_argument("--launcher", choices=("ccache",), help="a compiler cache to call nvcc through")
    sources = "sources of the same release (default: fetched; torch without PTX)"
    parser.add_argument("--source", dest="sources", metavar="DIR|git|debian", help=sources)
    add_repeatable(parser, "--headers", "DIR", "look for headers here before fetching them", type=path)
    prove = "first compile N units as the wheel has them, and compare"
    parser.add_argument("--prove", metavar="N", type=int, default=0, help=prove)
    add_repeatable(parser, "--define", "NAME[=VALUE]", "tell the compiler this besides", dest="defines")
    add_repeatable(parser, "--without", "UNIT", "leave units out by name, e.g. 'f4f4bf16*'")
    parser.add_argument("--leave-out", action="store_true", help="go on without units that differ from the wheel's own")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be compiled (and prove)")
    add_workspace(parser)


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    step, words = (args.words[0], args.words[1:]) if args.words[0] in ("make", "apply") else ("graft", args.words)
    if step == "apply":
        if len(words) != 2:
            raise BadInput("apply takes a wheel and a graft file", remedy="rekindle graft apply WHEEL FILE.graft")
        return Answer(session.call(api.graft_apply, args, words[0], words[1]))
    if len(words) != 1:
        raise BadInput("name one wheel", remedy="rekindle graft --help")
    if not args.gpu:
        raise BadInput("say which card it is for", remedy=f'rekindle graft {words[0]} --gpu "RTX 5090" (or sm_120)')
    headers = tuple(folder.absolute() for folder in args.headers)
    report = session.call(api.graft, args, words[0], headers=headers, only_file=step == "make")
    lacking = report.count("left-out") + report.count("refused")
    done = report.out or report.graft or (report.dry_run and report.count("planned")) or not lacking
    return Answer(report, good=done)
