"""Named questions that rules ask in ``when``: about captured values, the rest of the log, the machine, the plan.

An answer is True, False or None. None means "cannot tell": the rule stays, with less confidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from rekindle.explain.events import Event, Reading
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What is known besides the event itself."""

    reading: Reading
    machine: Machine | None = None
    plan: Plan | None = None
    values: dict[str, str] = field(default_factory=dict)

    def saw(self, signal: str) -> bool:
        return signal in self.reading.signals


Condition = Callable[[Event, Scene], bool | None]
CONDITIONS: dict[str, Condition] = {}


def condition(function: Condition) -> Condition:
    CONDITIONS[function.__name__.replace("_", "-")] = function
    return function


def _sm(text: str | None) -> Sm | None:
    if not text:
        return None
    try:
        return parse_sm(text)
    except ValueError:
        return None


def capability(event: Event, scene: Scene) -> Sm | None:
    """The card: from the message, from elsewhere in the log, or the only NVIDIA card of the machine."""
    found = _sm(event.values.get("capability")) or _sm(scene.values.get("capability"))
    if found or scene.machine is None:
        return found
    cards = {gpu.arch for gpu in scene.machine.gpus if isinstance(gpu.arch, Sm)}
    return next(iter(cards)) if len(cards) == 1 else None


def supported(event: Event, scene: Scene) -> list[Sm]:
    """The architectures the message (or the log) says torch was built for; PTX entries left out."""
    text = event.values.get("supported") or scene.values.get("supported") or ""
    return sorted(arch for arch in map(_sm, re.findall(r"sm_\d+[af]?", text)) if arch)


@condition
def card_newer_than_wheel(event: Event, scene: Scene) -> bool | None:
    card, archs = capability(event, scene), supported(event, scene)
    return None if card is None or not archs else card > archs[-1]


@condition
def card_older_than_wheel(event: Event, scene: Scene) -> bool | None:
    card, archs = capability(event, scene), supported(event, scene)
    return None if card is None or not archs else card < archs[0]


@condition
def card_between(event: Event, scene: Scene) -> bool | None:
    card, archs = capability(event, scene), supported(event, scene)
    return None if card is None or not archs else archs[0] <= card <= archs[-1]


@condition
def card_is_blackwell(event: Event, scene: Scene) -> bool | None:
    card = capability(event, scene)
    return None if card is None else card.major >= 10


@condition
def card_is_before_blackwell(event: Event, scene: Scene) -> bool | None:
    card = capability(event, scene)
    return None if card is None else card.major < 10


@condition
def windows(event: Event, scene: Scene) -> bool | None:
    if scene.machine is not None:
        return scene.machine.os.system == "windows"
    if re.search(r"[A-Z]:\\|\.dll\b|WinError|\.vcxproj|\.pyd\b", event.around):
        return True
    return scene.saw("windows") or None


@condition
def wsl(event: Event, scene: Scene) -> bool | None:
    if scene.machine is not None and scene.machine.os.wsl is not None:
        return scene.machine.os.wsl
    return scene.saw("wsl") or None
