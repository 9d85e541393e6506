"""Which instruction set an x86-64 instruction belongs to, from its first bytes.

Only what a compiler may emit and an older CPU may lack is told apart. Opcode ranges: Intel SDM volume 2,
appendix A (opcode map) and the CPUID column of each instruction's page.
"""

from __future__ import annotations

_LEGACY = frozenset((0x66, 0xF2, 0xF3, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65, 0x67, 0xF0))


def instruction_set(code: bytes) -> str | None:
    """The name such as "avx2" or "fma"; None for plain x86-64 and for what is not known."""
    at, prefixes = 0, set()
    while at < len(code) and code[at] in _LEGACY:
        prefixes.add(code[at])
        at += 1
    head = code[at : at + 6]
    if len(head) < 3:
        return None
    if head[0] == 0x62:
        return "avx512"
    if head[0] == 0x8F and head[1] & 0x1F >= 8:
        return "xop"
    if head[0] == 0xC5:
        return _vex(1, head[1] & 3, bool(head[1] & 4), head[2], head[3:])
    if head[0] == 0xC4 and len(head) >= 4:
        return _vex(head[1] & 0x1F, head[2] & 3, bool(head[2] & 4), head[3], head[4:])
    if 0x40 <= head[0] <= 0x4F:
        head = code[at + 1 : at + 6]
    if len(head) < 3 or head[0] != 0x0F:
        return None
    return _legacy(head, prefixes)


def _between(value: int, *ranges: tuple[int, int]) -> bool:
    return any(low <= value <= high for low, high in ranges)


def _vex(table: int, prefix: int, wide: bool, opcode: int, rest: bytes) -> str:
    if table == 2:
        return _vex_0f38(prefix, wide, opcode, rest)
    if table == 3:
        if opcode == 0x1D:
            return "f16c"
        if opcode == 0xF0:
            return "bmi2"
        if _between(opcode, (0x30, 0x33)):
            return "avx512"  # shifts of its mask registers
        if opcode in (0x48, 0x49):
            return "xop"
        if opcode in (0xCE, 0xCF):
            return "gfni"
        if wide and opcode == 0x44:
            return "vpclmulqdq"
        if _between(opcode, (0x5C, 0x5F), (0x68, 0x6F), (0x78, 0x7F)):
            return "fma4"
        if opcode in (0x00, 0x01, 0x02, 0x38, 0x39, 0x46) or (wide and opcode in (0x0E, 0x0F, 0x42, 0x4C)):
            return "avx2"
        return "avx"
    # What works on the mask registers of AVX-512 has no EVEX prefix.
    if _between(opcode, (0x41, 0x4B), (0x90, 0x93), (0x98, 0x99)):
        return "avx512"
    # 256-bit integer arithmetic came with AVX2; moves of 256 bits and floating point with AVX.
    integer = _between(opcode, (0x60, 0x6D), (0x71, 0x76), (0xD1, 0xD5), (0xD8, 0xE5), (0xE8, 0xEF), (0xF1, 0xFE))
    if wide and ((prefix == 1 and integer) or opcode == 0x70 or (prefix == 1 and opcode == 0xD7)):
        return "avx2"
    return "avx"


def _vex_0f38(prefix: int, wide: bool, opcode: int, rest: bytes) -> str:
    if opcode == 0x13:
        return "f16c"
    if _between(opcode, (0x96, 0x9F), (0xA6, 0xAF), (0xB6, 0xBF)):
        return "fma"
    if opcode in (0xF2, 0xF3) or (opcode == 0xF7 and prefix == 0):
        return "bmi1"
    if _between(opcode, (0xF5, 0xF7)):
        return "bmi2"
    if opcode == 0xCF:
        return "gfni"
    if wide and _between(opcode, (0xDC, 0xDF)):
        return "vaes"
    if _between(opcode, (0x50, 0x53)):
        return "avx_vnni"
    if opcode in (0x16, 0x36, 0x45, 0x46, 0x47, 0x58, 0x59, 0x5A, 0x78, 0x79, 0x8C, 0x8E, 0x90, 0x91, 0x92, 0x93):
        return "avx2"
    if opcode in (0x18, 0x19) and rest[:1] and rest[0] >= 0xC0:
        return "avx2"  # broadcast from a register; from memory it is AVX
    if wide and _between(opcode, (0x00, 0x0B), (0x1C, 0x1E), (0x20, 0x2B), (0x30, 0x40)):
        return "avx2"
    return "avx"


def _legacy(head: bytes, prefixes: set[int]) -> str | None:
    opcode, third = head[1], head[2]
    if opcode == 0x38:
        if third in (0xF0, 0xF1):
            return "sse4_2" if 0xF2 in prefixes else "movbe"
        if _between(third, (0x00, 0x0B), (0x1C, 0x1E)):
            return "ssse3"
        if third == 0x37:
            return "sse4_2"
        if _between(third, (0xDB, 0xDF)):
            return "aes"
        if _between(third, (0xC8, 0xCD)):
            return "sha"
        if third == 0xCF:
            return "gfni"
        if third == 0xF6 and prefixes & {0x66, 0xF3}:
            return "adx"
        return "sse4_1" if _between(third, (0x10, 0x17), (0x20, 0x41)) else None
    if opcode == 0x3A:
        if third == 0x0F:
            return "ssse3"
        if third == 0x44:
            return "pclmulqdq"
        if third == 0xDF:
            return "aes"
        if third in (0xCC, 0xCE, 0xCF):
            return "sha" if third == 0xCC else "gfni"
        if _between(third, (0x60, 0x63)):
            return "sse4_2"
        return "sse4_1" if _between(third, (0x08, 0x0E), (0x14, 0x17), (0x20, 0x22), (0x40, 0x42)) else None
    if opcode == 0xB8 and 0xF3 in prefixes:
        return "popcnt"
    if opcode in (0x7C, 0x7D, 0xD0) and prefixes & {0x66, 0xF2}:
        return "sse3"
    # movddup, movsldup, movshdup, lddqu
    if (opcode == 0x12 and prefixes & {0xF2, 0xF3}) or (opcode == 0x16 and 0xF3 in prefixes):
        return "sse3"
    if opcode == 0xF0 and 0xF2 in prefixes:
        return "sse3"
    return None
