"""A library of a wheel as graft sees it: its containers by number, the unit each comes from, room for more.

Only what is understood whole is touched: every container must be plain (``.nv_fatbin``, in Windows' libraries
``.nv_fatb``; AMD's are in :mod:`rekindle.graft.hip`), and each pointer to the section must lead to one. A
:class:`Malformed` says why a library stays as it is.
"""

import functools
import mmap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from rekindle.formats.binary import open_binary
from rekindle.formats.cubin import Face, ModuleId, face_differences, module_id, other_arch, read_face
from rekindle.formats.elf import Elf
from rekindle.formats.elf_move import ALIGN, Pointer, SectionPiece, move_section, pointers_into
from rekindle.formats.fatbin import Container, Entry, container_head, read_containers, read_image, read_options
from rekindle.formats.pe import Pe
from rekindle.formats.pe_move import image_pointers_into, move_image_section
from rekindle.formats.view import Malformed, release
from rekindle.graft.compile import Job
from rekindle.model.arch import Sm
from rekindle.model.graft import State, UnitOutcome, WayKind

_READ_POINTERS: dict[str, Callable[[Any, Any], tuple[Pointer, ...]]] = {"elf": pointers_into, "pe": image_pointers_into}


@dataclass(frozen=True)
class DeviceUnit:
    """A container of any vendor: its ``number``, where it is mapped, and what it has code for (``targets``)."""

    number: int
    address: int
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Unit(DeviceUnit):
    """A fat binary."""

    container: Container

    @property
    def sass(self) -> tuple[Entry, ...]:
        """Its machine code."""
        return tuple(entry for entry in self.container.entries if entry.kind == "sass")

    @property
    def ptx(self) -> tuple[Entry, ...]:
        """What the driver would compile."""
        return tuple(entry for entry in self.container.entries if entry.kind == "ptx")


@dataclass(frozen=True)
class GraftCandidate:
    """A container that lacks code for ``arch``, and the ``plan`` for it in words; ``name`` is the compiler's for it."""

    library: str
    unit: Any
    name: str | None
    arch: Any
    plan: str

    @property
    def like(self) -> Any:
        """The architecture whose code of the wheel is made most like the new code."""
        return self.arch

    def official(self) -> Entry | None:
        """The wheel's own machine code to hold it against: the most alike, else the nearest. None: it has PTX alone."""
        entries = self.unit.sass
        return next((entry for entry in entries if entry.arch == self.like), None) or nearest(entries, self.arch)

    def output(self, number: int) -> str:
        """The file that holds what is made; ``number`` tells libraries apart."""
        return f"cubin/{number}-{self.unit.number}.{self.arch}.cubin"

    def outcome(self, state: State, why: str | None) -> UnitOutcome:
        number, arch = self.unit.number, str(self.arch)
        return UnitOutcome(library=self.library, container=number, unit=self.name, state=state, arch=arch, why=why)


@dataclass(frozen=True, kw_only=True)
class Way:
    """Where new code for a card comes from; ``sources`` are told where it was used. Libraries are of its vendor."""

    kind: ClassVar[WayKind]
    sources: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """What the compiler is told of every unit, without the places of this machine."""
        return ()

    def survey(self, library: Any) -> tuple[list[Any], list[UnitOutcome]]:
        """What can be made of a library, and the state of its other units."""
        rows = list(self.judge(library))
        outcomes = [row for row in rows if isinstance(row, UnitOutcome)]
        return [row for row in rows if isinstance(row, GraftCandidate)], outcomes

    def judge(self, library: Any) -> Iterable[GraftCandidate | UnitOutcome]:
        """Of each of its units what can be made, or how it stands."""
        raise NotImplementedError

    def jobs(self, folder: Path, number: int, library: Any, units: Any) -> list[Job]:
        """What makes ``units`` in ``folder``; ``number`` tells libraries apart."""
        raise NotImplementedError


