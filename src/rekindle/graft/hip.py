"""AMD's libraries: bundles of code objects instead of fat binaries, and the two ways to a code object for a card.

*Twin*: for chips of one kind (gfx1030 to gfx1036; ``facts/graft.toml`` lists such kinds, measured) AMD's compiler makes
the same code objects but for the chip's name in flags and metadata, so where a wheel has one, the others need no
compiler. *Source*: the package's own kernel files, compiled by clang for the card alone; ``-cuid`` forces the id that
internal names carry. A bundle is one unit, and grows by one code object. Windows' libraries are not written.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from rekindle.compat.graft import find_twin
from rekindle.compat.images import GpuCode, covers
from rekindle.facts import Facts
from rekindle.formats import offload
from rekindle.formats.cubin import Face
from rekindle.formats.elf_move import SectionPiece
from rekindle.formats.pe import Pe
from rekindle.formats.view import Malformed
from rekindle.graft.compile import Job
from rekindle.graft.library import DeviceLibrary, DeviceUnit, GraftCandidate, Way
from rekindle.graft.nvidia import choose_file, find_files
from rekindle.host.files import write_if_changed
from rekindle.model.arch import Gfx
from rekindle.model.graft import LibraryBeside, UnitOutcome, WayKind

_SUFFIXES = ("*.hip", "*.cu", "*.cpp")
# e_ident[8] of a code object -> the version that clang is told.
_OLDEST_ABI = 2
_LISTED = 8
# hipcc takes a machine with nvcc for one of NVIDIA's unless it is told.
HIP = ("env", "HIP_PLATFORM=amd")


@dataclass(frozen=True)
class HipUnit(DeviceUnit):
    """A bundle; its ``targets`` are also the host's empty entry."""

    bundle: offload.Bundle

    @property
    def chips(self) -> tuple[str, ...]:
        """What it has code for."""
        return tuple(each.target for each in self.bundle.objects if each.target and each.size)


class HipLibrary(DeviceLibrary):
    sections = (".hip_fatbin",)
    align: ClassVar[int] = offload.ALIGN
    # A compressed bundle is compressed again when a graft is applied, and each zstd does that its own way.
    repeatable = False

    @functools.cached_property
    def units(self) -> tuple[HipUnit, ...]:
        if isinstance(self.headers, Pe):
            if any(section.name.startswith(".hip_fat") for section in self.headers.sections):
                raise Malformed(f"{self.name} is Windows' library, whose AMD code is not written")
            return ()
        offset, size, address = self._place()
        bundles = list(offload.read_bundles(self._data, offset, size, self.name)) if size else []
        if any(bundle.offset + bundle.size > offset + size for bundle in bundles):
            raise Malformed(f"{self.name} holds a bundle that ends behind its section")
        if any(not bundle.size for bundle in bundles):
            raise Malformed(f"{self.name} holds bundles of clang 18 or older, which do not say how long they are")
        return tuple(
            HipUnit(number, address + row.offset - offset, tuple(each.target or each.id for each in row.objects), row)
            for number, row in enumerate(bundles)
        )

    def code_object(self, unit: HipUnit, chip: str) -> bytes:
        """Its code for a chip."""
        objects = offload.read_objects(self._data, unit.bundle, self.name)
        return next(objects[each.id] for each in unit.bundle.objects if each.target == chip)

    def face(self, unit: HipUnit) -> Face:
        """What host code relies on, by the bundle's smallest code object; read once."""
        if unit.number not in self._faces:
            smallest = min((each for each in unit.bundle.objects if each.target), key=lambda each: each.size)
            image = self.code_object(unit, str(smallest.target))
            self._faces[unit.number] = offload.read_object_face(image, f"{self.name}, {smallest.target}")
        return self._faces[unit.number]

    def _own_face(self, candidate: Any) -> Face:
        return self.face(candidate.unit)

    def _new_face(self, candidate: Any, image: bytes) -> Face:
        """Refused where it is for another chip."""
        if (chip := offload.object_chip(image)) != candidate.arch.name:
            raise Malformed(f"it is for {chip or 'no chip that is known'}, not {candidate.arch}")
        return offload.read_object_face(image, "the new code object")

    def _piece(self, number: int, more: Sequence[bytes]) -> SectionPiece:
        unit = self.units[number]
        if not more:
            return SectionPiece(unit.address, ((unit.bundle.offset, unit.bundle.size),))
        objects = offload.read_objects(self._data, unit.bundle, self.name)
        like = next(each for each in unit.bundle.objects if each.target)
        for image in more:
            objects[like.id.removesuffix(str(like.target)) + str(offload.object_chip(image))] = image
        return SectionPiece(unit.address, (offload.write_bundle(objects, unit.bundle.form),))


