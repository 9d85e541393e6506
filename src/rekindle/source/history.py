"""Our marks in a tree's history: the tags between upstream, our patches and hipify, and commits of our own.

A tree with git gets them in its own repository. For one without, or without a commit yet, a private repository
in ``.rekindle/git`` holds them, so that "what did we change" is one git command there too.

``rekindle-base`` upstream as it came · ``rekindle-patched`` with our patches · ``rekindle-hipified`` after hipify
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.git import Git
from rekindle.source import journal
from rekindle.source.patches import BASE_TAG

PATCHED_TAG = "rekindle-patched"
HIPIFIED_TAG = "rekindle-hipified"
AUTHOR = "rekindle@localhost"
_IDENTITY = ("-c", "user.name=rekindle", "-c", f"user.email={AUTHOR}", "-c", "commit.gpgsign=false")
_BATCH = 500


def open_history(root: Path) -> Git:
    """The repository that holds our marks; made on first use for a tree without git."""
    own = Git(root)
    if own.present and own.head() is not None:
        return own
    private = Git(root, private=journal.folder(root) / "git")
    if not (journal.folder(root) / "git" / "HEAD").is_file():
        private.run("init", "--quiet")
        private.run("config", "core.autocrlf", "false")
    if private.head() is None:
        # Everything, also what .gitignore names: the tree as it came is the base.
        private.run("add", "--all", "--force", "--", ".", ":!.rekindle", timeout=600.0)
        _put_originals(private)
        commit(private, "rekindle: the tree as it was found")
    private.tag(BASE_TAG)
    return private


def _put_originals(git: Git) -> None:
    """Files we patched before enter the base as they were; the working tree keeps the patches."""
    for file in journal.read_record(git.root).files:
        if file.original is None:
            git.run("rm", "--quiet", "--cached", "--ignore-unmatch", "--", file.path)
            continue
        blob = git.run("hash-object", "-w", "--no-filters", str(journal.original_path(git.root, file.original))).strip()
        mode = "100755" if (file.mode or 0) & 0o100 else "100644"
        git.run("update-index", "--add", "--cacheinfo", f"{mode},{blob},{file.path}")


def commit(git: Git, message: str) -> str:
    """Commit what is staged, empty or not, without hooks or signatures; gives the commit."""
    git.run(
        *_IDENTITY, "commit", "--quiet", "--no-verify", "--allow-empty", "--cleanup=verbatim", "-m", message,
        timeout=600.0,
    )  # fmt: skip
    head = git.head()
    if head is None:
        raise BadInput(f"git has no commit in {git.root} after committing; is its history broken?")
    return head


def stage(git: Git, paths: Iterable[str]) -> None:
    """Stage changes, additions and deletions of exactly these paths, ignored ones too."""
    everything = sorted(set(paths))
    for first in range(0, len(everything), _BATCH):
        batch = everything[first : first + _BATCH]
        there = [path for path in batch if (git.root / path).exists() or (git.root / path).is_symlink()]
        if there:
            git.run("add", "--force", "--", *there, timeout=600.0)
        gone = [path for path in batch if path not in there]
        if gone:
            git.run("rm", "--quiet", "--cached", "--ignore-unmatch", "--", *gone, timeout=600.0)


def has_tag(git: Git, name: str) -> bool:
    return git.ask("rev-parse", "-q", "--verify", f"refs/tags/{name}").ok
