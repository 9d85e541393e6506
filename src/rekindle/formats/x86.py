"""Length and instruction set of the x86-64 instruction at *every* offset at once, then a walk along the real ones.
Disassembling 276 MB of libtorch_cpu.so one instruction after the other takes minutes in Python. Here table look-ups
over whole arrays decode every byte offset as if an instruction began there (a superset); following the lengths from
each function's start then visits only the instructions the CPU would."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rekindle.formats.code_scan import BYTE, Bytes, Flags, Ints
from rekindle.model.toml import read_beside

PAD = 32
# With fewer walkers than this a plain Python loop is as fast as NumPy's call overhead.
FEW = 120
_TABLE = read_beside(__file__, "x86.toml", dict[str, Any])
CLASSES = tuple(_TABLE["classes"].split())
ID = {name: number for number, name in enumerate(CLASSES)}
BAD = ID["bad"]


def _opcodes(text: str) -> list[int]:
    """``0C 10-12`` as numbers."""
    spans = [word.partition("-") for word in text.split()]
    return [code for low, _, high in spans for code in range(int(low, 16), int(high or low, 16) + 1)]


def flags(text: str) -> Flags:
    return np.isin(BYTE, _opcodes(text))


def _numbers(rows: Mapping[str, str], names: Mapping[str, int] | None = None) -> Bytes:
    """For each opcode the number, or the number of the name, of the row that lists it."""
    table = np.zeros(256, np.uint8)
    for name, text in rows.items():
        table[_opcodes(text)] = names[name] if names else int(name)
    return table


_mod, _rm = BYTE >> 6, BYTE & 7
# Bytes of ModRM, SIB and displacement; 0x80 is added where a SIB byte decides about four more.
_size = 1 + ((_mod != 3) & (_rm == 4)) + np.choose(_mod, (4 * (_rm == 5), 1, 4, 0))
MODRM = (_size + 0x80 * ((_mod == 0) & (_rm == 4))).astype(np.uint8)
LEGACY_PREFIX = flags(_TABLE["prefixes"])

SHRINKS, NO_OPCODE = flags(_TABLE["one_byte"]["shrinks"]), flags(_TABLE["one_byte"]["none"])
# Length of a one-byte opcode with the byte after it, indexed by ``opcode | next << 8``.
_pairs = 1 + _numbers(_TABLE["one_byte"]["immediate"]) + np.where(flags(_TABLE["one_byte"]["modrm"]), MODRM[:, None], 0)
# TEST r/m, imm hides among the unary group: only /0 and /1 have an immediate.
_pairs[(BYTE & 0x30) == 0, 0xF6] += 1
_pairs[(BYTE & 0x30) == 0, 0xF7] += 4
PAIRS = _pairs.astype(np.uint8).reshape(-1)

HAS_MODRM_0F, NO_OPCODE_0F = ~flags(_TABLE["two_byte"]["no_modrm"]), flags(_TABLE["two_byte"]["none"])
IMMEDIATE_0F = _numbers(_TABLE["two_byte"]["immediate"])
ISA_0F38, ISA_0F3A = _numbers(_TABLE["map_38"], ID), _numbers(_TABLE["map_3A"], ID)
# By the prefix: none, 66, F3, F2.
ISA_0F = np.stack([_numbers(_TABLE["two_byte"]["behind"].get(prefix, {}), ID) for prefix in ("", "66", "F3", "F2")])

# Class by (map 0..3, prefix, length, opcode), and the size of the immediate by (map, opcode).
ISA_VEX = np.full((4, 4, 2, 256), BAD, np.uint8)
for _map in (1, 2, 3):
    for _words, _text in _TABLE["vex"][str(_map)]:
        _class, *_only = _words.split()
        _prefix, _length = slice(0, 1 if "bare" in _only else 4), slice("256" in _only, 2)
        ISA_VEX[_map, _prefix, _length, _opcodes(_text)] = ID[_class]
IMMEDIATE_VEX = np.zeros((4, 256), np.uint8)
IMMEDIATE_VEX[1], IMMEDIATE_VEX[3] = flags(_TABLE["vex"]["immediate_1"]), 1

STORES, STORES_0F = flags(_TABLE["operand"]["stores"]), flags(_TABLE["operand"]["stores_0f"])
OLD_SSE2, GROUP, TESTS = (flags(_TABLE["operand"][name]) for name in ("sse2", "group", "tests"))
OPERAND_IMMEDIATE = _numbers(_TABLE["operand"]["immediate"]).astype(np.int64)
OPERAND_IMMEDIATE_0F = _numbers(_TABLE["operand"]["immediate_0f"]).astype(np.int64)


def decode(code: Bytes) -> tuple[Bytes, Bytes]:
    """(length, class) for an instruction that would begin at each offset; classes by their place in ``CLASSES``."""
    n = len(code)
    b = np.zeros(n + PAD, np.uint8)
    b[:n] = code
    pairs = b[:-1].astype(np.uint16)
    pairs |= b[1:].astype(np.uint16) << 8
    length = PAIRS[pairs]
    isa = np.where(NO_OPCODE[b], np.uint8(BAD), np.uint8(0))
    # mod 0, rm 4: the SIB byte after ModRM adds four bytes if its base is 5.
    at = np.flatnonzero(length & 0x80)
    length[at] = (length[at] & 0x7F) + np.where((b[at + 2] & 7) == 5, 4, 0).astype(np.uint8)
    _two_byte(b, length, isa)
    _vex(b, length, isa)
    _evex_and_xop(b, length, isa)
    _rex(b, length, isa)
    _prefixes(b, length, isa)
    np.minimum(length, 15, out=length)
    return length[:n], isa[:n]


def instruction_set(code: bytes) -> str | None:
    """The instruction set of the one instruction that begins ``code``; None for plain x86-64 and for no instruction.
    The bytes may end early: what follows is taken as zeros and as ones, and a name needs both to agree."""
    kinds = {int(decode(np.frombuffer(code + rest, np.uint8))[1][0]) for rest in (bytes(PAD), b"\xff" * PAD)}
    kind = kinds.pop()
    return None if kinds or kind in (0, BAD) else CLASSES[kind]


def _modrm(b: Bytes, at: Ints) -> Bytes:
    """Bytes of ModRM, SIB and displacement where ModRM lies at ``at``."""
    size = MODRM[b[at]]
    sib = (size & 0x80) != 0
    return np.asarray((size & 0x7F) + np.where(sib & ((b[at + 1] & 7) == 5), 4, 0).astype(np.uint8), np.uint8)


def _two_byte(b: Bytes, length: Bytes, isa: Bytes) -> None:
    at = np.flatnonzero(b[:-PAD] == 0x0F)
    second, third = b[at + 1], b[at + 2]
    size = 2 + IMMEDIATE_0F[second] + np.where(HAS_MODRM_0F[second], _modrm(b, at + 2), 0)
    kind = np.where(NO_OPCODE_0F[second], np.uint8(BAD), ISA_0F[0][second])
    for escape, extra, classes in ((0x38, 3, ISA_0F38), (0x3A, 4, ISA_0F3A)):
        here = np.flatnonzero(second == escape)
        size[here] = extra + _modrm(b, at[here] + 3)
        kind[here] = classes[third[here]]
    length[at], isa[at] = size, kind


def _vex(b: Bytes, length: Bytes, isa: Bytes) -> None:
    at = np.flatnonzero(b[:-PAD] == 0xC5)
    second, opcode = b[at + 1], b[at + 2]
    size = 3 + _modrm(b, at + 3) + IMMEDIATE_VEX[1][opcode]
    length[at] = np.where(opcode == 0x77, 3, size)
    isa[at] = ISA_VEX[1, second & 3, (second >> 2) & 1, opcode]
    at = np.flatnonzero(b[:-PAD] == 0xC4)
    second, third, opcode = b[at + 1], b[at + 2], b[at + 3]
    table = second & 0x1F
    known = np.where(table <= 3, table, 0)
    size = 4 + _modrm(b, at + 4) + IMMEDIATE_VEX[known, opcode]
    length[at] = np.where((table == 1) & (opcode == 0x77), 4, size)
    kind = ISA_VEX[known, third & 3, (third >> 2) & 1, opcode]
    # vbroadcastss/sd from a register came with AVX2, from memory with AVX.
    register = (b[at + 4] >> 6) == 3
    broadcast = (known == 2) & ((opcode == 0x18) | (opcode == 0x19)) & register
    isa[at] = np.where(broadcast, np.uint8(ID["avx2"]), kind)


def _evex_and_xop(b: Bytes, length: Bytes, isa: Bytes) -> None:
    at = np.flatnonzero(b[:-PAD] == 0x62)
    second, third, opcode = b[at + 1], b[at + 2], b[at + 4]
    table = second & 7
    immediate = np.where(table == 3, 1, np.where(table == 1, IMMEDIATE_VEX[1][opcode], 0))
    length[at] = 5 + _modrm(b, at + 5) + immediate
    real = ((second & 8) == 0) & ((third & 4) != 0) & np.isin(table, (1, 2, 3, 5, 6))
    kind = np.where(table >= 5, np.uint8(ID["avx512_fp16"]), np.uint8(ID["avx512"]))
    isa[at] = np.where(real, kind, np.uint8(BAD))
    at = np.flatnonzero(b[:-PAD] == 0x8F)
    at = at[((b[at + 1] & 0x1F) >= 8) & ((b[at + 1] & 0x1F) <= 10)]
    table, opcode = b[at + 1] & 0x1F, b[at + 3]
    length[at] = 4 + _modrm(b, at + 4) + np.where(table == 8, 1, np.where(table == 10, 4, 0))
    isa[at] = np.where((table == 10) | ((table == 9) & (opcode <= 2)), np.uint8(ID["tbm"]), np.uint8(ID["xop"]))


def _rex(b: Bytes, length: Bytes, isa: Bytes) -> None:
    """REX adds a byte; REX.W makes ``mov r, imm`` eight bytes long and ``0F C7 /1`` a cmpxchg16b."""
    at = np.flatnonzero((b[:-PAD] & 0xF0) == 0x40)
    following = b[at + 1]
    wide = (b[at] & 8) != 0
    eight = wide & ((following & 0xF8) == 0xB8)
    kind = isa[at + 1]
    here = np.flatnonzero(wide & (following == 0x0F) & (b[at + 2] == 0xC7))
    modrm = b[at[here] + 3]
    kind[here[((modrm >> 3) & 7 == 1) & (modrm < 0xC0)]] = ID["cx16"]
    # A prefix or a second REX after REX, or VEX after it, never occurs in compiled code.
    stray = LEGACY_PREFIX[following] | ((following & 0xF0) == 0x40)
    length[at] = np.where(stray, 1, 1 + length[at + 1] + np.where(eight, 4, 0))
    isa[at] = np.where(stray, np.uint8(0), kind)


def _prefixes(b: Bytes, length: Bytes, isa: Bytes) -> None:
    """Legacy prefixes in any number: they add their bytes, 66 shrinks immediates, 66/F3/F2 choose the class."""
    at = np.flatnonzero(LEGACY_PREFIX[b[:-PAD]])
    if not len(at):
        return
    last = np.empty(len(at), bool)
    last[-1] = True
    last[:-1] = at[1:] != at[:-1] + 1
    run_end = np.flatnonzero(last)
    end_of = run_end[np.searchsorted(run_end, np.arange(len(at)))]
    opcode_at = at[end_of] + 1
    values = b[at]

    def has(value: int) -> Flags:
        count = np.cumsum(values == value)
        return np.asarray(count[end_of] - count + (values == value) > 0)

    small, repeat, repeat_not = has(0x66), has(0xF3), has(0xF2)
    first = b[opcode_at]
    rex = (first & 0xF0) == 0x40
    real_at = opcode_at + rex
    opcode = b[real_at]
    size = length[opcode_at].astype(np.int16) + (opcode_at - at)
    shrink = small & ~(rex & ((first & 8) != 0))
    test = (opcode == 0xF7) & ((b[real_at + 1] & 0x30) == 0)
    size -= np.where(shrink & (SHRINKS[opcode] | test), 2, 0)
    # extrq and insertq of a register have two bytes of numbers.
    fields = (opcode == 0x0F) & (b[real_at + 1] == 0x78) & (b[real_at + 2] >= 0xC0)
    size += np.where(fields & (small | repeat_not), 2, 0)
    length[at] = np.minimum(size, 15)
    kind = isa[opcode_at]
    mode = np.where(repeat, 2, np.where(repeat_not, 3, np.where(small, 1, 0)))
    two = np.flatnonzero(opcode == 0x0F)
    second = b[real_at[two] + 1]
    plain = ISA_0F[mode[two], second]
    kind[two] = np.where(plain > 0, plain, kind[two])
    # F2 0F 38 F0/F1 is crc32, not movbe; 0F 38 F6 is adcx or adox behind 66 or F3, and a system instruction alone.
    third = b[real_at[two] + 2]
    kind[two[(second == 0x38) & ((third & 0xFE) == 0xF0) & repeat_not[two]]] = ID["sse4.2"]
    kind[two[(second == 0x38) & (third == 0xF6) & (small | repeat)[two]]] = ID["adx"]
    isa[at] = kind


def follow(length: Bytes) -> Iterator[int]:
    """The offset of each instruction of code without gaps, from the first on."""
    sizes, at = length.tobytes(), 0
    while at < len(sizes):
        yield at
        at += sizes[at]


def walk(length: Bytes, isa: Bytes, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """(offset, index of its function) of each instruction with a class. A walk ends at what no CPU has, too."""
    flagged = length | np.where(isa > 0, np.uint8(0x80), np.uint8(0))
    stop = isa == BAD
    position, end, owner = starts.astype(np.int64), ends.astype(np.int64), np.arange(len(starts))
    found_at: list[Ints] = []
    found_in: list[Ints] = []
    keep = position < end
    position, end, owner = position[keep], end[keep], owner[keep]
    while len(position) > FEW:
        value = flagged[position]
        hit = np.flatnonzero(value & 0x80)
        alive: Flags | None = None
        if len(hit):
            found_at.append(position[hit])
            found_in.append(owner[hit])
            alive = ~stop[position]
        position = position + (value & 0x7F)
        inside = position < end
        if alive is not None:
            inside &= alive
        if not inside.all():
            position, end, owner = position[inside], end[inside], owner[inside]
    raw = flagged.tobytes() if len(position) else b""
    for at, limit, index in zip(position.tolist(), end.tolist(), owner.tolist(), strict=True):
        hits = []
        while at < limit:
            size = raw[at]
            if size & 0x80:
                hits.append(at)
                if stop[at]:
                    break
                size &= 0x7F
            at += size
        found_at.append(np.array(hits, np.int64))
        found_in.append(np.full(len(hits), index, np.int64))
    if not found_at:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(found_at), np.concatenate(found_in)
