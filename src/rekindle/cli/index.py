import sys

from rekindle import api
from rekindle.cli.verb import Answer, Session, place_for
from rekindle.errors import BadInput


def run(session: Session) -> Answer:
    """A wheelhouse that pip and uv read, and the page that finds the torch for a card."""
    from rekindle.model.wheelhouse import SearchOptions

    args = session.args
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
        return Answer(session.call(api.index_add, args.root, args.what))
    if args.action == "build":
        return Answer(session.call(api.index_build, args.root))
    if args.action == "check":
        checked = session.call(api.index_check, args.root)
        return Answer(checked, good=checked.good)
    if args.action in ("yank", "unyank"):
        if len(args.what) != 1:
            raise BadInput("one wheel's file name, please", remedy=f"rekindle index {args.action} FILE --root DIR")
        reason = args.reason or "" if args.action == "yank" else None
        return Answer(api.index_yank(args.root, args.what[0], reason))
    if args.action == "sync":
        if len(args.what) != 1:
            raise BadInput("one place to copy to, please", remedy="rekindle index sync DIR --root DIR")
        return Answer(session.call(api.index_sync, args.root, args.what[0]))
    if args.action == "serve":
        return Answer(api.index_serve(args.root, host=args.host, port=args.port, say=_say))
    options = session.options(SearchOptions, project=args.what[0] if args.what else None)
    result = api.index_search(args.root, options)
    return Answer(result, good=any(match.verdict.runs for match in result.matches))


def _say(text: str) -> None:
    # A script that starts the server waits for this line, so it comes even with --quiet.
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
