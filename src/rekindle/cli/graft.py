from rekindle import api
from rekindle.cli.verb import Answer, Session
from rekindle.errors import BadInput


def run(session: Session) -> Answer:
    """An official wheel with native code for a card it lacks: no build, and everything else stays the official one.

    The wheel's own PTX is compiled for the card (ptxas, no sources). A torch without PTX gets the device code of its
    own kernel files: compiled by nvcc, nothing configured, no host code, no link. An AMD card gets the wheel's code for
    a chip of the same kind, or code that hipcc makes of the package's sources. The new code is held against the code
    the wheel has and put into its libraries. 'make' writes only the new code, a small file; 'apply' puts such a file
    into the wheel it belongs to, on any machine, without compiler or GPU.
    """
    from rekindle.model.graft import GraftOptions

    args = session.args
    step, words = (args.words[0], args.words[1:]) if args.words[0] in ("make", "apply") else ("graft", args.words)
    if step == "apply":
        if len(words) != 2:
            raise BadInput("apply takes a wheel and a graft file", remedy="rekindle graft apply WHEEL FILE.graft")
        return Answer(api.graft_apply(words[0], words[1], session.options(GraftOptions), progress=session.progress))
    if len(words) != 1:
        raise BadInput("name one wheel", remedy="rekindle graft --help")
    if not args.gpu:
        raise BadInput("say which card it is for", remedy=f'rekindle graft {words[0]} --gpu "RTX 5090" (or sm_120)')
    headers = tuple(folder.absolute() for folder in args.headers)
    options = session.options(GraftOptions, headers=headers, only_file=step == "make")
    report = api.graft(words[0], options, gpu=args.gpu, progress=session.progress)
    lacking = report.count("left-out") + report.count("refused")
    done = report.out or report.graft or (report.dry_run and report.count("planned")) or not lacking
    return Answer(report, good=done)
