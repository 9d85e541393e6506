"""The trap's machine code is what the assembler makes of the sources beside the unit tests."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from rekindle.verify.target import CHECKS

SOURCES = Path(__file__).parent.parent / "unit" / "verify" / "asm"


def binutils(machine: str) -> tuple[str, str] | None:
    prefix = "" if platform.machine() == machine else f"{machine}-linux-gnu-"
    found = (shutil.which(f"{prefix}as"), shutil.which(f"{prefix}objcopy"))
    return (found[0], found[1]) if found[0] and found[1] else None


@pytest.mark.integration
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_bytes_are_those_of_the_source(machine: str, tmp_path: Path) -> None:
    tools = binutils(machine)
    if tools is None:
        pytest.skip(f"needs an assembler for {machine}")
    code = json.loads((CHECKS / "trap.json").read_text(encoding="ascii"))
    made, raw = tmp_path / "trap.o", tmp_path / "trap.bin"
    subprocess.run([tools[0], "-o", made, SOURCES / f"trap.{machine}.s"], check=True)
    subprocess.run([tools[1], "-O", "binary", "-j", ".text", made, raw], check=True)
    assert raw.read_bytes().hex() == code[machine][0]
