"""Call stubs of ELF files: where each begins and which slot it jumps through."""

from __future__ import annotations

import struct

from binaries import make_elf
from rekindle.formats.elf import Elf
from rekindle.formats.references import read_references


def stubs(code: bytes, machine: int = 62, name: str = ".plt.sec") -> dict[int, int]:
    """Both addresses from the section's beginning."""
    elf = Elf(make_elf({name: code}, machine=machine))
    section = elf.section(name)
    assert section is not None
    return {at - section.address: slot - section.address for at, slot in read_references(elf).stubs.items()}


def test_jumps_through_slots_on_x86() -> None:
    plain = b"\xff\x25" + struct.pack("<i", 0x100)
    assert stubs(plain + b"\x90" * 2) == {0: 6 + 0x100}
    assert stubs(b"\xff\x25" + struct.pack("<i", -0x20) + b"\x90" * 2) == {0: 6 - 0x20}
    assert stubs(b"\xf3\x0f\x1e\xfa" + plain + b"\x90" * 2) == {0: 10 + 0x100}
    assert stubs(b"\xf3\x0f\x1e\xfa\xf2" + plain + b"\x90" * 2) == {0: 11 + 0x100}
    assert stubs(b"\x90\xf2" + plain + b"\x90" * 2) == {1: 8 + 0x100}
    assert stubs(plain + b"\x90" * 2 + plain + b"\x90" * 2) == {0: 6 + 0x100, 8: 14 + 0x100}
    assert stubs(b"\xff\x26" + plain[2:] + b"\x90" * 2) == stubs(plain[:5]) == stubs(b"") == {}
    assert stubs(plain + b"\x90" * 2, name=".text") == {}
    assert stubs(plain + b"\x90" * 2, machine=40) == {}


def test_jumps_through_slots_on_arm() -> None:
    def words(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}I", *values)

    load, rest = 0xF9400211, (0x91000210, 0xD61F0220)
    elf = Elf(make_elf({".plt": b"\0" * 16}, machine=183))
    section = elf.section(".plt")
    assert section is not None
    page = -(section.address % 4096)  # the page's beginning, from the section's
    assert stubs(words(0x90000010, load, *rest), 183, ".plt") == {0: page}
    assert stubs(words(0x90000010, load | 5 << 10, *rest), 183, ".plt") == {0: page + 40}
    assert stubs(words(0xB0000010, load, *rest), 183, ".plt") == {0: page + 4096}
    assert stubs(words(0x90000030, load, *rest), 183, ".plt") == {0: page + 4 * 4096}
    assert stubs(words(0xF0FFFFF0, load, *rest), 183, ".plt") == {0: page - 4096}
    assert stubs(words(0xD503245F, 0x90000010, load, *rest), 183, ".plt") == {0: page}
    assert stubs(words(0xD503201F, 0x90000010, load, *rest), 183, ".plt") == {4: page}
    assert stubs(words(0x90000011, load, *rest), 183, ".plt") == {}
    assert stubs(words(0x90000010), 183, ".plt") == {}
