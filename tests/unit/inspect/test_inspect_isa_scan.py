"""A library's code as a whole: its stretches, its variables, and the symbols that hold what is known of the CPU."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from binaries import make_pe
from rekindle.formats.code_scan import NOWHERE, Variables, unpack
from rekindle.formats.elf import Elf
from rekindle.formats.functions import Code
from rekindle.formats.pe import Pe
from rekindle.inspect import isa_scan
from rekindle.inspect.cpu import survey_cpu
from rekindle.inspect.isa_scan import STRETCH, TLS, LibraryScan, _cut_code, _variable_span, can_scan, scan_code
from small_elf import ALLOC, CODE, OBJECT, RELA, STRTAB, SYMTAB, Part, names, rela, small_elf, symbol

DYNSYM = 11
WRITE = ALLOC | 1
TEXT, DATA, GOT = 0x1000, 0x4000, 0x5000
RELATIVE = 8
# uses: vaddps ymm0, ymm0, ymm0; mov eax, [rip + flags]; ret         asks: cpuid; mov [rip + flags], eax; ret
USES = bytes.fromhex("c5fc58c0 8b05") + struct.pack("<i", DATA - (TEXT + 10)) + b"\xc3"
ASKS = bytes.fromhex("0fa2 8905") + struct.pack("<i", DATA - (TEXT + 0x20 + 8)) + b"\xc3"
# calls: call uses; mov rax, [rip + its slot in the offset table]; ret
CALLS = b"\xe8" + struct.pack("<i", TEXT - (TEXT + 0x45)) + bytes.fromhex("488b05")
CALLS += struct.pack("<i", GOT - (TEXT + 0x40 + 12)) + b"\xc3"
BODY = USES.ljust(0x20, b"\xcc") + ASKS.ljust(0x20, b"\xcc") + CALLS


def library(*, table: str = ".symtab", size: int = 4, kind: int = OBJECT, section: int = 2, name: str = "cpu") -> Elf:
    strings, at = names("uses", "asks", "calls", name)
    rows = b"".join(
        [
            symbol(0, 0, section=0),
            *(symbol(at[word], TEXT + 0x20 * n, size=0x20) for n, word in enumerate(("uses", "asks", "calls"))),
            symbol(at[name], DATA, kind=kind, section=section, size=size),
        ]
    )
    slots = rela(GOT, RELATIVE, TEXT) + rela(GOT + 8, RELATIVE, DATA) + rela(GOT + 16, RELATIVE, DATA + 0x800)
    return small_elf(
        [
            Part(".text", BODY, TEXT, flags=CODE),
            Part(".data", bytes(0x1000), DATA, flags=WRITE),
            Part(".got", bytes(0x18), GOT, flags=WRITE),
            Part(".rela.dyn", slots, 0x800, RELA),
            Part(table, rows, 0, SYMTAB if table == ".symtab" else DYNSYM, 0, link=".strtab"),
            Part(".strtab", strings, 0, STRTAB, 0),
        ]
    )


def scan(binary: Elf | Pe, *, copies: bool = False, steps: list[tuple[int, int]] | None = None) -> LibraryScan:
    def step(done: int, total: int) -> None:
        if steps is not None:
            steps.append((done, total))

    return scan_code(binary, lambda name: name == "cpu", step, lambda file: copies)


def used(found: LibraryScan) -> set[tuple[str, str]]:
    return {(found.functions.name(int(row[0])), found.classes[int(row[1])]) for row in found.scan.uses}


def test_what_each_function_does() -> None:
    steps: list[tuple[int, int]] = []
    found = scan(library(), steps=steps)
    assert {("uses", "avx")} <= used(found)
    assert {name for name, _ in used(found)} == {"uses"}
    assert found.scan.asks.tolist() == [1]
    assert found.scan.calls.tolist() == [[2, TEXT]]
    assert [2, GOT] in found.scan.reads.tolist(), "a slot that holds a function's address is watched"
    function, address, write = unpack(found.scan.touches, found.variables)
    assert {(0, DATA, False), (1, DATA, True)} <= set(
        zip(function.tolist(), address.tolist(), write.tolist(), strict=True)
    )
    assert found.variables == Variables(DATA, GOT + 0x18)
    assert steps == [(len(BODY), len(BODY))]
    assert not found.marked


def test_code_in_several_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut anywhere, the same is found, and progress is told in bytes."""
    whole = scan(library())
    monkeypatch.setattr(isa_scan, "STRETCH", 0x20)
    steps: list[tuple[int, int]] = []
    cut = scan(library(), steps=steps)
    assert steps == [(0x20, len(BODY)), (0x40, len(BODY)), (len(BODY), len(BODY))]
    for kind in ("uses", "calls", "reads", "touches", "asks"):
        assert sorted(getattr(cut.scan, kind).tolist()) == sorted(getattr(whole.scan, kind).tolist())


