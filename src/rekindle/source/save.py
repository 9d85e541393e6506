"""Writes the user's commits back as patch files with headers, ready to be filled in and kept."""

from __future__ import annotations

import re
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.files import write_for_user
from rekindle.host.git import Git
from rekindle.model.source import SavedPatches
from rekindle.source import history
from rekindle.source.patches import BASE_TAG, parse_patch
from rekindle.source.prepare import tree_version

_FORMAT = "%H%x00%an <%ae>%x00%as%x00%ae%x00%B"


def save_patches(root: Path, folder: Path, *, base: str | None = None) -> SavedPatches:
    """One file per commit of the user's since ``base`` (default: our latest mark); our own commits are left out."""
    root = root.resolve()
    project, version = tree_version(root)
    git = Git(root)
    if not git.present:
        raise BadInput(f"{root} has no git history, so there are no commits to save", remedy="git init, commit, change")
    start = base or next(
        (tag for tag in (history.HIPIFIED_TAG, history.PATCHED_TAG, BASE_TAG) if history.has_tag(git, tag)), None
    )
    if start is None or not git.ask("rev-parse", "-q", "--verify", f"{start}^{{commit}}").ok:
        raise BadInput(f"{root} has no {start or BASE_TAG}", remedy="say from where with --base TAG-OR-COMMIT")
    files: list[str] = []
    skipped: list[str] = []
    for commit in git.run("rev-list", "--reverse", f"{start}..HEAD").split():
        sha, author, date, mail, message = git.run("show", "-s", f"--format={_FORMAT}", commit).split("\0", 4)
        subject, _, body = message.strip().partition("\n")
        if mail.strip() == history.AUTHOR:
            continue
        if len(git.run("rev-list", "--parents", "-n", "1", commit).split()) > 2:
            skipped.append(f"{sha[:12]} ({subject}) is a merge")
            continue
        diff = git.run(
            "-c",
            "core.quotepath=false",
            "diff-tree",
            "-p",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--no-commit-id",
            "--no-color",
            "--root",
            commit,
        )
        name = f"{len(files) + 1:04d}-{_slug(subject)}.patch"
        content = f"{_header(subject, body, author, sha, date, version)}---\n{diff}"
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


def _header(subject: str, body: str, author: str, sha: str, date: str, version: str) -> str:
    lines = [f"Description: {subject.strip() or 'no description'}"]
    lines += [f" {line.strip()}" if line.strip() else " ." for line in body.strip().splitlines()]
    lines += [
        f"Author: {' '.join(author.split())}",
        f"Origin: local, commit {sha}",
        "Applies-To:",
        f" version =={version}",
        f"Last-Update: {date.strip()}",
    ]
    return "\n".join(lines) + "\n"


def _slug(subject: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")
    return words[:50].rstrip("-") or "change"
