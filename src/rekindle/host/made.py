"""Which plans, matrix cells and wheels were made on this machine by this user: their digests, as empty files in the
user's data.

A plan or cell that is not among them came from elsewhere (or was changed by hand), and what it names is a stranger's
wish; a wheel that is not among them is a stranger's program. What this process marked counts for it even where the
user's data cannot be written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path

import msgspec

from rekindle.host.places import own_directories

# Folders of the user's data that hold nothing but these marks.
BOOKS = ("plans", "wheels")
_KEPT = 5000
_marked_by_this_process: set[Path] = set()


def plan_digest(document: msgspec.Struct) -> str:
    """The same for the same plan in whatever order its settings stand (a provenance statement sorts them), and by
    whatever release of Rekindle: what a plan leaves at its default is not counted, so a field it did not know yet
    changes nothing."""
    told = json.dumps(_said(document), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def _said(value: object) -> object:
    """What differs from the defaults, as plain values."""
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: _said(held)
            for field in msgspec.structs.fields(value)
            if (held := getattr(value, field.name))
            != (field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory())
        }
    if isinstance(value, dict):
        return {name: _said(inner) for name, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_said(inner) for inner in value]
    return msgspec.to_builtins(value)


def mark_made(*documents: msgspec.Struct) -> None:
    """Note that these plans or matrix cells are ours."""
    _mark("plans", *map(plan_digest, documents))


def was_made_here(document: msgspec.Struct) -> bool:
    """Whether :func:`mark_made` was called for this very plan or cell, by this user on this machine."""
    return _marked("plans", plan_digest(document))


def mark_wheel_made(sha256: str) -> None:
    """Note that this wheel was built or bundled here."""
    _mark("wheels", sha256)


def wheel_was_made_here(sha256: str) -> bool:
    """Whether :func:`mark_wheel_made` was called for this very wheel."""
    return _marked("wheels", sha256)


def _mark(kind: str, *digests: str) -> None:
    """A place that cannot be written costs a question or a sandbox later, nothing else."""
    folder = _folder(kind)
    _marked_by_this_process.update(folder / digest for digest in digests)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for digest in digests:
            (folder / digest).touch()
        names = list(folder.iterdir())
        if len(names) <= _KEPT:
            return
        for old in sorted(names, key=lambda path: path.stat().st_mtime)[: len(names) - _KEPT]:
            old.unlink(missing_ok=True)


def _marked(kind: str, digest: str) -> bool:
    mark = _folder(kind) / digest
    if mark in _marked_by_this_process:
        return True
    with contextlib.suppress(OSError):
        return mark.is_file()
    return False


def _folder(kind: str) -> Path:
    return own_directories()[0] / kind
