"""Machines described by hand."""

from __future__ import annotations

import pytest
from planning import FACTS

from rekindle.errors import BadInput
from rekindle.plan.describe import machine_from_flags, machine_profile


def test_compilers_are_read_or_refused() -> None:
    (found,) = machine_from_flags(FACTS, compiler="gcc-13.2").compilers
    assert (found.kind, found.version) == ("gcc", "13.2")
    for wrong in ("icc-13", "gcc-", "gcc-new", "gcc"):
        with pytest.raises(BadInput):
            machine_from_flags(FACTS, compiler=wrong)


def test_a_cpu_by_name_brings_its_features() -> None:
    assert "avx2" in machine_from_flags(FACTS, cpu="haswell").cpu.features
    assert "avx2" not in machine_from_flags(FACTS, cpu="ivybridge").cpu.features


def test_machines_by_hand() -> None:
    named = machine_from_flags(FACTS, gpu=["RTX 3090"], cpu="Xeon E5-2690 v2", distro="debian 12", memory="16G")
    assert (named.gpus[0].name, named.cpu.name, named.os.distro) == ("GeForce RTX 3090", "Xeon E5-2690 v2", "debian 12")
    assert named.memory_gib == 16.0
    bare = machine_from_flags(FACTS)
    assert (bare.gpus, bare.os.system, bare.cpu.name) == ((), "linux", None)
    assert bare.no_gpu is None and bare.memory_gib is None
    assert machine_from_flags(FACTS, gpu=["none"]).no_gpu is True
    assert machine_from_flags(FACTS, memory=8.0).memory_gib == 8.0
    assert machine_from_flags(FACTS, cpu="ivybridge").cpu.name is None
    assert machine_from_flags(FACTS, cpu="armv7l").os.arch == "armv7l"
    assert machine_from_flags(FACTS, cuda="12.6", cudnn="9.1").toolkits[1].kind == "cudnn"
    for bad in ({"os": "beos"}, {"os": "windows", "glibc": "2.31"}, {"os": "windows", "distro": "debian 12"},
                {"driver": "new"}, {"glibc": "x"}, {"python": "py"}, {"cpu": "zen2", "arch": "aarch64"},
                {"arch": "vax"}, {"compiler": "gcc13"}, {"gpu": ["none", "sm_86"]}, {"gpu": ["sm_59"]}):  # fmt: skip
        with pytest.raises(BadInput):
            machine_from_flags(FACTS, **bad)
    assert machine_from_flags(FACTS, os="windows", distro="Windows 11").os.distro == "Windows 11"
    machine, wish = machine_profile("k40c-windows", FACTS)
    assert machine.gpus[0].name == "Tesla K40c" and wish.torch == "2.0.1"


@pytest.mark.parametrize(
    ("told", "system", "distro"),
    [
        ("windows-11", "windows", "windows-11"),
        ("Win10", "windows", "windows-10"),
        ("ubuntu", "linux", "ubuntu"),
        ("Ubuntu-22.04", "linux", "ubuntu-22.04"),
        ("linux", "linux", None),
    ],
)
def test_a_system_named_by_its_release_or_distribution(told: str, system: str, distro: str | None) -> None:
    os = machine_from_flags(FACTS, os=told).os
    assert (os.system, os.distro) == (system, distro)


def test_several_cards_in_one_name() -> None:
    cards = machine_from_flags(FACTS, gpu=["2x K40c", "3 x RTX 3090"]).gpus
    assert [card.name for card in cards] == ["Tesla K40c"] * 2 + ["GeForce RTX 3090"] * 3
