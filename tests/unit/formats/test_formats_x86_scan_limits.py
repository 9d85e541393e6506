"""The scan of x86-64 code, part by part: the sieve, what is decoded at all, and operands at the edges."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rekindle.formats import x86, x86_scan
from rekindle.formats.code_scan import Bytes, Ints, Scan, Stretch, Variables, unpack
from rekindle.formats.x86_scan import may_have_classes

BASE = 0x1000
PLAIN = bytes.fromhex("4889c3")
HIDDEN = bytes.fromhex("48b8" + "c5f458c2" * 2)  # a number that looks like two vector instructions
VECTOR = bytes.fromhex("c5f458c2")
AVX, BAD = x86.ID["avx"], x86.BAD
NONE = np.zeros(0, np.int64)


def array(code: bytes) -> Bytes:
    return np.frombuffer(code, np.uint8)


def scan(
    pieces: list[bytes], gap: bytes = b"", watched: list[int] | None = None, variables: Variables = Variables(0, 0)
) -> Scan:
    """Functions one after the other, with ``gap`` between them that belongs to nobody."""
    starts, ends, code = [], [], gap
    for piece in pieces:
        starts.append(BASE + len(code))
        ends.append(BASE + len(code) + len(piece))
        code += piece + gap
    aims = np.array(watched or [], np.int64)
    return x86_scan.scan(Stretch(array(code), BASE, np.array(starts), np.array(ends), aims, aims, variables))


def marks(text: str) -> list[int]:
    return [int(at) for at in np.flatnonzero(may_have_classes(array(bytes.fromhex(text))))]


@pytest.mark.parametrize("table", [0, 1, 2, 3, 4, 0x1F])
def test_the_sieve_marks_vex_where_the_decoder_has_a_class(table: int) -> None:
    rows = [bytes([0xC4, 0xE0 | table, 0x78, opcode, 0x01]).ljust(24, b"\x90") for opcode in range(256)]
    found = may_have_classes(array(b"".join(rows))).reshape(-1, 24)[:, 0]
    known = (x86.ISA_VEX[table] != BAD).any(axis=(0, 1)) if table <= 3 else np.zeros(256, bool)
    assert found.tolist() == known.tolist()
    if table == 1:
        short = [bytes([0xC5, 0xF8, opcode, 0x01]).ljust(24, b"\x90") for opcode in range(256)]
        assert may_have_classes(array(b"".join(short))).reshape(-1, 24)[:, 0].tolist() == known.tolist()


def test_the_sieve_marks_evex_and_xop_by_their_second_byte() -> None:
    evex = [bytes([0x62, second, 0x7C]).ljust(24, b"\x90") for second in range(256)]
    found = may_have_classes(array(b"".join(evex))).reshape(-1, 24)[:, 0]
    assert np.flatnonzero(found).tolist() == [b for b in range(256) if b & 0x0F in (1, 2, 3, 5, 6)]
    unset = [bytes([0x62, second, 0xFB]).ljust(24, b"\x90") for second in range(256)]
    assert not may_have_classes(array(b"".join(unset))).reshape(-1, 24)[:, 0].any(), "the third has a bit that is set"
    xop = [bytes([0x8F, second]).ljust(24, b"\x90") for second in range(256)]
    found = may_have_classes(array(b"".join(xop))).reshape(-1, 24)[:, 0]
    assert np.flatnonzero(found).tolist() == [b for b in range(256) if b & 0x1F in (8, 9, 10)]


def test_the_sieve_marks_the_old_opcodes_behind_their_prefixes() -> None:
    chosen = {0x12, 0x16, 0x2B, 0x78, 0x79, 0x7C, 0x7D, 0xB8, 0xBC, 0xBD, 0xD0, 0xF0}
    for before, want in (
        ("66", chosen), ("f2", chosen), ("f3", chosen), ("6648", chosen | {0xC7}), ("f24f", chosen | {0xC7}),
        ("90", set()), ("9048", {0xC7}), ("6690", set()), ("6650", set()), ("6548", {0xC7}), ("6541", {0xC7}),
    ):  # fmt: skip
        head = bytes.fromhex(before)
        rows = [(head + bytes([0x0F, opcode])).ljust(24, b"\x90") for opcode in range(256)]
        found = may_have_classes(array(b"".join(rows))).reshape(-1, 24)
        assert set(np.flatnonzero(found[:, len(head)])) == want | {0x38, 0x3A}, before


def test_the_sieve_at_both_ends() -> None:
    assert marks("0f38") == marks("0f3a") == [0] and marks("0f") == marks("c5") == marks("62f1") == []
    assert marks("c5f458") == marks("c4e279b8") == marks("62f17c") == marks("8fe8") == [0]
    assert marks("660fb8") == [1] and marks("480fc7") == [1] and marks("66480fb8") == [2] and marks("0fb8") == []
    assert marks("") == [] and marks("0f10" + "0f38") == [2]


def test_rows_of_uses() -> None:
    found = scan([PLAIN + VECTOR * 2, PLAIN, VECTOR + b"\x62\x04"])
    assert found.uses.tolist() == [[0, AVX, BASE + 3, 2], [2, AVX, BASE + 14, 1], [2, BAD, BASE + 18, 1]]
    assert scan([PLAIN * 3]).uses.shape == (0, 4)
    between = scan([PLAIN, PLAIN], gap=VECTOR)
    assert not len(between.uses), "what belongs to no function"


def test_only_the_functions_with_marks_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    real = x86.decode

    def spy(code: Bytes) -> tuple[Bytes, Bytes]:
        decoded.append(len(code))
        return real(code)

    monkeypatch.setattr(x86, "decode", spy)
    mostly_plain = scan([PLAIN * 40, VECTOR, PLAIN * 40, VECTOR * 2 + b"\xc3"])
    assert mostly_plain.uses.tolist() == [[1, AVX, BASE + 120, 1], [3, AVX, BASE + 244, 2]]
    assert decoded == [4 + 16 + 9 + 16], "sixteen bytes between them, so that none reads the next one"
    decoded.clear()
    assert len(scan([VECTOR * 30, PLAIN]).uses) == 1
    assert decoded == [123], "where most functions have marks all is decoded as it lies"


@pytest.mark.parametrize(("size", "looked_at"), [(200, True), (201, False), (400, False)])
def test_rare_marks_are_looked_at_first(size: int, looked_at: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One mark in 200 bytes makes a function worth decoding; in more, it must be able to be an instruction."""
    asked: list[int] = []
    real = x86_scan._may_start

    def spy(code: Bytes, places: Ints, floors: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        asked.append(len(places))
        return np.asarray(real(code, places, floors))

    decoded: list[int] = []
    decode = x86.decode

    def watched(code: Bytes) -> tuple[Bytes, Bytes]:
        decoded.append(len(code))
        return decode(code)

    monkeypatch.setattr(x86_scan, "_may_start", spy)
    monkeypatch.setattr(x86, "decode", watched)
    hidden = bytes.fromhex("48b8" + "c5f458c290909090")
    code = b"\x90" * 100 + hidden + b"\x90" * (size - 110)
    assert not len(scan([code]).uses)
    assert asked == [0 if looked_at else 1]
    assert decoded == [size if looked_at else 80], "the function, or only what stands around the mark"


def _slow(code: bytes, length: Bytes, mark: int, floor: int) -> bool:
    """The same, a byte at a time: does a walk from some way before end at the mark or at the prefixes before it?"""
    if mark + 32 > len(code):
        return True
    if mark - floor >= 48:
        begins = list(range(mark - 48, mark - 32))
    elif floor + 80 <= len(code):
        begins = [floor]
    else:
        return True
    run = 0
    while run < 6 and run < mark - begins[0] and (code[mark - run - 1] in PREFIXES):
        run += 1
    for at in begins:
        while at + int(length[at]) <= mark:
            at += int(length[at])
        if at >= mark - run:
            return True
    return False


PREFIXES = {0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3, *range(0x40, 0x50)}


def test_what_may_start_at_a_mark() -> None:
    draw = random.Random(9)
    pieces = [
        b"\x90",
        PLAIN,
        HIDDEN,
        VECTOR,
        b"\x66" * 7,
        b"\xc7\x84\x24" + bytes(8),
        bytes.fromhex("c7050000000066666666"),
    ]
    answers = set()
    for _ in range(4):
        code = b"".join(draw.choice(pieces) for _ in range(draw.randrange(16, 40)))
        length, _ = x86.decode(array(code))
        places = np.arange(len(code))
        for floor in (0, 1, 7, len(code) // 2, len(code) - 80, len(code) - 79):
            own = places[places >= max(floor, 0)]
            floors = np.full(len(own), max(floor, 0))
            found = x86_scan._may_start(array(code), own, floors).tolist()
            assert found == [_slow(code, length, mark, max(floor, 0)) for mark in own.tolist()]
            answers |= set(found)
    assert answers == {True, False}


def test_only_a_walk_from_the_start_decides_near_it() -> None:
    code = HIDDEN + b"\x90" * 100
    for mark, real in ((0, True), (2, False), (6, False), (10, True), (47, True)):
        found = x86_scan._may_start(array(code), np.array([mark]), np.array([0]))
        assert found.tolist() == [real], mark


def placed(text: str, at: int) -> bytes:
    """``@`` is a displacement that leads to 0x5010 where no immediate follows it."""
    head, _, tail = text.partition("@")
    before = bytes.fromhex(head)
    return before + (0x5010 - at - len(before) - 4).to_bytes(4, "little", signed=True) + bytes.fromhex(tail)


def touched_by_each(texts: list[str], low: int = 0x5000, high: int = 0x6000) -> list[list[tuple[int, bool]]]:
    """What functions of these bytes touch: (address, whether it is written)."""
    code: list[bytes] = []
    for text in texts:
        code.append(placed(text, BASE + sum(map(len, code))))
    variables = Variables(low, high)
    out: list[list[tuple[int, bool]]] = [[] for _ in texts]
    for owner, address, write in zip(*unpack(scan(code, variables=variables).touches, variables), strict=True):
        out[owner].append((int(address), bool(write)))
    return out


def touched(text: str, low: int = 0x5000, high: int = 0x6000) -> list[tuple[int, bool]]:
    return touched_by_each([text], low, high)[0]


READ, WRITTEN = [(0x5010, False)], [(0x5010, True)]


def test_who_writes_by_the_opcode() -> None:
    """With the register field 0: stores and what changes its operand, or takes its address; all others read."""
    stores = {
        *(0x88, 0x89, 0x86, 0x87, 0x8D, 0x01, 0x09, 0x11, 0x13, 0x17, 0x19, 0x21, 0x29, 0x31, 0x7F, 0xD6, 0xE7),
        *(0x00, 0x08, 0x18, 0x20, 0x30, 0xC0, 0xC1, 0xD0, 0xD1, 0xD2, 0xD3, 0xC6, 0xC7, 0x80, 0x81, 0x83, 0xFF),
    }  # fmt: skip
    sizes = {0x80: 1, 0x83: 1, 0xC6: 1, 0xC0: 1, 0xC1: 1, 0x6B: 1, 0xF6: 1, 0x81: 4, 0xC7: 4, 0x69: 4, 0xF7: 4}
    found = touched_by_each([f"90{opcode:02x}05@" + "00" * sizes.get(opcode, 0) for opcode in range(256)])
    assert found == [[(0x5010 + sizes.get(opcode, 0), opcode in stores)] for opcode in range(256)]


def test_who_writes_behind_an_escape() -> None:
    stores = {0x11, 0x13, 0x17, 0x29, 0x2B, 0x7F, 0xD6, 0xE7, 0xB0, 0xB1, 0xC0, 0xC1, 0xC3, *range(0x90, 0xA0)}
    sizes = {0xBA: 1, 0xC6: 1}
    found = touched_by_each([f"0f{opcode:02x}05@" + "00" * sizes.get(opcode, 0) for opcode in range(256)])
    for opcode, rows in enumerate(found):
        assert (0x5010 + sizes.get(opcode, 0), opcode in stores) in rows, hex(opcode)


@pytest.mark.parametrize("field", range(8))
def test_who_writes_by_the_register_field(field: int) -> None:
    modrm = f"{5 | field << 3:02x}"
    for opcode, tail in (("80", "00"), ("81", "00000000"), ("83", "00")):
        assert touched(f"90{opcode}{modrm}@{tail}")[0][1] is (field != 7), "cmp alone only reads"
    for opcode, size in (("f6", 1), ("f7", 4)):
        want = (0x5010 + size, False) if field < 2 else (0x5010, field in (2, 3))
        assert touched(f"90{opcode}{modrm}@00000000") == [want], "of test, not, neg, mul, div two write"
    assert touched(f"90ff{modrm}@") == [(0x5010, field < 2)], "inc and dec; calls, jumps and push read"
    assert touched(f"0fba{modrm}@00")[-1] == (0x5011, field > 4), "bts, btr, btc"
    assert touched(f"90ba{modrm}@") == READ


def test_the_byte_before_may_belong_to_either() -> None:
    assert touched("66c705@0000") == [(0x5012, True), (0x5014, True)]
    assert touched("90c705@00000000") == [(0x5014, True)]
    assert touched("66c605@00") == [(0x5011, True)], "one byte stays one byte"
    assert touched("0fc605@00") == [(0x5011, False)], "shufps reads; the same bytes behind another would write"
    assert touched("0fc705@") == [(0x5010, False), (0x5014, True)]
    assert touched("0f8905@") == [(0x5010, False)]
    assert touched("8905@") == WRITTEN and touched("8b05@") == READ, "the first two bytes of the code"
    assert touched("05@") == [], "no opcode stands before it"


def test_variables_at_their_edges() -> None:
    assert touched("908b05@", 0x5010, 0x5011) == READ
    assert touched("908b05@", 0x5011, 0x6000) == touched("908b05@", 0x4000, 0x5010) == []
    assert touched("90c605@00", 0x5011, 0x5012) == [(0x5011, True)]
    assert touched("90c605@00", 0x5012, 0x6000) == touched("90c605@00", 0x4000, 0x5011) == []
    assert touched("90c705@00000000", 0x5014, 0x5015) == [(0x5014, True)]
    assert touched("66c705@0000", 0x5012, 0x5013) == [(0x5012, True)]


def reads(text: str, *watched: int) -> list[list[int]]:
    found = scan([placed(text, BASE)], watched=list(watched)).reads
    return [[int(one), int(other)] for one, other in found]


def test_watched_addresses_with_room_for_an_immediate() -> None:
    for extra, hit in ((-1, False), (0, True), (1, True), (2, True), (3, False), (4, True), (5, False)):
        assert reads("908b05@", 0x5010 + extra) == ([[0, 0x5010 + extra]] if hit else []), extra
    assert reads("908b05@", 0x5010, 0x5012, 0x9000) == [[0, 0x5010], [0, 0x5012]]
    assert reads("908b05@", 0x4000, 0x5010) == [[0, 0x5010]] and reads("908b0d@", 0x5010) == [[0, 0x5010]]
    assert reads("908b06@", 0x5010) == reads("908b45@", 0x5010) == reads("908bc5@", 0x5010) == []


def test_who_asks_at_the_edges() -> None:
    for text, asks in (("0fa2", 1), ("0f01d0", 1), ("0f01d1", 0), ("0f01", 0), ("0f02d0", 0), ("0ea2", 0), ("0f", 0)):
        assert scan([b"\x90" * 5, bytes.fromhex(text)]).asks.tolist() == [1] * asks, text
    assert scan([b"\x0f\xa2\x0f\xa2", b"\x90", b"\x0f\x01\xd0"]).asks.tolist() == [0, 2]


def test_old_sse_at_the_edges() -> None:
    for text, old in (
        ("660fef", 1),
        ("f20f58", 1),
        ("f30f10", 1),
        ("670fef", 0),
        ("0fef", 0),
        ("660fee", 0),
        ("660f", 0),
    ):
        assert scan([b"\x90" * 5, bytes.fromhex(text)]).legacy.tolist() == [1] * old, text
    assert scan([bytes.fromhex("0fef660fef")]).legacy.tolist() == [0]
    assert not len(scan([bytes.fromhex("0f58" + "66")]).legacy), "the prefix stands before it, not behind"


def test_which_opcodes_are_old_sse() -> None:
    known = {0x10, 0x11, 0x28, 0x29, 0x2A, 0x2E, 0x51, 0x57, 0x58, 0x59, 0x5C, 0x5E, 0x6C, 0x6F, 0x7E, 0x7F, 0xD6, 0xEF}
    assert scan([bytes([0x66, 0x0F, opcode, 0xC1]) for opcode in range(256)]).legacy.tolist() == sorted(known)


def test_branches_cut_by_the_end() -> None:
    for text in ("e8fbffffff", "e9fbffffff", "0f80faffffff", "0f8ffaffffff"):
        assert scan([bytes.fromhex(text)], watched=[BASE]).calls.tolist() == [[0, BASE]], text
    for text in ("eafbffffff", "e7fbffffff", "0f90faffffff", "0f7ffaffffff"):
        assert not len(scan([bytes.fromhex(text)], watched=[BASE]).calls), text
    assert scan([bytes.fromhex("8d05faffffff")], watched=[BASE]).takes.tolist() == [[0, BASE]]
    assert not len(scan([bytes.fromhex("8e05faffffff")], watched=[BASE]).takes)
    assert not len(scan([b""], watched=[BASE]).calls)


def test_numbers_of_functions_count_from_the_first() -> None:
    code = b"\x90" + VECTOR + bytes.fromhex("e8f6ffffff" + "8d05f0ffffff" + "0fa2" + "660fefc1" + "8b0500000000")
    aims, data = np.array([BASE]), Variables(BASE, BASE + 0x100)
    starts, ends = np.array([BASE, BASE + 1]), np.array([BASE + 1, BASE + len(code)])
    watched = np.array([BASE + len(code)])
    found = x86_scan.scan(Stretch(array(code), BASE, starts, ends, aims, watched, data, first=70))
    assert found.uses[:, 0].tolist() == found.asks.tolist() == found.legacy.tolist() == [71]
    assert found.calls.tolist() == found.takes.tolist() == [[71, BASE]]
    assert found.reads.tolist() == [[71, BASE + len(code)]]
    assert set(unpack(found.touches, data)[0].tolist()) == {71}
