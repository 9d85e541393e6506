"""The machines that can be emulated: what each is called by qemu, Debian and the loader."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rekindle.host.live import LiveHost


@dataclass(frozen=True, kw_only=True)
class EmulatedMachine:
    """``loader`` is where programs look for the dynamic loader; ``elf`` and ``answer`` are for stand-in libraries:
    the machine's number in ELF headers, the code of a function that answers 999, and the largest page."""

    machine: str
    words: str
    program: str
    debian: str
    triplet: str
    loader: str
    elf: int
    answer: bytes
    page: int = 0x1000

    @property
    def is_here(self) -> bool:
        """Is this machine one of them, so that no root file system is needed?"""
        return LiveHost().machine == self.machine

    def library_folders(self, root: Path) -> tuple[Path, ...]:
        inside = (f"lib/{self.triplet}", f"usr/lib/{self.triplet}", "lib64", "usr/lib64")
        return tuple(root / one for one in inside)


X86 = EmulatedMachine(
    machine="x86_64",
    words="x86-64",
    program="qemu-x86_64",
    debian="amd64",
    triplet="x86_64-linux-gnu",
    loader="lib64/ld-linux-x86-64.so.2",
    elf=62,
    answer=bytes.fromhex("b8e7030000c3"),  # mov eax, 999; ret
)
ARM = EmulatedMachine(
    machine="aarch64",
    words="AArch64",
    program="qemu-aarch64",
    debian="arm64",
    triplet="aarch64-linux-gnu",
    loader="lib/ld-linux-aarch64.so.1",
    elf=183,
    answer=bytes.fromhex("e07c8052c0035fd6"),  # mov w0, #999; ret
    page=0x10000,
)
EMULATED = {emulated.machine: emulated for emulated in (X86, ARM)}
