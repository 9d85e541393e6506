"""``CMakeCache.txt``: what CMake was told and what it found, as a plain mapping."""

import re
from pathlib import Path

_ENTRY = re.compile(r"""(?:"([^"]+)"|([^:="#/][^:=]*)):([A-Z]+)=(.*)""")
_FALSE = frozenset(("", "0", "off", "no", "n", "false", "ignore", "notfound"))
MAX_BYTES = 64 << 20


def read_cmake_cache(path: Path) -> dict[str, str]:
    """Name → value; empty where there is no cache."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return {}
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    values: dict[str, str] = {}
    for line in text.splitlines():
        if match := _ENTRY.fullmatch(line):
            value = match[4]
            # CMake writes '…' around values with spaces at an end.
            if len(value) > 1 and value[0] == value[-1] == "'":
                value = value[1:-1]
            values[match[1] or match[2]] = value
    return values


def is_true(value: str) -> bool:
    """Truth as CMake's ``if()`` sees a constant."""
    low = value.strip().lower()
    return low not in _FALSE and not low.endswith("-notfound")
