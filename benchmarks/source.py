"""How long source takes on real trees, side by side with git, GNU patch and a naive rewriter.

    python benchmarks/source.py [TREE …]

Trees: PyTorch source trees (default: those .ci/prepare/source.sh fetched). Each is copied first. Every figure
is the best of three, in seconds, wall and CPU; files are in the page cache for all sides alike.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rekindle.source.patches import Choice, Context, Patch, apply, load_patches, unapply
from rekindle.source.rewrite import rewrite_cmake
from rekindle.source.tree import recognise

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci"
ROUNDS = 3


def cpu() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def best(work: Callable[[], object], undo: Callable[[], object] = lambda: None) -> tuple[float, float]:
    figures = []
    for _ in range(ROUNDS):
        wall, used = time.perf_counter(), cpu()
        work()
        figures.append((time.perf_counter() - wall, cpu() - used))
        undo()
    return min(figures)


def fitting(tree: Path, version: str) -> list[Patch]:
    context = Context({"version": version}, tree)
    return [
        patch
        for patch in load_patches("torch")
        if any(all(one.holds(context) for one in block if one.key in ("version", "file")) for block in patch.applies)
    ]


def command_line(tree: Path, *arguments: str) -> None:
    argv = [sys.executable, "-m", "rekindle", "source", *arguments]
    subprocess.run(argv, cwd=tree, check=True, stdout=subprocess.DEVNULL)


def git_apply(tree: Path, patches: list[Patch], *extra: str) -> None:
    for patch in patches[:: -1 if extra else 1]:
        subprocess.run(
            ["git", "apply", "--unidiff-zero", *extra, "-"],
            cwd=tree,
            input=patch.raw,
            check=True,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)},
        )


def naive(tree: Path) -> None:
    """What the copied-around scripts do: a pattern over every CMakeLists.txt. Wrong, but the figure to beat."""
    pattern = re.compile(r"(cmake_minimum_required\s*\(\s*VERSION\s+)[0-9.]+", re.I)
    for path in tree.rglob("CMakeLists.txt"):
        pattern.sub(r"\g<1>3.5", path.read_text(errors="replace"))


def measure(origin: Path, room: Path) -> None:
    tree = room / origin.name
    shutil.copytree(origin, tree, symlinks=True, ignore=shutil.ignore_patterns(".rekindle"))
    project, version = recognise(tree)
    patches = fitting(tree, version)
    choices = [Choice(patch, "needed", "benchmark") for patch in patches]
    names = [word for patch in patches for word in ("--only", patch.id)]
    files = sum(len(names) for _, _, names in os.walk(tree))
    print(f"{project} {version}: {files} files, {len(patches)} patches fit")
    rows = [
        ("patch, in the library", best(lambda: apply(tree, choices), lambda: unapply(tree))),
        ("patch, the command", best(lambda: command_line(tree, "patch", *names), lambda: unapply(tree))),
        ("  git apply, one by one", best(lambda: git_apply(tree, patches), lambda: git_apply(tree, patches, "-R"))),
        ("status, the command", best(lambda: subprocess.run(
            [sys.executable, "-m", "rekindle", "source", "status"], cwd=tree, stdout=subprocess.DEVNULL))),
        ("rewrite-cmake, dry run, library", best(lambda: rewrite_cmake(tree, dry_run=True))),
        ("rewrite-cmake, dry run, command", best(lambda: command_line(
            tree, "rewrite-cmake", "--root", ".", "--dry-run"))),
        ("  naive pattern over CMakeLists.txt", best(lambda: naive(tree))),
    ]  # fmt: skip
    apply(tree, choices)
    rows.append(("unpatch, in the library", best(lambda: unapply(tree), lambda: apply(tree, choices))))
    for name, (wall, used) in rows:
        print(f"  {name:<38} {wall:7.3f} s wall  {used:7.3f} s CPU")


def main() -> None:
    trees = [Path(name) for name in sys.argv[1:]] or sorted(CACHE.glob("pytorch-*"))
    if not trees:
        sys.exit("no tree: give one, or run .ci/prepare/source.sh")
    with tempfile.TemporaryDirectory() as room:
        for tree in trees:
            measure(tree, Path(room))


if __name__ == "__main__":
    main()
