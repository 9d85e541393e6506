"""What a stage may ask of the machine: ``Host``. ``live`` asks the real one, ``recorded`` replays a capture. Every
question has an answer in plain values (text, numbers, mappings), so that a capture is a readable file and a recorded
machine cannot be told from the real one by the code that asks."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """What a short external command said. ``code`` is None where it never started or was stopped."""

    argv: tuple[str, ...]
    code: int | None = None
    out: str = ""
    err: str = ""
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.code == 0


class RegistryKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key of the Windows registry: its values as text or number, and the names of the keys below."""

    values: Mapping[str, str | int] = msgspec.field(default_factory=dict)
    keys: tuple[str, ...] = ()


class Disk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``device`` tells file systems apart; None where it was not asked."""

    total: int
    free: int
    device: int | None = None


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes as the operating system's own call says. Limits of containers are files and read as such."""

    total: int
    available: int | None = None
    swap: int | None = None
    commit_limit: int | None = None
    job_limit: int | None = None


class Cpuid(msgspec.Struct, frozen=True, kw_only=True):
    """Registers (eax, ebx, ecx, edx) by (leaf, subleaf), and XCR0: which register files the system saves."""

    leaves: Mapping[tuple[int, int], tuple[int, int, int, int]]
    xcr0: int | None = None


class Host(Protocol):
    """One machine. Nothing here raises for what a machine may simply not have: that is None or empty."""

    @property
    def system(self) -> str:
        """linux, windows or macos."""

    @property
    def machine(self) -> str:
        """The processor architecture: x86_64, aarch64, …"""

    @property
    def env(self) -> Mapping[str, str]:
        """The environment variables."""

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        """Run a short command to its end; ``env`` is added to the environment."""

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        """The first ``limit`` bytes of a file, or None."""

    def glob(self, pattern: str) -> tuple[str, ...]:
        """Paths that match, sorted."""

    def which(self, name: str) -> str | None:
        """Where a program lies on PATH."""

    def which_all(self, name: str) -> tuple[str, ...]:
        """Every place on PATH where a program of that name lies, first found first."""

    def realpath(self, path: str) -> str:
        """The path with every link followed."""

    def access(self, path: str) -> bool | None:
        """May this user read and write it (a device file)? None where it does not exist."""

    def hwcap(self) -> tuple[int, int] | None:
        """The kernel's two words of processor capabilities (ARM on Linux)."""

    def disk(self, path: str) -> Disk | None:
        """The file system that holds ``path`` (or its nearest existing parent)."""

    def memory(self) -> Memory | None:
        """Physical memory and swap."""

    def cores(self) -> int | None:
        """Physical cores, where the system has a call for it."""

    def cpuid(self) -> Cpuid | None:
        """The processor's own description (x86 only)."""

    def registry(self, key: str) -> RegistryKey | None:
        r"""A registry key such as ``HKLM\SOFTWARE\Python`` (Windows only)."""

    def nvml(self, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        """What NVIDIA's management library says; None where there is no such library."""

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        """What a Python interpreter says about itself; None where it does not answer."""

    def torch(self, path: str, *, deep: bool = False, timeout: float = 6.0) -> Mapping[str, Any] | None:
        """Does that interpreter's torch load? ``deep``: import it and use the card, too."""
