"""The machine this process runs on."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rekindle.host.protocol import Completed

_SYSTEMS = {"linux": "linux", "win32": "windows", "darwin": "macos"}


class LiveHost:
    """Satisfies :class:`rekindle.host.protocol.Host` with the real thing."""

    @property
    def system(self) -> str:
        return _SYSTEMS.get(sys.platform, sys.platform)

    @property
    def env(self) -> Mapping[str, str]:
        return os.environ

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        # Tools speak the user's language unless told otherwise, and we read their words.
        merged = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "C", **(env or {})}
        try:
            done = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                env=merged,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            return Completed(argv=tuple(argv), code=None, out=_text(expired.stdout), timed_out=True)
        except OSError as error:
            return Completed(argv=tuple(argv), code=None, err=str(error))
        return Completed(argv=tuple(argv), code=done.returncode, out=_text(done.stdout), err=_text(done.stderr))

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        try:
            with Path(path).open("rb") as file:
                return file.read(limit)
        except OSError:
            return None

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(sorted(glob.glob(pattern)))  # noqa: PTH207 (patterns are absolute, with several stars)

    def which(self, name: str) -> str | None:
        return shutil.which(name)


def _text(raw: bytes | str | None) -> str:
    if raw is None:
        return ""
    return raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
