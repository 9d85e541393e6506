"""A bare CUDA image (``.cubin``): an ELF file for NVIDIA's machine, whose flags name the card it is for.

ELF ABI 7 (up to CUDA 12) keeps the architecture in the lowest byte of the flags, ABI 8 in the second; a bit says that
the code is for exactly that chip (``sm_100a``). Code for a family (``sm_100f``) is not marked, and runs wherever plain
code of that number does. Held against 15,970 files whose names say what they are.

What host code relies on is its *face*: kernels by name with their parameters (``.nv.info.KERNEL``: attribute 0x17 for
each), and variables by name and size.
"""

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from rekindle.formats.elf import Elf
from rekindle.formats.view import Malformed
from rekindle.model.arch import Sm

MACHINE = 190
HEAD = 64
# ABI version of the ELF header -> (shift of the architecture in the flags, bit for "this chip only")
_FORMS = {7: (0, 0x800), 8: (8, 0x8)}
_SYMTAB, _SYMBOL = 2, struct.Struct("<IBBHQQ")
_OBJECT, _FUNCTION, _ENTRY_POINT = 1, 2, 0x10
MAX_SYMBOLS = 4_000_000
# Forms of an attribute: (form, attribute, value), where form 4 has `value` bytes behind it.
_ATTRIBUTE, _PARAMETER = struct.Struct("<BBH"), struct.Struct("<IHHI")
_SIZED, _KPARAM_INFO = 4, 0x17
_INFO = ".nv.info."
_SHOWN = 160
# Strings, names of functions for assert, and what the compiler made up: no host code knows them, and paths change them.
_OWN_NAMES = re.compile(
    r"[$.]|__nv_reserved|__unnamed_|_ZZ.*(?:__func__|__FUNCTION__|__PRETTY_FUNCTION__)|__PRETTY_FUNCTION__"
)
_MODULE = re.compile(r"(\d+)(_INTERNAL_|_GLOBAL__N__)(?=[0-9a-f]{8}_\d+_)")
_MODULE_ID = re.compile(r"(?:_INTERNAL|_GLOBAL__N_)(_[0-9a-f]{8}_(\d+)_(.+_cu)_.*)", re.DOTALL)


# What host code hands over to a kernel: (place in the order, bytes) of each parameter. Where they lie is the driver's
# business: one that must be aligned to 64 has another offset on each architecture: constant banks begin elsewhere.
Passed = tuple[tuple[int, int], ...]


class Face(NamedTuple):
    """What host code may rely on; ``names`` are all symbols, among them those that tell the unit."""

    kernels: dict[str, Passed]
    variables: dict[str, int]
    names: tuple[str, ...]


def face_differences(new: Face, official: Face) -> str | None:
    """Why new code cannot stand beside the wheel's own, in words: what host code relies on must be the same."""
    for what in ("kernels", "variables"):
        mine, theirs = (set(getattr(face, what)) for face in (new, official))
        if missing := sorted(theirs - mine):
            return f"{len(missing)} of {len(theirs)} {what} are missing, first {missing[0][:_SHOWN]}"
        if extra := sorted(mine - theirs):
            return f"{len(extra)} {what} are not in the wheel's own code, first {extra[0][:_SHOWN]}"
    for name, passed in official.kernels.items():
        if new.kernels[name] != passed:
            both = (new.kernels[name], passed)
            has, wants = (", ".join(str(size) for _, size in sizes[:12]) or "none" for sizes in both)
            return f"the parameters of {name[:_SHOWN]} have {has} bytes, not {wants} bytes"
    for name, size in official.variables.items():
        if new.variables[name] != size:
            return f"the variable {name[:_SHOWN]} has {new.variables[name]} bytes, not {size}"
    return None


def other_arch(image: bytes, arch: Sm) -> str | None:
    """Why a cubin is not for ``arch``, in words. Code for one chip alone (``a``) is marked only where it uses what that
    chip alone has, a family's (``f``) never: a mark counts, its absence says nothing."""
    if (actual := cubin_arch(image[:HEAD])) is None:
        return "it is no CUDA image of a form that is known"
    same = (actual.major, actual.minor) == (arch.major, arch.minor) and actual.suffix in ("", arch.suffix)
    return None if same else f"it is for {actual}, not {arch}"


