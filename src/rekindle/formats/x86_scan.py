"""What a stretch of x86-64 code does, function by function: instruction sets, calls, addresses taken, CPUID. Runs over
a few megabytes at a time, so that memory stays flat and stretches can go to several processes."""

import numpy as np

from rekindle.formats import x86
from rekindle.formats.code_scan import BYTE, Bytes, Flags, Ints, Scan, Stretch, displacements, owners, totals

# How far before a mark the walks that test it begin, and how many bytes per mark make a function vector code.
BACK = 48
RARE_BYTES = 200
# Room behind the code for those who look at what follows an opcode.
AHEAD = 8


def scan(stretch: Stretch) -> Scan:
    # Some look a few bytes ahead: with room behind it the last instruction is not lost.
    code = np.concatenate([stretch.code, np.zeros(AHEAD, np.uint8)])
    head, address = code[:-AHEAD], stretch.address
    near = np.flatnonzero((head & 0xFE) == 0xE8)
    lea, escape = np.flatnonzero(head == 0x8D), np.flatnonzero(head == 0x0F)
    second = code[escape + 1]
    # CPUID is 0F A2, XGETBV 0F 01 D0; SSE2 in its old encoding has 66, F2 or F3 before 0F and the opcode.
    asks = escape[(second == 0xA2) | ((second == 0x01) & (code[escape + 2] == 0xD0))]
    legacy = escape[(escape > 0) & _MANDATORY[code[escape - 1]] & x86.OLD_SSE2[second]]

    def lead_to(at: Ints) -> Ints:
        """The functions that distances at these offsets lead to."""
        return stretch.pairs(at + address, displacements(code, at) + at + 4 + address, stretch.targets)

    reads, touches = _find_reads(code, stretch)
    uses = _find_classes(stretch)
    calls = lead_to(np.concatenate([near + 1, escape[(second & 0xF0) == 0x80] + 2]))
    takes = lead_to(lea[(code[lea + 1] & 0xC7) == 0x05] + 2)
    asks, legacy = stretch.holders(asks + address), stretch.holders(legacy + address)
    return Scan(uses=uses, calls=calls, takes=takes, reads=reads, touches=touches, asks=asks, legacy=legacy)


def may_have_classes(code: Bytes) -> Flags:
    """Offsets where something other than baseline could begin, judged by two or three bytes: a cheap sieve. Misses
    nothing: every encoding that the tables give a class (but "bad") starts with one of these patterns."""
    n = len(code)
    # Three zero bytes before and eight after, so that neighbours can be looked at everywhere.
    b = np.zeros(n + 11, np.uint8)
    b[3 : n + 3] = code
    out = np.zeros(n, bool)
    at = np.flatnonzero(code == 0xC5)
    out[at] = _VEX[1, b[at + 5]]
    at = np.flatnonzero(code == 0xC4)
    table = b[at + 4] & 0x1F
    out[at] = _VEX[np.where(table <= 3, table, 0), b[at + 6]]
    at = np.flatnonzero(code == 0x62)
    out[at] = _EVEX[b[at + 4]] & ((b[at + 5] & 4) != 0)
    at = np.flatnonzero(code == 0x8F)
    out[at] = _XOP[b[at + 4]]
    at = np.flatnonzero(code == 0x0F)
    second, before = b[at + 4], b[at + 2]
    rex = (before & 0xF0) == 0x40
    prefixed = _MANDATORY[np.where(rex, b[at + 1], before)]
    out[at] = (_PREFIXED[second] & prefixed) | _ESCAPE[second] | ((second == 0xC7) & rex)
    return out


# Opcodes 0F xx that have a class with some prefix before them; escapes to the tables that are all classes.
_PREFIXED = np.asarray((x86.ISA_0F > 0).any(axis=0))
_ESCAPE = np.isin(BYTE, (0x38, 0x3A))
_PREFIX = x86.LEGACY_PREFIX | ((BYTE & 0xF0) == 0x40)
_MANDATORY = np.isin(BYTE, (0x66, 0xF2, 0xF3))
_VEX = np.asarray((x86.ISA_VEX != x86.BAD).any(axis=(1, 2)))
_EVEX = np.isin(BYTE & 0x0F, (1, 2, 3, 5, 6))
_XOP = np.isin(BYTE & 0x1F, (8, 9, 10))


