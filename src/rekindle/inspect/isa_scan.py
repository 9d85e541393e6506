"""All code of one library scanned in stretches: what each function uses, whom it calls, who asks the CPU."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields

import numpy as np

from rekindle.formats import arm64_scan, x86, x86_scan
from rekindle.formats.code_scan import NOWHERE, Ints, Scan, Stretch, Variables
from rekindle.formats.elf import SHF_WRITE, Elf
from rekindle.formats.functions import Code, Functions, code_of, find_functions, string_table, symbols_of, table_string
from rekindle.formats.pe import Pe
from rekindle.formats.references import References, read_pe_references, read_references
from rekindle.formats.view import release

STRETCH = 2 << 20
TLS = 0x400
WORKERS = 2
CLASSES = {"x86_64": x86.CLASSES, "aarch64": arm64_scan.CLASSES}
_SCANNERS = {"x86_64": x86_scan.scan, "aarch64": arm64_scan.scan}


@dataclass
class LibraryScan:
    """A library with all that its code does; ``marked``: source files are named for the CPUs their code is for."""

    binary: Elf | Pe
    functions: Functions
    references: References
    classes: tuple[str, ...]
    scan: Scan
    state: Ints
    code: list[Code]
    variables: Variables
    marked: bool = False


def can_scan(binary: Elf | Pe) -> bool:
    """Is it code for a machine we can read?"""
    return binary.machine in _SCANNERS


def scan_code(
    binary: Elf | Pe, watch: Callable[[str], bool], step: Callable[[int, int], None], copies: Callable[[str], bool]
) -> LibraryScan:
    """``watch`` says which data symbols hold what is known of the CPU; ``step`` hears (bytes done, total); ``copies``
    says which source files hold copies for a CPU by their names: then who touches which variable is not noted."""
    functions = find_functions(binary)
    references = read_references(binary) if isinstance(binary, Elf) else read_pe_references(binary)
    state = _state_variables(binary, references, watch) if isinstance(binary, Elf) else np.zeros(0, np.int64)
    # A hundred megabytes of names and tables were read once; what is wanted again is read again.
    release(binary.view.data, 0, binary.view.size)
    targets = np.unique(np.concatenate([functions.start, np.fromiter(references.stubs, np.int64)]))
    # Slots that hold a function's address or an import: reading one means calling it or passing it on.
    slots = references.pointers[np.isin(references.pointers[:, 1], functions.start), 0]
    watched = np.unique(np.concatenate([slots, np.fromiter(references.imports, np.int64), state]))
    code = code_of(binary)
    marked = any(map(copies, functions.all_files()))
    # Of a Windows library nobody tells which pointers it holds, so its variables say nothing.
    variables = _variable_span(binary) if isinstance(binary, Elf) and not marked else NOWHERE
    scanner = _SCANNERS[binary.machine]
    pieces = _cut_code(code, functions)
    total, done = sum(size for _, _, _, size, _ in pieces), 0

    def work(piece: tuple[int, int, int, int, int]) -> Scan:
        low, high, address, size, offset = piece
        raw = np.frombuffer(binary.view.data, np.uint8, count=size, offset=offset)
        starts, ends = functions.start[low:high], functions.end[low:high]
        scan = scanner(Stretch(raw, address, starts, ends, targets, watched, variables, low))
        release(binary.view.data, offset, size)
        return scan

    parts = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for piece, part in zip(pieces, pool.map(work, pieces), strict=True):
            parts.append(part)
            done += piece[3]
            step(done, total)
    release(binary.view.data, 0, binary.view.size)
    return LibraryScan(
        binary, functions, references, CLASSES[binary.machine], _join_scans(parts), state, code, variables, marked
    )


def _cut_code(code: list[Code], functions: Functions) -> list[tuple[int, int, int, int, int]]:
    """(first function, past the last, address, size, file offset), about two megabytes each."""
    out = []
    for part in code:
        low, stop = np.searchsorted(functions.start, [part.address, part.address + part.size]).tolist()
        while low < stop:
            begin = int(functions.start[low])
            high = min(stop, max(low + 1, int(np.searchsorted(functions.start, begin + STRETCH))))
            size = int(functions.end[low:high].max()) - begin
            out.append((low, high, begin, size, part.offset + begin - part.address))
            low = high
    return out


def _join_scans(parts: list[Scan]) -> Scan:
    shape = {"uses": (0, 4), "calls": (0, 2), "takes": (0, 2), "reads": (0, 2)}
    empty = Scan(**{field.name: np.zeros(shape.get(field.name, 0), np.int64) for field in fields(Scan)})
    return Scan(*(np.concatenate([getattr(part, field.name) for part in (empty, *parts)]) for field in fields(Scan)))


def _variable_span(elf: Elf) -> Variables:
    """The span of what the library may write, or the loader writes into; at most 4 GB of it."""
    spans = [(s.address, s.address + s.size) for s in elf.sections if s.flags & SHF_WRITE and not s.flags & TLS]
    if not spans:
        return NOWHERE
    low = min(low for low, _ in spans)
    return Variables(low, min(max(high for _, high in spans), low + (1 << 32)))


def _state_variables(elf: Elf, references: References, watch: Callable[[str], bool]) -> Ints:
    """Addresses of variables (and of the GOT slots to them) that hold what is known of the CPU."""
    out: set[int] = {slot for slot, name in references.imports.items() if watch(name)}
    section = elf.section(".symtab") or elf.section(".dynsym")
    table, strings = symbols_of(elf, section), string_table(elf, section)
    objects = table[((table["info"] & 15) == 1) & (table["section"] != 0) & (table["size"] <= 4096)]
    for name, value, size in zip(*(objects[key].tolist() for key in ("name", "value", "size")), strict=True):
        if watch(table_string(strings, name)):
            out.update(range(value, value + min(size, 256)))
    addresses = np.array(sorted(out), np.int64)
    through = np.isin(references.pointers[:, 1], addresses)
    return np.unique(np.concatenate([addresses, references.pointers[through, 0]]))
