"""Our marks in a tree's history: the tags between upstream, our patches and hipify, and commits of our own.

A tree with git gets them in its own repository; one without, or without a commit yet, in a private one
(``.rekindle/git``), so that "what did we change" is one git command there too. The user's own commits after these marks
can be saved as patch files with headers, ready to be filled in and kept.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.files import write_for_user
from rekindle.host.git import Git
from rekindle.model.source import SavedPatches
from rekindle.source import journal
from rekindle.source.patches import BASE_TAG, parse_patch
from rekindle.source.tree import tree_version

# BASE_TAG is upstream as it came; these are with our patches, and after hipify.
PATCHED_TAG = "rekindle-patched"
HIPIFIED_TAG = "rekindle-hipified"
AUTHOR = "rekindle@localhost"
_IDENTITY = ("-c", "user.name=rekindle", "-c", f"user.email={AUTHOR}", "-c", "commit.gpgsign=false")
_BATCH = 500
_DIFF = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-commit-id", "--no-color")
_FORMAT = "%H%x00%an <%ae>%x00%as%x00%ae%x00%B"


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
        # Files we patched before enter the base as they were; the working tree keeps the patches.
        for file in journal.read_record(root).files:
            if file.original is None:
                private.run("rm", "--quiet", "--cached", "--ignore-unmatch", "--", file.path)
                continue
            original = str(journal.original_path(root, file.original))
            blob = private.run("hash-object", "-w", "--no-filters", original).strip()
            mode = "100755" if file.mode and file.mode & 0o100 else "100644"
            private.run("update-index", "--add", "--cacheinfo", f"{mode},{blob},{file.path}")
        commit(private, "rekindle: the tree as it was found")
    private.tag(BASE_TAG)
    return private


def commit(git: Git, message: str) -> None:
    """Commit what is staged, empty or not, without hooks or signatures."""
    words = ("commit", "--quiet", "--no-verify", "--allow-empty", "--cleanup=verbatim", "-m", message)
    git.run(*_IDENTITY, *words, timeout=600.0)


def stage(git: Git, paths: Iterable[str]) -> None:
    """Stage changes, additions and deletions of exactly these paths, ignored ones too."""
    everything = sorted(set(paths))
    for first in range(0, len(everything), _BATCH):
        batch = everything[first : first + _BATCH]
        if there := [path for path in batch if os.path.lexists(git.root / path)]:
            git.run("add", "--force", "--", *there, timeout=600.0)
        if gone := [path for path in batch if path not in there]:
            git.run("rm", "--quiet", "--cached", "--ignore-unmatch", "--", *gone, timeout=600.0)


def has_tag(git: Git, name: str) -> bool:
    """Is there such a tag?"""
    return git.ask("rev-parse", "-q", "--verify", f"refs/tags/{name}").ok


def save_patches(root: Path, folder: Path, *, base: str | None = None) -> SavedPatches:
    """One file per commit of the user's since ``base`` (default: our latest mark); our own commits are left out."""
    root = root.resolve()
    project, version = tree_version(root)
    git = Git(root)
    if not git.present:
        raise BadInput(f"{root} has no git history, so there are no commits to save", remedy="git init, commit, change")
    start = base or next((tag for tag in (HIPIFIED_TAG, PATCHED_TAG, BASE_TAG) if has_tag(git, tag)), None)
    if start is None or not git.ask("rev-parse", "-q", "--verify", f"{start}^{{commit}}").ok:
        raise BadInput(f"{root} has no {start or BASE_TAG}", remedy="say from where with --base TAG-OR-COMMIT")
    files: list[str] = []
    skipped: list[str] = []
    for commit in git.run("rev-list", "--reverse", f"{start}..HEAD").split():
        sha, author, date, mail, message = git.run("show", "-s", f"--format={_FORMAT}", commit).split("\0", 4)
        subject, _, body = message.strip().partition("\n")
        if mail.strip() == AUTHOR:
            continue
        if len(git.run("rev-list", "--parents", "-n", "1", commit).split()) > 2:
            skipped.append(f"{sha[:12]} ({subject}) is a merge")
            continue
        diff = git.run("-c", "core.quotepath=false", "diff-tree", "-p", *_DIFF, "--root", commit)
        words = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")[:50].rstrip("-")
        name = f"{len(files) + 1:04d}-{words or 'change'}.patch"
        why = "".join(f" {line.strip() or '.'}\n" for line in body.strip().splitlines())
        head = f"Description: {subject.strip() or 'no description'}\n{why}Author: {' '.join(author.split())}\n"
        head += f"Origin: local, commit {sha}\nApplies-To:\n version =={version}\nLast-Update: {date.strip()}\n"
        content = f"{head}---\n{diff}"
        try:
            parse_patch(content.encode("utf-8", "surrogateescape"), project, id=name, origin=name)
        except BadInput as error:
            skipped.append(f"{sha[:12]} ({subject}): {error.message}")
            continue
        target = folder / name
        if target.exists() and target.read_text(encoding="utf-8", errors="replace") != content:
            raise BadInput(f"{target} exists and is different", remedy="give another directory with --output DIR")
        write_for_user(target, content)
        files.append(str(target))
    if git.dirty():
        skipped.append("uncommitted changes are not saved: commit them first")
    return SavedPatches(root=str(root), base=start, files=tuple(files), skipped=tuple(skipped))
