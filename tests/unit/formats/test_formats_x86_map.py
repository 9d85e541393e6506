"""The maps of x86-64 opcodes, drawn as the manuals draw them: sixteen rows of sixteen.

Every cell that capstone knows was held against it when it was drawn (tests/oracles does so again).
"""

from __future__ import annotations

import numpy as np
import pytest

from rekindle.formats import x86

# How long the instruction is with a register behind the opcode (ModRM C1), or what the byte is instead: a prefix, REX,
# an escape to other maps; a dot is an opcode that no CPU has in 64-bit mode.
ONE = """
222225..222225.e
222225..222225..
222225p.222225p.
222225p.222225p.
rrrrrrrrrrrrrrrr
1111111111111111
..e2pppp56231111
2222222222222222
36.3222222222222
1111111111.11111
9999111125111111
2222222255555555
3331ee36413112.1
2222...122222222
2222222255.21111
p1pp113611111122
"""
# The same behind 66, which makes immediates of four bytes two bytes long (but not the way of a jump).
SHORT = """
333334..333334.e
333334..333334..
333334p.333334p.
333334p.333334p.
rrrrrrrrrrrrrrrr
2222222222222222
..e3pppp45342222
3333333333333333
45.4333333333333
2222222222.22222
aaaa222234222222
3333333344444444
4442ee45524223.2
3333...233333333
3333333366.32222
p2pp224522222233
"""
# Behind 0F.
TWO = """
3333.22222.2.324
3333333333333333
3333....33333333
222222.2e.e.....
3333333333333333
3333333333333333
3333333333333333
4444333233..3333
6666666666666666
3333333333333333
222343..22234333
3333333333433333
3343444322222222
3333333333333333
3333333333333333
3333333333333333
"""
# Which extension an opcode belongs to, behind 0F 38 and 0F 3A.
LEGACY = {"-": "base", "s": "ssse3", "1": "sse4.1", "2": "sse4.2", "h": "sha", "g": "gfni", "e": "aes", "m": "movbe"}
LEGACY |= {"d": "adx", "p": "pclmul"}
THREE_38 = """
ssssssssssss----
1---11-1----sss-
111111--1111----
111111-211111111
11--------------
----------------
----------------
----------------
----------------
----------------
----------------
----------------
--------hhhhhh-g
-----------eeeee
----------------
mm----d---------
"""
THREE_3A = """
--------1111111s
----1111--------
111-------------
----------------
111-p-----------
----------------
2222------------
----------------
----------------
----------------
----------------
----------------
------------h-gg
---------------e
----------------
----------------
"""
# The three maps of VEX: of 128 bits (left) and of 256 (right).
VECTOR = {".": "bad", "a": "avx", "2": "avx2", "k": "avx512", "f": "f16c", "m": "fma", "v": "avx_vnni", "x": "amx"}
VECTOR |= {
    "n": "avx_ne_convert",
    "g": "gfni",
    "e": "vaes",
    "p": "vpclmulqdq",
    "4": "fma4",
    "o": "xop",
    "1": "bmi1",
    "b": "bmi2",
}
VEX_1 = """
................ ................
aaaaaaaa........ aaaaaaaa........
........aaaaaaaa ........aaaaaaaa
................ ................
.kk.kkkk..kk.... .kk.kkkk..kk....
aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaa
aaaaaaaaaaaaaaaa 22222222222222aa
aaaaaaaa....aaaa 2222222a....aaaa
................ ................
kkkk....kk...... kkkk....kk......
..............a. ..............a.
................ ................
..a.aaa......... ..a.aaa.........
aaaaaaaaaaaaaaaa a22222a222222222
aaaaaaaaaaaaaaaa 222222aa22222222
aaaaaaaaaaaaaaa. a22222222222222.
"""
VEX_2 = """
aaaaaaaaaaaaaaaa 222222222222aaaa
...f..2aaaa.aaa. ...f..2aaaa.222.
aaaaaa..aaaaaaaa 222222..2222aaaa
aaaaaa2aaaaaaaaa 2222222222222222
aa...222xx.x.... 2a...222xx.x....
vvvv....222.x.x. vvvv....222.x.x.
............x... ............x...
..n.....22...... ..n.....22......
............2.2. ............2.2.
2222..mmmmmmmmmm 2222..mmmmmmmmmm
......mmmmmmmmmm ......mmmmmmmmmm
nn..vvmmmmmmmmmm nn..vvmmmmmmmmmm
...............g ...............g
..vv.......aaaaa ..vv.......aeeee
................ ................
..11.bbb........ ..11.bbb........
"""
VEX_3 = """
222.aaa.aaaaaaaa 222.aaa.aaaaaa22
....aaaaaa...f.. ....aaaaaa...f..
aaa............. aaa.............
kkkk....22...... kkkk....22......
aaa.a.2.ooaaa... aa2.p.2.ooaa2...
............4444 ............4444
aaaa....44444444 aaaa....44444444
........44444444 ........44444444
................ ................
................ ................
................ ................
................ ................
..............gg ..............gg
...............a ...............a
................ ................
b............... b...............
"""

