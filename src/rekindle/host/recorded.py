"""A machine out of a capture. What the capture does not hold, the machine does not have."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rekindle.host.capture import read_capture
from rekindle.host.protocol import Completed, Cpuid, Disk, Memory, RegistryKey
from rekindle.host.record import Record

_SLASHES = re.compile(r"[/\\]")


class RecordedHost:
    """Satisfies :class:`rekindle.host.protocol.Host` from a :class:`Record`."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._runs = {run.argv: run for run in record.runs}
        self._by_name = {(_name(run.argv[0]), *run.argv[1:]): run for run in record.runs}
        self._files = {self._fold(path): raw for path, raw in record.files.items()}
        self._known = self._all_paths()

    @property
    def _windows(self) -> bool:
        return self.record.system == "windows"

    def _fold(self, path: str) -> str:
        """Windows compares without case, and takes both slashes."""
        return path.replace("/", "\\").lower() if self._windows else path

    def _all_paths(self) -> dict[str, str]:
        record = self.record
        programs = (place for places in record.programs.values() for place in places)
        known: dict[str, str] = {}
        for path in (*record.paths, *record.files, *record.links, *programs):
            # Where a file is, its directories are too.
            while path and self._fold(path) not in known:
                known[self._fold(path)] = path
                path = path[: max(path.rfind("/"), path.rfind("\\"))] if _SLASHES.search(path) else ""
        return known

    @property
    def system(self) -> str:
        return self.record.system

    @property
    def machine(self) -> str:
        return self.record.machine

    @property
    def env(self) -> Mapping[str, str]:
        return self.record.env

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        key = tuple(argv)
        found = self._runs.get(key) or self._by_name.get((_name(key[0]), *key[1:]))
        return found or Completed(argv=key, code=None, err="not in the capture")

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        raw = self._files.get(self._fold(path))
        return None if raw is None else raw[:limit]

    def glob(self, pattern: str) -> tuple[str, ...]:
        wanted = _SLASHES.split(self._fold(pattern))
        if not any(mark in pattern for mark in "*?["):
            return (pattern,) if self._fold(pattern) in self._known else ()
        found = []
        for folded, path in self._known.items():
            parts = _SLASHES.split(folded)
            if len(parts) == len(wanted) and all(map(_matches, parts, wanted)):
                found.append(path)
        return tuple(sorted(found))

    def which(self, name: str) -> str | None:
        return next(iter(self.which_all(name)), None)

    def which_all(self, name: str) -> tuple[str, ...]:
        if _SLASHES.search(name):
            return self.glob(name)
        return self.record.programs.get(name, ())

    def realpath(self, path: str) -> str:
        return self.record.links.get(path, path)

    def access(self, path: str) -> bool | None:
        return self.record.access.get(path)

    def hwcap(self) -> tuple[int, int] | None:
        return self.record.hwcap

    def disk(self, path: str) -> Disk | None:
        """The nearest place that was asked about: a capture does not hold every directory of a machine."""
        near = [known for known in self.record.disks if self._fold(path).startswith(self._fold(known))]
        if near:
            return self.record.disks[max(near, key=len)]
        return next(iter(self.record.disks.values()), None)

    def memory(self) -> Memory | None:
        return self.record.memory

    def cores(self) -> int | None:
        return self.record.cores

    def cpuid(self) -> Cpuid | None:
        return self.record.cpuid

    def registry(self, key: str) -> RegistryKey | None:
        return self.record.registry.get(key)

    def nvml(self, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        return self.record.nvml

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        return self.record.pythons.get(path)

    def torch(self, path: str, *, deep: bool = False, timeout: float = 6.0) -> Mapping[str, Any] | None:
        return self.record.torches.get(path)


def _name(path: str) -> str:
    return _SLASHES.split(path)[-1].removesuffix(".exe")


def _matches(part: str, pattern: str) -> bool:
    # As the shell does: a star does not match a hidden name.
    if part.startswith(".") and not pattern.startswith("."):
        return False
    return fnmatch.fnmatchcase(part, pattern)


def load_recorded(directory: Path) -> RecordedHost:
    return RecordedHost(read_capture(directory))
