"""The superset decoder against capstone: lengths and instruction sets of real code, and of random encodings."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

import needs
from rekindle.formats import x86, x86_scan
from rekindle.formats.code_scan import Stretch
from rekindle.formats.elf import Elf

capstone = pytest.importorskip("capstone")
ENGINE = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)

# Hand-picked encodings: (bytes, mnemonic as capstone says it, our class).
KNOWN = [
    ("c5f458c2", "vaddps", "avx"), ("c5f5fec2", "vpaddd", "avx2"), ("c5f1fec2", "vpaddd", "avx"),
    ("c4e27d18c0", "vbroadcastss", "avx2"), ("c4e27d1800", "vbroadcastss", "avx"), ("c4e2f1b8c2", "vfmadd231pd", "fma"),
    ("c4e27913c0", "vcvtph2ps", "f16c"), ("c4e3791dc000", "vcvtps2ph", "f16c"), ("c4e278f2c1", "andn", "bmi1"),
    ("c4e2f9f7c1", "shlx", "bmi2"), ("c4e278f7c1", "bextr", "bmi1"), ("c4e37bf0c101", "rorx", "bmi2"),
    ("62f17c4858c2", "vaddps", "avx512"), ("c5f892c8", "kmovw", "avx512"), ("f30fb8c1", "popcnt", "popcnt"),
    ("f3480fb8c1", "popcnt", "popcnt"), ("f30fbdc1", "lzcnt", "lzcnt"), ("f30fbcc1", "tzcnt", "tzcnt"),
    ("660f3800c1", "pshufb", "ssse3"), ("660f3a0fc108", "palignr", "ssse3"), ("660f3840c1", "pmulld", "sse4.1"),
    ("660f3a14c003", "pextrb", "sse4.1"), ("f20f38f1c1", "crc32", "sse4.2"), ("f20f12c1", "movddup", "sse3"),
    ("f30f16c1", "movshdup", "sse3"), ("660f38dcc1", "aesenc", "aes"), ("660f3a44c111", "pclmulqdq", "pclmul"),
    ("480fc70f", "cmpxchg16b", "cx16"), ("0fc70f", "cmpxchg8b", "base"), ("660f38f6c1", "adcx", "adx"),
    ("0f38f000", "movbe", "movbe"), ("0f38c8c1", "sha1nexte", "sha"), ("c5f877", "vzeroupper", "avx"),
    ("0f58c1", "addps", "base"), ("660f6fc1", "movdqa", "base"), ("f30f1efa", "endbr64", "base"),
    ("8fe878cec100", "vpcomltd", "xop"), ("48b88877665544332211", "movabs", "base"), ("66b80100", "mov", "base"),
    ("f7c001000000", "test", "base"), ("66f7c00100", "test", "base"), ("8b0425ffffff7f", "mov", "base"),
    ("6666662e0f1f840000000000", "nop", "base"), ("c5fa1017", "vmovss", "avx"), ("c4e37d38c101", "vinserti128", "avx2"),
]  # fmt: skip


def decode(code: bytes) -> tuple[np.ndarray, np.ndarray]:
    return x86.decode(np.frombuffer(code, np.uint8))


@pytest.mark.parametrize(("text", "mnemonic", "name"), KNOWN, ids=[f"{m}-{n}-{t}" for t, m, n in KNOWN])
def test_known(text: str, mnemonic: str, name: str) -> None:
    code = bytes.fromhex(text)
    [(_, size, said, _)] = list(ENGINE.disasm_lite(code, 0))
    length, isa = decode(code)
    assert said == mnemonic
    assert (int(length[0]), x86.CLASSES[isa[0]]) == (size, name)


@pytest.mark.integration
@needs.tool("x86_64-linux-gnu-gcc")
def test_a_compilers_output(tmp_path: Path) -> None:
    body = "double s=0; for(long i=0;i<n;i++) s += a[i]*b[i] + {i}*(i%{k}); return s;"
    source = "".join(
        f"double f{i}(double*a, float*b, long n) {{ {body.format(i=i, k=i + 3)} }}\n".replace("{i}", str(i))
        for i in range(40)
    )
    (tmp_path / "f.c").write_text(source)
    flags = [
        "-O3",
        "-mavx512f",
        "-mavx2",
        "-mfma",
        "-ffast-math",
        "-c",
        "-o",
        str(tmp_path / "f.o"),
        str(tmp_path / "f.c"),
    ]
    subprocess.run(["x86_64-linux-gnu-gcc", *flags], check=True)
    elf = Elf((tmp_path / "f.o").read_bytes())
    section = elf.section(".text")
    assert section is not None
    code = elf.view.take(section.offset, section.size)
    length, isa = decode(code)
    seen = 0
    for address, size, mnemonic, _ in ENGINE.disasm_lite(code, 0):
        assert length[address] == size, (hex(address), mnemonic, code[address : address + 15].hex())
        assert not mnemonic.startswith("v") or isa[address] > 0, mnemonic
        seen += 1
    assert seen > 1000


def test_random_encodings_have_capstones_length() -> None:
    """Random bytes after real opcodes: wherever capstone knows the instruction, the lengths agree."""
    draw = random.Random(7)
    heads = [bytes([op]) for op in range(256)] + [bytes([0x0F, op]) for op in range(256)]
    heads += [b"\x0f\x38" + bytes([op]) for op in range(256)] + [b"\x0f\x3a" + bytes([op]) for op in range(256)]
    heads += [b"\xc5\xf8" + bytes([op]) for op in range(256)] + [b"\xc4\xe2\x79" + bytes([op]) for op in range(256)]
    heads += [b"\xc4\xe3\x7d" + bytes([op]) for op in range(256)] + [
        b"\x62\xf1\x7c\x48" + bytes([op]) for op in range(256)
    ]
    agreed, wrong = 0, []
    for head in heads:
        for prefix in (b"", b"\x66", b"\xf3", b"\xf2", b"\x48", b"\x66\x48", b"\x41"):
            code = prefix + head + bytes(draw.randrange(256) for _ in range(12))
            said = next(iter(ENGINE.disasm_lite(code, 0)), None)
            if said is None:
                continue
            length, isa = decode(code)
            if isa[0] == x86.BAD or (head[0] in (0x9B, 0xD5, 0x62, 0xC4, 0xC5) and prefix):
                continue
            if x86.LEGACY_PREFIX[head[0]] or (head[0] & 0xF0) == 0x40:
                continue
            agreed += 1
            if length[0] != said[1]:
                wrong.append((code.hex(), said[2], said[1], int(length[0])))
    assert agreed > 3000
    # With a 66 prefix Intel ignores it on near branches and returns in 64-bit mode; capstone follows AMD. UD0 and
    # UD1 have a ModRM byte in Intel's manual only.
    odd = ("ud0", "ud1", "ret", "call", "retf", "enter", "sysret")
    wrong = [row for row in wrong if not row[1].startswith(("j", *odd))]
    assert not wrong, wrong[:10]


def test_the_sieve_changes_nothing() -> None:
    """Decoding only what the sieve lets through finds the same uses as decoding everything."""
    draw = random.Random(3)
    pieces = [bytes.fromhex(text) for text, _, _ in KNOWN] + [
        b"\x48\x89\xc5",
        b"\x41\x89\xc4",
        b"\x90",
        b"\xe8\xc5\xf8\x62\x0f",
    ]
    body, starts = bytearray(), []
    for _ in range(300):
        starts.append(len(body))
        dense = draw.random() < 0.2
        for _ in range(draw.randrange(20, 400)):
            body += draw.choice(pieces if dense else pieces[-4:])
        if not dense and draw.random() < 0.3:
            body += draw.choice(pieces)
        body += b"\xc3" + b"\x90" * draw.randrange(8)
    code = np.frombuffer(bytes(body), np.uint8)
    begin = np.array(starts, np.int64)
    end = np.append(begin[1:], len(code))
    none = np.zeros(0, np.int64)
    fast = x86_scan.scan(Stretch(code, 0, begin, end, none, none)).uses
    length, isa = x86.decode(code)
    at, owner = x86.walk(length, isa, begin, end)
    slow = {(int(o), int(isa[a])) for a, o in zip(at, owner, strict=True)}
    assert {(int(f), int(k)) for f, k, _, _ in fast} == slow


def test_the_last_instruction_of_a_stretch_is_seen() -> None:
    """A jump, a read and a CPUID at the very end of the bytes."""
    import numpy as np

    from rekindle.formats.x86_scan import scan

    def one(tail: str, targets: list[int]) -> object:
        code = np.frombuffer(bytes.fromhex("90" * 16 + tail), np.uint8)
        bounds = np.array([0x1000], np.int64), np.array([0x1000 + len(code)], np.int64)
        where = np.array(targets, np.int64)
        return scan(Stretch(code, 0x1000, *bounds, where, where))

    assert one("e9ebffffff", [0x1000]).calls.tolist() == [[0, 0x1000]]  # type: ignore[attr-defined]
    assert [0, 0x2016] in one("ff2500100000", [0x2016]).reads.tolist()  # type: ignore[attr-defined]
    assert one("0fa2", []).asks.tolist() == [0]  # type: ignore[attr-defined]