@dataclass(frozen=True)
class HipCandidate(GraftCandidate):
    """A bundle, the ``origin`` of code for it (a chip that it has, or a file), ``cuid`` and ``version`` of its own."""

    origin: str
    cuid: str | None = None
    version: int = 0


@dataclass(frozen=True, kw_only=True)
class TwinWay(Way):
    """Code for ``card`` from the wheel's own code for a chip of the same kind: no compiler."""

    card: Gfx
    facts: Facts
    kind: ClassVar[WayKind] = "twin"

    def judge(self, library: HipLibrary) -> Iterator[GraftCandidate | UnitOutcome]:
        for unit in library.units:
            twin = find_twin(unit.chips, self.card, self.facts)
            if not unit.chips:
                yield library.outcome(unit, "has", "it is empty")
            elif covers(GpuCode(unit.chips), self.card, None, self.facts).kind == "native":
                yield library.outcome(unit, "has", f"its code covers {self.card}")
            elif twin is None:
                have = " ".join(unit.chips[:_LISTED]) + (" …" if len(unit.chips) > _LISTED else "")
                why = f"it has {have}, none of the same kind as {self.card}; --source DIR names the package's sources"
                yield library.outcome(unit, "left-out", why)
            else:
                plan = f"its {twin} code, which is the same for {self.card}"
                name = offload.unit_id(library.face(unit).names)
                yield HipCandidate(library.name, unit, name, self.card, plan, twin)

    def jobs(self, folder: Path, number: int, library: HipLibrary, units: Sequence[HipCandidate]) -> list[Job]:
        """Writes the code objects itself: there is nothing to compile."""
        for each in units:
            content = offload.rename_chip(library.code_object(each.unit, each.origin), each.arch.name)
            write_if_changed(folder / each.output(number), content)
        return []


@dataclass(frozen=True, kw_only=True)
class HipSourceWay(Way):
    """Code for ``card`` from a package's own kernel files in ``tree``, by ``clang``, with more ``options``."""

    card: Gfx
    tree: Path
    clang: str
    options: tuple[str, ...] = ()
    kind: ClassVar[WayKind] = "source"

    @property
    def flags(self) -> tuple[str, ...]:
        own = (word for word in self.options if not word.startswith("-I"))
        return ("-x", "hip", "--cuda-device-only", "-O3", *own)

    def judge(self, library: HipLibrary) -> Iterator[GraftCandidate | UnitOutcome]:
        """The file of each bundle is told by the kernels it defines."""
        files = [path for paths in find_files([self.tree], _SUFFIXES).values() for path in paths]
        for unit in library.units:
            if not unit.chips:
                continue
            face = library.face(unit)
            file = choose_file(files, face.names, certain=True)
            if file is None:
                why = f"no file of {self.tree.name} defines its kernels, or several do"
                yield library.outcome(unit, "left-out", why)
                continue
            version, cuid = library.code_object(unit, unit.chips[0])[8] + _OLDEST_ABI, offload.unit_id(face.names)
            yield HipCandidate(library.name, unit, file.name, self.card, file.name, str(file), cuid, version)

    def jobs(self, folder: Path, number: int, library: HipLibrary, units: Sequence[HipCandidate]) -> list[Job]:
        """Device code alone, one code object per unit."""
        include = [f"-I{self.tree}", *(word for word in self.options if word.startswith("-I"))]
        jobs: list[Job] = []
        for each in units:
            output = each.output(number)
            command = (
                *(*HIP, self.clang, *self.flags),
                *("--no-gpu-bundle-output", f"--offload-arch={each.arch}"),
                *([f"-cuid={each.cuid}"] if each.cuid else []),
                *(f"-mcode-object-version={each.version}", "-w", f"-I{Path(each.origin).parent}", *include),
                *("-c", each.origin, "-o", output),
            )
            title = f"object {output} ({each.name})"
            jobs.append(Job(output=output, command=command, inputs=(each.origin,), title=title))
        return jobs


def judge_chip_files(members: Iterable[str], card: Gfx, facts: Facts) -> tuple[LibraryBeside, ...]:
    """What AMD's libraries with code in files per chip do on the card; a graft makes no such files."""
    names = list(members)
    libraries: list[LibraryBeside] = []
    for row in facts.graft.chip_files:
        files = [name for name in names if f"/{row.folder}/" in f"/{name}"]
        if not any("gfx" in name for name in files):
            continue
        has = any(card.name in name for name in files)
        why = f"{row.name} keeps its code in files per chip ({row.folder}), and "
        why += f"has some for {card}" if has else f"none is for {card}: a graft does not make them"
        known = LibraryBeside(name=row.name, arch=str(card), code="native", inside=True, why=why, source=row.source[0])
        libraries.append(known if has else msgspec.structs.replace(known, code="none", operators=row.operators))
    return tuple(libraries)
