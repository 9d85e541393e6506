"""Other names for the libraries a PE image asks for: the strings go into a new section, the tables point there. Nothing
that has an address moves. The new section lies behind the last one; what follows the image in the file (symbols, an
installer's data) stays behind it. A signature would no longer be true and is taken out, and so are bound imports and
the wish to look for libraries in Windows' own folder only. Layout: Microsoft's "PE Format"."""

import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from rekindle.formats.pe import BOUND_IMPORT, CERTIFICATE, DEBUG, DELAY_IMPORT, IMPORT, LOAD_CONFIG, MAX_SECTIONS, Pe
from rekindle.formats.view import Malformed, copy_stretch, map_file, round_up

SECTION = b".rknames"
_READABLE_DATA = 0x40000040
_HEADER = 40
_DEPENDENT_LOAD_FLAGS = 0x4E
_CHUNK = 1 << 20


def rename_imports(path: Path, names: Mapping[str, str]) -> tuple[str, ...]:
    """Change the image in place: ``names`` says old -> new, whatever the case of the old. Returns what was changed."""
    wanted = {old.lower(): new for old, new in names.items()}
    beside = path.with_name(path.name + ".renamed")
    with map_file(path) as data:
        pe = Pe(data, path.name)
        used = [name for name in dict.fromkeys((*pe.needed, *pe.delayed)) if name.lower() in wanted]
        if not used:
            return ()
        blob, at = b"", {}
        for old in used:
            at[old.lower()] = len(blob)
            blob += wanted[old.lower()].encode("ascii") + b"\0"
        layout = ImageLayout(pe, blob)
        edits = layout.edits() | _table_edits(pe, {old: layout.address + place for old, place in at.items()})
        with beside.open("w+b") as out:
            layout.write(out, edits)
    shutil.copymode(path, beside)
    beside.replace(path)
    return tuple(used)


def checksum(file: IO[bytes]) -> int:
    """The image's sum over its 16-bit words, carries added back, plus its length; the field for it must hold zero. Read
    as one long number the words have the same remainder by 65535, which is quick to get."""
    file.seek(0)
    total, size = 0, 0
    while chunk := file.read(_CHUNK):
        size += len(chunk)
        total += int.from_bytes(chunk, "little") % 0xFFFF or (0xFFFF if any(chunk) else 0)
    return (total % 0xFFFF or (0xFFFF if total else 0)) + size