class DeviceLibrary:
    """A mapped library, to be used in a ``with``; ``name``: its place in the wheel. What is the same for every vendor:
    containers in one section, pointers that lead to them, and a copy with more in them. ``sections`` are the names of
    that section, ``align`` is where containers may begin; ``repeatable``: a graft gives the same bytes everywhere."""

    sections: ClassVar[tuple[str, ...]] = ()
    align: ClassVar[int] = ALIGN
    repeatable: ClassVar[bool] = True

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._faces: dict[int, Face] = {}
        self._file = path.open("rb")
        try:
            self._data = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            self._file.close()
            raise Malformed(f"{name} is empty") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.__dict__.pop("headers", None)
        self._data.close()
        self._file.close()

    @property
    def units(self) -> Sequence[DeviceUnit]:
        """All containers in the order of the section; empty where the library has none."""
        raise NotImplementedError

    def _own_face(self, candidate: Any) -> Face | None:
        """What a candidate's new image is held against; None: it is taken as it is."""
        raise NotImplementedError

    def _new_face(self, candidate: Any, image: bytes) -> Face:
        """What host code would rely on in a new image."""
        raise NotImplementedError

    def differences(self, candidate: Any, image: bytes) -> str | None:
        """Why a new image cannot stand beside the wheel's own code, in words; None where it can."""
        own = self._own_face(candidate)  # outside: a fault of the wheel's is none of the new image's
        try:
            return face_differences(self._new_face(candidate, image), own) if own else None
        except Malformed as error:
            return error.message

    def _piece(self, number: int, more: Sequence[bytes]) -> SectionPiece:
        """A container with more in it."""
        raise NotImplementedError

    def outcome(self, unit: DeviceUnit, state: State, why: str, name: str | None = None) -> UnitOutcome:
        return UnitOutcome(library=self.name, container=unit.number, unit=name, state=state, why=why)

    @functools.cached_property
    def headers(self) -> Elf | Pe | None:
        """Its headers; None where it is no library after all."""
        return open_binary(self._data, self.name)

    @functools.cached_property
    def _section(self) -> Any:
        every = self.headers.sections if self.headers else ()
        return next((section for section in every if section.name in self.sections), None)

    def _place(self) -> tuple[int, int, int]:
        """Where the section lies in the file, its size, and the address it is mapped to."""
        if self.headers is None or self._section is None:
            return 0, 0, 0
        return (*self.headers.content(self._section), self.headers.image_base + self._section.address)

    def check_pointers(self) -> None:
        """Every container must be led to by a pointer that can be set, and every pointer must lead to a container."""
        if self.headers is None or self._section is None:
            raise Malformed(f"{self.name} has no containers")
        targets = {pointer.target for pointer in _READ_POINTERS[self.headers.format](self.headers, self._section)}
        known = {unit.address for unit in self.units}
        if lost := known - targets:
            which = f"{len(lost)} of its {len(known)} containers"
            raise Malformed(f"{self.name}: no pointer that can be set leads to {which}")
        if strange := targets - known:
            raise Malformed(f"{self.name}: {len(strange)} pointers lead to something that is no container")

    def write_with(self, additions: Mapping[int, Sequence[bytes]], path: Path) -> None:
        """A copy at ``path`` with more entries (container number -> finished entries), read back before it counts."""
        if not additions.keys() <= {unit.number for unit in self.units}:
            raise Malformed(f"{self.name} has no container {sorted(additions)[-1]}")
        self.check_pointers()
        pieces = [self._piece(unit.number, additions.get(unit.number, ())) for unit in self.units]
        with path.open("wb+") as out:
            if isinstance(self.headers, Pe):
                move_image_section(self.headers, self._section, pieces, out)
            elif self.headers:
                move_section(self.headers, self._section, pieces, out, self.align)
        try:
            # The same containers with so many more targets, and pointers that lead to them.
            with type(self)(path, self.name) as written:
                written.check_pointers()
                wanted = [len(unit.targets) + len(additions.get(unit.number, ())) for unit in self.units]
                if [len(unit.targets) for unit in written.units] != wanted:
                    raise Malformed(f"{self.name} has other entries than were written")
        except Malformed as error:
            path.unlink()
            raise Malformed(f"{self.name} contradicts itself: with new code it reads otherwise") from error


class GpuLibrary(DeviceLibrary):
    sections = (".nv_fatbin", ".nv_fatb")

    @functools.cached_property
    def units(self) -> tuple[Unit, ...]:
        offset, size, address = self._place()
        rows = enumerate(read_containers(self._data, offset, size, self.name)) if size else ()
        return tuple(
            Unit(number, address + row.offset - offset, tuple(entry.name for entry in row.entries), row)
            for number, row in rows
        )

    def image(self, entry: Entry) -> bytes:
        """An entry's content, inflated."""
        content = read_image(self._data, entry, self.name)
        release(self._data, entry.offset, entry.header + entry.size)
        return content

    def options(self, entry: Entry) -> tuple[str, ...]:
        """What the compiler of an entry was told."""
        return read_options(self._data, entry)

    def face(self, entry: Entry) -> Face:
        """What host code relies on in an entry of machine code; read once, since every way asks for it."""
        if entry.offset not in self._faces:
            self._faces[entry.offset] = read_face(self.image(entry), f"{self.name}, {entry.name}")
        return self._faces[entry.offset]

    def module(self, unit: Unit) -> tuple[ModuleId | None, tuple[str, ...]]:
        """The unit's name (None where no name in it tells) and all names in it, by its smallest image."""
        smallest = min(unit.sass, key=lambda entry: entry.size, default=None)
        names = self.face(smallest).names if smallest else ()
        return module_id(names), names

    def _own_face(self, candidate: Any) -> Face | None:
        """None where the wheel has PTX alone, of which the driver would take whatever it gives."""
        official = candidate.official()
        return self.face(official) if official else None

    def _new_face(self, candidate: Any, image: bytes) -> Face:
        """Refused where it is for another architecture."""
        if (wrong := other_arch(image, candidate.arch)) is not None:
            raise Malformed(wrong)
        return read_face(image, "the new image")

    def _piece(self, number: int, more: Sequence[bytes]) -> SectionPiece:
        unit = self.units[number]
        sizes = [(entry.offset, entry.header + entry.size) for entry in unit.container.entries]
        head = container_head(sum(size for _, size in sizes) + sum(map(len, more)))
        return SectionPiece(unit.address, (head, *sizes, *more))


def nearest(entries: Sequence[Entry], card: Sm) -> Entry | None:
    """The machine code to hold new code for ``card`` against: the nearest plain architecture, older before newer."""
    plain = [entry for entry in entries if not entry.suffix] or list(entries)
    older = [entry for entry in plain if entry.arch <= card]
    return max(older, key=lambda entry: entry.arch, default=None) or min(plain, key=lambda e: e.arch, default=None)


def unit_compression(unit: Unit) -> str:
    """How the entries of a container are stored: new ones are stored the same way, since its driver can read that."""
    ways = {entry.compression for entry in unit.sass or unit.container.entries}
    return next((way for way in ("zstd", "lz4") if way in ways), "none")
