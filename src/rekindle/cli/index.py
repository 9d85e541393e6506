"""A wheelhouse that pip and uv read, and the page that finds the torch for a card."""

import argparse
import sys

from rekindle.cli.verb import Answer, Session, add_repeatable, place_for, read_options
from rekindle.errors import BadInput

_ACTIONS = ("add", "build", "serve", "check", "search", "page", "yank", "unyank", "sync")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="ACTION", choices=_ACTIONS, help=f"what to do: {', '.join(_ACTIONS)}")
    what = "add: wheels or graft files; yank: a file; search: a project; sync: a directory or s3://BUCKET/PREFIX"
    parser.add_argument("what", nargs="*", metavar="WHEEL", help=what)
    parser.add_argument("--root", metavar="DIR", help="the wheelhouse (search: also a URL)")
    add = parser.add_argument_group("add")
    add.add_argument("--report", metavar="FILE", help="an inspection report (otherwise the wheel is inspected)")
    add_repeatable(add, "--proof", "FILE", "a verification report; repeatable", dest="proofs")
    unread = "store it without looking inside its libraries"
    add.add_argument("--no-inspect", dest="look_inside", action="store_false", help=unread)
    signed = parser.add_argument_group("build and check")
    signed.add_argument("--sign", metavar="KEY", help="build: sign a dated list of all wheels with this key")
    good = "build: its list is good so long (default: 90)"
    signed.add_argument("--days", type=int, default=90, metavar="N", help=good)
    add_repeatable(signed, "--key", "FILE", "check: believe only this .pub", dest="keys")
    anew = "check: its owner began anew; take this house for the one known here"
    signed.add_argument("--new-house", action="store_true", help=anew)
    build = parser.add_argument_group("build")
    build.add_argument("--variants", action="store_true", help="also wheels that uv chooses by the card (PEP 825)")
    serve = parser.add_argument_group("serve")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: loopback only)")
    serve.add_argument("--port", type=int, default=8080, help="0 takes any free one (default: 8080)")
    search = parser.add_argument_group("search")
    add_repeatable(search, "--gpu", "GPU", "a product name, sm_35 or gfx1031; repeatable", dest="gpus")
    search.add_argument("--os", dest="system", choices=("linux", "windows", "macos"))
    search.add_argument("--arch", dest="machine", choices=("x86_64", "aarch64"))
    search.add_argument("--python", help="3.11")
    search.add_argument("--glibc", help="2.28")
    search.add_argument("--torch", dest="versions", metavar="SPEC", help="a version or a specifier")
    sync = parser.add_argument_group("sync")
    store = "the S3-like store (default: AWS_ENDPOINT_URL; keys: AWS_ACCESS_KEY_ID, …)"
    sync.add_argument("--endpoint", metavar="URL", help=store)
    parser.add_argument("--reason", default="", help="yank: why")
    parser.add_argument("--out", metavar="FILE", help="page: where to write it (default: index.html in the root)")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.model.wheelhouse import SearchOptions

    if args.what and args.action in ("build", "check", "serve", "page"):
        raise BadInput(f"'index {args.action}' takes no wheels: {args.what[0]!r}", remedy="rekindle index --help")
    if args.action == "page":
        out = str(place_for(args.out, "index.html")) if args.out else None
        return Answer(api.index_page(root=args.root, out=out, progress=session.progress))
    if not args.root:
        raise BadInput("which wheelhouse?", remedy="give its directory with --root DIR")
    if args.action == "add":
        if not args.what:
            raise BadInput("which wheels?", remedy="rekindle index add WHEEL… --root DIR")
        return Answer(session.call(api.index_add, args, args.root, args.what))
    if args.action == "build":
        return Answer(session.call(api.index_build, args, args.root))
    if args.action == "check":
        checked = session.call(api.index_check, args, args.root)
        return Answer(checked, good=checked.good)
    if args.action in ("yank", "unyank"):
        if len(args.what) != 1:
            raise BadInput("one wheel's file name, please", remedy=f"rekindle index {args.action} FILE --root DIR")
        reason = args.reason if args.action == "yank" else None
        return Answer(api.index_yank(args.root, args.what[0], reason))
    if args.action == "sync":
        if len(args.what) != 1:
            raise BadInput("one place to copy to, please", remedy="rekindle index sync DIR --root DIR")
        return Answer(session.call(api.index_sync, args, args.root, args.what[0]))
    if args.action == "serve":
        return Answer(api.index_serve(args.root, host=args.host, port=args.port, say=_say))
    options = read_options(SearchOptions, args, project=args.what[0] if args.what else None)
    result = api.index_search(args.root, options)
    return Answer(result, good=any(match.verdict.runs for match in result.matches))


def _say(text: str) -> None:
    # A script that starts the server waits for this line, so it comes even with --quiet.
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
