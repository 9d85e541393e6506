"""A PyTorch, torchvision or torchaudio tree that is ready to build, whatever its age."""

from __future__ import annotations

import argparse
from pathlib import Path

from rekindle.cli.verb import Answer, Session, add_common, add_workspace, path
from rekindle.errors import Exit

EXAMPLES = """examples:
  rekindle source fetch --release 2.6.0 --source pytorch
  rekindle source fetch --project torchvision --match pytorch --source vision
  rekindle source fetch --release 1.13.1 --from debian third parties from this system instead of submodules
  rekindle source status --source pytorch              what this tree is, what it needs, what we changed
  rekindle source patch --source pytorch --dry-run     what would be changed, as a diff
  rekindle source patch --source pytorch --plan plan.json
  rekindle source unpatch --source pytorch             every file as it was, byte for byte
  rekindle source rewrite-cmake --root any/tree --dry-run

'rekindle source STEP --help' tells more about each.
"""
_FACTS = ("cmake", "compiler", "setuptools", "numpy", "glibc", "cuda", "rocm", "fmt", "os", "arch", "backend")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True)

    def step(name: str, summary: str) -> argparse.ArgumentParser:
        sub = steps.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        add_common(sub, inner=True)
        return sub

    _add_fetch(step("fetch", "get a tree with all its submodules; the same command continues one that was cut short"))
    fill = step("fill", "put system libraries and stand-ins in the place of submodules that a tree lacks")
    _add_tree(fill)
    fill.add_argument("--plan", metavar="FILE", help="what will be built: says which headers of the index it needs")
    _add_index(fill)
    status = step("status", "what a tree is, which patches it needs and has, which submodules are missing")
    _add_tree(status)
    _add_context(status)
    patch = step("patch", "apply the patches this build needs: all or none")
    _add_tree(patch)
    _add_context(patch)
    patch.add_argument("--dry-run", action="store_true", help="print the diff and change nothing")
    patch.add_argument(
        "--only", action="append", default=[], metavar="ID", help="this patch, needed or not; repeatable"
    )
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
    rewrite.add_argument("--minimum", default="3.5", metavar="X.Y", help="raise to this version (default: 3.5)")


def _add_fetch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", default="torch", choices=("torch", "torchvision", "torchaudio"))
    parser.add_argument("--release", metavar="VERSION", help="such as 2.6.0")
    parser.add_argument("--plan", metavar="FILE", help="the release of this plan")
    parser.add_argument("--match", metavar="DIR", help="the torch tree that torchvision or torchaudio must fit")
    parser.add_argument("--revision", metavar="COMMIT", help="a full commit instead of a release")
    parser.add_argument(
        "--from",
        dest="place",
        metavar="PLACE",
        help="git (default, or what the plan says), tarball (the release archive), debian (its source package), "
        "a directory, an archive, or the address of an archive or git repository",
    )
    parser.add_argument("--sha256", metavar="HEX", help="what the archive must be")
    parser.add_argument(
        "--mirror",
        action="append",
        default=[],
        metavar="FROM=TO",
        help="take addresses that begin with FROM from TO; submodules too; repeatable",
    )
    parser.add_argument("--reference", metavar="DIR", help="a checkout on this machine to borrow objects from")
    parser.add_argument("--no-submodules", action="store_true", help="leave the submodules out")
    parser.add_argument("--source", metavar="DIR", help="where the tree goes (default: in the workspace)")
    _add_index(parser)
    add_workspace(parser)


def _add_index(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--find-links",
        metavar="DIR",
        action="append",
        default=[],
        help="folder with files of the package index that fill a tree without its submodules; repeatable",
    )
    parser.add_argument(
        "--offline", action="store_true", help="ask no package index: only --find-links and what is here"
    )


def _add_tree(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tree", nargs="?", metavar="DIR", help="top of the tree (default: the workspace's, or here)")
    parser.add_argument("--source", "--root", metavar="DIR", help="the same by name")
    add_workspace(parser)


def _add_context(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what it will be built with (default: what this machine has)")
    group.add_argument("--plan", metavar="FILE", help="the plan to build")
    group.add_argument("--python", metavar="EXE", help="the interpreter that will build")
    group.add_argument("--patches", metavar="DIR", help="your own patch files, beside ours")
    for name in _FACTS:
        example = {"compiler": '"gcc 13.2"', "os": "linux|windows", "backend": "cpu|cuda|rocm"}.get(name, "VERSION")
        group.add_argument(
            f"--{name}", metavar=example, help=argparse.SUPPRESS if name in ("fmt", "os", "arch", "backend") else None
        )


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.render import source as views

    if args.step == "rewrite-cmake":
        rewritten = api.rewrite_cmake(
            Path(args.root), floor=args.minimum, dry_run=args.dry_run, progress=session.progress
        )
        return Answer(document=rewritten, view=views.view_rewrite)
    if args.step == "fetch":
        got = api.source_fetch(
            path(args.source),
            project=args.project,
            release=args.release,
            plan=path(args.plan),
            match=path(args.match),
            revision=args.revision,
            place=args.place,
            sha256=args.sha256,
            mirrors=args.mirror,
            reference=path(args.reference),
            submodules=not args.no_submodules,
            find_links=args.find_links,
            offline=args.offline,
            workspace=args.workspace,
            progress=session.progress,
        )
        lacks = bool(got.missing_submodules) and not args.no_submodules
        return Answer(document=got, view=views.view_tree, exit_code=_exit(lacks))
    root = api.find_tree(path(args.tree or args.source), args.workspace)
    if args.step == "hipify":
        tree = api.source_hipify(root, python=args.python, undo=args.undo, progress=session.progress)
        return Answer(document=tree, view=views.view_tree)
    if args.step == "save-patches":
        saved = api.save_patches(root, Path(args.output), base=args.base)
        return Answer(document=saved, view=views.view_saved)
    if args.step == "fill":
        tree = api.source_fill(
            root,
            plan=path(args.plan),
            find_links=args.find_links,
            offline=args.offline,
            workspace=args.workspace,
            progress=session.progress,
        )
        return Answer(document=tree, view=views.view_tree, exit_code=_exit(bool(tree.missing_submodules)))
    if args.step == "unpatch":
        return Answer(document=api.source_unpatch(root), view=views.view_tree)
    context = {
        "plan": path(args.plan),
        "python": args.python,
        "patches": path(args.patches),
        "given": {name: getattr(args, name) for name in _FACTS},
    }
    if args.step == "status":
        tree = api.source_status(root, **context)
        return Answer(document=tree, view=views.view_tree, exit_code=_exit(bool(tree.missing_submodules)))
    tree = api.source_patch(root, dry_run=args.dry_run, only=args.only, **context)
    view = views.view_diff if args.dry_run else views.view_tree
    return Answer(document=tree, view=view, exit_code=_exit(bool(tree.conflicts or tree.missing_submodules)))


def _exit(no: bool) -> Exit:
    return Exit.NO if no else Exit.YES
