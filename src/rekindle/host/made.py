"""Which plans were made on this machine by this user: their digests, as empty files in the user's data directory.

A plan that is not among them came from elsewhere (or was changed by hand), and what it names is a stranger's wish.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from rekindle.model.document import encode
from rekindle.model.plan import Plan

_KEPT = 5000


def plan_digest(plan: Plan) -> str:
    return hashlib.sha256(encode(plan)).hexdigest()


def mark_made(plan: Plan) -> None:
    """Note that this plan is ours. A place that cannot be written costs a question later, nothing else."""
    with contextlib.suppress(OSError):
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / plan_digest(plan)).touch()
        names = list(folder.iterdir())
        if len(names) <= _KEPT:
            return
        for old in sorted(names, key=lambda path: path.stat().st_mtime)[: len(names) - _KEPT]:
            old.unlink(missing_ok=True)


def was_made_here(plan: Plan) -> bool:
    with contextlib.suppress(OSError):
        return (_folder() / plan_digest(plan)).is_file()
    return False


def _folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_data_dir("rekindle", appauthor=False)) / "plans"
