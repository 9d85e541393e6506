"""The scan of AArch64 code against capstone: branches, addresses made of two instructions, who asks the processor."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from rekindle.formats import arm64_scan
from rekindle.formats.code_scan import Scan, Stretch, Variables, unpack

capstone = pytest.importorskip("capstone")
ENGINE = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)

BASE = 0x41_0000
DATA = Variables(0x60_0000, 0x61_0000)
NOP, RET = 0xD503201F, 0xD65F03C0


def scan(words: list[int], starts: list[int], targets: list[int], watched: list[int], first: int = 0) -> Scan:
    code = np.frombuffer(struct.pack(f"<{len(words)}I", *words), np.uint8)
    ends = [*starts[1:], BASE + 4 * len(words)]
    return arm64_scan.scan(Stretch(
        code, BASE, np.array(starts), np.array(ends), np.array(sorted(targets)), np.array(sorted(watched)), DATA,
        first=first,
    ))  # fmt: skip


def branch(opcode: int, at: int, target: int) -> int:
    return opcode | ((target - at) // 4 & 0x3FFFFFF)


def page(register: int, at: int, target: int) -> int:
    """adrp register, page of target"""
    pages = (target >> 12) - (at >> 12)
    return 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 | register


def said(word: int, at: int) -> str:
    [(_, _, mnemonic, operands)] = list(ENGINE.disasm_lite(struct.pack("<I", word), at))
    return f"{mnemonic} {operands}"


@pytest.mark.parametrize(("opcode", "name"), [(0x14000000, "b"), (0x94000000, "bl")])
@pytest.mark.parametrize("far", [-0x3F000, -4, 4, 0x3F000, 0x7FFFFFC, -0x8000000])
def test_branches_both_ways_as_capstone_reads_them(opcode: int, name: str, far: int) -> None:
    at = BASE + 8
    word = branch(opcode, at, at + far)
    assert said(word, at) == f"{name} #{(at + far) & (1 << 64) - 1:#x}"
    found = scan([NOP, NOP, word], [BASE, at], [at + far - 4, at + far, at + far + 4], [])
    assert found.calls.tolist() == [[1, at + far]]


def test_a_conditional_branch_is_no_call() -> None:
    assert said(0x54000040, BASE).startswith("b.eq")
    assert not len(scan([0x54000040, RET], [BASE], [BASE + 8], []).calls)


@pytest.mark.parametrize("register", [0, 7, 16, 30])
@pytest.mark.parametrize("distance", [1, 2, 5])
@pytest.mark.parametrize("target", [DATA.low, DATA.low + 0x5678, DATA.high - 8])
def test_addresses_of_two_instructions(register: int, distance: int, target: int) -> None:
    low = target & 0xFFF
    first = page(register, BASE, target)
    assert said(first, BASE) == f"adrp x{register}, #{target & ~0xFFF:#x}".replace("x30,", "x30,")
    between = [NOP] * (distance - 1)
    take = 0x91000000 | low << 10 | register << 5 | 3  # add x3, xR, #low
    load = 0xF9400000 | (low // 8) << 10 | register << 5 | 3  # ldr x3, [xR, #low]
    store = 0xF9000000 | (low // 8) << 10 | register << 5 | 3
    assert [said(word, 0).split()[0] for word in (take, load, store)] == ["add", "ldr", "str"]
    for second, takes, reads, write in ((take, 1, 0, True), (load, 0, 1, False), (store, 0, 0, True)):
        found = scan([first, *between, second, RET], [BASE], [target], [target])
        assert (len(found.takes), len(found.reads)) == (takes, reads)
        owner, address, written = unpack(found.touches, DATA)
        assert (owner.tolist(), address.tolist(), written.tolist()) == ([0], [target], [write])
    # Another register, or too far behind: nothing is known.
    other = take ^ (1 << 5)
    assert not len(scan([first, *between, other, RET], [BASE], [target], []).takes)
    assert not len(scan([first, *[NOP] * 5, take, RET], [BASE], [target], []).takes)


@pytest.mark.parametrize(("size", "bits"), [(1, 0), (2, 1), (4, 2), (8, 3)])
def test_the_size_of_a_load_scales_its_offset(size: int, bits: int) -> None:
    target = DATA.low + 24
    load = bits << 30 | 0x39400000 | (24 // size) << 10 | 1 << 5 | 2
    words = [page(1, BASE, target), load, RET]
    assert said(load, 0).endswith("[x1, #0x18]")
    assert scan(words, [BASE], [], [target]).reads.tolist() == [[0, target]]
    assert unpack(scan(words, [BASE], [], []).touches, DATA)[1].tolist() == [target]


def test_pages_before_the_code_and_outside_the_variables() -> None:
    before = BASE - 0x3000
    take = 0x91000000 | 1 << 5 | 1
    assert scan([page(1, BASE, before), take], [BASE], [before], []).takes.tolist() == [[0, before]]
    for outside in (DATA.low - 0x1000, DATA.high):
        found = scan([page(1, BASE, outside), take], [BASE], [outside], [])
        assert not len(found.touches) and found.takes.tolist() == [[0, outside]]


def test_functions_count_from_the_first_and_asks_are_reads_of_id_registers() -> None:
    mrs, other = 0xD5380600, 0xD53BD040  # mrs x0, id_aa64isar0_el1; mrs x0, tpidr_el0
    assert said(mrs, 0) == "mrs x0, id_aa64isar0_el1" and said(other, 0) == "mrs x0, tpidr_el0"
    crc, lse = 0x1AC24020, 0xB8200041
    words = [mrs, RET, other, RET, NOP, lse, crc, lse]
    found = scan(words, [BASE, BASE + 8, BASE + 16], [], [], first=70)
    assert found.asks.tolist() == [70] and not len(found.legacy)
    rows = {(row[0], arm64_scan.CLASSES[row[1]]): (row[2], row[3]) for row in found.uses.tolist()}
    assert rows == {(72, "lse"): (BASE + 20, 2), (72, "crc32"): (BASE + 24, 1)}


def test_code_off_the_grid_is_read_from_the_next_multiple_of_four() -> None:
    words = [0xB8200041, RET]
    code = np.frombuffer(b"\x01\x02\x03" + struct.pack("<2I", *words) + b"\x07", np.uint8)
    none = np.zeros(0, np.int64)
    found = arm64_scan.scan(Stretch(code, BASE + 1, np.array([BASE]), np.array([BASE + 100]), none, none))
    assert [row[2:] for row in found.uses.tolist()] == [[BASE + 4, 1]]


def test_sve_counts_only_where_a_predicate_is_set() -> None:
    ptrue, whilelo, add = 0x2518E3E0, 0x25210C00, 0x04A00000
    assert said(ptrue, 0).startswith("ptrue") and said(whilelo, 0).startswith("while") and "z0" in said(add, 0)
    for words, classes in (([add, RET], []), ([ptrue, add], ["sve"]), ([whilelo, add], ["sve"])):
        found = scan(words, [BASE], [], [])
        assert [arm64_scan.CLASSES[row[1]] for row in found.uses.tolist()] == classes
    # A predicate in another function does not speak for this one.
    assert [row[0] for row in scan([ptrue, RET, add, RET], [BASE, BASE + 8], [], []).uses.tolist()] == [0]


def test_random_code_loses_no_branch() -> None:
    chance = random.Random(3)
    for _ in range(50):
        words = [chance.choice((NOP, RET, 0xB8200041, 0x1AC24020)) for _ in range(200)]
        starts = sorted({BASE, *(BASE + 4 * chance.randrange(200) for _ in range(9))})
        want = set()
        targets = [BASE + 4 * chance.randrange(-500, 900) for _ in range(5)]
        for place in chance.sample(range(200), 30):
            at, target = BASE + 4 * place, chance.choice(targets)
            words[place] = branch(chance.choice((0x14000000, 0x94000000)), at, target)
            want.add((sum(start <= at for start in starts) - 1, target))
        found = scan(words, starts, sorted(set(targets)), [])
        assert {(a, b) for a, b in found.calls.tolist()} == want
