"""Applies patches to a tree and takes them out again: all or none, idempotent, byte for byte.

Everything is decided in memory first (``survey``); only then is anything written, through the journal.
Context must match in full (no fuzz); a hunk may have moved, and the nearest place counts.

``git apply`` does less: a release's archive is fetched and patched where there is no git (Windows), a tree inside
another repository is taken for a part of it, a file with CRLF gets new lines without, of a patch that is half in the
tree nothing is applied, and nobody can say which of several patches conflicts before the first one is written.
"""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from rekindle.errors import BadInput, StageFailed
from rekindle.model.source import AppliedPatch, PatchState, RecordedFile, RecordedPatch, TreeRecord
from rekindle.source import journal
from rekindle.source.journal import Edit
from rekindle.source.patches.diff import FileDiff, Hunk, split_lines
from rekindle.source.patches.header import Patch, Verdict
from rekindle.source.paths import inside

MAX_FILE_BYTES = 64 << 20


class Choice(NamedTuple):
    patch: Patch
    verdict: Verdict
    why: str


class Mismatch(Exception):
    """The diff does not fit these bytes; the text says where."""


def apply_diff(diff: FileDiff, content: bytes | None) -> bytes | None:
    """``content`` after the diff. None stands for "no such file", before and after."""
    if diff.creates:
        if content is not None:
            raise Mismatch(f"{diff.path} exists already")
        return b"".join(diff.hunks[0].after)
    if content is None:
        raise Mismatch(f"{diff.path} is not in the tree")
    lines = split_lines(content)
    crlf = uses_crlf(content)
    shift = floor = 0
    for number, hunk in enumerate(diff.hunks, 1):
        # "@@ -5,0 +6,2 @@" inserts after line 5: an empty side counts from the line before.
        first = hunk.start - 1 if hunk.before else hunk.start
        at, fitted = _place(hunk, lines, first + shift, floor, crlf)
        if at is None:
            raise Mismatch(f"hunk {number} (line {hunk.start}) does not fit {diff.path}")
        lines[at : at + len(fitted.before)] = fitted.after
        floor = at + len(fitted.after)
        shift = floor - first - len(fitted.before)
    if diff.deletes:
        if lines:
            raise Mismatch(f"{diff.path} is to be deleted but has other content")
        return None
    return b"".join(lines)


def uses_crlf(content: bytes) -> bool:
    """Do most lines end as Windows ends them?"""
    return content.count(b"\r\n") * 2 > content.count(b"\n")


def _place(hunk: Hunk, lines: list[bytes], expected: int, floor: int, crlf: bool) -> tuple[int | None, Hunk]:
    """Where the hunk fits, of several places the one nearest to where it is expected, and in which form."""
    for candidate in (hunk, _with_crlf(hunk)) if crlf else (hunk,):
        size = len(candidate.before)
        for at in sorted(range(floor, len(lines) - size + 1), key=lambda index: abs(index - expected)):
            if tuple(lines[at : at + size]) == candidate.before:
                return at, candidate
    return None, hunk


def _with_crlf(hunk: Hunk) -> Hunk:
    sides = (tuple(re.sub(rb"(?<!\r)\n\Z", b"\r\n", line) for line in side) for side in (hunk.before, hunk.after))
    return Hunk(hunk.start, *sides)


@dataclass
class Survey:
    """What would happen: the state of each patch, and every file's content before and after."""

    patches: list[AppliedPatch] = field(default_factory=list)
    taken: list[Patch] = field(default_factory=list)
    before: dict[str, bytes | None] = field(default_factory=dict)
    after: dict[str, bytes | None] = field(default_factory=dict)
    executable: set[str] = field(default_factory=set)

    @property
    def edits(self) -> tuple[Edit, ...]:
        changed = {path: content for path, content in self.after.items() if content != self.before[path]}
        return tuple(Edit(path, self.before[path], new, path in self.executable) for path, new in changed.items())


def survey(root: Path, choices: Sequence[Choice], record: TreeRecord) -> Survey:
    """Try all patches that are needed on the tree's present content, one after the other, in memory; say of the others
    how they stand."""
    result = Survey()
    ours = {patch.id: patch for patch in record.patches}
    for patch, verdict, why in choices:
        state: PatchState = "unknown" if verdict == "unknown" else "not-needed"
        detail: str | None = why
        if verdict == "needed":
            for path in patch.paths:
                if path not in result.before:
                    result.before[path] = result.after[path] = _read(root, path, patch.id)
            state, problem, contents = _try(patch, ours.get(patch.id), result.after)
            detail = problem or why
            if state == "clean":
                result.after.update(contents)
                result.taken.append(patch)
                result.executable.update(diff.path for diff in patch.files if diff.creates and diff.executable)
        elif patch.id in ours:
            # Whatever its conditions say now: the patch itself may have made "file … contains …" untrue.
            state, detail = "applied", None
        result.patches.append(
            AppliedPatch(
                id=patch.id,
                state=state,
                # Only what is in the tree, or would be, has a hash: bills of materials list those that do.
                sha256=patch.sha256 if state in ("clean", "applied") else None,
                files=patch.paths,
                detail=detail,
                title=patch.title,
                source=patch.bug or patch.origin,
                instead=patch.instead,
            )
        )
    return result


