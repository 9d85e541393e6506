"""``CMakeCache.txt``: what CMake was told and what it found, as a plain mapping."""

import contextlib
import re
from pathlib import Path

from rekindle.formats.view import read_lines

_ENTRY = re.compile(r"""(?:"([^"]+)"|([^:="#/][^:=]*)):([A-Z]+)=(.*)""")
_FALSE = frozenset(("", "0", "off", "no", "n", "false", "ignore", "notfound"))
MAX_BYTES = 64 << 20


def read_cmake_cache(path: Path) -> dict[str, str]:
    """Name → value; empty where there is no cache."""
    with contextlib.suppress(OSError):
        matches = [match for line in read_lines(path, MAX_BYTES) if (match := _ENTRY.fullmatch(line.rstrip("\n")))]
        # CMake writes '…' around values with spaces at an end.
        return {match[1] or match[2]: re.sub(r"^'(.*)'$", r"\1", match[4]) for match in matches}
    return {}


def is_true(value: str) -> bool:
    """Truth as CMake's ``if()`` sees a constant."""
    low = value.strip().lower()
    return low not in _FALSE and not low.endswith("-notfound")