class ModuleId(NamedTuple):
    """The compiler's own name of a source file, ``_91c5f4d9_13_FillKernel_cu_54a8c5b0``, and the file's in it."""

    text: str
    source: str


def cubin_arch(head: bytes) -> Sm | None:
    """The architecture of a cubin from its first bytes; None where it is no cubin, or of a form not known."""
    if len(head) < HEAD or head[:6] != b"\x7fELF\x02\x01":
        return None
    machine, flags = (struct.unpack_from(form, head, at)[0] for form, at in (("<H", 18), ("<I", 48)))
    if machine != MACHINE or head[8] not in _FORMS:
        return None
    shift, exact = _FORMS[head[8]]
    number = flags >> shift & 0xFF
    return Sm.from_number(number, "a" if flags & exact else "") if number >= 10 else None


def read_face(image: bytes, what: str = "cubin") -> Face:
    """Kernels, variables and names of a cubin; lies are :class:`Malformed`."""
    if cubin_arch(image[:HEAD]) is None:
        raise Malformed(f"{what} is no CUDA image of a form that is known")
    elf = Elf(image, what)
    kernels: dict[str, Passed] = {}
    variables: dict[str, int] = {}
    names: list[str] = []
    infos = {section.name.removeprefix(_INFO): section for section in elf.sections if section.name.startswith(_INFO)}
    for name, kind, other, size in read_symbols(elf, _SYMTAB):
        names.append(name)
        if kind == _FUNCTION and other & _ENTRY_POINT:
            kernels[name] = _read_parameters(elf.view.take(*elf.content(infos[name])) if name in infos else b"")
        elif kind == _OBJECT and not _OWN_NAMES.match(name):
            variables[name] = size
    return Face(kernels, variables, tuple(names))


def machine_code(image: bytes, what: str = "cubin") -> dict[str, bytes]:
    """The machine code of every kernel and device function by its name."""
    elf = Elf(image, what)
    parts = [section for section in elf.sections if section.name.startswith(".text.")]
    return {part.name.removeprefix(".text."): elf.view.take(*elf.content(part)) for part in parts}


def module_id(names: tuple[str, ...]) -> ModuleId | None:
    """The unit a cubin was compiled from, told by any name with internal linkage in it."""
    for name in names:
        for match in _MODULE.finditer(name):
            # A number stands before it, perhaps right behind another name's digits.
            for cut in range(len(match[1])):
                size = int(match[1][cut:])
                piece = name[match.start(2) : match.start(2) + size]
                module = _MODULE_ID.fullmatch(piece)
                if len(piece) == size and module and int(module[2]) == len(module[3]):
                    return ModuleId(module[1], module[3])
    return None


def read_symbols(elf: Elf, table_kind: int) -> Iterator[tuple[str, int, int, int]]:
    """(name, kind, other, size) of every symbol in tables of that kind (2: all symbols, 11: the dynamic ones)."""
    for section in elf.sections:
        if section.kind != table_kind:
            continue
        offset, size = elf.content(section)
        if section.link >= len(elf.sections) or size // _SYMBOL.size > MAX_SYMBOLS:
            raise Malformed(f"{elf.view.what}: its table of symbols cannot be read")
        start, length = elf.content(elf.sections[section.link])
        table = elf.view.take(start, length)
        for name, info, other, _, _, bytes_ in _SYMBOL.iter_unpack(elf.view.take(offset, size // 24 * 24)):
            end = table.find(b"\0", name) if name < length else -1
            if end < 0:
                raise Malformed(f"{elf.view.what}: a symbol's name lies outside its table")
            yield table[name:end].decode("utf-8", "backslashreplace"), info & 15, other, bytes_


def _read_parameters(data: bytes) -> Passed:
    at, passed = 0, []
    while at + _ATTRIBUTE.size <= len(data):
        form, attribute, value = _ATTRIBUTE.unpack_from(data, at)
        at += _ATTRIBUTE.size
        if form == _SIZED:
            if attribute == _KPARAM_INFO and value >= _PARAMETER.size and at + value <= len(data):
                _, ordinal, _, bits = _PARAMETER.unpack_from(data, at)
                passed.append((ordinal, bits >> 18))
            at += value
    return tuple(sorted(passed))