def carry_out(root: Path, plan: Survey, record: TreeRecord) -> TreeRecord:
    """Write what the survey found. The caller holds the lock and has seen that there is no conflict."""
    edits = plan.edits
    known = {file.path: file for file in record.files}
    for edit in edits:
        first = known.get(edit.path)
        mode = None if edit.before is None else inside(root, edit.path, origin="a patch").stat().st_mode & 0o7777
        known[edit.path] = RecordedFile(
            path=edit.path,
            original=first.original if first else journal.sha256(edit.before),
            left=journal.sha256(edit.after),
            mode=first.mode if first else mode,
        )
    new = tuple(RecordedPatch(id=patch.id, sha256=patch.sha256, files=patch.paths) for patch in plan.taken)
    updated = msgspec.structs.replace(record, patches=(*record.patches, *new), files=tuple(known.values()))
    journal.commit(root, edits, updated)
    return journal.read_record(root)


def take_out(root: Path, record: TreeRecord, patches: Sequence[Patch]) -> tuple[tuple[Edit, ...], TreeRecord]:
    """Plan the way back: the kept originals where nothing else changed, reversed hunks where the user edited on."""
    edits: list[Edit] = []
    known = {patch.id: patch for patch in patches}
    for file in record.files:
        now = _read(root, file.path, "the record")
        if journal.sha256(now) != file.left:
            back = _reverse_by_hand(root, file.path, now, record, known)
        else:
            back = _original(root, file.original) if file.original is not None else None
        if back != now:
            edits.append(Edit(file.path, now, back))
    return tuple(edits), msgspec.structs.replace(record, patches=(), files=())


def render_diff(edits: Sequence[Edit]) -> str:
    """A unified diff of edits, for people and for ``git apply``."""
    import difflib

    pieces: list[str] = []
    for edit in edits:
        sides = {"a": edit.before, "b": edit.after}
        names = [f"{mark}/{edit.path}" if side is not None else "/dev/null" for mark, side in sides.items()]
        texts = [split_lines(side or b"") for side in sides.values()]
        old, new = ([line.decode("utf-8", "surrogateescape") for line in text] for text in texts)
        rows = difflib.unified_diff(old, new, names[0], names[1])
        pieces += [row if row.endswith("\n") else row + "\n\\ No newline at end of file\n" for row in rows]
    return "".join(pieces).encode("utf-8", "replace").decode()


def _try(
    patch: Patch, ours: RecordedPatch | None, contents: dict[str, bytes | None]
) -> tuple[PatchState, str | None, dict[str, bytes | None]]:
    if ours is not None:
        if ours.sha256 == patch.sha256:
            return "applied", None, {}
        return "conflict", "an earlier form of this patch is in the tree: run 'rekindle source unpatch' first", {}
    work, changed = dict(contents), False
    for diff in patch.files:
        try:
            work[diff.path], moved = _one_file(diff, work[diff.path])
        except Mismatch as error:
            return "conflict", str(error), {}
        changed |= moved
    if changed:
        return "clean", None, work
    return "already", "the tree has this change already, and not from us", {}


def _one_file(diff: FileDiff, content: bytes | None) -> tuple[bytes | None, bool]:
    """The content after the diff, and whether it had to change. Where both directions fit, the longer match wins."""
    with contextlib.suppress(Mismatch):
        apply_diff(diff.reversed(), content)
        if sum(len(hunk.after) - len(hunk.before) for hunk in diff.hunks) > 0:
            return content, False
        with contextlib.suppress(Mismatch):
            return apply_diff(diff, content), True
        return content, False
    return apply_diff(diff, content), True


def _reverse_by_hand(
    root: Path, path: str, now: bytes | None, record: TreeRecord, known: dict[str, Patch]
) -> bytes | None:
    for mine in reversed(record.patches):
        if path not in mine.files:
            continue
        if (patch := known.get(mine.id)) is None or patch.sha256 != mine.sha256:
            message = f"{path} was edited after patch {mine.id}, and that patch is no longer known in the form applied"
            remedy = f"the file as it was before all patches lies in {journal.folder(root) / 'originals'}"
            raise StageFailed(message, remedy=remedy)
        for diff in reversed([diff for diff in patch.files if diff.path == path]):
            try:
                now = apply_diff(diff.reversed(), now)
            except Mismatch as error:
                message = f"{path} was edited where patch {mine.id} changed it ({error}); nothing was taken out"
                raise StageFailed(message, remedy="undo that edit, or keep the patches") from error
    return now


def _original(root: Path, digest: str) -> bytes:
    try:
        content = journal.original_path(root, digest).read_bytes()
    except OSError as error:
        raise StageFailed(f"the kept original {digest[:12]} cannot be read: {error.strerror or error}") from error
    if journal.sha256(content) != digest:
        raise StageFailed(f"the kept original {digest[:12]} was changed, so the tree cannot be restored from it")
    return content


def _read(root: Path, path: str, origin: str) -> bytes | None:
    file = inside(root, path, origin=origin)
    if not file.exists():
        return None
    if not file.is_file() or file.stat().st_size > MAX_FILE_BYTES:
        raise BadInput(f"{origin} wants to change {path}, which is no ordinary source file; nothing was changed")
    return file.read_bytes()
