"""The GPU code of one library: containers, their targets, and the sums a person wants to see. And what lies in a wheel
as files of its own: images (``.cubin``, ``.ptx``) for others to load, and ROCm's kernel files. Names of a few kernels
tell who is inside a container: "32 containers without your card" becomes "MAGMA". That costs one small decompression
per distinct set of architectures, and gives nothing rather than an error."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rekindle.formats import fatbin, offload
from rekindle.formats.cubin import cubin_arch
from rekindle.formats.elf import Elf
from rekindle.formats.fatbin import Container, Entry
from rekindle.formats.offload import Bundle
from rekindle.formats.pe import Pe
from rekindle.formats.view import Malformed, release
from rekindle.inspect.packages import kernel_owner, rocm_libraries
from rekindle.inspect.reader import Source
from rekindle.model.arch import GpuArch, Sm, parse_gfx_code, parse_sm
from rekindle.model.wheel import DataFiles

# How many containers of each set of architectures are looked into for names.
SAMPLES = 4
# A device linker's image without a kernel in it has 0.3 to 2 KB.
MOST_EMPTY = 4096
RELEASE_EVERY = 32 << 20
# Of an image in a file of its own the first bytes tell the target.
_IMAGE = re.compile(r"\.(cubin|ptx)$", re.IGNORECASE)
_PTX_TARGET = re.compile(rb"^\s*\.target\s+(sm_\d{2,3}[af]?)\b", re.MULTILINE)
IMAGE_HEAD = 4096
# gfx90a-xnack+ is a chip and a switch; MIOpen adds the number of compute units: gfx906_60, and gfx90878 or
# gfx942130 in hexadecimal above 64. Chips up to gfx9 have three characters, later ones four, so both are told apart.
_CHIP = r"1[0-9][0-9a-f]{2}|[6-9][0-9a-f]{2}|1?[0-9](?:-[0-9])?-generic"
_GFX = re.compile(rf"(?<![0-9a-z])(gfx(?:{_CHIP}))(?:[0-9a-f]{{2,3}})?[-_.]")
_ROCM_FILE = re.compile(r"\.(?:co|hsaco|dat|kdb|txt|db|bin)(?:\.[a-z]+)?$|\.dat\.gz$")


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """``kind`` is sass, ptx, lto or gfx. Sorts as people list them: machine code first, old to new."""

    kind: str
    arch: GpuArch

    @property
    def name(self) -> str:
        """As people write it: ``sm_90a``, ``compute_70``, ``gfx90a:xnack+``."""
        made_later = {"ptx": self.arch.compute, "lto": self.arch.lto} if isinstance(self.arch, Sm) else {}
        return made_later.get(self.kind, str(self.arch))

    @property
    def order(self) -> tuple[int, GpuArch]:
        """Its place among others."""
        return ("sass", "ptx", "lto", "gfx").index(self.kind), self.arch


ArchKey = frozenset[GpuTarget]
# (kind, number, suffix) of an entry.
_Key = tuple[str, int, str]


@dataclass
class GpuSurvey:
    """What one library's GPU sections hold. ``sets`` counts containers by the exact set of their targets: those with
    kernels, and what was linked from relocatable parts instead of the parts. ``entries`` counts every image, as
    NVIDIA's tools do; ``vendor`` marks a library of NVIDIA's or AMD's, whose kernels are never the wheel's own."""

    file: str
    vendor: bool = False
    sets: Counter[ArchKey] = field(default_factory=Counter)
    entries: Counter[GpuTarget] = field(default_factory=Counter)
    bytes: Counter[GpuTarget] = field(default_factory=Counter)
    compression: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    owners: dict[ArchKey, list[tuple[str, ...]]] = field(default_factory=dict)
    sycl: Counter[str] = field(default_factory=Counter)
    ahead: tuple[str, ...] = ()

    @property
    def has_code(self) -> bool:
        """Is there anything for a GPU in it?"""
        return bool(self.sets or self.sycl)

    def add(self, target: GpuTarget, size: int) -> None:
        """One image more."""
        self.entries[target] += 1
        self.bytes[target] += size


def survey_gpu(binary: Elf | Pe, file: str) -> GpuSurvey:
    """Walk every GPU section of a library by its headers, and look into a few images for their owners."""
    survey, parts, spans, data = GpuSurvey(file), GpuSurvey(file), [], binary.view.data
    for section in binary.sections:
        if isinstance(binary, Pe) and section.name == offload.SYCL_CUT:
            survey.sycl.update(offload.sycl_targets(data))
        elif section.name.startswith(offload.SYCL):
            count = offload.count_modules(data, *binary.content(section))  # type: ignore[arg-type]
            survey.sycl[section.name.removeprefix(offload.SYCL) or "unknown"] += count
        elif section.name in (*fatbin.SECTIONS, *offload.SECTIONS):
            spans.append(span := binary.content(section))  # type: ignore[arg-type]
            if section.name in fatbin.SECTIONS:
                kind = parts if section.name in fatbin.RELOCATABLE else survey
                _walk_fatbin(kind, data, fatbin.read_containers(data, *span, file), span[0])
            else:
                _walk_offload(survey, offload.read_bundles(data, *span, file))
    _walk_fatbin(survey, data, fatbin.stray_containers(data, spans), 0)
    _add_parts(survey, parts)
    if survey.sycl:
        survey.ahead = offload.ahead_of_time(data)
    return survey


def _add_parts(survey: GpuSurvey, parts: GpuSurvey) -> None:
    """Relocatable parts (``nvcc -rdc``) are loaded as the image that was linked from them, which has their machine
    code; where that lacks a card, the driver compiles and links the PTX of the parts. Without any such image the parts
    are all there is. https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#jit-linking"""
    for name in ("entries", "bytes", "compression", "odd"):
        getattr(survey, name).update(getattr(parts, name))
    late: dict[ArchKey, list[ArchKey]] = defaultdict(list)
    for key in parts.sets:
        late[frozenset(target for target in key if target.kind == "sass")].append(key)
    if not (linked := [key for key in survey.sets if key in late]):
        survey.sets.update(parts.sets)
        survey.owners |= parts.owners
    for key in linked:
        whole = key | frozenset.intersection(*late[key])
        if whole != key:
            survey.sets[whole] += survey.sets.pop(key)
            survey.owners.setdefault(whole, []).extend(survey.owners.pop(key, []))


