"""AArch64 instruction sets against capstone's mnemonics and against what an assembler makes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import needs
from rekindle.formats.arm64_scan import CLASSES, classify
from rekindle.formats.elf import Elf

# Instructions an assembler turns into code, and the class each must get.
SOURCE = {
    "lse": ["ldadd w0, w1, [x2]", "swpal x0, x1, [x2]", "casal x0, x1, [x2]", "ldclrb w0, w1, [x2]",
            "casp x0, x1, x2, x3, [x4]"],
    "rdm": ["sqrdmlah v0.4s, v1.4s, v2.4s", "sqrdmlsh v0.8h, v1.8h, v2.8h"],
    "crc32": ["crc32b w0, w1, w2", "crc32cx w0, w1, x2"],
    "fp16": ["fadd v0.8h, v1.8h, v2.8h", "fmul h0, h1, h2", "fmadd h0, h1, h2, h3", "fmla v0.8h, v1.8h, v2.h[1]",
             "fcmp h0, h1", "fmov h0, #1.0", "scvtf h0, w1", "fsqrt v0.4h, v1.4h", "fabs h0, h1"],
    "dotprod": ["sdot v0.4s, v1.16b, v2.16b", "udot v0.2s, v1.8b, v2.4b[1]"],
    "fcma": ["fcadd v0.4s, v1.4s, v2.4s, #90", "fcmla v0.4s, v1.4s, v2.4s, #90"],
    "jscvt": ["fjcvtzs w0, d1"],
    "rcpc": ["ldapr x0, [x1]"],
    "fp16fml": ["fmlal v0.4s, v1.4h, v2.4h", "fmlsl2 v0.4s, v1.4h, v2.4h"],
    "i8mm": ["smmla v0.4s, v1.16b, v2.16b", "usmmla v0.4s, v1.16b, v2.16b", "usdot v0.4s, v1.16b, v2.16b"],
    "bf16": ["bfdot v0.4s, v1.8h, v2.8h", "bfmmla v0.4s, v1.8h, v2.8h", "bfcvt h0, s1", "bfcvtn v0.4h, v1.4s"],
    "sve": ["ptrue p0.b", "ld1w z0.s, p0/z, [x0]", "fmla z0.s, p0/m, z1.s, z2.s", "cntw x0", "whilelo p0.s, x0, x1"],
    "aes": ["aese v0.16b, v1.16b", "pmull v0.1q, v1.1d, v2.1d"],
    "sha2": ["sha256h q0, q1, v2.4s", "sha1c q0, s1, v2.4s"],
    "exclusive": ["ldxr x0, [x1]", "stlxr w0, x1, [x2]", "ldaxrb w0, [x1]"],
    "base": ["fadd v0.4s, v1.4s, v2.4s", "fmadd d0, d1, d2, d3", "fmadd s0, s1, s2, s3", "fcvt s0, h1", "fcvt h0, s1",
             "fcvtl v0.4s, v1.4h", "fcvtn v0.4h, v1.4s", "ldar x0, [x1]", "stlr w0, [x1]", "facge v0.4s, v1.4s, v2.4s",
             "fmov d0, #1.0", "add x0, x1, x2", "ldr q0, [x1]", "pmull v0.8h, v1.8b, v2.8b",
             "sqrdmulh v0.4s, v1.4s, v2.4s", "paciasp", "prfm pldl1keep, [x0]", "fcmgt v0.2d, v1.2d, v2.2d",
             "madd x0, x1, x2, x3"],
}  # fmt: skip


@pytest.mark.integration
@needs.tool("aarch64-linux-gnu-gcc")
def test_what_the_assembler_makes(tmp_path: Path) -> None:
    rows = [(name, line) for name, lines in SOURCE.items() for line in lines]
    source = tmp_path / "a.s"
    march = ".arch armv8.6-a+sve+crypto+fp16fml+bf16+i8mm\n"
    source.write_text(march + ".text\n" + "\n".join(line for _, line in rows) + "\n")
    subprocess.run(["aarch64-linux-gnu-gcc", "-c", str(source), "-o", str(tmp_path / "a.o")], check=True)
    elf = Elf((tmp_path / "a.o").read_bytes())
    section = elf.section(".text")
    assert section is not None
    words = np.frombuffer(elf.view.take(section.offset, section.size), "<u4").astype(np.uint32)
    found = [(CLASSES[kind], line) for kind, (_, line) in zip(classify(words), rows, strict=True)]
    assert found == rows
