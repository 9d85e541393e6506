"""Tables of the x86-64 instruction encoding: how long an instruction is and which extension it belongs to.

Only extensions that compilers use for ordinary code are classed (vector and bit-manipulation sets); system
instructions count as baseline. Opcode maps after Intel's SDM volume 2, appendix A; AMD's XOP and FMA4 after
the AMD64 manual volumes 4 and 6. Held against capstone and objdump in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

# Index in this tuple = class number. "bad" marks encodings that no CPU has: a walk that meets one left the code.
CLASSES = (
    "base", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "movbe", "aes", "pclmul", "sse4a",
    "avx", "f16c", "avx2", "fma", "bmi1", "bmi2", "lzcnt", "tzcnt", "adx", "sha", "gfni", "vaes", "vpclmulqdq",
    "fma4", "xop", "tbm", "avx_vnni", "avx_ne_convert", "avx512", "avx512_fp16", "amx", "bad",
)  # fmt: skip
ID = {name: number for number, name in enumerate(CLASSES)}
BAD = ID["bad"]


def _set(table: npt.NDArray[Any], value: int, *codes: int | Iterable[int]) -> None:
    for code in codes:
        for one in [code] if isinstance(code, int) else code:
            table[..., one] = value


def _modrm_lengths() -> Bytes:
    """Bytes of ModRM, SIB and displacement; 0x80 is added where a SIB byte decides about four more."""
    table = np.zeros(256, np.uint8)
    for byte in range(256):
        mod, rm = byte >> 6, byte & 7
        size = 1 + (mod != 3 and rm == 4) + {0: 4 * (rm == 5), 1: 1, 2: 4, 3: 0}[mod]
        table[byte] = size + (0x80 if mod == 0 and rm == 4 else 0)
    return table


MODRM = _modrm_lengths()

# One-byte opcodes: has ModRM; size of the immediate.
HAS_MODRM = np.zeros(256, bool)
IMMEDIATE = np.zeros(256, np.uint8)
for _op in range(0x40):
    HAS_MODRM[_op] = (_op & 7) < 4
    IMMEDIATE[_op] = {4: 1, 5: 4}.get(_op & 7, 0)
_set(HAS_MODRM, True, 0x63, 0x69, 0x6B, range(0x80, 0x90), 0xC0, 0xC1, 0xC6, 0xC7, range(0xD0, 0xD4))
_set(HAS_MODRM, True, range(0xD8, 0xE0), 0xF6, 0xF7, 0xFE, 0xFF)
_set(IMMEDIATE, 1, 0x6A, 0x6B, range(0x70, 0x81), 0x83, 0xA8, range(0xB0, 0xB8), 0xC0, 0xC1, 0xC6, 0xCD)
_set(IMMEDIATE, 1, range(0xE0, 0xE8), 0xEB)
_set(IMMEDIATE, 4, 0x68, 0x69, 0x81, 0xA9, range(0xB8, 0xC0), 0xC7, 0xE8, 0xE9)
_set(IMMEDIATE, 2, 0xC2, 0xCA)
_set(IMMEDIATE, 3, 0xC8)
_set(IMMEDIATE, 8, range(0xA0, 0xA4))
# Opcodes whose four-byte immediate becomes two bytes after a 66 prefix.
SHRINKS = np.zeros(256, bool)
_set(SHRINKS, True, range(0x05, 0x40, 8), 0x68, 0x69, 0x81, 0xA9, range(0xB8, 0xC0), 0xC7)
# Not encodable in 64-bit mode (C4, C5, 62 are VEX and EVEX there; D5 is REX2 of APX, which no CPU sold has).
NO_OPCODE = np.zeros(256, bool)
_set(NO_OPCODE, True, 0x06, 0x07, 0x0E, 0x16, 0x17, 0x1E, 0x1F, 0x27, 0x2F, 0x37, 0x3F, 0x60, 0x61, 0x82, 0x9A)
_set(NO_OPCODE, True, 0xCE, 0xD4, 0xD5, 0xD6, 0xEA)

LEGACY_PREFIX = np.zeros(256, bool)
_set(LEGACY_PREFIX, True, 0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3)


def _opcode_pairs() -> Bytes:
    """Length of a one-byte opcode with the byte after it, indexed by ``opcode | next << 8``."""
    table = np.zeros(65536, np.uint8)
    for opcode in range(256):
        for following in range(256):
            size = 1 + int(IMMEDIATE[opcode])
            if HAS_MODRM[opcode]:
                size += int(MODRM[following])
                # TEST r/m, imm hides among the unary group: only /0 and /1 have an immediate.
                if opcode in (0xF6, 0xF7) and following & 0x30 == 0:
                    size += 1 if opcode == 0xF6 else 4
            table[opcode | following << 8] = size
    return table


PAIRS = _opcode_pairs()

# Two-byte opcodes (0F xx).
HAS_MODRM_0F = np.ones(256, bool)
_set(HAS_MODRM_0F, False, range(0x04, 0x0D), 0x0E, range(0x30, 0x38), 0x77, range(0x80, 0x90))
# Moves to and from control registers name registers only, whatever the mode bits say.
_set(HAS_MODRM_0F, False, range(0x20, 0x24))
_set(HAS_MODRM_0F, False, 0xA0, 0xA1, 0xA2, 0xA8, 0xA9, 0xAA, range(0xC8, 0xD0))
IMMEDIATE_0F = np.zeros(256, np.uint8)
_set(IMMEDIATE_0F, 1, 0x0F, range(0x70, 0x74), 0xA4, 0xAC, 0xBA, 0xC2, 0xC4, 0xC5, 0xC6)
_set(IMMEDIATE_0F, 1, range(0x20, 0x24))
_set(IMMEDIATE_0F, 4, range(0x80, 0x90))
NO_OPCODE_0F = np.zeros(256, bool)
_set(NO_OPCODE_0F, True, 0x04, 0x0A, 0x0C, range(0x24, 0x28), 0x36, 0x39, range(0x3B, 0x40), 0x7A, 0x7B, 0xA6, 0xA7)

ISA_0F38 = np.zeros(256, np.uint8)
_set(ISA_0F38, ID["ssse3"], range(0x0C), 0x1C, 0x1D, 0x1E)
_set(ISA_0F38, ID["sse4.1"], 0x10, 0x14, 0x15, 0x17, range(0x20, 0x26), range(0x28, 0x2C), range(0x30, 0x36))
_set(ISA_0F38, ID["sse4.1"], range(0x38, 0x42))
_set(ISA_0F38, ID["sse4.2"], 0x37)
_set(ISA_0F38, ID["sha"], range(0xC8, 0xCE))
_set(ISA_0F38, ID["gfni"], 0xCF)
_set(ISA_0F38, ID["aes"], range(0xDB, 0xE0))
_set(ISA_0F38, ID["movbe"], 0xF0, 0xF1)
ISA_0F3A = np.zeros(256, np.uint8)
_set(ISA_0F3A, ID["sse4.1"], range(0x08, 0x0F), range(0x14, 0x18), 0x20, 0x21, 0x22, 0x40, 0x41, 0x42)
_set(ISA_0F3A, ID["ssse3"], 0x0F)
_set(ISA_0F3A, ID["pclmul"], 0x44)
_set(ISA_0F3A, ID["sse4.2"], range(0x60, 0x64))
_set(ISA_0F3A, ID["sha"], 0xCC)
_set(ISA_0F3A, ID["gfni"], 0xCE, 0xCF)
_set(ISA_0F3A, ID["aes"], 0xDF)

# Two-byte opcodes whose class depends on the prefix: none, 66, F3, F2.
ISA_0F = np.zeros((4, 256), np.uint8)
_set(ISA_0F[2], ID["sse3"], 0x12, 0x16)
_set(ISA_0F[3], ID["sse3"], 0x12, 0x7C, 0x7D, 0xD0, 0xF0)
_set(ISA_0F[1], ID["sse3"], 0x7C, 0x7D, 0xD0)
_set(ISA_0F[2], ID["popcnt"], 0xB8)
_set(ISA_0F[2], ID["tzcnt"], 0xBC)
_set(ISA_0F[2], ID["lzcnt"], 0xBD)
_set(ISA_0F[2:4], ID["sse4a"], 0x2B)
_set(ISA_0F[1:4:2], ID["sse4a"], 0x78, 0x79)


def _vex() -> tuple[Bytes, Bytes]:
    """Class by (map 0..3, pp, L, opcode), and the size of the immediate by (map, opcode)."""
    isa = np.full((4, 4, 2, 256), BAD, np.uint8)
    avx, avx2 = ID["avx"], ID["avx2"]
    one, two, three = isa[1], isa[2], isa[3]
    _set(one, avx, range(0x10, 0x18), range(0x28, 0x30), range(0x50, 0x78), range(0x7C, 0x80), 0xAE, 0xC2)
    _set(one, avx, range(0xC4, 0xC7), range(0xD0, 0xFF))
    wide = (
        range(0x60, 0x6E),
        range(0x70, 0x77),
        range(0xD1, 0xD6),
        range(0xD7, 0xE6),
        range(0xE8, 0xF0),
        range(0xF1, 0xFF),
    )
    _set(one[:, 1], avx2, *wide)
    _set(one, ID["avx512"], 0x41, 0x42, range(0x44, 0x48), 0x4A, 0x4B, range(0x90, 0x94), 0x98, 0x99)
    _set(two, avx, range(0x10), 0x17, 0x18, 0x19, 0x1A, range(0x1C, 0x1F), range(0x20, 0x26), range(0x28, 0x36))
    _set(two, avx, range(0x37, 0x42), range(0xDB, 0xE0))
    _set(two[:, 1], avx2, range(0x0C), 0x1C, 0x1D, 0x1E, range(0x20, 0x26), range(0x28, 0x2C), range(0x30, 0x36))
    _set(two[:, 1], avx2, range(0x37, 0x41))
    _set(two, avx2, 0x16, 0x36, 0x45, 0x46, 0x47, 0x58, 0x59, 0x5A, 0x78, 0x79, 0x8C, 0x8E, range(0x90, 0x94))
    _set(two, ID["f16c"], 0x13)
    _set(two, ID["fma"], range(0x96, 0xA0), range(0xA6, 0xB0), range(0xB6, 0xC0))
    _set(two, ID["avx_vnni"], range(0x50, 0x54), 0xD2, 0xD3, 0xB4, 0xB5)
    _set(two, ID["avx_ne_convert"], 0x72, 0xB0, 0xB1)
    _set(two, ID["amx"], 0x48, 0x49, 0x4B, 0x5C, 0x5E, 0x6C)
    _set(two, ID["gfni"], 0xCF)
    _set(two[:, 1], ID["vaes"], range(0xDC, 0xE0))
    _set(two, ID["bmi1"], 0xF2, 0xF3)
    _set(two, ID["bmi2"], 0xF5, 0xF6, 0xF7)
    two[0, :, 0xF7] = ID["bmi1"]
    _set(three, avx, range(0x04, 0x07), range(0x08, 0x10), range(0x14, 0x1A), range(0x20, 0x23), range(0x40, 0x43))
    _set(three, avx, 0x44, range(0x4A, 0x4D), range(0x60, 0x64), 0xDF)
    _set(three, avx2, 0x00, 0x01, 0x02, 0x38, 0x39, 0x46)
    _set(three[:, 1], avx2, 0x0E, 0x0F, 0x42, 0x4C)
    _set(three[:, 1], ID["vpclmulqdq"], 0x44)
    _set(three, ID["f16c"], 0x1D)
    _set(three, ID["bmi2"], 0xF0)
    _set(three, ID["avx512"], range(0x30, 0x34))
    _set(three, ID["gfni"], 0xCE, 0xCF)
    _set(three, ID["fma4"], range(0x5C, 0x60), range(0x68, 0x70), range(0x78, 0x80))
    _set(three, ID["xop"], 0x48, 0x49)
    immediate = np.zeros((4, 256), np.uint8)
    _set(immediate[1], 1, range(0x70, 0x74), 0xC2, 0xC4, 0xC5, 0xC6)
    immediate[3] = 1
    return isa, immediate


ISA_VEX, IMMEDIATE_VEX = _vex()
