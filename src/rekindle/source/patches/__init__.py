"""Patches as files: load them, choose those a build needs, apply them, take them out, show what is in.

The folders beside this file hold the patches, one per project; docs/patches.md describes their form.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rekindle.errors import BadInput, StageFailed
from rekindle.host.files import write_atomically
from rekindle.host.git import Git
from rekindle.model.source import AppliedPatch, SourceTree, TreeRecord
from rekindle.scripts.quoting import paste_line
from rekindle.source import journal
from rekindle.source.patches import engine
from rekindle.source.patches.engine import Choice
from rekindle.source.patches.header import Context, Patch, holds, load_patches, parse_patch, read_patch
from rekindle.source.tree import exact_version, recognise, tree_digest

__all__ = ["Choice", "Context", "Patch", "load_patches", "parse_patch", "read_patch"]
BASE_TAG = "rekindle-base"


def git_line(git: Git, *words: str) -> str:
    """A git command on that tree as a person pastes it into a shell."""
    return paste_line(["git", *git.place, *words], windows=git.host.system == "windows")


def choose(patches: Sequence[Patch], context: Context) -> tuple[Choice, ...]:
    """One choice per patch, in order. Of a group (variants of one fix) only the first needed one counts."""
    choices: list[Choice] = []
    served: dict[str, str] = {}
    for patch in patches:
        verdict, why = holds(patch.applies, context)
        if patch.group and verdict == "needed" and (first := served.setdefault(patch.group, patch.id)) != patch.id:
            verdict, why = "not-needed", f"{first} does the same"
        choices.append(Choice(patch, verdict, why))
    return tuple(choices)


def apply(tree: Path, patches: Sequence[Patch | Choice], *, dry_run: bool = False) -> SourceTree:
    """Apply what is needed: every patch, or of choices those with the verdict "needed". ``dry_run`` changes nothing and
    returns the states and the diff. Otherwise a conflict is :class:`StageFailed` and leaves the tree as it was."""
    root = tree.resolve()
    project, _ = recognise(root)
    choices = _choices(patches)
    for patch, verdict, _ in choices:
        if verdict == "needed" and patch.project != project:
            raise BadInput(f"patch {patch.id} is for {patch.project}, and {root} is a tree of {project}")
    if dry_run:
        record = journal.read_record(root)
        plan = engine.survey(root, choices, record)
        changed = tuple(edit.path for edit in plan.edits)
        return _describe(root, record, plan.patches, changed=changed, diff=engine.render_diff(plan.edits))
    with journal.locked(root):
        repaired = journal.repair(root)
        record = journal.read_record(root)
        plan = engine.survey(root, choices, record)
        _refuse(root, plan, record)
        git = Git(root)
        if git.present and git.head() is not None:
            git.tag(BASE_TAG)
        if plan.taken:
            # The patch files themselves, so that a later rekindle with other patches can still take them out.
            with journal.writing(root):
                for patch in plan.taken:
                    write_atomically(journal.folder(root) / "patches" / f"{patch.id}.patch", patch.raw)
            record = engine.carry_out(root, plan, record)
    done = [msgspec.structs.replace(each, state="applied") if each.state == "clean" else each for each in plan.patches]
    return _describe(root, record, done, repaired=repaired, changed=tuple(edit.path for edit in plan.edits))


def unapply(tree: Path) -> SourceTree:
    """Take out everything ``apply`` put in; every file is again what it was, byte for byte."""
    root = tree.resolve()
    recognise(root)
    with journal.locked(root):
        repaired = journal.repair(root)
        record = journal.read_record(root)
        if record.hipified:
            message = f"{root} was hipified on top of its patches, so they cannot be taken out alone"
            raise StageFailed(message, remedy="rekindle source hipify --undo, then unpatch")
        files = [journal.folder(root) / "patches" / f"{patch.id}.patch" for patch in record.patches]
        kept = [read_patch(file, record.project or "kept") for file in files if file.is_file()]
        edits, after = engine.take_out(root, record, kept)
        journal.commit(root, edits, after)
    changed = tuple(edit.path for edit in edits)
    return _describe(root, journal.read_record(root), (), repaired=repaired, changed=changed)


def status(tree: Path, patches: Sequence[Patch | Choice] = ()) -> SourceTree:
    """What the tree is and what we changed in it; takes back a change that was cut short."""
    root = tree.resolve()
    recognise(root)
    repaired = None
    if journal.begun(root):
        with journal.locked(root):
            repaired = journal.repair(root)
    record = journal.read_record(root)
    return _describe(root, record, engine.survey(root, _choices(patches), record).patches, repaired=repaired)


def _choices(patches: Sequence[Patch | Choice]) -> list[Choice]:
    return [each if isinstance(each, Choice) else Choice(each, "needed", "asked for") for each in patches]


def _refuse(root: Path, plan: engine.Survey, record: TreeRecord) -> None:
    if first := next((patch for patch in plan.patches if patch.state == "conflict"), None):
        remedy = "take a clean tree of the right version, or undo the local edits ('rekindle source status')"
        raise StageFailed(f"patch {first.id} does not fit {root}: {first.detail}; nothing was changed", remedy=remedy)
    ours = {file.path for file in record.files}
    touched = [edit.path for edit in plan.edits if edit.path not in ours]
    git = Git(root)
    if touched and git.present and (dirty := git.dirty(*touched)):
        message = f"{dirty[0]} has uncommitted changes, and a patch wants to change it; nothing was changed"
        raise StageFailed(message, remedy=f"commit or undo them first: {git_line(git, 'diff', dirty[0])}")


def _describe(root: Path, record: TreeRecord, patches: Sequence[AppliedPatch], **done: Any) -> SourceTree:
    project, version = recognise(root)
    git = Git(root)
    has_git = git.present and git.head() is not None
    shown = {patch.id for patch in patches}
    hidden = (patch for patch in record.patches if patch.id not in shown)
    rest = [AppliedPatch(id=patch.id, state="applied", sha256=patch.sha256, files=patch.files) for patch in hidden]
    exact = record.version or exact_version(version, git.tag_at_head() if has_git else None)
    return SourceTree(
        project=project,
        version=exact,
        digest=tree_digest(root, git if has_git else None, record, project, exact),
        root=str(root),
        commit=record.commit or (git.head() if has_git else None),
        origin=record.origin,
        patches=(*patches, *rest),
        hipified=record.hipified,
        diff_command=git_line(git, "diff", "--submodule=diff", BASE_TAG) if has_git and record.files else None,
        **done,
    )
