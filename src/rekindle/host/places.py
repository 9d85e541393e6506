"""What Rekindle made on this machine: a mark inside each folder, and a list of where they lie.

``clean`` removes only what bears the mark, or lies in the user's data and cache directories, which are ours alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rekindle.host.files import write_atomically

MARK = ".made-by-rekindle"
_MAX_NOTES = 2000
_TIDY_FROM = 200
_MAX_NOTE_BYTES = 64 << 10


@dataclass(frozen=True, kw_only=True)
class Noted:
    """A folder on the list. ``kind`` is workspace, wheelhouse or environment; it may be gone by now."""

    kind: str
    path: Path


def note_made(kind: str, folder: Path) -> None:
    """Mark a folder that we just made, and remember where it lies. A list that cannot be written costs itself only."""
    with contextlib.suppress(OSError):
        write_atomically(folder / MARK, f"{kind}, made by rekindle {time.strftime('%Y-%m-%d', time.gmtime())}\n")
        place = str(folder.absolute())
        note = list_folder() / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.json"
        write_atomically(note, json.dumps({"kind": kind, "path": place}))
        if len(list(list_folder().iterdir())) > _TIDY_FROM:
            for old in [one for one in noted() if not one.path.exists()]:
                forget(old.path)


def noted() -> Iterator[Noted]:
    """Every folder on the list; what cannot be read is no entry."""
    try:
        notes = sorted(list_folder().glob("*.json"))[:_MAX_NOTES]
    except OSError:
        return
    for note in notes:
        try:
            if note.stat().st_size > _MAX_NOTE_BYTES:
                continue
            row = json.loads(note.read_text(encoding="utf-8"))
            yield Noted(kind=str(row["kind"]), path=Path(str(row["path"])))
        except (OSError, ValueError, KeyError, TypeError):
            continue


def forget(folder: Path) -> None:
    """Take a folder off the list."""
    place = str(folder.absolute())
    with contextlib.suppress(OSError):
        (list_folder() / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.json").unlink(missing_ok=True)


def is_ours(folder: Path) -> bool:
    """Was this folder made by us: it bears the mark, or lies inside our own directories?"""
    if (folder / MARK).is_file():
        return True
    where = folder.resolve()
    return any(where != root and where.is_relative_to(root.resolve()) for root in own_directories())


def own_directories() -> tuple[Path, Path]:
    """The user's data directory of ours, and the cache's."""
    import platformdirs

    return (
        Path(platformdirs.user_data_dir("rekindle", appauthor=False)),
        Path(platformdirs.user_cache_dir("rekindle", appauthor=False)),
    )


def list_folder() -> Path:
    return own_directories()[0] / "places"
