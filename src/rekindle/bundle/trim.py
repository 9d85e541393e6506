"""Takes device code of other architectures out of a library, only where that cannot change what runs.

Programs know a fat binary container by its address, so it stays where it is; inside it the entries that some wanted
card can run move to the front, the container's length is set to them, and the rest becomes zeros, which take no room in
a wheel. A container is left whole if anything in it is not understood, and never emptied: if nothing in it serves a
wanted card, its smallest entry stays, so that the library behaves there exactly as before (it has no image). Linkable
device code (``__nv_relfatbin``) and AMD's offload bundles are left alone.
"""

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path

from rekindle.compat.toolkit import ptx_runs, sass_runs
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.formats.binary import open_binary
from rekindle.formats.fatbin import Container, Entry, read_containers
from rekindle.formats.view import CHUNK, Malformed
from rekindle.model.arch import Sm
from rekindle.model.build import Trimmed

SECTIONS = (".nv_fatbin", ".nv_fatb", ".nvFatBi", ".nvFatBin")
_SIZE_AT = 8  # of the u64 length in a container's header
_HEADER_AT = 6  # of the u16 header size


def wanted_entries(entries: Sequence[Entry], cards: Sequence[Sm]) -> list[Entry]:
    """What some wanted card can run (PTX where there is no machine code), or the smallest; all where one is unknown."""
    if not entries or any(entry.kind not in ("sass", "ptx") for entry in entries):
        return list(entries)
    keep: set[int] = set()
    facts = load_facts()
    for card in cards:
        # What depends on a toolkit that is not known here is kept.
        sass = [e.offset for e in entries if e.kind == "sass" and sass_runs(e.arch, card, None, facts) is not False]
        ptx = [e.offset for e in entries if e.kind == "ptx" and ptx_runs(e.arch, card)]
        # All that fit, not only the best: which one the driver takes is the driver's business.
        keep.update(sass or ptx)
    if not keep:
        keep = {min(entries, key=lambda e: e.header + e.size).offset}
    return [entry for entry in entries if entry.offset in keep]


def trim(path: Path, cards: Sequence[Sm], name: str) -> Trimmed:
    """Trim a library (``name`` in the wheel) in place; on any doubt it stays as it was, and ``kept_whole`` says why."""
    with path.open("r+b") as file:
        if file.seek(0, 2) == 0:
            return Trimmed(file=name, kept_whole="it is empty")
        with mmap.mmap(file.fileno(), 0) as data:
            try:
                binary = open_binary(data, "file")
                sections = [section for section in binary.sections if section.name in SECTIONS] if binary else []
                spans = [binary.content(section) for section in sections]  # type: ignore[union-attr, arg-type]
                containers = [each for start, size in spans for each in read_containers(data, start, size)]
                plans = [(container, wanted_entries(container.entries, cards)) for container in containers]
            except (Malformed, BadInput) as error:
                return Trimmed(file=name, kept_whole=error.message)
            dropped = [entry for container, keep in plans for entry in container.entries if entry not in keep]
            for container, keep in plans:
                _rewrite(data, container, keep)
            data.flush()
    archs = sorted({entry.name for entry in dropped}, key=lambda arch: (int("".join(filter(str.isdigit, arch))), arch))
    return Trimmed(file=name, archs=tuple(archs), bytes=sum(entry.header + entry.size for entry in dropped))


def _rewrite(data: mmap.mmap, container: Container, keep: list[Entry]) -> None:
    if len(keep) == len(container.entries):
        return
    (header,) = struct.unpack_from("<H", data, container.offset + _HEADER_AT)
    start = container.offset + header
    at = start
    for entry in keep:
        length = entry.header + entry.size
        # Entries only ever move towards the front, so none is overwritten before it is read.
        data.move(at, entry.offset, length)
        at += length
    struct.pack_into("<Q", data, container.offset + _SIZE_AT, at - start)
    end = container.offset + container.size
    # Containers may take more than a gigabyte: their zeros are never all in memory.
    for zero in range(at, end, CHUNK):
        stop = min(end, zero + CHUNK)
        data[zero:stop] = bytes(stop - zero)
