from pathlib import Path

from rekindle import api
from rekindle.cli.verb import Answer, Session
from rekindle.errors import BadInput


def run(session: Session) -> Answer:
    """A signing key of your own: make one, say whose keys you believe, sign a statement.

    Keys are Ed25519 and lie in your configuration folder (REKINDLE_KEYS names another). The private key has no
    password: whoever can read the file can sign as you.
    """
    args = session.args
    if args.action in ("trust", "sign") and not args.file:
        raise BadInput("which file?", remedy=f"rekindle key {args.action} FILE")
    if args.action in ("new", "list") and args.file:
        raise BadInput(f"'key {args.action}' takes no file: {args.file!r}", remedy="rekindle key --help")
    if args.action == "new":
        return Answer(api.key_new(args.name or "rekindle"))
    if args.action == "trust":
        return Answer(api.key_trust(Path(args.file), name=args.name))
    if args.action == "sign":
        return Answer(api.key_sign(Path(args.file), args.name or "rekindle"))
    return Answer(api.key_list())
