"""What the user may choose about a build beyond the plan. Sizes are bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rekindle.errors import BadInput

LAUNCHERS = ("ccache", "sccache", "distcc", "icecc")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
MIN_MEMORY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """``jobs`` is a ceiling, ``memory_bytes`` a budget for all compilers together, ``target`` one CMake target."""

    jobs: int | None = None
    memory_bytes: int | None = None
    launcher: str | None = None
    clean: bool = False
    target: str | None = None
    cmake: str | None = None
    ninja: str | None = None
    # Use the given Python with the packages it has instead of an environment made for the build.
    as_is: bool = False

    def continued(self) -> BuildOptions:
        """The same for the next Python: it must not clean away what the first one built."""
        return replace(self, clean=False)


def parse_size(text: str) -> int:
    """``8G``, ``8GiB``, ``1500m``, ``2.5 GB``: always powers of 1024, as compilers' memory is meant."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise BadInput(f"{text!r} is no size", remedy="write for example 8G or 1500M")
    size = int(float(match[1]) * 1024 ** _POWER[match[2].lower()])
    if size < MIN_MEMORY_BYTES:
        raise BadInput(f"{text!r} is too small for any compiler", remedy="write for example 8G or 1500M")
    return size
