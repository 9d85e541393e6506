"""The workspace: the one directory in which a run keeps its plan, source, build tree, logs, wheels, reports; and all
that we hold on this machine: workspaces with their parts, environments, wheelhouses and our cache, removed safely. A
workspace is locked while a run works in it: by the operating system; the file beside the lock only says who holds
it."""

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from rekindle.errors import BadInput, WorkspaceBusy
from rekindle.host import made
from rekindle.host.files import text_at, write_atomically
from rekindle.host.made import note_made, own_directories
from rekindle.model.holdings import Holding, HoldingKind

# Folders that are one holding each, and those in which each thing is one.
_WHOLE: tuple[HoldingKind, ...] = ("build", "wheels", "cache", "logs", "reports")
_SINGLE: dict[str, HoldingKind] = {"source": "source", "envs": "environment"}
_NOTES = {"source": "may hold changes of yours", "wheels": "what was built; making it again takes as long as before"}
_NO_TEXT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class _Inside:
    """A file or folder that has its place in every workspace."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, workspace: "Workspace", owner: "type[Workspace]") -> Path:
        return workspace.root / self._name


@dataclass(frozen=True)
class Workspace:
    """``root`` with what lies in it."""

    root: Path

    def __post_init__(self) -> None:
        """Its name stands in documents, logs and commands: it must be text, on one line."""
        if _NO_TEXT.search(str(self.root)):
            text = f"{str(self.root)!r} cannot be a workspace: its name holds letters that are no text"
            raise BadInput(text, remedy="give a directory with a plain name with --workspace DIR")

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
            lock = filelock.FileLock(self.root / ".lock")
            holder = self.root / ".lock.holder"
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                if say and wait:
                    say(f"waiting for {_holder(holder)} to let go of {self.root}")
                lock.acquire(timeout=wait)
        except filelock.Timeout:
            remedy = "wait for it to end, or give another one with --workspace DIR"
            raise WorkspaceBusy(f"the workspace {self.root} is in use by {_holder(holder)}", remedy=remedy) from None
        except OSError as error:
            text = f"cannot use {self.root} as a workspace: {error.strerror or error}"
            raise BadInput(text, remedy="give a writable directory with --workspace DIR") from error
        try:
            write_atomically(holder, f"process {os.getpid()} ({purpose})\n")
            yield
        finally:
            holder.unlink(missing_ok=True)
            lock.release()


def _holder(path: Path) -> str:
    return text_at(path).strip()[:200] or "another process"


def workspace_at(folder: Path | None, name: str = "default") -> Workspace:
    """The workspace in ``folder``, or the user's own of that name."""
    return Workspace(folder.absolute() if folder is not None else own_directories()[0] / name)


def find_holdings() -> Iterator[Holding]:
    """Everything of ours, each byte counted once."""
    when = time.time()
    data, cache = made.own_directories()
    workspaces = [folder for folder in _folders(data) if folder.name not in made.BOOKS]
    noted = [(kind, path) for kind, path in made.noted_folders() if path.is_dir() and made.is_ours(path)]
    workspaces += [path for kind, path in noted if kind == "workspace" and path not in workspaces]
    for root in workspaces:
        yield from _workspace_parts(root, when)
    for kind, path in noted:
        if kind == "environment" and not any(path.is_relative_to(root) for root in workspaces):
            yield _make_holding("environment", path, when)
        elif kind == "wheelhouse":
            yield _make_holding("wheelhouse", path, when, note="wheels others may install from")
    for each in _folders(cache):
        yield _make_holding("cache", each, when)


def _workspace_parts(root: Path, now: float) -> Iterator[Holding]:
    counted = 0
    parts = [(kind, part) for name, kind in _SINGLE.items() for part in _folders(root / name)]
    parts += [(kind, root / kind) for kind in _WHOLE if (root / kind).is_dir() and not (root / kind).is_symlink()]
    for kind, part in parts:
        holding = _make_holding(kind, part, now, workspace=root, note=_NOTES.get(kind))
        counted += holding.bytes
        if holding.bytes:
            yield holding
    whole = _make_holding("workspace", root, now, note="the plan, and all that is listed under it")
    yield replace(whole, bytes=max(0, whole.bytes - counted))


def _make_holding(
    kind: HoldingKind, path: Path, now: float, *, workspace: Path | None = None, note: str | None = None
) -> Holding:
    name = str(path.relative_to(workspace)) if workspace else str(path)
    times: list[float] = []
    with contextlib.suppress(OSError):
        times.append(path.lstat().st_mtime)
        times += [entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(path)]
    age = round(max(0.0, now - max(times, default=now)))
    size, inside = disk_bytes(path), str(workspace) if workspace else None
    return Holding(kind=kind, name=name, path=str(path), bytes=size, age_seconds=age, workspace=inside, note=note)


def _folders(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    return []


def disk_bytes(root: Path) -> int:
    """The room a folder takes; a file with several names counts once, links are not followed."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for folder, _, files in os.walk(root):
        for name in (".", *files):
            with contextlib.suppress(OSError):
                stat = os.lstat(os.path.join(folder, name))  # noqa: PTH118 (many files: plain strings are twice as fast)
                if stat.st_nlink > 1:
                    if (stat.st_dev, stat.st_ino) in seen:
                        continue
                    seen.add((stat.st_dev, stat.st_ino))
                total += getattr(stat, "st_blocks", 0) * 512 or stat.st_size
    return total


def remove(holding: Holding) -> str | None:
    """Remove it; None where it is gone, else why it stays. Nothing that was not made by us is ever touched."""
    path = Path(holding.path)
    root = Path(holding.workspace) if holding.workspace else path
    if path.is_symlink() or root.is_symlink():
        return "it is a link to another place"
    if not made.is_ours(root):
        return "it was not made by rekindle"
    if not path.resolve().is_relative_to(root.resolve()):
        return "it leads out of its workspace"
    running = (sys.prefix, __file__, os.environ.get("VIRTUAL_ENV") or sys.prefix)
    if any(Path(place).resolve().is_relative_to(path.resolve()) for place in running):
        return "this rekindle, or the environment that is active, runs from it"
    try:
        locked = holding.kind in ("workspace", "wheelhouse") or holding.workspace is not None
        with Workspace(root).lock("clean") if locked else contextlib.nullcontext():
            if not locked or path != root:
                shutil.rmtree(path)
            else:
                # The lock's file goes last, when nobody holds it; our mark too, so that a second try knows its own.
                for entry in sorted(path.iterdir()):
                    if entry.name != made.MARK and not entry.name.startswith(".lock"):
                        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        if path == root:
            shutil.rmtree(path, ignore_errors=True)
            made.forget(path)
    except WorkspaceBusy as error:
        return error.message
    except OSError as error:
        return f"{error.strerror or error}"
    return None
