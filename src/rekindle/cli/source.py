from rekindle import api
from rekindle.cli.verb import Answer, Session

_FACTS = ("cmake", "compiler", "setuptools", "numpy", "glibc", "cuda", "rocm", "fmt", "os", "arch", "backend")


def run(session: Session) -> Answer:
    """A PyTorch, torchvision or torchaudio tree that is ready to build, whatever its age."""
    from rekindle.model.source import FetchOptions, PatchOptions

    args = session.args
    if args.step == "rewrite-cmake":
        return Answer(session.call(api.rewrite_cmake, args.root))
    if args.step == "fetch":
        got = api.source_fetch(args.source, session.options(FetchOptions), progress=session.progress)
        return Answer(got, good=not (got.missing_submodules and args.submodules))
    root = api.find_tree(args.tree or args.source, args.workspace)
    if args.step == "hipify":
        return Answer(session.call(api.source_hipify, root))
    if args.step == "save-patches":
        return Answer(api.save_patches(root, args.output, base=args.base))
    if args.step == "fill":
        tree = session.call(api.source_fill, root)
        return Answer(tree, good=not tree.missing_submodules)
    if args.step == "unpatch":
        return Answer(api.source_unpatch(root))
    from rekindle.render.source import view_diff

    given = {name: getattr(args, name) for name in _FACTS}
    if args.step == "status":
        tree = api.source_status(root, session.options(PatchOptions, given=given))
        return Answer(tree, good=not tree.missing_submodules)
    tree = api.source_patch(root, session.options(PatchOptions, given=given), dry_run=args.dry_run)
    view = view_diff if args.dry_run else None
    return Answer(tree, good=not (tree.conflicts or tree.missing_submodules), view=view)
