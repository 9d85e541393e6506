"""The workspace: the one directory in which a run keeps its plan, source, build tree, logs, wheels, reports.

A workspace is locked while a run works in it. The lock is the operating system's, so it dies with its
process; the file beside it only says who holds it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rekindle.errors import BadInput, WorkspaceBusy
from rekindle.host.files import write_atomically
from rekindle.host.made import note_made, own_directories


class _Inside:
    """A file or folder that has its place in every workspace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, workspace: Workspace, owner: type[Workspace]) -> Path:
        return workspace.root / self._name


@dataclass(frozen=True)
class Workspace:
    """``root`` with what lies in it."""

    root: Path

    def __post_init__(self) -> None:
        """Its name stands in documents, logs and commands: it must be text, on one line."""
        name = str(self.root)
        if any(
            not char.isprintable() and (ord(char) < 0x20 or 0xD800 <= ord(char) < 0xE000 or char == "\x7f")
            for char in name
        ):
            raise BadInput(
                f"{name!r} cannot be a workspace: its name holds letters that are no text",
                remedy="give a directory with a plain name with --workspace DIR",
            )

    plan = _Inside("plan.json")
    machine = _Inside("machine.json")
    source = _Inside("source")
    build = _Inside("build")
    logs = _Inside("logs")
    wheels = _Inside("wheels")
    reports = _Inside("reports")
    cache = _Inside("cache")

    def new_log(self, name: str) -> Path:
        """A log file named by time, so that no run overwrites another's."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        self.logs.mkdir(parents=True, exist_ok=True)
        return self.logs / f"{stamp}-{os.getpid()}-{name}.log"

    @contextlib.contextmanager
    def lock(
        self, purpose: str, *, wait: float = 0.0, say: Callable[[str], None] | None = None, kind: str = "workspace"
    ) -> Iterator[None]:
        """Hold the workspace for ``purpose``; after ``wait`` seconds say who has it and give up. ``kind`` is what the
        folder is called in the list of places, where it is made now."""
        import filelock

        try:
            fresh = not self.root.exists() or not any(self.root.iterdir())
            self.root.mkdir(parents=True, exist_ok=True)
            if fresh:
                note_made(kind, self.root)
            held = filelock.FileLock(self.root / ".lock")
            holder = self.root / ".lock.holder"
            try:
                held.acquire(timeout=0)
            except filelock.Timeout:
                if say and wait:
                    say(f"waiting for {_holder(holder)} to let go of {self.root}")
                held.acquire(timeout=wait)
        except filelock.Timeout:
            raise WorkspaceBusy(
                f"the workspace {self.root} is in use by {_holder(holder)}",
                remedy="wait for it to end, or give another one with --workspace DIR",
            ) from None
        except OSError as error:
            raise BadInput(
                f"cannot use {self.root} as a workspace: {error.strerror or error}",
                remedy="give a writable directory with --workspace DIR",
            ) from error
        try:
            write_atomically(holder, f"process {os.getpid()} ({purpose})\n")
            yield
        finally:
            holder.unlink(missing_ok=True)
            held.release()


def _holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()[:200] or "another process"
    except OSError:
        return "another process"


def workspace_at(folder: Path | None, name: str = "default") -> Workspace:
    """The workspace in ``folder``, or the user's own of that name."""
    return Workspace(folder.absolute()) if folder is not None else default_workspace(name)


def default_workspace(name: str = "default") -> Workspace:
    """Where things lie when ``--workspace`` is not given."""
    return Workspace(own_directories()[0] / name)