def _find_classes(stretch: Stretch) -> Ints:
    """Only functions with marks that may be instructions are decoded, packed one after the other."""
    code, address, starts, ends = stretch[:4]
    marks = np.flatnonzero(may_have_classes(code))
    index, inside = owners(marks + address, starts, ends)
    marks, index = marks[inside], index[inside]
    # Where marks are dense the function is vector code; where they are rare most are bytes of something else.
    per_function = np.bincount(index, minlength=len(starts))
    rare = per_function[index] * RARE_BYTES < (ends - starts)[index]
    real = ~rare
    real[rare] = _may_start(code, marks[rare], starts[index[rare]] - address)
    chosen = np.unique(index[real])
    if not len(chosen):
        return np.zeros((0, 4), np.int64)
    low, high = starts[chosen] - address, ends[chosen] - address
    if (high - low).sum() > 0.7 * len(code):
        packed, begin = code, low
    else:
        # Sixteen zero bytes between functions keep one's last instruction from reading the next one.
        sizes = high - low + 16
        begin = np.cumsum(sizes) - sizes
        packed = np.zeros(int(sizes.sum()), np.uint8)
        for at, a, b in zip(begin.tolist(), low.tolist(), high.tolist(), strict=True):
            packed[at : at + b - a] = code[a:b]
    length, isa = x86.decode(packed)
    at, owner = x86.walk(length, isa, begin, begin + high - low)
    kind = isa[at].astype(np.int64)
    return totals(chosen[owner] + stretch.first, kind, at - begin[owner] + starts[chosen][owner])


def _may_start(code: Bytes, marks: Ints, floors: Ints) -> Flags:
    """Could an instruction begin at each mark? A sound "no", from a few bytes before it. Of any 15 offsets in a row one
    is the start of a real instruction. So if no walk from the 16 offsets some way before the mark lands on it, nothing
    real begins there. Near a function's start the walk from there decides alone."""
    out = np.ones(len(marks), bool)
    far = (marks - floors >= BACK) & (marks + 32 <= len(code))
    near = (marks - floors < BACK) & (floors + BACK + 32 <= len(code))
    for chosen, walkers in ((far, 16), (near, 1)):
        at = np.flatnonzero(chosen)
        if not len(at):
            continue
        base = marks[at] - BACK if walkers == 16 else floors[at]
        goal = marks[at] - base
        windows = code[base[:, None] + np.arange(BACK + 32)]
        length, _ = x86.decode(windows.ravel())
        origin = (np.arange(len(at)) * (BACK + 32))[:, None]
        place = np.broadcast_to(np.arange(walkers), (len(at), walkers))
        aim = goal[:, None]
        step = length[origin + place]
        while (moving := place + step <= aim).any():
            place = np.where(moving, place + step, place)
            step = length[origin + place]
        # The mark is the opcode's first byte; prefixes may stand before it.
        before = _PREFIX[windows[np.arange(len(at))[:, None], np.maximum(aim - np.arange(1, 7), 0)]]
        run = np.cumprod(before & (aim >= np.arange(1, 7)), axis=1).sum(axis=1)
        out[at] = (place >= aim - run[:, None]).any(axis=1)
    return out


def _find_reads(code: Bytes, stretch: Stretch) -> tuple[Ints, Ints]:
    """Operands relative to the next instruction: those that hit a watched address, and those in variables."""
    at = np.flatnonzero((code[:-AHEAD] & 0xC7) == 0x05) + 1
    at = at[at >= 2]
    target = displacements(code, at) + at + 4 + stretch.address
    variables, watched = stretch.variables, stretch.watched
    inside = (target >= variables.low - 4) & (target < variables.high)
    here, aim = at[inside], target[inside]
    touches = [
        stretch.touches((here + stretch.address)[likely], (aim + size)[likely], write[likely])
        for size, write, likely in _operands(code, here)
    ]
    touched = np.unique(np.concatenate(touches))
    if not len(watched):
        return np.zeros((0, 2), np.int64), touched
    near = (target >= watched[0] - 4) & (target <= watched[-1])
    at, target = at[near] + stretch.address, target[near]
    return np.concatenate([stretch.pairs(at, target + extra, watched) for extra in (0, 1, 2, 4)]), touched


def _operands(code: Bytes, at: Ints) -> list[tuple[Ints, Flags, Flags]]:
    """How far an immediate moves each operand's base, whether the operand is written, and where that reading holds. The
    byte before an opcode may belong to it (0F, 66) or end the instruction before: then both readings are given."""
    opcode, field, before = code[at - 2], code[at - 1] >> 3 & 7, code[np.maximum(at - 3, 0)]
    tests, escaped, short = x86.TESTS[opcode], before == 0x0F, before == 0x66
    # Of F6 and F7 the tests alone have an immediate; not and neg write, the others only read.
    size = np.where(tests & (field > 1), 0, x86.OPERAND_IMMEDIATE[opcode])
    write = x86.STORES[opcode] | (x86.GROUP[opcode] & (field != 7)) | (tests & ((field == 2) | (field == 3)))
    write |= (opcode == 0xFF) & (field <= 1)  # inc, dec
    wide = x86.STORES_0F[opcode] | ((opcode == 0xBA) & (field > 4))  # bts, btr, btc
    return [
        (size, write, ~escaped | (size > x86.OPERAND_IMMEDIATE_0F[opcode])),
        (x86.OPERAND_IMMEDIATE_0F[opcode], wide, escaped),
        (size // 2, write, short & (size == 4)),
    ]
