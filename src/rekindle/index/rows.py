"""Short rows from full records, remembered so that a rebuild reads only the records that changed.

The memory is a cache: a record's inode, size and time stamp say whether its row still holds. Losing or
damaging the cache costs time and nothing else.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from rekindle.errors import BadInput
from rekindle.host.files import write_atomically
from rekindle.index.names import parse_name
from rekindle.index.store import Wheelhouse
from rekindle.model.document import load
from rekindle.model.wheelhouse import Entry, Row, RowLibrary, RowProof

MAX_ENTRIES = 1_000_000
_FORMAT = 1


class _Known(msgspec.Struct, array_like=True):
    inode: int
    size: int
    mtime_ns: int
    row: Row


class _Memory(msgspec.Struct, array_like=True):
    format: int
    known: dict[str, _Known]


def load_rows(house: Wheelhouse) -> list[Row]:
    """Every wheel of the house, by project, newest version first within each."""
    memory = _remembered(house)
    known: dict[str, _Known] = {}
    changed = False
    for path, stat in _records(house):
        old = memory.get(path.name)
        if old and (old.inode, old.size, old.mtime_ns) == (stat.st_ino, stat.st_size, stat.st_mtime_ns):
            known[path.name] = old
            continue
        changed = True
        known[path.name] = _Known(stat.st_ino, stat.st_size, stat.st_mtime_ns, row_of(load(path, Entry)))
    if changed or len(known) != len(memory):
        write_atomically(_memory_path(house), msgspec.msgpack.encode(_Memory(_FORMAT, known)))
    return [item.row for item in sorted(known.values(), key=lambda item: (item.row.project, item.row.file))]


def row_of(entry: Entry) -> Row:
    """The short form of an entry."""
    name = parse_name(entry.file)
    report, origin = entry.report, entry.origin
    kernels = report.gpu.torch_kernels if report else None
    return Row(
        file=entry.file,
        url=f"wheels/{entry.project}/{entry.file}",
        project=entry.project,
        version=entry.version,
        bytes=entry.bytes,
        sha256=entry.sha256,
        metadata_sha256=entry.metadata_sha256,
        requires_python=entry.requires_python,
        pythons=name.pythons,
        systems=name.systems,
        machines=name.machines,
        added=entry.added,
        yanked=entry.yanked,
        inspected=report is not None,
        sass=kernels.sass if kernels else (),
        ptx=kernels.ptx if kernels else (),
        gfx=kernels.gfx if kernels else (),
        libraries=tuple(
            RowLibrary(file=lib.file, sass=lib.sass, ptx=lib.ptx, gfx=lib.gfx, sets=lib.sets)
            for lib in (report.gpu.libraries if report else ())
        ),
        cpu=report.cpu.runs_from if report else None,
        glibc=report.links.glibc if report else None,
        external=report.links.external if report else (),
        cuda=origin.cuda if origin else None,
        rocm=origin.rocm if origin else None,
        proofs=tuple(
            RowProof(passed=p.passed, failed=p.failed, skipped=p.skipped, environment=p.environment)
            for p in entry.proofs
        ),
    )


def _records(house: Wheelhouse) -> list[tuple[Path, os.stat_result]]:
    found: list[tuple[Path, os.stat_result]] = []
    if not house.records.is_dir():
        return found
    for project in os.scandir(house.records):
        if not project.is_dir(follow_symlinks=False):
            continue
        for record in os.scandir(project.path):
            if record.name.endswith(".whl.json") and not record.name.startswith("."):
                found.append((Path(record.path), record.stat(follow_symlinks=False)))
        if len(found) > MAX_ENTRIES:
            raise BadInput(
                f"{house.root} holds more than {MAX_ENTRIES} wheels", remedy="split it into several wheelhouses"
            )
    return found


def _memory_path(house: Wheelhouse) -> Path:
    return house.site / "rows.msgpack"


def _remembered(house: Wheelhouse) -> dict[str, _Known]:
    try:
        memory = msgspec.msgpack.decode(_memory_path(house).read_bytes(), type=_Memory)
    except (OSError, msgspec.MsgspecError):
        return {}
    return memory.known if memory.format == _FORMAT else {}