Answer = tuple[int, str]
FILL = b"\x11" * 12


def decode(*pieces: bytes) -> list[Answer]:
    """Length and class of each, decoded together, far enough apart not to see each other."""
    width = 48
    code = b"".join(piece.ljust(width, b"\0") for piece in pieces)
    length, isa = x86.decode(np.frombuffer(code, np.uint8))
    return [(int(length[at]), x86.CLASSES[isa[at]]) for at in range(0, len(code), width)]


def cells(text: str, column: int = 0) -> list[str]:
    rows = [line.split()[column] for line in text.split("\n") if line]
    assert [len(row) for row in rows] == [16] * 16
    return list("".join(rows))


@pytest.mark.parametrize(("text", "before"), [(ONE, b""), (SHORT, b"\x66"), (TWO, b"\x0f")], ids=["one", "66", "0F"])
def test_lengths(text: str, before: bytes) -> None:
    found = decode(*(before + bytes([opcode, 0xC1]) + FILL for opcode in range(256)))
    drawn = cells(text)
    for opcode, (cell, (length, name)) in enumerate(zip(drawn, found, strict=True)):
        if cell == ".":
            assert name == "bad", hex(opcode)
        elif cell not in "pre":
            assert (f"{length:x}", name) == (cell, "base"), hex(opcode)
    assert [at for at, cell in enumerate(drawn) if cell == "p"] == (
        [0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3] if before != b"\x0f" else []
    )


@pytest.mark.parametrize("prefix", [0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x67, 0xF0, 0xF2, 0xF3])
def test_any_prefix_adds_its_byte(prefix: int) -> None:
    one, two, long = decode(bytes([prefix, 0x89, 0xC1]), bytes([prefix, prefix, 0x89, 0xC1]), bytes([prefix] * 40))
    assert (one, two) == ((3, "base"), (4, "base"))
    assert long[0] == 15, "no instruction is longer"


def test_a_register_prefix_adds_its_byte() -> None:
    rows = [bytes([rex, 0x89, 0xC1]) for rex in range(0x40, 0x50)]
    assert decode(*rows) == [(3, "base")] * 16
    rows = [bytes([rex, 0xB8]) + FILL for rex in range(0x40, 0x50)]
    assert decode(*rows) == [(6, "base")] * 8 + [(10, "base")] * 8, "mov of a whole number of 64 bits"
    rows = [bytes([0x48, opcode]) + FILL for opcode in (0xB7, 0xB8, 0xBF)]
    assert [length for length, _ in decode(*rows)] == [3, 10, 10]
    # A second one or a prefix behind it makes it stand for nothing.
    rows = [bytes([0x48, other, 0x89, 0xC1]) for other in (0x3F, 0x40, 0x4F, 0x50, 0x66, 0xF3)]
    assert [length for length, _ in decode(*rows)] == [2, 1, 1, 2, 1, 1]


@pytest.mark.parametrize(
    ("head", "size"),
    [(b"\x89", 1), (b"\x0f\x10", 2), (b"\x0f\x38\x00", 3), (b"\xc5\xf8\x10", 3), (b"\xc4\xe2\x79\x00", 4)],
)
def test_what_a_memory_operand_adds(head: bytes, size: int) -> None:
    """ModRM: a register, an address in one, with one byte or four behind it; SIB where the register's number is 4."""
    want, rows = [], []
    for modrm in range(256):
        for sib in (0x00, 0x04, 0x05, 0x06, 0x0D, 0xFD):
            mode, low = modrm >> 6, modrm & 7
            more = 1 + (0, 1, 4, 0)[mode] + (1 if low == 4 and mode != 3 else 0)
            if mode == 0 and (low == 5 or (low == 4 and sib in (0x05, 0x0D, 0xFD))):
                more += 4
            want.append(size + more)
            rows.append(head + bytes([modrm, sib]) + FILL)
    assert [length for length, _ in decode(*rows)] == want


