"""What is known besides the event itself: the rest of the log, the machine, the plan, the facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.explain.events import Event, Reading
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Scene:
    """``toolkits`` maps a CUDA toolkit (``12.8``) to the architectures its nvcc compiles for."""

    reading: Reading
    machine: Machine | None = None
    plan: Plan | None = None
    values: dict[str, str] = field(default_factory=dict)
    toolkits: Mapping[str, tuple[Sm, ...]] = field(default_factory=dict)

    def saw(self, signal: str) -> bool:
        return signal in self.reading.signals

    def toolkit_archs(self, version: str) -> tuple[Sm, ...]:
        return tuple(sorted(self.toolkits.get(version, ())))


def to_sm(text: str | None) -> Sm | None:
    try:
        return parse_sm(text or "")
    except ValueError:
        return None


def capability(event: Event, scene: Scene) -> Sm | None:
    """The card: from the message, from elsewhere in the log, or the only NVIDIA card of the machine."""
    found = to_sm(event.values.get("capability")) or to_sm(scene.values.get("capability"))
    if found or scene.machine is None:
        return found
    cards = {gpu.arch for gpu in scene.machine.gpus if isinstance(gpu.arch, Sm)}
    return next(iter(cards)) if len(cards) == 1 else None


def supported(event: Event, scene: Scene) -> list[Sm]:
    """The architectures the message (or the log) says torch was built for; PTX entries left out."""
    low, high = to_sm(scene.values.get("lowest")), to_sm(scene.values.get("highest"))
    if low and high:
        return [low, high]
    text = event.values.get("supported") or scene.values.get("supported") or ""
    return sorted(arch for arch in map(to_sm, re.findall(r"sm_\d+[af]?", text)) if arch)


def toolkit_of(event: Event, scene: Scene) -> str | None:
    """The CUDA toolkit that compiled: from the lines around, the log, or the only one of the machine."""
    near = re.search(r"cuda[-/\\_]{1,2}v?(\d+\.\d+)[/\\]+bin[/\\]+nvcc", event.around, re.IGNORECASE)
    if near:
        return near[1]
    if found := scene.values.get("toolkit"):
        return found
    if scene.machine is None:
        return None
    versions = {kit.version for kit in scene.machine.toolkits if kit.kind == "cuda" and kit.version}
    return ".".join(versions.pop().split(".")[:2]) if len(versions) == 1 else None
