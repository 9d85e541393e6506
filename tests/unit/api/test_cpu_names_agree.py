"""One CPU's name, asked of every verb: all mean the same microarchitecture, or none knows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.api.inspect_wheel import inspect_machine
from rekindle.api.verify_torch import _features
from rekindle.doctor.cpu import probe_cpu
from rekindle.emulate.qemu import find_emulated_cpu, machine_of_cpu
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import RegistryKey
from rekindle.model.machine import Machine
from rekindle.plan.describe import machine_from_flags

TRUTH = Path(__file__).parents[2] / "truth" / "cpus.txt"
# What people type: half of it with neither a maker nor a line before the number.
TYPED = [
    "E5-2690 v2",
    "FX-8350",
    "i7-920",
    "i5-3570K",
    "Xeon X5650",
    "Q6600",
    "Xeon E5 v2",
    "Phenom II X6 1090T",
    "Opteron 6272",
    "Athlon 64 X2",
    "A10-7850K",
    "Ryzen 5 1600",
    "EPYC 7742",
    "ivy bridge",
    "x86-64-v3",
    "Cortex-A72",
]


def _names() -> list[str]:
    lines = TRUTH.read_text("utf-8").splitlines()
    told = [line.rsplit("|", 1)[0].strip() for line in lines if line and not line.startswith("#")]
    return list(dict.fromkeys([*TYPED, *told]))


def _planned(name: str) -> str | None:
    try:
        return machine_from_flags(cpu=name).cpu.microarchitecture
    except BadInput:
        return None


def _inspected(name: str) -> str | None:
    try:
        return inspect_machine(name).cpu.microarchitecture
    except BadInput:
        return None


def _emulated(name: str) -> str | None:
    """The CPU that is emulated; where qemu has no model of it, the one that is named in the refusal."""
    emulated = machine_of_cpu(name)
    try:
        return find_emulated_cpu(name, emulated=emulated).name
    except BadInput as error:
        _, known, kind = error.message.partition("known as ")
        kind = kind.partition(",")[0]
        assert not known or kind not in emulated.models
        return kind or None


def _probed(name: str) -> str | None:
    """The doctor on a machine that says no more than its processor's name."""
    key = r"HKLM\HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    registry: dict[str, RegistryKey | None] = {key: RegistryKey(values={"ProcessorNameString": name})}
    record = Record(system="windows", machine="x86_64", registry=registry)
    return probe_cpu(Asking(RecordedHost(record), "test", deadline=float("inf"))).microarchitecture


@pytest.mark.parametrize("name", _names())
def test_every_verb_means_the_same_cpu(name: str) -> None:
    planned = _planned(name)
    assert _inspected(name) == planned
    assert _emulated(name) == planned
    assert _probed(name) == planned


@pytest.mark.parametrize("name", TYPED)
def test_what_people_type_is_known_and_can_be_emulated(name: str) -> None:
    kind = find_emulated_cpu(name, emulated=machine_of_cpu(name)).name
    assert _features(name) == frozenset(load_facts().cpu.microarchitecture[kind].features)


@pytest.mark.parametrize(
    ("name", "gpus", "kind"),
    [
        ("Intel(R) Xeon(R) Gold 5118 CPU @ 2.30GHz", 0, "skylake_avx512"),
        ("AMD Ryzen 5 5600G with Radeon Graphics", 1, "zen3"),
        ("Radeon E8860", 1, None),
        ("Tesla K40c", 1, None),
    ],
)
def test_a_cpu_is_no_card_and_a_cpu_with_graphics_is_both(name: str, gpus: int, kind: str | None) -> None:
    machine: Machine = inspect_machine(name)
    assert (len(machine.gpus), machine.cpu.microarchitecture) == (gpus, kind)


@pytest.mark.parametrize(("name", "nearest"), [("Ryzen 9 7950X", "zen3"), ("Xeon Platinum 8488C", "icelake")])
def test_a_cpu_without_a_model_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(BadInput, match="qemu has no model") as error:
        find_emulated_cpu(name)
    assert error.value.remedy is not None
    assert error.value.remedy.startswith(f"--cpu {nearest} ")