@pytest.mark.parametrize("before", [b"", b"\x66", b"\x48", b"\x66\x48"])
def test_only_tests_of_the_unary_group_have_an_immediate(before: bytes) -> None:
    four = 2 if before == b"\x66" else 4
    for opcode, size in ((0xF6, 1), (0xF7, four)):
        rows = [before + bytes([opcode, 0xC1 | field << 3]) + FILL for field in range(8)]
        plain = len(before) + 2
        assert [length for length, _ in decode(*rows)] == [plain + size] * 2 + [plain] * 6


def test_whole_numbers_keep_their_size_behind_both_prefixes() -> None:
    """66 shrinks an immediate unless REX.W stands behind it."""
    rows = [bytes.fromhex(head) + FILL for head in ("6681c1", "664081c1", "664881c1", "66c7c1", "6648c7c1", "664981c1")]
    assert [length for length, _ in decode(*rows)] == [5, 6, 8, 5, 8, 8]


CHOSEN = {
    0x00: {},
    0x66: {"sse3": (0x7C, 0x7D, 0xD0), "sse4a": (0x78, 0x79)},
    0xF3: {"sse3": (0x12, 0x16), "popcnt": (0xB8,), "tzcnt": (0xBC,), "lzcnt": (0xBD,), "sse4a": (0x2B,)},
    0xF2: {"sse3": (0x12, 0x7C, 0x7D, 0xD0, 0xF0), "sse4a": (0x2B, 0x78, 0x79)},
}


@pytest.mark.parametrize("prefix", CHOSEN)
@pytest.mark.parametrize("rex", [b"", b"\x41"])
def test_what_a_prefix_chooses(prefix: int, rex: bytes) -> None:
    before = (bytes([prefix]) if prefix else b"") + rex
    want = {opcode: name for name, opcodes in CHOSEN[prefix].items() for opcode in opcodes}
    found = decode(*(before + bytes([0x0F, opcode, 0xC1]) + FILL for opcode in range(256)))
    drawn = cells(TWO)
    for opcode, (_, name) in enumerate(found):
        if drawn[opcode] != "e":
            assert name == want.get(opcode, "bad" if drawn[opcode] == "." else "base"), hex(opcode)


def test_the_last_of_several_does_not_decide_alone() -> None:
    rows = [
        bytes.fromhex(text)
        for text in ("66f30fb8c1", "f3660fb8c1", "f2f30fb8c1", "2ef30fb8c1", "f32e0fb8c1", "660fb8c1")
    ]
    assert [name for _, name in decode(*rows)] == ["popcnt"] * 5 + ["base"]
    assert decode(bytes.fromhex("f390" + "0fb8c1")) == [(2, "base")], "a prefix belongs to its own instruction"
    assert decode(bytes.fromhex("66f20f78c10102"), bytes.fromhex("f20f78c10102"), bytes.fromhex("660f78c10102")) == [
        (7, "sse4a"), (6, "sse4a"), (6, "sse4a"),
    ]  # fmt: skip
    texts = ("f30f78c1", "66f278c1", "660f7801", "660f78bf01020304", "660f78c0")
    assert [length for length, _ in decode(*map(bytes.fromhex, texts))] == [4, 4, 4, 8, 6]


@pytest.mark.parametrize(("text", "escape", "size"), [(THREE_38, 0x38, 4), (THREE_3A, 0x3A, 5)])
def test_classes_behind_two_escapes(text: str, escape: int, size: int) -> None:
    found = decode(*(bytes([0x66, 0x0F, escape, opcode, 0xC1]) for opcode in range(256)))
    assert found == [(size + 1, LEGACY[cell]) for cell in cells(text)]
    found = decode(*(bytes([0x0F, escape, opcode, 0xC1]) for opcode in range(256)))
    # adcx and adox have 66 or F3 before them; without either it is an instruction of the system.
    assert found == [(size, LEGACY[cell if cell != "d" else "-"]) for cell in cells(text)]


def test_checksums_are_told_from_moves_by_their_prefix() -> None:
    texts = (
        "f20f38f0c1",
        "f20f38f1c1",
        "66f20f38f1c1",
        "f2480f38f1c1",
        "0f38f000",
        "660f38f100",
        "f20f38f2c1",
        "f20f3af0c1",
    )
    assert [name for _, name in decode(*map(bytes.fromhex, texts))] == ["sse4.2"] * 4 + ["movbe"] * 2 + ["base"] * 2


