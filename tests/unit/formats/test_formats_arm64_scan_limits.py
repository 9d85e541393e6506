"""The scan of AArch64 code, word by word: the class of each encoding, and pairs of instructions at the edges."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rekindle.formats import arm64_scan
from rekindle.formats.arm64_scan import CLASSES, classify
from rekindle.formats.code_scan import Scan, Stretch, Variables, unpack

# One word of every encoding that has a class, with operands that set its free bits, as capstone reads it.
WORDS = [
    ("ldaddalh w9, w21, [x27]", 0x78E90375, "lse"), ("swpalh w21, w29, [x17]", 0x78F5823D, "lse"),
    ("casab w29, w21, [x26]", 0x08FD7F55, "lse"), ("casp x0, x1, x2, x3, [x4]", 0x48207C82, "lse"),
    ("sqrdmlah v19.4h, v26.4h, v7.4h", 0x2E478753, "rdm"), ("crc32x w19, w17, x0", 0x9AC04E33, "crc32"),
    ("udot v3.2s, v6.8b, v5.8b", 0x2E8594C3, "dotprod"), ("sdot v13.4s, v5.16b, v25.4b[2]", 0x4F99E8AD, "dotprod"),
    ("fcadd v23.4s, v10.4s, v3.4s, #90", 0x6E83E557, "fcma"),
    ("fcmla v23.4h, v27.4h, v21.4h, #180", 0x2E55D777, "fcma"),
    ("fjcvtzs w11, d26", 0x1E7E034B, "jscvt"), ("ldapr w9, [x2]", 0xB8BFC049, "rcpc"),
    ("fmlsl v1.2s, v13.2h, v26.2h", 0x0EBAEDA1, "fp16fml"), ("fmlsl2 v13.2s, v17.2h, v21.2h", 0x2EB5CE2D, "fp16fml"),
    ("ummla v7.4s, v27.16b, v21.16b", 0x6E95A767, "i8mm"), ("usmmla v29.4s, v3.16b, v10.16b", 0x4E8AAC7D, "i8mm"),
    ("usdot v13.2s, v10.8b, v14.8b", 0x0E8E9D4D, "i8mm"), ("sudot v5.4s, v5.16b, v19.4b[0]", 0x4F13F0A5, "i8mm"),
    ("bfdot v19.2s, v15.4h, v5.4h", 0x2E45FDF3, "bf16"), ("bfmmla v1.4s, v9.8h, v30.8h", 0x6E5EED21, "bf16"),
    ("bfmlalb v21.4s, v14.8h, v19.8h", 0x2ED3FDD5, "bf16"), ("bfcvt h27, s20", 0x1E63429B, "bf16"),
    ("bfcvtn2 v5.8h, v4.4s", 0x4EA16885, "bf16"), ("bfdot v9.2s, v5.4h, v14.2h[2]", 0x0F4EF8A9, "bf16"),
    ("bfmlalb v5.4s, v23.8h, v8.h[6]", 0x0FE8FAE5, "bf16"), ("fcmgt v11.8h, v25.8h, v14.8h", 0x6ECE272B, "fp16"),
    ("fneg v1.8h, v27.8h", 0x6EF8FB61, "fp16"), ("fmla v1.4h, v22.4h, v7.h[0]", 0x0F0712C1, "fp16"),
    ("fmulx v29.8h, v8.8h, v7.h[5]", 0x6F17991D, "fp16"), ("fminnm h19, h13, h6", 0x1EE679B3, "fp16"),
    ("fcsel h13, h22, h17, lo", 0x1EF13ECD, "fp16"), ("fcmp h29, #0.0", 0x1EE123A8, "fp16"),
    ("fnmsub h7, h30, h17, h20", 0x1FF1D3C7, "fp16"), ("fcvtps w3, h1", 0x1EE80023, "fp16"),
    ("fmov h9, #0.265625", 0x1EEA3009, "fp16"), ("fmov h1, h7", 0x1EE040E1, "fp16"),
    ("frinta h3, h15", 0x1EE641E3, "fp16"), ("ldnt1h {z27.d}, p2/z, [z22.d, x3]", 0xC483CADB, "sve"),
    ("ld1w {za0h.s[w15, 3]}, p5/z, [x29, x14, lsl #2]", 0xE08E77A3, "sme"), ("aesd v9.16b, v11.16b", 0x4E285969, "aes"),
    ("pmull2 v31.1q, v29.2d, v23.2d", 0x4EF7E3BF, "aes"), ("sha1m q3, s0, v27.4s", 0x5E1B2003, "sha2"),
    ("sha1su1 v15.4s, v18.4s", 0x5E281A4F, "sha2"), ("stlxr w25, x29, [x16]", 0xC819F21D, "exclusive"),
    ("fadd v0.4s, v1.4s, v2.4s", 0x4E22D420, "base"), ("fmadd d0, d1, d2, d3", 0x1F420C20, "base"),
    ("fcvt s0, h1", 0x1EE24020, "base"), ("ldar x0, [x1]", 0xC8DFFC20, "base"), ("ldr q0, [x1]", 0x3DC00020, "base"),
    ("pmull v0.8h, v1.8b, v2.8b", 0x0E22E020, "base"), ("add x0, x1, x2", 0x8B020020, "base"),
]  # fmt: skip
BASE = 0x10008
DATA = Variables(0x20000, 0x21000)
NOP, PTRUE, WHILE, SVE, SME = 0xD503201F, 0x2518E3E1, 0x25210C01, 0x04A00001, 0x80800001


@pytest.mark.parametrize(("text", "word", "name"), WORDS, ids=[text for text, _, _ in WORDS])
def test_the_class_of_a_word(text: str, word: int, name: str) -> None:
    assert CLASSES[classify(np.array([word], np.uint32))[0]] == name


def test_words_keep_their_places() -> None:
    kinds = classify(np.array([NOP, 0x9AC04E33, NOP, 0xC819F21D], np.uint32))
    assert [CLASSES[kind] for kind in kinds] == ["base", "crc32", "base", "exclusive"]
    assert not len(classify(np.zeros(0, np.uint32)))


def scan(
    words: list[int], starts: list[int] | None = None, aims: list[int] | None = None, base: int = BASE, first: int = 0
) -> Scan:
    code = np.frombuffer(struct.pack(f"<{len(words)}I", *words), np.uint8)
    begins = [base + 4 * start for start in starts or [0]]
    ends = [*begins[1:], base + 4 * len(words)]
    wanted = np.array(aims or [], np.int64)
    return arm64_scan.scan(Stretch(code, base, np.array(begins), np.array(ends), wanted, wanted, DATA, first=first))


def adrp(register: int, pages: int) -> int:
    return 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 | register


ADD, LDR, STR = 0x91000021, 0xF9400021, 0xF9000021  # all of x1


@pytest.mark.parametrize("distance", range(1, 8))
def test_the_second_half_stands_up_to_five_words_behind(distance: int) -> None:
    words = [adrp(1, 16), *[NOP] * (distance - 1), ADD]
    assert scan(words, aims=[0x20000]).takes.tolist() == ([[0, 0x20000]] if distance <= 5 else [])
    words = [adrp(1, 16), *[NOP] * (distance - 1), LDR]
    assert scan(words, aims=[0x20000]).reads.tolist() == ([[0, 0x20000]] if distance <= 5 else [])


def test_each_field_of_the_first_half() -> None:
    for pages in (1, 2, 3, 4, 0xFFFFF, -1, -2, -5, -0x100000):
        aim = 0x10000 + (pages << 12)
        assert scan([adrp(1, pages), ADD], aims=[aim]).takes.tolist() == [[0, aim]], pages
    assert scan([adrp(1, 16), ADD | 0xFFF << 10], aims=[0x20FFF]).takes.tolist() == [[0, 0x20FFF]]
    assert not len(scan([adrp(1, 16) & ~(1 << 31), ADD], aims=[0x20000]).takes), "adr is no adrp"
    far = [NOP] * 0x3FE + [adrp(1, 16), ADD]
    assert scan(far, aims=[0x21000]).takes.tolist() == [[0, 0x21000]], "pages count from the instruction's own"


@pytest.mark.parametrize("register", [0, 1, 15, 31])
def test_both_halves_use_one_register(register: int) -> None:
    second = 0x91000000 | register << 5
    for other in (0, 1, 15, 31):
        found = scan([adrp(other, 16), second], aims=[0x20000]).takes
        assert len(found) == (other == register)


def test_which_second_halves_count() -> None:
    def kinds(second: int) -> tuple[int, int, list[bool]]:
        found = scan([adrp(1, 16), second], aims=[0x20000, 0x20010, 0x20008])
        return len(found.takes), len(found.reads), unpack(found.touches, DATA)[2].tolist()

    assert kinds(ADD) == (1, 0, [True]) and kinds(LDR) == (0, 1, [False]) and kinds(STR) == (0, 0, [True])
    for bit in range(22, 32):
        assert kinds(ADD ^ 1 << bit) == (0, 0, []), "add of 64 bits, not shifted"
    for bit in (24, 25, 26, 27, 28, 29):
        assert kinds(LDR ^ 1 << bit) == kinds(STR ^ 1 << bit) == (0, 0, []), "plain registers, plain offset"
    assert kinds(LDR ^ 1 << 23) == kinds(STR ^ 1 << 23) == (0, 0, [])


@pytest.mark.parametrize("size", range(4))
def test_offsets_count_in_units_of_what_is_moved(size: int) -> None:
    aim = 0x20000 + (5 << size)
    load, store = (word & 0x3FFFFFFF | size << 30 | 5 << 10 for word in (LDR, STR))
    assert scan([adrp(1, 16), load], aims=[aim]).reads.tolist() == [[0, aim]]
    _, address, write = unpack(scan([adrp(1, 16), store]).touches, DATA)
    assert (address.tolist(), write.tolist()) == ([aim], [True])


def test_variables_at_their_edges() -> None:
    for pages, low, inside in ((15, 0xFFF, False), (16, 0, True), (16, 0xFFF, True), (17, 0, False)):
        assert len(scan([adrp(1, pages), ADD | low << 10]).touches) == inside
    owner, _, _ = unpack(scan([NOP, adrp(1, 16), ADD], [0, 1], first=7).touches, DATA)
    assert owner.tolist() == [8]
    nobody = arm64_scan.scan(Stretch(
        np.frombuffer(struct.pack("<2I", adrp(1, 16), ADD), np.uint8), BASE, np.array([BASE + 4]), np.array([BASE + 8]),
        np.array([0x20000]), np.array([0x20000]), DATA,
    ))  # fmt: skip
    assert not len(nobody.touches) and not len(nobody.takes)


def test_branches_and_their_neighbours() -> None:
    aim = BASE + 8
    for word, found in (
        (0x14000002, 1),
        (0x94000002, 1),
        (0x54000042, 0),
        (0x34000041, 0),
        (0x18000002, 0),
        (0x10000002, 0),
    ):
        assert len(scan([word, NOP, NOP], aims=[aim]).calls) == found, hex(word)
    assert scan([NOP, 0x15FFFFFF, NOP], aims=[BASE + 4 + 4 * 0x1FFFFFF]).calls.tolist() == [
        [0, BASE + 4 + 4 * 0x1FFFFFF]
    ]
    assert scan([NOP, 0x17FFFFFF, NOP], aims=[BASE]).calls.tolist() == [[0, BASE]]
    assert scan([NOP, 0x16000000], aims=[BASE + 4 - (1 << 27)]).calls.tolist() == [[0, BASE + 4 - (1 << 27)]]


def test_numbers_of_functions_count_from_the_first() -> None:
    words = [0x94000000, adrp(2, 16), LDR + 0x20, adrp(1, 16), ADD, 0x9AC04E33, 0xD5380600]
    found = scan(words, [0, 1, 3, 5, 6], aims=[BASE, 0x20000], first=100)
    assert found.calls.tolist() == [[100, BASE]] and found.reads.tolist() == [[101, 0x20000]]
    assert found.takes.tolist() == [[102, 0x20000]] and found.asks.tolist() == [104]
    assert [row[:1] + row[2:] for row in found.uses.tolist()] == [[103, BASE + 20, 1]]
    assert found.legacy.shape == (0,)


def test_who_asks_the_processor() -> None:
    """mrs of the registers from s3_0_c0_c0 to s3_0_c0_c7, whichever the register it goes to."""
    for word, asks in (
        (0xD5380000, 1),
        (0xD53807FF, 1),
        (0xD5380800, 0),
        (0xD5180600, 0),
        (0xD5390600, 0),
        (0xD53BD040, 0),
    ):
        assert len(scan([NOP, word]).asks) == asks, hex(word)


def test_wide_vectors_count_where_a_predicate_is_set() -> None:
    def classes(*words: int) -> list[str]:
        return [CLASSES[row[1]] for row in scan(list(words)).uses.tolist()]

    assert classes(SVE) == classes(SME) == classes(SVE, 0x2518E3E1 ^ 1 << 4) == []
    assert classes(PTRUE, SVE) == ["sve"] and classes(WHILE, SME) == ["sve", "sme"]
    assert classes(SVE, 0x9AC04E33) == ["crc32"], "others need none"
    for bit in (10, 11, 12, 21, 24, 29, 31):
        assert classes(SME, PTRUE ^ 1 << bit).count("sme") == 0, f"bit {bit} makes it another instruction"
    for bit in (13, 14, 15, 21, 24, 29, 31):
        assert classes(SME, WHILE ^ 1 << bit).count("sme") == 0, f"bit {bit} makes it another instruction"
    for bit in (0, 5, 9, 16, 22, 23):
        assert classes(SME, PTRUE ^ 1 << bit).count("sme") == 1, "any register, pattern and size, with or without flags"


@pytest.mark.parametrize("shift", range(4))
def test_words_stand_on_the_grid(shift: int) -> None:
    lead = -shift % 4
    code = np.frombuffer(b"\x75" * lead + struct.pack("<2I", 0x9AC04E33, NOP) + b"\x75" * 3, np.uint8)
    none = np.zeros(0, np.int64)
    base = 0x10000 + shift
    found = arm64_scan.scan(Stretch(code, base, np.array([base]), np.array([base + len(code)]), none, none))
    assert [row[2:] for row in found.uses.tolist()] == [[base + lead, 1]]


def test_each_function_of_many_keeps_its_own() -> None:
    """Sixteen alike, ten words each: the twelfth's branch, address, load and predicate are the twelfth's alone."""
    quiet = [NOP] * 10
    busy = [adrp(1, 16), ADD, adrp(2, 17), LDR + 0x20, 0x94000000, PTRUE, SVE, NOP, NOP, NOP]
    starts = [10 * number for number in range(16)]
    for busy_one in (0, 1, 3, 7, 11, 15):
        words = [word for number in range(16) for word in (busy if number == busy_one else quiet)]
        own = BASE + 4 * (10 * busy_one + 4)
        found = scan(words, starts, aims=sorted([own, 0x20000, 0x21000]))
        assert found.takes.tolist() == [[busy_one, 0x20000]]
        assert found.reads.tolist() == [[busy_one, 0x21000]]
        assert found.calls.tolist() == [[busy_one, own]], "a branch to itself"
        assert {row[0] for row in found.uses.tolist()} == {busy_one}
