"""Every encoding that capstone reads, with and without each prefix: the set we name is the one it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from rekindle.formats.x86 import instruction_set

capstone = pytest.importorskip("capstone")

# Capstone's groups, in our words; the first that applies. It leaves many instructions without a group.
GROUPS = (
    ({"avx512", "bwi", "dqi"}, "avx512"), ({"xop"}, "xop"), ({"fma4"}, "fma4"), ({"fc16"}, "f16c"), ({"bmi"}, "bmi1"),
    ({"bmi2"}, "bmi2"), ({"avx2"}, "avx2"), ({"avx"}, "avx"), ({"sha"}, "sha"), ({"adx"}, "adx"), ({"aes"}, "aes"),
    ({"pclmul"}, "pclmul"), ({"sse42"}, "sse4.2"), ({"sse41"}, "sse4.1"), ({"ssse3"}, "ssse3"), ({"sse3"}, "sse3"),
)  # fmt: skip
# By name, where there is no group (or, for those of 256 bits that came later, the group of the first).
NAMES = (
    (r"k(?!.*\(bad\))", "avx512"), (r"vpermil2", "xop"), (r"v?gf2p8", "gfni"), (r"vaes.* ymm", "vaes"),
    (r"vpclmulqdq ymm", "vpclmulqdq"), (r"vfn?m(add|sub)+\w+ [^,]+,[^,]+,[^,]+,", "fma4"), (r"vfn?m(add|sub)", "fma"),
    (r"v(p\w+|broadcasti128) ymm", "avx2"), (r"v", "avx"), (r"movbe", "movbe"), (r"popcnt", "popcnt"),
    (r"phminposuw", "sse4.1"), (r"pcmp[ei]str", "sse4.2"), (r"p\w+ (xmm|mm)", "ssse3"),
)  # fmt: skip


def encodings() -> Iterator[bytes]:
    rest = bytes([0x10, 0, 0, 0, 0, 0])
    for operand in (0xC1, 0x01):
        for opcode in range(256):
            for low in range(8):
                yield bytes([0xC5, 0xF8 | low, opcode, operand]) + rest
                for wide in (0x78, 0xF8):
                    for table in (2, 3):
                        yield bytes([0xC4, 0xE0 | table, wide | low, opcode, operand]) + rest
            for before in (b"", b"\x66", b"\xf2", b"\xf3"):
                yield before + bytes([0x0F, opcode, operand]) + rest
                yield before + bytes([0x0F, 0x38, opcode, operand]) + rest
                yield before + bytes([0x0F, 0x3A, opcode, operand]) + rest
    for rex in (0x3F, 0x40, 0x48, 0x4F, 0x50):
        yield bytes([rex, 0x0F, 0x38, 0x00, 0xC1]) + rest
        yield bytes([0x66, rex, 0x0F, 0x3A, 0x63, 0xC1, 0x00])


def belongs_to(text: str, groups: set[str], code: bytes) -> str | None:
    if match := re.match(r"tzcnt|lzcnt", text):
        return match[0]
    if re.match(r"extrq|insertq|movnts[sd]", text):
        return "sse4a"
    late = next((name for pattern, name in NAMES[:5] if re.match(pattern, text)), None)
    if late is not None:
        return late
    found = next((name for some, name in GROUPS if groups & some), None)
    if found is not None:
        return found
    if not text.startswith("v") and not re.match(rb"[\x66\xf2\xf3]?[\x40-\x4f]?\x0f[\x38\x3a\xb8]", code):
        return None  # what every x86-64 has
    return next((name for pattern, name in NAMES[5:] if re.match(pattern, text)), None)


def test_each_encoding_is_called_by_its_set() -> None:
    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    reader.detail = True
    wrong, seen = {}, 0
    for code in encodings():
        read = next(reader.disasm(code, 0), None)
        if read is None or read.mnemonic in ("vmread", "vmwrite", "verr", "verw", "vmcall", "vmlaunch", "vmmcall"):
            continue
        seen += 1
        text = f"{read.mnemonic} {read.op_str}"
        want = belongs_to(text, {read.group_name(group) for group in read.groups}, code)
        if instruction_set(code) != want:
            wrong[text.split(",")[0]] = (code.hex(), instruction_set(code), want)
    assert not wrong
    assert seen > 3000


# What capstone 5 does not read, and beginnings that are no instruction; bytes from the assembler (binutils 2.40).
@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("c4e27150c2", "avx_vnni"),  # {vex} vpdpbusd xmm0, xmm1, xmm2
        ("c4e27153c2", "avx_vnni"),  # {vex} vpdpwssds
        ("c4e2714fc2", None),  # no instruction has this opcode
        # Those whose operands are of a kind of their own: gathers, shifts by a number, groups of one opcode.
        ("c4e26990040f", "avx2"),  # vpgatherdd xmm0, [rdi+xmm1], xmm2
        ("c4e26991040f", "avx2"),  # vpgatherqd
        ("c4e26992040f", "avx2"),  # vgatherdps
        ("c4e26993040f", "avx2"),  # vgatherqps
        ("c4e278f3c9", "bmi1"),  # blsr eax, ecx
        ("c5fd71d110", "avx2"),  # vpsrlw ymm0, ymm1, 16
        ("c5f971d110", "avx"),
        ("c4e27918c0", "avx2"),  # vbroadcastss xmm0, xmm0
        ("c4e2791800", "avx"),  # vbroadcastss xmm0, [rax]
        ("c4e27913", "f16c"),
        ("0f7cc1", None),
        ("62f17c4858c1", "avx512"),  # vaddps zmm0, zmm0, zmm1
        ("8fe878c0c103", "xop"),  # vprotb xmm0, xmm1, 3
        ("8fe978cbc1", "xop"),
        ("8fc0909090", None),  # pop rax: the map below 8 is the old instruction
        ("8f87000000", None),
        ("c5f8", None),
        ("c4e279", None),
        ("0f38", None),
        ("660f38", None),
        ("4058", None),
        # No instruction has these opcodes: beside AES, and beside and between those of SSE4.
        *((f"660f38{opcode}c1", None) for opcode in ("da", "e0", "0c", "42")),
        *((f"660f3a{opcode}c100", None) for opcode in ("07", "13", "18", "1f", "23", "3f", "43", "5f", "64", "de")),
    ],
)
def test_what_the_other_reader_does_not_know(code: str, name: str | None) -> None:
    assert instruction_set(bytes.fromhex(code)) == name


@pytest.mark.parametrize("prefix", ["66", "f2", "f3", "2e", "36", "3e", "26", "64", "65", "67", "f0"])
def test_prefixes_are_looked_past(prefix: str) -> None:
    assert instruction_set(bytes.fromhex(prefix + prefix + "62f17c4858c1")) == "avx512"


@pytest.mark.parametrize("prefix", ["68", "2f", "37", "3f", "27", "63", "f1", "90"])
def test_other_bytes_are_not(prefix: str) -> None:
    assert instruction_set(bytes.fromhex(prefix + "62f17c4858c1")) is None


# bytes: what an assembler makes of the instruction in the comment
@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("c4e27d354c87f0", "avx2"),  # vpmovzxdq ymm1, [rdi+rax*4-16]: measured in spark's checksum
        ("c4e26da80c06", "fma"),  # vfmadd213ps ymm1, ymm2, [rsi+rax]: measured in spark's axpy
        ("c4e37d38c101", "avx2"),  # vinserti128: measured in torch 2.15.0 with ATEN_CPU_CAPABILITY=avx2
        ("c5fa1017", "avx"),  # vmovss xmm2, [rdi]: measured in fbgemm::FindMinMax
        ("c5fc58c0", "avx"),  # vaddps ymm0, ymm0, ymm0
        ("c5fdfec0", "avx2"),  # vpaddd ymm0, ymm0, ymm0
        ("c5f9fec0", "avx"),  # vpaddd xmm0, xmm0, xmm0
        ("c5fd6f07", "avx"),  # vmovdqa ymm0, [rdi]
        ("c4e27913c0", "f16c"),  # vcvtph2ps
        ("c4e278f2c0", "bmi1"),  # andn
        ("c4e27bf5c0", "bmi2"),  # pdep
        ("62f17c4858c0", "avx512"),  # vaddps zmm
        ("660f3800c0", "ssse3"),
        ("660f3840c0", "sse4.1"),
        ("660f3837c0", "sse4.2"),
        ("f30fb8c0", "popcnt"),
        ("f3480fb8c0", "popcnt"),
        ("660f38dcc0", "aes"),
        ("f20f7cc0", "sse3"),
        ("0f38f00424", "movbe"),
        ("f20f38f0c0", "sse4.2"),  # crc32
        ("c4e26df8c0", None),  # no instruction has this opcode
        ("4889c3c3", None),  # mov rbx, rax
        ("0f0b9090", None),  # ud2
        ("", None),
    ],
)
def test_instructions_are_called_by_their_set(code: str, name: str | None) -> None:
    assert instruction_set(bytes.fromhex(code)) == name
