"""A PyTorch, torchvision or torchaudio tree that is ready to build, whatever its age."""

import argparse
from pathlib import Path

from rekindle.cli.verb import Answer, Session, add_common, add_repeatable, add_workspace, path, read_options

_FACTS = ("cmake", "compiler", "setuptools", "numpy", "glibc", "cuda", "rocm", "fmt", "os", "arch", "backend")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True)

    def step(name: str, summary: str) -> argparse.ArgumentParser:
        sub = steps.add_parser(name, help=summary, description=summary)
        add_common(sub, inner=True)
        return sub

    _add_fetch(step("fetch", "get a tree with all its submodules; the same command continues one that was cut short"))
    fill = step("fill", "put system libraries and stand-ins in the place of submodules that a tree lacks")
    _add_tree(fill)
    what = "what will be built: says which headers of the index it needs"
    fill.add_argument("--plan", type=path, metavar="FILE", help=what)
    _add_index(fill)
    status = step("status", "what a tree is, which patches it needs and has, which submodules are missing")
    _add_tree(status)
    _add_context(status)
    patch = step("patch", "apply the patches this build needs: all or none")
    _add_tree(patch)
    _add_context(patch)
    patch.add_argument("--dry-run", action="store_true", help="print the diff and change nothing")
    add_repeatable(patch, "--only", "ID", "this patch, needed or not; repeatable")
    unpatch = step("unpatch", "take our patches out again, byte for byte")
    _add_tree(unpatch)
    hipify = step("hipify", "CUDA sources into HIP with the tree's own tool, as a commit of its own")
    _add_tree(hipify)
    hipify.add_argument("--python", metavar="EXE", help="the interpreter that runs the tool (default: ours)")
    hipify.add_argument("--undo", action="store_true", help="back to the tree before")
    save = step("save-patches", "your commits as patch files with headers")
    _add_tree(save)
    save.add_argument("--output", required=True, metavar="DIR", help="where the files go")
    save.add_argument("--base", metavar="TAG", help="commits after this one (default: our latest mark)")
    rewrite = step("rewrite-cmake", "raise CMake versions below 3.5 in any tree (CMake 4 refuses them)")
    rewrite.add_argument("--root", required=True, metavar="DIR", help="top of the tree")
    rewrite.add_argument("--dry-run", action="store_true", help="tell, and change nothing")
    floor = "raise to this version (default: 3.5)"
    rewrite.add_argument("--minimum", dest="floor", default="3.5", metavar="X.Y", help=floor)


def _add_fetch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", default="torch", choices=("torch", "torchvision", "torchaudio"))
    parser.add_argument("--release", metavar="VERSION", help="such as 2.6.0")
    parser.add_argument("--plan", type=path, metavar="FILE", help="the release of this plan")
    fitting = "the torch tree that torchvision or torchaudio must fit"
    parser.add_argument("--match", type=path, metavar="DIR", help=fitting)
    parser.add_argument("--revision", metavar="COMMIT", help="a full commit instead of a release")
    parser.add_argument(
        "--from",
        dest="place",
        metavar="PLACE",
        help="git (default, or what the plan says), tarball (the release archive), debian (its source package), "
        "a directory, an archive, or the address of an archive or git repository",
    )
    parser.add_argument("--sha256", metavar="HEX", help="what the archive must be")
    mirror = "take addresses that begin with FROM from TO; submodules too; repeatable"
    add_repeatable(parser, "--mirror", "FROM=TO", mirror, dest="mirrors")
    lender = "a checkout on this machine to borrow objects from"
    parser.add_argument("--reference", type=path, metavar="DIR", help=lender)
    parser.add_argument("--no-submodules", dest="submodules", action="store_false", help="leave the submodules out")
    parser.add_argument("--source", type=path, metavar="DIR", help="where the tree goes (default: in the workspace)")
    _add_index(parser)
    add_workspace(parser)


def _add_index(parser: argparse.ArgumentParser) -> None:
    folder = "folder with files of the package index that fill a tree without its submodules; repeatable"
    add_repeatable(parser, "--find-links", "DIR", folder)
    alone = "ask no package index: only --find-links and what is here"
    parser.add_argument("--offline", action="store_true", help=alone)


def _add_tree(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tree", nargs="?", metavar="DIR", help="top of the tree (default: the workspace's, or here)")
    parser.add_argument("--source", "--root", metavar="DIR", help="the same by name")
    add_workspace(parser)


def _add_context(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what it will be built with (default: what this machine has)")
    group.add_argument("--plan", type=path, metavar="FILE", help="the plan to build")
    group.add_argument("--python", metavar="EXE", help="the interpreter that will build")
    group.add_argument("--patches", type=path, metavar="DIR", help="your own patch files, beside ours")
    for name in _FACTS:
        example = {"compiler": '"gcc 13.2"', "os": "linux|windows", "backend": "cpu|cuda|rocm"}.get(name, "VERSION")
        group.add_argument(
            f"--{name}", metavar=example, help=argparse.SUPPRESS if name in ("fmt", "os", "arch", "backend") else None
        )


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.model.source import FetchOptions

    if args.step == "rewrite-cmake":
        return Answer(session.call(api.rewrite_cmake, args, Path(args.root)))
    if args.step == "fetch":
        got = api.source_fetch(args.source, read_options(FetchOptions, args), progress=session.progress)
        return Answer(got, good=not (got.missing_submodules and args.submodules))
    root = api.find_tree(path(args.tree or args.source), args.workspace)
    if args.step == "hipify":
        return Answer(session.call(api.source_hipify, args, root))
    if args.step == "save-patches":
        return Answer(api.save_patches(root, Path(args.output), base=args.base))
    if args.step == "fill":
        tree = session.call(api.source_fill, args, root)
        return Answer(tree, good=not tree.missing_submodules)
    if args.step == "unpatch":
        return Answer(api.source_unpatch(root))
    from rekindle.render.source import view_diff

    given = {name: getattr(args, name) for name in _FACTS}
    if args.step == "status":
        tree = session.call(api.source_status, args, root, given=given)
        return Answer(tree, good=not tree.missing_submodules)
    tree = session.call(api.source_patch, args, root, given=given)
    view = view_diff if args.dry_run else None
    return Answer(tree, good=not (tree.conflicts or tree.missing_submodules), view=view)