class ImageLayout:
    """Where things lie in the old file and where they will lie in the new one. ``moved`` tells a file offset's new
    place: behind the headers if those had to grow, and behind the new section for what follows the image."""

    def __init__(self, pe: Pe, blob: bytes, name: bytes = SECTION) -> None:
        view = pe.view
        self.pe, self.blob, self.name = pe, blob, name
        self.start = view.number("<I", 0x3C)
        header = self.start + 24
        self.optional = header
        count, size = view.number("<H", self.start + 6), view.number("<H", self.start + 20)
        self.table_end = header + size + _HEADER * count
        self.section_alignment, self.file_alignment = view.unpack("<II", header + 32)
        self.headers = view.number("<I", header + 60)
        self.checksum_at = header + 64
        for value in (self.section_alignment, self.file_alignment):
            if not 1 <= value <= 1 << 20 or value & (value - 1):
                raise Malformed(f"{view.what}: its sections are aligned to {value}, which Windows does not load")
        if not count or count >= MAX_SECTIONS:
            raise Malformed(f"{view.what} has {count} sections; one more does not fit")
        filled = [s for s in pe.sections if s.size and s.offset]
        self.first = min((s.offset for s in filled), default=view.size)
        self.end = min(max((s.offset + s.size for s in filled), default=self.headers), view.size)
        # Windows wants sections without holes between them.
        last = max(s.address + (s.virtual_size or s.size) for s in pe.sections)
        self.address = round_up(last, self.section_alignment)
        self.grown = 0 if self._has_room() else self.file_alignment
        if self.headers + self.grown > min(s.address for s in pe.sections):
            raise Malformed(f"{view.what}: its headers have no room for one section more")
        self.section_at = round_up(self.end + self.grown, self.file_alignment)
        self.raw_size = round_up(len(blob), self.file_alignment)
        # The file ends without its signature, if that is its last part (it is where Windows puts it).
        offset, length = pe.directories[CERTIFICATE] if len(pe.directories) > CERTIFICATE else (0, 0)
        is_last = offset and offset >= self.end and offset + length >= view.size - 8
        self.kept = min(offset, view.size) if is_last else view.size

    def _has_room(self) -> bool:
        """Is there a place for one more section header? Bound imports often lie there, and go anyway."""
        bound = [range(at, at + size) for at, size in self.pe.directories[BOUND_IMPORT : BOUND_IMPORT + 1]]
        limit = min(self.headers, self.first)
        spare = self.pe.view.take(self.table_end, max(0, min(_HEADER, limit - self.table_end)))
        kept = (self.table_end + i for i, value in enumerate(spare) if value)
        if any(all(place not in part for part in bound) for place in kept):
            raise Malformed(f"{self.pe.view.what} keeps something of its own behind its section table")
        return len(spare) == _HEADER

    def moved(self, offset: int) -> int:
        """The new place of a file offset inside the image."""
        return offset if offset < self.first else offset + self.grown

    def behind(self, offset: int) -> int:
        """The new place of something in the file that is no section: it may follow the image."""
        return self.moved(offset) if offset < self.end else offset - self.end + self.section_at + self.raw_size

    def edits(self) -> dict[int, bytes]:
        """Old file offset -> new bytes, for the headers."""
        pe, view = self.pe, self.pe.view
        count = len(pe.sections)
        directories = self.optional + 112
        image = round_up(self.address + len(self.blob), self.section_alignment)
        initialised = view.number("<I", self.optional + 8)
        out = {
            self.start + 6: struct.pack("<H", count + 1),
            self.optional + 8: struct.pack("<I", initialised + self.raw_size),
            self.optional + 56: struct.pack("<II", image, self.headers + self.grown),
        }
        if symbols := view.number("<I", self.start + 12):
            out[self.start + 12] = struct.pack("<I", self.behind(symbols))
        for index in (CERTIFICATE, BOUND_IMPORT):
            if len(pe.directories) > index:
                out[directories + 8 * index] = bytes(8)
        for number in range(count):
            row = self.table_end - _HEADER * (count - number)
            for field in (20, 24, 28):  # bytes, relocations, line numbers
                if self.grown and (place := view.number("<I", row + field)):
                    out[row + field] = struct.pack("<I", self.moved(place))
        start, size = pe.directory(DEBUG) or (0, 0)
        for row in range(min(size // 28, 64)):
            at = start + 28 * row + 24
            if place := view.number("<I", at):
                out[at] = struct.pack("<I", self.behind(place))
        return out

    def write(self, out: IO[bytes], edits: Mapping[int, bytes]) -> None:
        """The whole new image into an empty file. ``edits`` are old file offsets and what lies there now."""
        data, middle = self.pe.view.data, min(self.first, self.end)
        copy_stretch(data, out, 0, middle)
        out.write(bytes(self.grown))
        copy_stretch(data, out, middle, self.end)
        out.write(bytes(self.section_at - out.tell()))
        out.write(self.blob.ljust(self.raw_size, b"\0"))
        copy_stretch(data, out, self.end, self.kept)
        # Headers that grew have the new one's place only in the new file, where nothing else lies.
        out.seek(self.table_end)
        where = (len(self.blob), self.address, self.raw_size, self.section_at)
        out.write(struct.pack("<8sIIIIIIHHI", self.name, *where, 0, 0, 0, 0, _READABLE_DATA))
        for offset, piece in edits.items():
            out.seek(self.moved(offset))
            out.write(piece)
        out.seek(self.checksum_at)
        out.write(bytes(4))
        total = checksum(out)
        out.seek(self.checksum_at)
        out.write(struct.pack("<I", total))


def _table_edits(pe: Pe, at: Mapping[str, int]) -> dict[int, bytes]:
    out: dict[int, bytes] = {}
    for index, step, names in ((IMPORT, 20, pe.needed), (DELAY_IMPORT, 32, pe.delayed)):
        start, _ = pe.directory(index) or (0, 0)
        for number, name in enumerate(names):
            row = start + step * number
            address = at.get(name.lower())
            if index == IMPORT:
                out[row + 4] = bytes(8)  # no time stamp, no chain: nothing is bound any more
            if address is None:
                continue
            if index == DELAY_IMPORT and not pe.view.number("<I", row) & 1:
                address += pe.image_base
                if address >> 32:
                    raise Malformed(f"{pe.view.what}: its delayed imports are of a kind no 64-bit image can have")
            out[row + (12 if index == IMPORT else 4)] = struct.pack("<I", address)
    config = pe.directory(LOAD_CONFIG)
    if config and pe.view.number("<I", config[0]) >= _DEPENDENT_LOAD_FLAGS + 2:
        # Set, it would send the loader to System32 only, where nothing of ours lies.
        out[config[0] + _DEPENDENT_LOAD_FLAGS] = bytes(2)
    return out
