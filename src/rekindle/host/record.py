"""Everything a machine answered, by question: what a capture holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rekindle.host.protocol import Completed, Cpuid, Disk, Memory, RegistryKey


class Record(msgspec.Struct, kw_only=True):
    """``None`` as a value means: asked, and there was nothing."""

    system: str = "linux"
    machine: str = ""
    about: dict[str, Any] = msgspec.field(default_factory=dict)
    runs: list[Completed] = msgspec.field(default_factory=list)
    files: dict[str, bytes | None] = msgspec.field(default_factory=dict)
    paths: dict[str, None] = msgspec.field(default_factory=dict)
    programs: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    links: dict[str, str] = msgspec.field(default_factory=dict)
    env: dict[str, str] = msgspec.field(default_factory=dict)
    disks: dict[str, Disk | None] = msgspec.field(default_factory=dict)
    registry: dict[str, RegistryKey | None] = msgspec.field(default_factory=dict)
    pythons: dict[str, Mapping[str, Any] | None] = msgspec.field(default_factory=dict)
    torches: dict[str, Mapping[str, Any] | None] = msgspec.field(default_factory=dict)
    access: dict[str, bool | None] = msgspec.field(default_factory=dict)
    hwcap: tuple[int, int] | None = None
    cores: int | None = None
    memory: Memory | None = None
    cpuid: Cpuid | None = None
    nvml: Mapping[str, Any] | None = None


def join_records(records: Iterable[Record]) -> Record:
    """One record of all probes; where two asked the same, the later answer stands."""
    whole = Record()
    seen: set[tuple[str, ...]] = set()
    for record in records:
        if record.machine:
            whole.system, whole.machine = record.system, record.machine
        for run in list(record.runs):
            if run.argv not in seen:
                seen.add(run.argv)
                whole.runs.append(run)
        for name in Record.__struct_fields__:
            answers, known = getattr(record, name), getattr(whole, name)
            if isinstance(known, dict) and name != "nvml":
                known.update(dict(answers))
            elif name in ("cores", "hwcap", "memory", "cpuid", "nvml"):
                setattr(whole, name, answers or known)
    return whole
