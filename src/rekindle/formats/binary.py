"""A library by its first bytes: ELF or PE, whatever its name says."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rekindle.formats.elf import Elf, is_elf
from rekindle.formats.pe import Pe, is_pe
from rekindle.formats.view import map_file


def open_binary(data: Any, what: str) -> Elf | Pe | None:
    """An ELF or PE reader, or None where the file is neither (a script in bin/, a linker text file)."""
    if is_elf(data):
        return Elf(data, what)
    return Pe(data, what) if is_pe(data) else None


@contextlib.contextmanager
def map_binary(path: Path) -> Iterator[Elf | Pe | None]:
    """The same for a file, mapped and not read."""
    with map_file(path) as data:
        yield open_binary(data, path.name)