def _walk_fatbin(survey: GpuSurvey, data: Any, containers: Iterable[Container], read_to: int) -> None:
    # Entries are counted by plain tuples; 3,000 of them then cost milliseconds.
    sizes: dict[_Key, list[int]] = defaultdict(list)
    sets: Counter[frozenset[_Key]] = Counter()
    owners: dict[frozenset[_Key], list[tuple[str, ...]]] = defaultdict(list)
    kinds = frozenset(fatbin.KINDS.values())
    for container in containers:
        if container.offset - read_to > RELEASE_EVERY:
            release(data, read_to, container.offset - read_to)
            read_to = container.offset
        known = [entry for entry in container.entries if entry.kind in kinds]
        survey.odd.update(entry.kind for entry in container.entries if entry.kind not in kinds)
        for entry in known:
            sizes[entry[:3]].append(entry.size)
            survey.compression[entry.compression] += 1
        if known and not _is_empty(data, container):
            together = frozenset(entry[:3] for entry in known)
            sets[together] += 1
            if len(owners[together]) < SAMPLES:
                owners[together].append(owners_of(data, container))
    targets = {key: GpuTarget(key[0], Sm.from_number(*key[1:])) for key in sizes}
    survey.entries.update({targets[key]: len(each) for key, each in sizes.items()})
    survey.bytes.update({targets[key]: sum(each) for key, each in sizes.items()})
    for together, count in sets.items():
        name = frozenset(targets[key] for key in together)
        survey.sets[name] += count
        survey.owners.setdefault(name, []).extend(owners[together])


