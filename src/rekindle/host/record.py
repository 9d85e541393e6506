"""Everything a machine answered, by question: what a capture holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rekindle.host.protocol import Completed, Cpuid, Disk, Memory, RegistryKey


@dataclass
class Record:
    """``None`` as a value means: asked, and there was nothing."""

    runs: list[Completed] = field(default_factory=list)
    files: dict[str, bytes | None] = field(default_factory=dict)
    paths: dict[str, None] = field(default_factory=dict)
    programs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    disks: dict[str, Disk | None] = field(default_factory=dict)
    registry: dict[str, RegistryKey | None] = field(default_factory=dict)
    pythons: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    torches: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    memory: Memory | None = None
    cpuid: Cpuid | None = None
    nvml: Mapping[str, Any] | None = None