@pytest.mark.parametrize(("text", "table"), [(VEX_1, 1), (VEX_2, 2), (VEX_3, 3)])
def test_classes_of_vex(text: str, table: int) -> None:
    fives = {*range(0x70, 0x74), 0xC2, 0xC4, 0xC5, 0xC6} if table == 1 else set(range(256)) if table == 3 else set()
    for chosen in range(4):
        for wide in (0, 1):
            want = [(6 if at in fives else 5, VECTOR[cell]) for at, cell in enumerate(cells(text, wide))]
            if table == 1:
                want[0x77] = (4, want[0x77][1])
            if table == 2 and chosen == 0:
                want[0xF7] = (5, "bmi1")  # bextr; with a prefix they are shifts
            third = 0x78 | wide << 2 | chosen
            # An address in a register: of some instructions the form with a register came later.
            assert decode(*(bytes([0xC4, 0xE0 | table, third, at, 0x01]) + FILL for at in range(256))) == want
            if table == 1:
                short = [(length - 1, name) for length, name in want]
                second = 0xF8 | wide << 2 | chosen
                assert decode(*(bytes([0xC5, second, at, 0x01]) + FILL for at in range(256))) == short


def test_broadcasts_from_a_register_came_later() -> None:
    texts = (
        "c4e27d18c0",
        "c4e27d1800",
        "c4e27d1880",
        "c4e27d19c0",
        "c4e27d1900",
        "c4e27d1ac0",
        "c4e27d17c0",
        "c4e37d18c000",
    )
    names = ["avx2", "avx", "avx", "avx2", "avx", "avx", "avx", "avx"]
    assert [name for _, name in decode(*map(bytes.fromhex, texts))] == names


def test_maps_that_are_none() -> None:
    rows = [bytes([0xC4, 0xE0 | table, 0x79, 0x58, 0x01]) for table in (0, 4, 5, 0x1F)]
    assert decode(*rows) == [(5, "bad")] * 4


def test_evex() -> None:
    def one(second: int, third: int = 0x7C, opcode: int = 0x58) -> Answer:
        return decode(bytes([0x62, second, third, 0x48, opcode, 0xC1]))[0]

    assert [one(0xF0 | table) for table in range(8)] == [
        (6, "bad"), (6, "avx512"), (6, "avx512"), (7, "avx512"), (6, "bad"), (6, "avx512_fp16"), (6, "avx512_fp16"),
        (6, "bad"),
    ]  # fmt: skip
    assert one(0xF9) == one(0xF1, 0x78) == (6, "bad"), "a bit that must be clear, one that must be set"
    found = decode(*(bytes([0x62, 0xF1, 0x7C, 0x48, opcode, 0xC1]) for opcode in range(256)))
    sevens = {opcode for opcode, answer in enumerate(found) if answer == (7, "avx512")}
    assert sevens == {*range(0x70, 0x74), 0xC2, 0xC4, 0xC5, 0xC6}
    assert found.count((6, "avx512")) == 256 - len(sevens)
    assert one(0xF2, opcode=0x70)[0] == one(0xF5, opcode=0x70)[0] == 6


def test_xop_and_pop() -> None:
    def one(second: int, opcode: int = 0x80) -> Answer:
        return decode(bytes([0x8F, second, 0x78, opcode, 0xC1]) + FILL)[0]

    assert [one(0xE0 | table) for table in (8, 9, 10)] == [(6, "xop"), (5, "xop"), (9, "tbm")]
    assert [one(0xE9, opcode)[1] for opcode in (1, 2, 3)] == ["tbm", "tbm", "xop"]
    assert [one(0xE8, opcode)[1] for opcode in (1, 2)] == ["xop", "xop"]
    # With another number behind it, it is pop.
    assert decode(b"\x8f\xc0", b"\x8f\xc7", b"\x8f\x07", b"\x8f\xeb") == [(2, "base")] * 4


def test_exchange_of_sixteen_bytes() -> None:
    texts = {
        "480fc70f": "cx16", "490fc70f": "cx16", "480fc74f10": "cx16", "480fc78f": "cx16", "f0480fc70f": "cx16",
        "440fc70f": "base", "0fc70f": "base", "480fc7cf": "base", "480fc707": "base", "480fc717": "base",
        "480fc60f00": "base", "4889c7": "base", "4888c70f": "base",
    }  # fmt: skip
    assert [name for _, name in decode(*map(bytes.fromhex, texts))] == list(texts.values())


def test_the_end_of_the_bytes() -> None:
    """What is cut off counts as zero, and no length is that of what stands before."""
    for text in ("c5", "c4", "62", "8f", "0f", "66", "48", "8b", "c5f4", "62f17c", "660f38", "8b04"):
        code = np.frombuffer(bytes.fromhex(text), np.uint8)
        length, isa = x86.decode(code)
        assert len(length) == len(isa) == len(code) and (length > 0).all()
    none, nothing = x86.decode(np.zeros(0, np.uint8))
    assert not len(none) and not len(nothing)