def _walk_offload(survey: GpuSurvey, bundles: Iterable[Bundle]) -> None:
    for bundle in bundles:
        targets = set()
        for code in bundle.objects:
            try:
                if code.target is not None:
                    targets.add(target := GpuTarget("gfx", parse_gfx_code(code.target)))
                    survey.add(target, code.size)
            except ValueError:
                survey.odd[str(code.target)] += 1
        survey.compression[bundle.form] += 1
        if targets:
            survey.sets[frozenset(targets)] += 1


def survey_images(source: Source) -> list[GpuSurvey]:
    """One survey per folder and kind of file; each file counts as a container with one target."""
    named = {name: match[1].lower() for name in source.files if (match := _IMAGE.search(name))}
    surveys: dict[str, GpuSurvey] = {}
    for name, head in source.heads(sorted(named), IMAGE_HEAD) if named else ():
        place = f"{name.split('/', 1)[0]}/*.{named[name]}"
        survey = surveys.setdefault(place, GpuSurvey(place))
        mark, kind = _PTX_TARGET.search(head), "ptx" if named[name] == "ptx" else "sass"
        ptx = parse_sm(mark[1].decode()) if mark else None
        if arch := ptx if kind == "ptx" else cubin_arch(head):
            survey.add(target := GpuTarget(kind, arch), source.files[name])
            survey.sets[frozenset({target})] += 1
        else:
            survey.odd["not understood"] += 1
    return [survey for _, survey in sorted(surveys.items()) if survey.entries]


def find_data_files(names: Iterable[str]) -> tuple[DataFiles, ...]:
    """For which AMD targets rocBLAS, hipBLASLt and MIOpen bring kernel files: a wheel with gfx906 code of its own fails
    at the first matrix product where rocBLAS has no files for it."""
    files: dict[str, list[str]] = defaultdict(list)
    for lower in map(str.lower, names):
        for library in rocm_libraries(lower) if _ROCM_FILE.search(lower) else ():
            files[library].append(lower.rpartition("/")[2])
    rows = []
    for library, bases in sorted(files.items()):
        if targets := {target for base in bases for target in _GFX.findall(base)}:
            ordered = sorted(targets, key=lambda name: parse_gfx_code(name).order)
            rows.append(DataFiles(library=library, gfx=tuple(ordered), files=len(bases)))
    return tuple(rows)


HEAD = 1 << 16
MOST_STORED = 1 << 18
_KERNEL = re.compile(rb"\.text\.([A-Za-z_][\w.$]*)")


def owners_of(data: bytes, container: Container) -> tuple[str, ...]:
    """The libraries whose kernels a container holds; empty where nothing could be read."""
    if not (images := [entry for entry in container.entries if entry.kind == "sass"]):
        return ()
    owners = map(kernel_owner, kernel_names(data, min(images, key=lambda entry: entry.size)))
    return tuple(owner for owner, _ in Counter(filter(None, owners)).most_common(2))


def _is_empty(data: bytes, container: Container) -> bool:
    """No kernel in any image: what the device linker leaves behind so that a library links (libnppc, libcufftw)."""
    if any(entry.size > MOST_EMPTY or entry.kind == "lto" for entry in container.entries):
        return False
    try:
        return all(_holds_nothing(fatbin.read_image(data, entry)) for entry in container.entries)
    except Malformed:
        return False


def _holds_nothing(image: bytes) -> bool:
    if image.startswith(b"\x7fELF"):
        return b".text." not in image
    return b".version" in image and not (b".entry" in image or b".func" in image)


def kernel_names(data: bytes, entry: Entry) -> list[str]:
    """The kernels whose names stand in the first bytes of an image."""
    start = entry.offset + entry.header
    head = fatbin.decode_head(entry, bytes(data[start : start + min(entry.size, MOST_STORED)]), HEAD)
    return [match[1].decode("ascii", "replace") for match in _KERNEL.finditer(head)]
