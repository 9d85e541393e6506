"""A PyTorch, torchvision or torchaudio tree that is ready to build, whatever its age."""

from __future__ import annotations

import argparse
from pathlib import Path

from rekindle.cli.verb import Answer, Session, add_common
from rekindle.errors import Exit

EXAMPLES = """examples:
  rekindle source status --source pytorch              what this tree is, what it needs, what we changed
  rekindle source patch --source pytorch --dry-run     what would be changed, as a diff
  rekindle source patch --source pytorch --plan plan.json
  rekindle source unpatch --source pytorch             every file as it was, byte for byte
  rekindle source rewrite-cmake --root any/tree --dry-run

'rekindle source STEP --help' tells more about each.
"""
_FACTS = ("cmake", "compiler", "setuptools", "numpy", "glibc", "cuda", "rocm", "fmt", "os", "arch", "backend")

_EXAMPLE = {"compiler": '"gcc 13.2"', "os": "linux|windows", "arch": "x86_64|aarch64", "backend": "cpu|cuda|rocm"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True)

    def step(name: str, summary: str) -> argparse.ArgumentParser:
        sub = steps.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        add_common(sub, inner=True)
        return sub

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
    rewrite = step("rewrite-cmake", "raise CMake versions below 3.5 in any tree (CMake 4 refuses them)")
    rewrite.add_argument("--root", required=True, metavar="DIR", help="top of the tree")
    rewrite.add_argument("--dry-run", action="store_true", help="tell, and change nothing")
    rewrite.add_argument("--minimum", default="3.5", metavar="X.Y", help="raise to this version (default: 3.5)")


def _add_tree(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", default=".", metavar="DIR", help="top of the tree (default: here)")


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
    if args.step == "unpatch":
        return Answer(document=api.source_unpatch(Path(args.source)), view=views.view_tree)
    context = {
        "plan": Path(args.plan) if args.plan else None,
        "python": args.python,
        "patches": Path(args.patches) if args.patches else None,
        "given": {name: getattr(args, name) for name in _FACTS},
    }
    if args.step == "status":
        tree = api.source_status(Path(args.source), **context)
        return Answer(document=tree, view=views.view_tree, exit_code=_exit(bool(tree.missing_submodules)))
    tree = api.source_patch(Path(args.source), dry_run=args.dry_run, only=args.only, **context)
    view = views.view_diff if args.dry_run else views.view_tree
    return Answer(document=tree, view=view, exit_code=_exit(bool(tree.conflicts)))


def _exit(no: bool) -> Exit:
    return Exit.NO if no else Exit.YES
