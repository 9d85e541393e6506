"""A machine with nothing on it: the base of the tests' own machines, which override what they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rekindle.host.protocol import Completed, Cpuid, Disk, Memory, RegistryKey


class BareHost:
    """Answers every question of ``Host`` with "there is none"."""

    def __init__(self, system: str = "linux", env: Mapping[str, str] | None = None) -> None:
        self.system = system
        self.machine = "x86_64"
        self.env: Mapping[str, str] = env or {}

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        return Completed(argv=tuple(argv), code=None)

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return None

    def glob(self, pattern: str) -> tuple[str, ...]:
        return ()

    def which(self, name: str) -> str | None:
        return None

    def which_all(self, name: str) -> tuple[str, ...]:
        return ()

    def realpath(self, path: str) -> str:
        return path

    def access(self, path: str) -> bool | None:
        return None

    def hwcap(self) -> tuple[int, int] | None:
        return None

    def disk(self, path: str) -> Disk | None:
        return None

    def memory(self) -> Memory | None:
        return None

    def cores(self) -> int | None:
        return None

    def cpuid(self) -> Cpuid | None:
        return None

    def registry(self, key: str) -> RegistryKey | None:
        return None

    def nvml(self, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        return None

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        return None

    def torch(self, path: str, *, deep: bool = False, timeout: float = 6.0) -> Mapping[str, Any] | None:
        return None
