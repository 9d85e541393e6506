"""What Rekindle made on this machine: plans, matrix cells and wheels by their digests, folders by a mark and a list.

The digests are empty files in the user's data. A plan or cell that is not among them came from elsewhere (or was
changed by hand), and what it names is a stranger's wish; a wheel that is not is a stranger's program. What this process
marked counts for it even where nothing can be written. Of folders, ``clean`` removes only what bears the mark or lies
in the user's data and cache directories, which are ours alone.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rekindle.host.files import read_head, write_atomically

# Folders of the user's data that hold nothing but digests, and the one that lists folders.
BOOKS = ("plans", "wheels", "places")
_KEPT = 5000
_marked_by_this_process: set[Path] = set()
MARK = ".made-by-rekindle"
_MAX_NOTES = 2000
_TIDY_FROM = 200
_MAX_NOTE_BYTES = 64 << 10


def own_directories() -> tuple[Path, Path]:
    """The user's data directory of ours, and the cache's."""
    import platformdirs

    data, cache = platformdirs.user_data_dir, platformdirs.user_cache_dir
    return Path(data("rekindle", appauthor=False)), Path(cache("rekindle", appauthor=False))


def plan_digest(document: msgspec.Struct) -> str:
    """The same for the same plan in whatever order its settings stand (a provenance statement sorts them), and by any
    release of Rekindle: what is left at its default is not counted, so a field it did not know yet changes nothing."""
    plain = json.dumps(_beyond_defaults(document), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def _beyond_defaults(value: object) -> object:
    """What differs from the defaults, as plain values."""
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: _beyond_defaults(held)
            for field in msgspec.structs.fields(value)
            if (held := getattr(value, field.name))
            != (field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory())
        }
    if isinstance(value, dict):
        return {name: _beyond_defaults(inner) for name, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_beyond_defaults(inner) for inner in value]
    return msgspec.to_builtins(value)


def mark_made(*made: msgspec.Struct | str) -> None:
    """Note that these plans, matrix cells or wheels (by SHA-256) are ours; not to costs a question or sandbox later."""
    marks = [_mark_of(each) for each in made]
    _marked_by_this_process.update(marks)
    with contextlib.suppress(OSError):
        for mark in marks:
            mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            mark.touch()
        for folder in {mark.parent for mark in marks}:
            for old in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
                old.unlink(missing_ok=True)


def was_made_here(made: msgspec.Struct | str) -> bool:
    """Whether :func:`mark_made` was called for this very plan, cell or wheel, by this user on this machine."""
    mark = _mark_of(made)
    if mark in _marked_by_this_process:
        return True
    with contextlib.suppress(OSError):
        return mark.is_file()
    return False


def _mark_of(made: msgspec.Struct | str) -> Path:
    book, digest = ("wheels", made) if isinstance(made, str) else ("plans", plan_digest(made))
    return own_directories()[0] / book / digest


def note_made(kind: str, folder: Path) -> None:
    """Mark a folder that we just made, and remember where it lies. A list that cannot be written costs itself only."""
    with contextlib.suppress(OSError):
        write_atomically(folder / MARK, f"{kind}, made by rekindle {time.strftime('%Y-%m-%d', time.gmtime())}\n")
        write_atomically(_note_of(folder), json.dumps({"kind": kind, "path": str(folder.absolute())}))
        if len(list(list_folder().iterdir())) > _TIDY_FROM:
            for gone in [path for _, path in noted_folders() if not path.exists()]:
                forget(gone)


def noted_folders() -> Iterator[tuple[str, Path]]:
    """Every folder on the list that can be read, gone or not, after its kind (workspace, wheelhouse, environment)."""
    try:
        notes = sorted(list_folder().glob("*.json"))[:_MAX_NOTES]
    except OSError:
        return
    for note in notes:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            row = json.loads(read_head(note, _MAX_NOTE_BYTES))
            yield str(row["kind"]), Path(str(row["path"]))


def forget(folder: Path) -> None:
    """Take a folder that is gone off the list."""
    with contextlib.suppress(OSError):
        _note_of(folder).unlink(missing_ok=True)


def list_folder() -> Path:
    return own_directories()[0] / "places"


def _note_of(folder: Path) -> Path:
    return list_folder() / f"{hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]}.json"


def is_ours(folder: Path) -> bool:
    """Was this folder made by us: it bears the mark, or lies inside our own directories?"""
    if (folder / MARK).is_file():
        return True
    where = folder.resolve()
    return any(where != root and where.is_relative_to(root.resolve()) for root in own_directories())
