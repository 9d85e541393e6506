"""Tables of the x86-64 instruction encoding as arrays, from ``x86.toml``."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rekindle.formats.code_scan import Bytes, Flags
from rekindle.model.toml import read_beside

_TABLE = read_beside(__file__, "x86.toml", dict[str, Any])
CLASSES = tuple(_TABLE["classes"].split())
ID = {name: number for number, name in enumerate(CLASSES)}
BAD = ID["bad"]


def _opcodes(text: str) -> list[int]:
    """``0C 10-12`` as numbers."""
    spans = [word.partition("-") for word in text.split()]
    return [code for low, _, high in spans for code in range(int(low, 16), int(high or low, 16) + 1)]


def flags(text: str) -> Flags:
    return np.isin(np.arange(256), _opcodes(text))


def _numbers(rows: Mapping[str, str], names: Mapping[str, int] | None = None) -> Bytes:
    """For each opcode the number, or the number of the name, of the row that lists it."""
    table = np.zeros(256, np.uint8)
    for name, text in rows.items():
        table[_opcodes(text)] = names[name] if names else int(name)
    return table


_byte = np.arange(256)
_mod, _rm = _byte >> 6, _byte & 7
# Bytes of ModRM, SIB and displacement; 0x80 is added where a SIB byte decides about four more.
_size = 1 + ((_mod != 3) & (_rm == 4)) + np.choose(_mod, (4 * (_rm == 5), 1, 4, 0))
MODRM = (_size + 0x80 * ((_mod == 0) & (_rm == 4))).astype(np.uint8)
LEGACY_PREFIX = flags(_TABLE["prefixes"])

SHRINKS, NO_OPCODE = flags(_TABLE["one_byte"]["shrinks"]), flags(_TABLE["one_byte"]["none"])
# Length of a one-byte opcode with the byte after it, indexed by ``opcode | next << 8``.
_pairs = 1 + _numbers(_TABLE["one_byte"]["immediate"]) + np.where(flags(_TABLE["one_byte"]["modrm"]), MODRM[:, None], 0)
# TEST r/m, imm hides among the unary group: only /0 and /1 have an immediate.
_pairs[(_byte & 0x30) == 0, 0xF6] += 1
_pairs[(_byte & 0x30) == 0, 0xF7] += 4
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
OLD_SSE2 = flags(_TABLE["operand"]["sse2"])
