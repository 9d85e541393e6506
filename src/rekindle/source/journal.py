"""Changes many files of a tree as one: after a kill at any moment the tree can be taken back whole.

Order: stage every new and old content under ``.rekindle/journal`` → write ``journal.json`` (it has begun) →
rename the new contents into place → write ``tree.json`` with the change's id (it is done) → drop the journal.
``repair`` finds a journal that was begun and not done and renames the old contents back. Both directions
only rename what is staged already, so neither can run out of space half way.
"""

import contextlib
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rekindle.errors import StageFailed, tell_os_errors
from rekindle.host.files import hold_lock, sha256_of, write_atomically
from rekindle.model.document import encode, load
from rekindle.model.source import Journal, JournalEdit, TreeRecord
from rekindle.source.paths import inside

FOLDER = ".rekindle"


@dataclass(frozen=True)
class Edit:
    """A file's content before and after; None stands for "no such file"."""

    path: str
    before: bytes | None
    after: bytes | None
    executable: bool = False


def sha256(content: bytes | None) -> str | None:
    """In hexadecimal; None for "no such file"."""
    return None if content is None else hashlib.sha256(content).hexdigest()


def folder(root: Path) -> Path:
    """Where everything of ours lies in a tree."""
    return root / FOLDER


def original_path(root: Path, digest: str) -> Path:
    """Where a file's first content is kept."""
    return folder(root) / "originals" / digest


def read_record(root: Path) -> TreeRecord:
    """What we know of a tree; nothing is known of one that we never had."""
    path = folder(root) / "tree.json"
    return load(path, TreeRecord) if path.is_file() else TreeRecord()


def write_record(root: Path, record: TreeRecord) -> None:
    with writing(root):
        _make_folder(root)
        write_atomically(folder(root) / "tree.json", encode(record))


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Nobody else of us changes this tree meanwhile."""
    busy, remedy = f"another Rekindle is changing {root} right now", "wait for it to end, then try again"
    with contextlib.ExitStack() as held:
        with writing(root):
            _make_folder(root)
            held.enter_context(hold_lock(folder(root) / "lock", lambda: busy, remedy))
        yield


def writing(root: Path) -> contextlib.AbstractContextManager[None]:
    """Whatever the disk refuses (read-only, full, no rights) becomes one line with its reason."""
    remedy = "make it writable, with free space, or work on a copy"
    return tell_os_errors(f"cannot write in {root}", end="; the tree is as it was", remedy=remedy)


def commit(root: Path, edits: Sequence[Edit], record: TreeRecord) -> None:
    """Make all edits and write ``record``, or leave the tree as it is. The caller holds the lock."""
    with writing(root):
        _make_folder(root)
        journal = _stage(root, edits)
        try:
            write_atomically(_journal(root, "journal.json"), encode(journal))
            for number, (edit, planned) in enumerate(zip(edits, journal.edits, strict=True)):
                _put(root, planned, _journal(root, f"{number}.after") if edit.after is not None else None)
            done = msgspec.structs.replace(record, transaction=journal.id)
            write_atomically(folder(root) / "tree.json", encode(done))
        except BaseException:
            repair(root)
            raise
        _drop(root)


def repair(root: Path) -> str | None:
    """Take back a change that was cut short; says what was done. Harmless where there is nothing to repair."""
    if not _journal(root).is_dir():
        return None
    if not begun(root):
        # Cut short while staging, when no file of the tree was touched yet, or done already.
        with writing(root):
            _drop(root)
        return None
    journal = load(_journal(root, "journal.json"), Journal)
    if strange := [edit.path for edit in journal.edits if _digest_now(root, edit) not in (edit.before, edit.after)]:
        cut = f"a change of {root} was cut short, and {strange[0]} has been edited since"
        remedy = f"compare it with the copies in {_journal(root)}, then delete that folder"
        raise StageFailed(f"{cut}, so it cannot be taken back", remedy=remedy)
    written = [pair for pair in enumerate(journal.edits) if _digest_now(root, pair[1]) != pair[1].before]
    with writing(root):
        for number, edit in written:
            _put(root, edit, _journal(root, f"{number}.before") if edit.before is not None else None)
        _drop(root)
    return f"a change that was cut short was taken back ({len(written)} of {len(journal.edits)} files had been written)"


def begun(root: Path) -> bool:
    """True where a change was cut short and waits for ``repair``."""
    file = _journal(root, "journal.json")
    return file.is_file() and read_record(root).transaction != load(file, Journal).id


def _digest_now(root: Path, edit: JournalEdit) -> str | None:
    path = inside(root, edit.path, origin="the journal")
    return sha256_of(path) if path.is_file() else None


def _stage(root: Path, edits: Sequence[Edit]) -> Journal:
    _journal(root).mkdir(exist_ok=True)
    (folder(root) / "originals").mkdir(exist_ok=True)
    planned = []
    for number, edit in enumerate(edits):
        path = inside(root, edit.path, origin="a patch")
        mode = (0o755 if edit.executable else None) if edit.before is None else path.stat().st_mode & 0o7777
        for side, content in (("before", edit.before), ("after", edit.after)):
            if content is not None:
                _write(_journal(root, f"{number}.{side}"), content, mode)
        before = sha256(edit.before)
        if edit.before is not None and before is not None and not original_path(root, before).exists():
            write_atomically(original_path(root, before), edit.before)
        planned.append(JournalEdit(path=edit.path, before=before, after=sha256(edit.after), mode=mode))
    return Journal(id=uuid.uuid4().hex, edits=tuple(planned))


def _write(path: Path, content: bytes, mode: int | None) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if mode is not None:
        path.chmod(mode)


def _put(root: Path, edit: JournalEdit, staged: Path | None) -> None:
    target = inside(root, edit.path, origin="a patch")
    if staged is None:
        target.unlink(missing_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # The time stamp stays "now": a restored old one would make build systems keep stale objects.
    os.utime(staged)
    staged.replace(target)


def _make_folder(root: Path) -> None:
    if not folder(root).is_dir():
        folder(root).mkdir()
        # Git and every tool that honours .gitignore see nothing of ours.
        write_atomically(folder(root) / ".gitignore", "*\n")


def _journal(root: Path, name: str = "") -> Path:
    """The folder of a change, or what lies in it: ``journal.json``, and each file ``NUMBER.before`` and ``.after``."""
    return folder(root) / "journal" / name


def _drop(root: Path) -> None:
    # journal.json first: without it the rest is mere staging.
    _journal(root, "journal.json").unlink(missing_ok=True)
    shutil.rmtree(_journal(root), ignore_errors=True)
