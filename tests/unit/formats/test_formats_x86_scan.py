"""The scan of x86-64 code against capstone: what each instruction refers to, and whether it writes there."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from rekindle.formats import x86, x86_scan
from rekindle.formats.code_scan import Scan, Stretch, Variables, unpack

capstone = pytest.importorskip("capstone")
ENGINE = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
ENGINE.detail = True

BASE = 0x40_0000  # where the code is mapped
DATA = Variables(0x60_0000, 0x61_0000)
# Instructions with an operand relative to the next one: what stands before the displacement, the immediate after it,
# and whether the operand is written (or its address taken, to be written by another).
OPERANDS = [
    ("488b05", "", False), ("8b0d", "", False), ("488905", "", True), ("8915", "", True), ("8805", "", True),
    ("8a05", "", False), ("4c8d05", "", True), ("48c705", "01020304", True), ("c705", "01020304", True),
    ("66c705", "0102", True), ("c605", "05", True), ("488305", "05", True), ("833d", "05", False),
    ("8105", "01020304", True), ("813d", "01020304", False), ("66813d", "0102", False), ("8025", "0f", True),
    ("803d", "00", False), ("800d", "04", True), ("f605", "08", False), ("f615", "", True), ("f61d", "", True),
    ("f62d", "", False), ("f71d", "", True), ("f715", "", True), ("f725", "", False), ("f73d", "", False),
    ("f705", "00000010", False), ("48f705", "00000010", False), ("66f705", "0010", False), ("8705", "", True),
    ("8605", "", True), ("0105", "", True), ("0905", "", True), ("2105", "", True), ("3105", "", True),
    ("2905", "", True), ("1105", "", True), ("1905", "", True), ("0005", "", True), ("0805", "", True),
    ("2005", "", True), ("3005", "", True), ("1805", "", True), ("3b05", "", False), ("3905", "", False),
    ("0305", "", False), ("8505", "", False), ("ff05", "", True), ("ff0d", "", True), ("ff35", "", False),
    ("c125", "03", True), ("c025", "03", True), ("d125", "", True), ("d325", "", True), ("6905", "01020304", False),
    ("6b05", "07", False), ("0f1005", "", False), ("0f1105", "", True), ("0f2805", "", False), ("0f2905", "", True),
    ("0f1305", "", True), ("0f1705", "", True), ("0f2b05", "", True), ("660f6f05", "", False), ("660f7f05", "", True),
    ("660fd605", "", True), ("660fe705", "", True), ("660fd105", "", False), ("660fd305", "", False),
    ("0f9405", "", True), ("0f9f05", "", True), ("0f9005", "", True), ("0fb105", "", True), ("0fb005", "", True),
    ("0fc105", "", True), ("0fc005", "", True), ("0fc305", "", True), ("0fc605", "1b", False), ("0fba2d", "04", True),
    ("0fba3d", "04", True), ("0fba25", "04", False), ("f20f1005", "", False), ("f20f1105", "", True),
    ("0fb605", "", False), ("480fbe05", "", False), ("c5fe7f05", "", True), ("c5fd2905", "", True),
    ("c5f81105", "", True), ("c5fd6f05", "", False),
]  # fmt: skip
BRANCHES = ["e8", "e9", *(f"0f{0x80 + each:02x}" for each in range(16))]
FILLERS = ["90", "4889c3", "c5f458c2", "c4e2f1b8c2", "660f3840c1", "f30fb8c1", "c3", "0fa2", "0f01d0", "4831c0"]


def placed(head: str, tail: str, at: int, target: int) -> bytes:
    """The instruction at ``at`` whose operand is ``target``."""
    size = len(head + tail) // 2 + 4
    return bytes.fromhex(head) + struct.pack("<i", target - at - size) + bytes.fromhex(tail)


def scan(code: bytes, starts: list[int], targets: list[int], watched: list[int], first: int = 0) -> Scan:
    ends = [*starts[1:], BASE + len(code)]
    return x86_scan.scan(Stretch(
        np.frombuffer(code, np.uint8), BASE, np.array(starts), np.array(ends), np.array(sorted(targets)),
        np.array(sorted(watched)), DATA, first=first,
    ))  # fmt: skip


def alone(code: bytes, targets: list[int] | None = None, watched: list[int] | None = None) -> Scan:
    return scan(code, [BASE], targets or [], watched or [])


@pytest.mark.parametrize(("head", "tail", "written"), OPERANDS, ids=[head for head, _, _ in OPERANDS])
def test_what_is_touched_where_capstone_says_and_whether_it_is_written(head: str, tail: str, written: bool) -> None:
    variable = DATA.low + 0x1230
    code = placed(head, tail, BASE, variable)
    [said] = list(ENGINE.disasm(code, BASE))
    [operand] = [each for each in said.operands if each.type == capstone.x86.X86_OP_MEM]
    assert said.size == len(code) and said.address + said.size + operand.mem.disp == variable
    _, address, write = unpack(alone(code).touches, DATA)
    assert dict(zip(address.tolist(), write.tolist(), strict=True))[variable] is written, said
    # Where the byte before the opcode may end the instruction before, the other reading is told too.
    assert len(address) == 1 or head[:2] in ("0f", "66"), said
    assert [variable] == alone(code, watched=[variable]).reads[:, 1].tolist()


@pytest.mark.parametrize("head", BRANCHES)
@pytest.mark.parametrize("backwards", [True, False])
def test_every_branch_is_followed_both_ways(head: str, backwards: bool) -> None:
    at = BASE + 300
    target = BASE if backwards else BASE + 0x5000
    code = b"\x90" * 300 + placed(head, "", at, target)
    found = scan(code, [BASE, at], [target, target + 1, target - 1], [])
    assert found.calls.tolist() == [[1, target]]
    assert not len(found.takes) and not len(alone(code, [target + 1, target - 1]).calls)


def test_a_branch_that_ends_the_code_and_one_cut_short() -> None:
    whole = b"\x90" * 9 + placed("e8", "", BASE + 9, BASE + 4)
    assert alone(whole, [BASE + 4]).calls.tolist() == [[0, BASE + 4]]
    assert not len(alone(whole[:-2], [BASE + 4]).calls)


@pytest.mark.parametrize("register", range(8))
def test_the_address_of_a_function_is_taken_into_any_register(register: int) -> None:
    target = BASE + 0x777
    code = placed(f"488d{5 + 8 * register:02x}", "", BASE, target)
    assert alone(code, [target]).takes.tolist() == [[0, target]]
    other = placed(f"488b{5 + 8 * register:02x}", "", BASE, target)  # a load is no address
    assert not len(alone(other, [target]).takes)


def test_only_inside_the_variables_and_only_once() -> None:
    code = b""
    wanted = (DATA.low - 1, DATA.low, DATA.low, DATA.high - 1, DATA.high)
    for variable in wanted:
        code += placed("488b05", "", BASE + len(code), variable)
    _, address, write = unpack(alone(code).touches, DATA)
    assert address.tolist() == [DATA.low, DATA.high - 1] and not write.any()


def test_functions_count_from_the_first_of_the_library() -> None:
    pieces = [b"\x0f\xa2\xc3", b"\x90\xc3", b"\x0f\x01\xd0\xc3", b"\x0f\x01\xd1\xc3", b"\xf2\x0f\x58\xc1\xc3"]
    pieces += [b"\x0f\x58\xc1\xc3", bytes.fromhex("c5f458c2c3")]
    starts, code = [], b""
    for piece in pieces:
        starts.append(BASE + len(code))
        code += piece
    found = scan(code, starts, [], [], first=40)
    assert found.asks.tolist() == [40, 42]  # xgetbv asks, its neighbour xsetbv does not
    assert found.legacy.tolist() == [44]  # without 66, F2 or F3 it is single SSE of the first kind
    assert [row[:2] for row in found.uses.tolist()] == [[46, x86.CLASSES.index("avx")]]
    assert found.uses[0, 2:].tolist() == [starts[6], 1]


@pytest.mark.parametrize(
    "opcode",
    [0x10, 0x11, 0x28, 0x29, 0x2A, 0x2E, 0x51, 0x57, 0x58, 0x59, 0x5C, 0x5E, 0x6C, 0x6F, 0x7E, 0x7F, 0xD6, 0xEF],
)
def test_sse2_of_the_old_encoding(opcode: int) -> None:
    code = bytes([0x66, 0x0F, opcode, 0xC1, 0xC3])
    [first, *_] = ENGINE.disasm(code, BASE)
    assert first.size == 4 and not first.mnemonic.startswith("v")
    assert alone(code).legacy.tolist() == [0]
    assert not len(alone(code[1:]).legacy)


def test_the_sieve_lets_through_all_that_has_a_class() -> None:
    """Whatever the decoder gives a class, alone or in a row of others, begins with a byte the sieve marks."""
    chance = random.Random(5)
    seen: set[str] = set()
    for _ in range(400):
        code = bytes(chance.randrange(256) for _ in range(3))
        code += bytes([chance.choice((0xC5, 0xC4, 0x62, 0x8F, 0x0F, 0x66, 0xF2, 0xF3, 0x48))])
        code += bytes([chance.choice((0x0F, 0xE2, 0xE3, 0xF1, 0xF4, 0xF2, 0x7C, 0xE8, 0x38, 0x3A))])
        code += bytes(chance.randrange(256) for _ in range(16))
        array = np.frombuffer(code, np.uint8)
        marks = x86_scan.may_have_classes(array)
        length, isa = x86.decode(array)
        for at in range(len(code) - 15):
            name = x86.CLASSES[isa[at]]
            if name in ("base", "bad"):
                continue
            seen.add(name)
            # Prefixes may stand before the byte that decides.
            assert marks[at : at + int(length[at])].any(), (code[at:].hex(), name)
    assert {"avx", "avx512"} <= seen


def test_marks_of_the_sieve_byte_by_byte() -> None:
    def marked(text: str) -> list[int]:
        return np.flatnonzero(x86_scan.may_have_classes(np.frombuffer(bytes.fromhex(text), np.uint8))).tolist()

    assert marked("90c5f458c2") == [1]
    assert marked("90c4e2f1b8c2") == [1]
    assert marked("9062f17c4858c2") == [1] and marked("9062f9784858c2") == []  # a bit that EVEX has clear
    assert marked("908fe878cec100") == [1] and marked("908fc0") == []  # XOP, and pop
    assert marked("660f3840c1") == [1] and marked("f30fb8c1") == [1] and marked("f3480fb8c1") == [2]
    assert marked("0fb8c1") == [] and marked("480fc70f") == [1] and marked("0fc70f") == []


def test_a_long_function_of_plain_code_with_one_vector_instruction() -> None:
    """Marks are rare there, so what cannot be an instruction is left out first; the real one must stay."""
    plain = bytes.fromhex("4889c3") * 400
    for vector in ("c5f458c2", "62f17c4858c2", "660f3840c1", "f3480fb8c1"):
        for place in (0, 3, 30, 300, 1197):
            code = plain[:place] + bytes.fromhex(vector) + plain[place:] + b"\xc3"
            rows = alone(code).uses.tolist()
            assert [(row[0], row[2], row[3]) for row in rows] == [(0, BASE + place, 1)], (vector, place)
    # The same bytes as an immediate of another instruction are none.
    hidden = plain + bytes.fromhex("48b8" + "c5f458c2c5f458c2") + plain + b"\xc3"
    assert not len(alone(hidden).uses)


def test_random_rows_of_instructions_lose_nothing() -> None:
    chance = random.Random(11)
    for _ in range(60):
        code, starts, want_calls, want_touches, want_asks = b"", [], set(), set(), set()
        targets = sorted({BASE + chance.randrange(0, 0x3000) for _ in range(6)})
        for function in range(chance.randrange(1, 6)):
            starts.append(BASE + len(code))
            for _ in range(chance.randrange(1, 25)):
                at, kind = BASE + len(code), chance.randrange(4)
                if kind == 0:
                    target = chance.choice(targets)
                    code += placed(chance.choice(BRANCHES), "", at, target)
                    want_calls.add((function, target))
                elif kind == 1:
                    variable = chance.randrange(DATA.low, DATA.high)
                    head, tail, _ = chance.choice(OPERANDS)
                    code += placed(head, tail, at, variable)
                    want_touches.add((function, variable))
                else:
                    piece = chance.choice(FILLERS)
                    want_asks |= {function} if piece in ("0fa2", "0f01d0") else set()
                    code += bytes.fromhex(piece)
        found = scan(code, starts, targets, [])
        owner, address, _ = unpack(found.touches, DATA)
        assert want_calls <= {(a, b) for a, b in found.calls.tolist()}
        assert want_touches <= set(zip(owner.tolist(), address.tolist(), strict=True))
        assert want_asks <= set(found.asks.tolist())
