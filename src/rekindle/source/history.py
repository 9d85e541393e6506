"""Our marks in a tree's history: the tags between upstream, our patches and hipify, and commits of our own.

A tree with git gets them in its own repository; one without, or without a commit yet, in a private one
(``.rekindle/git``), so that "what did we change" is one git command there too. The user's own commits after these marks
can be saved as patch files with headers, ready to be filled in and kept.

Hipify turns CUDA sources into HIP with the tree's own script: what stood before is committed and tagged, and the result
as well, so that one can go back. A run that was cut short is cleaned up by the next one.
"""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from rekindle.errors import BadInput, StageFailed
from rekindle.host.files import write_atomically, write_for_user
from rekindle.host.git import Git
from rekindle.host.process import run_long
from rekindle.model.progress import Progress, Silent
from rekindle.model.source import SavedPatches, SourceTree
from rekindle.source import journal
from rekindle.source.patches import BASE_TAG, git_line, parse_patch, status
from rekindle.source.paths import plain_files
from rekindle.source.tree import find_submodules, tree_version

# BASE_TAG is upstream as it came; these are with our patches, and after hipify.
PATCHED_TAG = "rekindle-patched"
HIPIFIED_TAG = "rekindle-hipified"
AUTHOR = "rekindle@localhost"
_IDENTITY = ("-c", "user.name=rekindle", "-c", f"user.email={AUTHOR}", "-c", "commit.gpgsign=false")
_BATCH = 500
_DIFF = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-commit-id", "--no-color")
_FORMAT = "%H%x00%an <%ae>%x00%as%x00%ae%x00%B"
SCRIPT = "tools/amd_build/build_amd.py"
_SKIPPED = frozenset({".git", journal.FOLDER, "build", "__pycache__"})


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


def hipify(root: Path, *, python: str | None = None, progress: Progress | None = None) -> SourceTree:
    """Hipify once; a tree that is hipified already stays as it is."""
    root = root.resolve()
    listener = progress or Silent()
    tree = status(root)
    if not (root / SCRIPT).is_file():
        raise BadInput(f"{root} has no {SCRIPT}, so it cannot be hipified", remedy="give a torch tree of 1.0 or later")
    if tree.hipified:
        return _shown(tree)
    with journal.locked(root):
        git = open_history(root)
        mark = journal.folder(root) / "hipify.before"
        if mark.is_file():
            # One that was cut short: changed files back, new ones away.
            _reset(git)
            for path in _snapshot(root).keys() - set(mark.read_text(encoding="utf-8").splitlines()):
                (root / path).unlink()
            mark.unlink()
        ours = {file.path for file in journal.read_record(root).files}
        if foreign := [path for path in git.dirty() if path not in ours]:
            message = f"{foreign[0]} has uncommitted changes that are not ours; hipify would bury them"
            raise StageFailed(message, remedy="commit or undo them first")
        stage(git, _own_paths(root, ours))
        commit(git, f"rekindle: {len(tree.patches)} patches")
        git.tag(PATCHED_TAG, force=True)
        before = _snapshot(root)
        write_atomically(mark, "\n".join(before) + "\n")
        listener.stage("hipify", f"{len(before)} files")
        _run(root, python or sys.executable, listener)
        after = _snapshot(root)
        changed = {path for path, stamp in after.items() if before.get(path) != stamp} | (set(before) - set(after))
        own = _own_paths(root, changed)
        stage(git, own)
        commit(git, f"rekindle: hipify ({len(changed)} files)")
        git.tag(HIPIFIED_TAG, force=True)
        record = journal.read_record(root)
        journal.write_record(root, msgspec.structs.replace(record, hipified=True))
        mark.unlink()
    inner = changed - own
    notes = (f"{len(inner)} of them lie in submodules and are in no commit of this tree",) if inner else ()
    return msgspec.structs.replace(_shown(status(root)), changed=tuple(sorted(changed)), notes=notes)


def undo_hipify(root: Path) -> SourceTree:
    """Back to the tree before hipify: our patches are in the working tree, nothing of HIP is."""
    root = root.resolve()
    with journal.locked(root):
        record = journal.read_record(root)
        git = open_history(root)
        if not record.hipified or not has_tag(git, PATCHED_TAG):
            raise BadInput(f"{root} was not hipified by us")
        if later := git.run("rev-list", f"{HIPIFIED_TAG}..HEAD").split():
            remedy = "keep them first: rekindle source save-patches"
            raise StageFailed(f"{len(later)} commits of yours lie on top of hipify", remedy=remedy)
        _reset(git)
        for tag in (PATCHED_TAG, HIPIFIED_TAG):
            git.run("tag", "--delete", tag)
        journal.write_record(root, msgspec.structs.replace(record, hipified=False))
    return status(root)


def _shown(tree: SourceTree) -> SourceTree:
    tags = (PATCHED_TAG, HIPIFIED_TAG)
    command = git_line(open_history(Path(tree.root)), "diff", "--stat", *tags)
    return msgspec.structs.replace(tree, diff_command=command)


def _run(root: Path, python: str, progress: Progress) -> None:
    told = ["no output"]

    def on_line(line: str) -> None:
        told[:] = [line.strip() or told[0]]
        progress.step(0, None, told[0])

    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
    if code := run_long([python, str(root / SCRIPT)], cwd=root, env=environment, on_line=on_line):
        remedy = "the same command cleans up and begins again"
        raise StageFailed(f"{SCRIPT} ended with exit code {code}: {told[0]}", remedy=remedy)


def _reset(git: Git) -> None:
    git.run("reset", "--hard", "--quiet", PATCHED_TAG, timeout=600.0)
    # The commit of our patches goes, its content stays: patches live in the working tree.
    git.run("reset", "--mixed", "--quiet", f"{PATCHED_TAG}~1", timeout=600.0)


def _snapshot(root: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file; enough to see what a run touched."""
    stats = {path: path.stat() for path in plain_files(root, _SKIPPED.__contains__) if path.name != ".git"}
    return {path.relative_to(root).as_posix(): (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


def _own_paths(root: Path, paths: set[str]) -> set[str]:
    """Those that belong to this repository; a submodule's files belong to its own."""
    inner = tuple(f"{path}/" for path in find_submodules(root) if (root / path / ".git").exists())
    return {path for path in paths if not path.startswith(inner)}
