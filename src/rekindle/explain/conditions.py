"""Named questions that rules ask in ``when``: about captured values, the rest of the log, the machine, the plan.

An answer is True, False or None. None means "cannot tell": the rule stays, with less confidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rekindle.explain.events import Event
from rekindle.explain.scene import Scene, capability, supported, toolkit_of
from rekindle.model.arch import Sm, parse_sm

Condition = Callable[[Event, Scene], bool | None]
CONDITIONS: dict[str, Condition] = {}

# Which architectures nvcc dropped, and with which release: from the release notes, for logs that name no toolkit.
_DROPPED = ((Sm(2, 1), "9.0"), (Sm(3, 2), "11.0"), (Sm(3, 7), "12.0"), (Sm(7, 2), "13.0"))


def condition(function: Condition) -> Condition:
    CONDITIONS[function.__name__.replace("_", "-")] = function
    return function


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


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
    # Without a list nothing can be said about gaps in it: the plain rules answer.
    return False if card is None or not archs else archs[0] <= card <= archs[-1]


@condition
def other_flavour_has_it(event: Event, scene: Scene) -> bool | None:
    """The CUDA 12.8 and newer flavours dropped cards below 7.5 that cu126 of the same release keeps."""
    card, archs = capability(event, scene), supported(event, scene)
    if card is None or not archs:
        return False
    return archs[-1].major >= 10 and Sm(5, 0) <= card


@condition
def no_other_flavour_has_it(event: Event, scene: Scene) -> bool | None:
    return _not(other_flavour_has_it(event, scene))


@condition
def arch_is_newer_than_toolkit(event: Event, scene: Scene) -> bool | None:
    return _not(arch_is_older_than_toolkit(event, scene))


@condition
def arch_is_older_than_toolkit(event: Event, scene: Scene) -> bool | None:
    """nvcc refused an architecture: did it drop it, or does it not know it yet?"""
    try:
        arch = parse_sm(event.values.get("arch", ""))
    except ValueError:
        return None
    toolkit = toolkit_of(event, scene)
    known = scene.toolkit_archs(toolkit) if toolkit else ()
    if known:
        return arch < known[0]
    # nvcc was given other architectures in the same command: a list that reaches past this one means it was dropped.
    flags = re.findall(r"compute_(\d+)", " ".join((event.around, scene.values.get("arch_flags", ""))))
    newest = max((Sm.from_number(int(number)) for number in flags), default=arch)
    for last, dropped in _DROPPED:
        if arch <= last:
            if toolkit:
                return _version(toolkit) >= _version(dropped)
            if newest >= Sm(7, 5):
                return True
            # FindCUDA builds ("Building NVCC (Device) object") are of a time when these were the newest.
            return not (scene.saw("find-cuda-module") and arch >= Sm(5, 0))
    return False


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


@condition
def cpu_lacks_avx(event: Event, scene: Scene) -> bool | None:
    return _lacks(scene, "avx")


@condition
def cpu_lacks_avx2(event: Event, scene: Scene) -> bool | None:
    return _lacks(scene, "avx2")


def _lacks(scene: Scene, feature: str) -> bool | None:
    """Only a machine that is known to have the feature answers no; the crash itself is evidence that it lacks it."""
    machine = scene.machine
    return not (machine is not None and machine.cpu.features and feature in machine.cpu.features)


@condition
def machine_is_arm(event: Event, scene: Scene) -> bool | None:
    if scene.machine is not None and scene.machine.os.arch:
        return scene.machine.os.arch in ("aarch64", "arm64", "armv7l", "armv8l")
    return scene.saw("arm") or scene.saw("jetson")


@condition
def machine_is_not_arm(event: Event, scene: Scene) -> bool | None:
    return _not(machine_is_arm(event, scene))


@condition
def wheel_tag_newer_than_glibc(event: Event, scene: Scene) -> bool | None:
    tag = re.search(r"manylinux_2_(\d+)_", event.values.get("tag", "") + event.values.get("wheel", ""))
    if not tag:
        return False
    if "wheel" in event.values and scene.machine is not None and scene.machine.os.glibc:
        return _version(scene.machine.os.glibc) < (2, int(tag[1]))
    return True if "tag" in event.values else None


@condition
def in_triton(event: Event, scene: Scene) -> bool | None:
    return scene.saw("triton") or "triton" in event.around.lower()
