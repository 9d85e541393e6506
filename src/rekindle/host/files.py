"""Writing files so that a kill at any moment leaves the old content or the new, never half."""

import contextlib
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rekindle.errors import BadInput, StageFailed, WorkspaceBusy, tell_os_errors
from rekindle.host.protocol import Host

# What NTFS and HFS+ take for .git although it is spelled otherwise: short names, streams, trailing dots and
# spaces, letters that are not seen. Git refuses the same (CVE-2014-9390, CVE-2019-1352).
_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_GIT = re.compile(r"(?:\.git|git~\d+)[ .]*", re.IGNORECASE)
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?: *[.:].*)?", re.IGNORECASE)
LEFT_BEHIND_SECONDS = 86_400


@contextlib.contextmanager
def hold_lock(path: Path, busy: Callable[[], str], remedy: str | None = None) -> Iterator[None]:
    """Hold the operating system's lock, which dies with its process; WorkspaceBusy at once where somebody has it."""
    import filelock

    try:
        held = filelock.FileLock(path).acquire(timeout=0)
    except filelock.Timeout:
        raise WorkspaceBusy(busy(), remedy=remedy) from None
    with held:
        yield


def sweep_left_behind(folder: Path, pattern: str = "*") -> None:
    """Throw away files and folders that a kill left there, but nothing that may still be growing."""
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFT_BEHIND_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def file_state(path: Path) -> tuple[int, ...]:
    """The same as long as nobody changes, replaces or moves the file, not even for a moment; empty where none is."""
    with contextlib.suppress(OSError):
        stat = path.stat()
        return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
    return ()


def refuse_changed(path: Path, state: tuple[int, ...], doing: str = "verified") -> None:
    """A file that changed since it was looked at is not the one that was judged; ``state`` is from before that."""
    if file_state(path) != state:
        text = f"{path.name} was changed while it was {doing}, so nothing is known about the file that is there now"
        raise StageFailed(text, remedy="run the same command again")


def write_atomically(path: Path, content: bytes | str, *, private: bool = False) -> None:
    """Write beside the target, flush to disk, then rename over it. ``private``: its owner alone may ever read it."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not private:
            # mkstemp makes private files; what we write is meant to be read like any other.
            umask = os.umask(0)
            os.umask(umask)
            with contextlib.suppress(OSError):
                temporary.chmod(0o666 & ~umask)
        rename_patiently(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place beside ``path`` to write to: it gets that name when the block is through, and goes where it fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_if_changed(path: Path, content: bytes | str) -> None:
    """Write a file unless it has this very content: its time then stays what it was."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    if not path.is_file() or path.read_bytes() != data:
        write_atomically(path, data)


def rename_patiently(temporary: Path, path: Path, first_pause: float = 0.05) -> None:
    """Rename over what is there. On Windows a virus scanner or an indexer holds a file for a moment; that is worth a
    second of patience, or 31 times what the ``first_pause`` is to be."""
    for pause in (first_pause * 2**attempt for attempt in range(5)) if sys.platform == "win32" else ():
        try:
            temporary.replace(path)
        except PermissionError:
            time.sleep(pause)
        else:
            return
    temporary.replace(path)


def write_for_user(path: Path, content: bytes | str) -> None:
    """Write where the user asked for it; that it cannot be written there is the user's to fix."""
    with tell_os_errors(f"cannot write {path}", remedy="name another place"):
        # Renaming over it would replace a file somebody protected: the folder's rights count there, not the file's.
        if path.is_file() and not path.stat().st_mode & 0o222:
            raise BadInput(f"cannot write {path}: it is read-only", remedy="name another place, or allow writing to it")
        write_atomically(path, content)


def read_head(path: Path, limit: int = 1 << 20) -> bytes:
    """The first bytes of a file that a stranger may have made as large as they like."""
    with path.open("rb") as file:
        return file.read(limit)


def text_at(path: Path) -> str:
    """What a file says; nothing where there is none, or none that can be read."""
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in bounded memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def free_space(host: Host) -> Callable[[str], tuple[int | None, int] | None]:
    """For a place: its file system (None where it cannot be told) and the bytes free there; None without an answer."""

    def ask(place: str) -> tuple[int | None, int] | None:
        return (disk.device, disk.free) if (disk := host.disk(place)) else None

    return ask


def is_git_name(part: str) -> bool:
    """Would git, on any file system, read or write its own directory under this name?"""
    return _GIT.fullmatch(_UNSEEN.sub("", part).split(":")[0]) is not None


def is_reserved_name(part: str) -> bool:
    """Would Windows take this name for a device, or drop the end of it?"""
    return _RESERVED.fullmatch(part.rstrip(" ")) is not None or part[-1:] in (" ", ".")
