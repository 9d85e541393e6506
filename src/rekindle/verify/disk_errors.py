"""Disk trouble told as what it is: one line with the place and what to do, never a traceback."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterator

from rekindle.errors import BadInput

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
