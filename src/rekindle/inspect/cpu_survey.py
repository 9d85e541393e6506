"""What one library's code audit found: the value that is joined into the CPU axis of a whole wheel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.inspect.isa_exposure import Exposure


@dataclass
class CpuSurvey:
    """One library's audit, without the bytes it came from; ``taken`` are the names it takes from other libraries."""

    file: str
    machine: str
    exposure: Exposure
    soname: str | None = None
    needed: tuple[str, ...] = ()
    taken: frozenset[str] = frozenset()