def test_files_named_for_a_cpu_say_enough() -> None:
    """Where the names of source files tell the copies, nobody notes who touches which variable."""
    strings, at = names("x_avx2.c", "uses")
    rows = symbol(0, 0, section=0) + symbol(at["x_avx2.c"], 0, kind=4, binding=0, section=0xFFF1)
    rows += symbol(at["uses"], TEXT, binding=0, size=0x20)
    made = small_elf(
        [
            Part(".text", BODY, TEXT, flags=CODE),
            Part(".data", bytes(8), DATA, flags=WRITE),
            Part(".symtab", rows, 0, SYMTAB, 0, link=".strtab"),
            Part(".strtab", strings, 0, STRTAB, 0),
        ]
    )
    plain, marked = scan(made), scan(made, copies=True)
    assert (plain.marked, plain.variables) == (False, Variables(DATA, DATA + 8))
    assert (marked.marked, marked.variables) == (True, NOWHERE)
    assert len(plain.scan.touches)
    assert not len(marked.scan.touches)


def test_a_windows_library() -> None:
    found = scan(Pe(make_pe({".text": BODY, ".data": bytes(64)}), "a.dll"))
    assert found.state.tolist() == []
    assert found.variables == NOWHERE
    assert can_scan(Pe(make_pe({}), "a.dll"))
    assert not can_scan(small_elf([Part(".text", b"\0", TEXT, flags=CODE)], machine=243))


@pytest.mark.parametrize(
    ("more", "bytes_known"),
    [
        ({}, 4),
        ({"table": ".dynsym"}, 4),
        ({"size": 256}, 256),
        ({"size": 257}, 256),
        ({"size": 4096}, 256),
        ({"size": 4097}, 0),
        ({"kind": 2}, 0),
        ({"section": 0}, 0),
        ({"name": "other"}, 0),
        ({"size": 0}, 0),
    ],
)
def test_which_variables_hold_what_is_known_of_the_cpu(more: dict[str, Any], bytes_known: int) -> None:
    state = scan(library(**more)).state.tolist()
    expected = [*range(DATA, DATA + bytes_known), *([GOT + 8] if bytes_known else [])]
    assert state == expected, "the bytes of the variable, and the slot that leads to it"


def test_a_variable_of_another_library_is_known_by_its_slot() -> None:
    strings, at = names("cpu", "other")
    rows = symbol(0, 0, section=0) + symbol(at["cpu"], 0, kind=OBJECT, section=0)
    rows += symbol(at["other"], 0, kind=OBJECT, section=0)
    made = small_elf(
        [
            Part(".text", BODY, TEXT, flags=CODE),
            Part(".rela.dyn", rela(GOT, 6, symbol=1) + rela(GOT + 8, 6, symbol=2), 0x800, RELA),
            Part(".dynsym", rows, 0x900, DYNSYM, link=".dynstr"),
            Part(".dynstr", strings, 0xA00, STRTAB),
        ]
    )
    assert scan(made).state.tolist() == [GOT]
    # Without any table of symbols nothing is known, and nothing fails.
    assert scan(small_elf([Part(".text", BODY, TEXT, flags=CODE)])).state.tolist() == []


def functions(*spans: tuple[int, int]) -> Any:
    rows = np.array(spans, np.int64).reshape(-1, 2)
    return SimpleNamespace(start=rows[:, 0], end=rows[:, 1])


