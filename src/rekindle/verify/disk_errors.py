"""Disk trouble told as what it is: one line with the place and what to do, never a traceback."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterator

from rekindle.compat.resources import Demand, first_shortage
from rekindle.errors import BadInput
from rekindle.host.files import free_space
from rekindle.host.protocol import Host
from rekindle.model.spoken import spoken_bytes
from rekindle.verify.subject import Subject

_OURS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE}


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Everything inside writes to the temporary directory or the cache."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OURS:
            raise
        place = error.filename or tempfile.gettempdir()
        raise BadInput(
            f"cannot write to {place}: {error.strerror}", remedy="free some space there, or set TMPDIR to another disk"
        ) from error


def refuse_small_disk(host: Host, subject: Subject, folder: str) -> None:
    """The environment holds the wheel unpacked; what it requires comes on top, and nobody knows how much that is."""
    short = first_shortage([Demand("environment", folder, subject.unpacked)], free_space(host))
    if short is not None:
        raise BadInput(
            f"the environment to try {subject.path.name} in needs {spoken_bytes(subject.unpacked)} for that wheel"
            f" alone, and {spoken_bytes(short.free)} are free at {tempfile.gettempdir()}",
            remedy="free some space there, or set TMPDIR to another disk",
        )
