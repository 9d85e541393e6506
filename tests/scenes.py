"""Events and scenes made by hand: what explain's look-ups are asked with, without reading a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rekindle.explain.events import Event, Reading, Seen
from rekindle.explain.scene import Scene
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan
from rekindle.model.wheel import Kernels, WheelGpu, WheelReport


def event(
    line: int = 1,
    *,
    around: str = "",
    evidence: str = "",
    after: str = "",
    head: str = "",
    way: str = "",
    values: Mapping[str, str] | None = None,
    **more: str,
) -> Event:
    return Event(
        line=line,
        values={**(values or {}), **more},
        evidence=evidence,
        text=around,
        around=around,
        after=after,
        head=head,
        way=way,
    )


def seen(*events: Event) -> Seen:
    found = Seen()
    for each in events:
        found.add(each)
    return found


def scene(
    signals: Iterable[str] | Mapping[str, Seen] = (),
    *,
    rules: Mapping[str, Seen] | None = None,
    forms: Mapping[str, Seen] | None = None,
    machine: Machine | None = None,
    plan: Plan | None = None,
    wheel: WheelReport | None = None,
    values: Mapping[str, str] | None = None,
    **more: str,
) -> Scene:
    """Signals by name (seen once, in line 1) or with their events."""
    given = dict(signals) if isinstance(signals, Mapping) else {name: seen(event()) for name in signals}
    reading = Reading(signals=given, rules=dict(rules or {}), forms=dict(forms or {}))
    said = {**(values or {}), **more}
    return Scene(reading=reading, machine=machine, plan=plan, wheel=wheel, values=said)


def wheel(
    *sass: str,
    ptx: tuple[str, ...] = (),
    static: tuple[str, ...] = (),
    partial: tuple[str, ...] = (),
    declared: tuple[str, ...] = (),
) -> WheelReport:
    gpu = WheelGpu(
        declared=declared,
        torch_kernels=Kernels(sass=sass, ptx=ptx),
        static_libraries=Kernels(sass=static, partial=partial),
    )
    return WheelReport(name="torch", version="2.6.0+cu124", bytes=1, gpu=gpu)