def test_where_a_stretch_ends() -> None:
    """The function that begins two megabytes after the first is the next one's."""
    code = [Code(0x1000, 0x200, STRETCH * 4)]
    near, far = 0x1000 + STRETCH - 1, 0x1000 + STRETCH
    assert _cut_code(code, functions((0x1000, 0x1010), (near, near + 8))) == [(0, 2, 0x1000, STRETCH + 7, 0x200)]
    assert _cut_code(code, functions((0x1000, 0x1010), (far, far + 8))) == [
        (0, 1, 0x1000, 0x10, 0x200),
        (1, 2, far, 8, 0x200 + STRETCH),
    ]
    # One function that is longer than a stretch is not cut.
    assert _cut_code(code, functions((0x1000, far + 99), (far + 100, far + 108))) == [
        (0, 1, 0x1000, STRETCH + 99, 0x200),
        (1, 2, far + 100, 8, 0x200 + STRETCH + 100),
    ]


def test_functions_belong_to_the_code_they_lie_in() -> None:
    code = [Code(0x1000, 0x100, 0x10), Code(0x2000, 0x900, 0x10)]
    made = functions((0xFFF, 0x1000), (0x1000, 0x1004), (0x1010, 0x1014), (0x2008, 0x2010))
    assert _cut_code(code, made) == [(1, 2, 0x1000, 4, 0x100), (3, 4, 0x2008, 8, 0x908)]
    assert _cut_code(code, functions()) == []


def test_what_a_library_may_write() -> None:
    def span(*parts: Part) -> Variables:
        return _variable_span(small_elf(parts))

    text = Part(".text", b"\xc3", TEXT, flags=CODE)
    low, high = Part(".data", bytes(8), 0x3000, flags=WRITE), Part(".bss", bytes(8), 0x5000, flags=WRITE)
    assert span(text) == NOWHERE
    assert span(text, high, low) == Variables(0x3000, 0x5008)
    assert span(low, Part(".tbss", bytes(8), 0x9000, flags=WRITE | TLS)) == Variables(0x3000, 0x3008)
    # Addresses are kept in 32 bits.
    for size, end in (((1 << 32), 0x3000 + (1 << 32)), ((1 << 32) + 1, 0x3000 + (1 << 32))):
        huge = Part(".bss", b"", 0x3000, kind=8, flags=WRITE, says=size)
        assert span(huge) == Variables(0x3000, end)
    assert span(Part(".bss", b"", 0x3000, kind=8, flags=WRITE, says=(1 << 32) - 1)).high == 0x3000 + (1 << 32) - 1


def test_a_file_is_read_from_memory_that_is_given_back(tmp_path: Path) -> None:
    """A mapped file gives the same as bytes do."""
    plain = scan(library())
    path = tmp_path / "a.so"
    path.write_bytes(bytes(library().view.data))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert scan(Elf(mapped, "a.so")).scan.uses.tolist() == plain.scan.uses.tolist()


@pytest.mark.parametrize(("name", "asked"), [("cpuinfo_isa", True), ("ordinary", False)])
def test_who_reads_what_is_known_of_the_cpu_has_asked(name: str, asked: bool) -> None:
    """A function with AVX that reads cpuinfo's variable chooses by it; one that reads any other is met by every CPU."""
    strings, at = names("uses", name)
    rows = symbol(0, 0, section=0) + symbol(at["uses"], TEXT, size=len(USES))
    rows += symbol(at[name], DATA, kind=OBJECT, section=2, size=4)
    made = small_elf(
        [
            Part(".text", USES, TEXT, flags=CODE),
            Part(".data", bytes(8), DATA, flags=WRITE),
            Part(".dynsym", rows, 0x900, DYNSYM, link=".dynstr"),
            Part(".dynstr", strings, 0xA00, STRTAB),
        ]
    )
    found = survey_cpu(made, "a.so", lambda done, total: None)
    assert found is not None
    assert [one.name for one in found.exposure.unconditional] == ([] if asked else ["uses"])
    assert bool(found.exposure.dispatched) is asked
