"""What installers that choose by the card are told: every value a wheel may name, and those that run on a machine."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bare_host import BareHost
from rekindle.api.variant_plugin import Config, RekindlePlugin, supported_by, variant_environment
from rekindle.facts import load_facts
from rekindle.host.protocol import Completed
from rekindle.model.machine import Machine
from rekindle.plan.describe import machine_from_flags

plugin: Any = importlib.import_module("rekindle.api.variant_plugin")


def by_name(configs: list[Config]) -> dict[str, Config]:
    assert len({config.name for config in configs}) == len(configs)
    return {config.name: config for config in configs}


def test_every_value_that_a_wheel_may_name() -> None:
    every = by_name(RekindlePlugin.get_all_configs())
    numbers = [int(value) for value in every["sm"].values]
    assert numbers == sorted(numbers, reverse=True) and {35, 61, 90, 120} <= set(numbers)
    assert every["gfx"].values == sorted(every["gfx"].values) and "gfx1030" in every["gfx"].values
    assert every["x86_64_level"].values == ["v4", "v3", "v2", "v1"]
    assert every["sse4_2"].values == ["on"] and every["avx2"].values == ["on"]
    assert {name for name, config in every.items() if config.multi_value} == {"sm", "gfx"}
    assert (RekindlePlugin.namespace, RekindlePlugin.is_build_plugin) == ("rekindle", False)


def runs_on(cpu: str | None = None, gpu: str = "none", arch: str | None = "x86_64") -> dict[str, Config]:
    machine = machine_from_flags(gpu=[gpu], cpu=cpu, os="linux", arch="x86_64")
    return by_name(supported_by(replace(machine, os=replace(machine.os, arch=arch))))


@pytest.mark.parametrize(
    ("cpu", "levels"),
    [
        ("k8", ["v1"]),
        ("nehalem", ["v2", "v1"]),
        ("haswell", ["v3", "v2", "v1"]),
        ("skylake_avx512", ["v4", "v3", "v2", "v1"]),
    ],
)
def test_a_cpu_runs_its_level_and_all_below_it(cpu: str, levels: list[str]) -> None:
    found = runs_on(cpu)
    assert found["x86_64_level"].values == levels and not found["x86_64_level"].multi_value
    assert ("avx2" in found) is ("v3" in levels) and ("sse4_2" in found) is ("v2" in levels)


def test_levels_are_for_x86_and_for_a_cpu_that_is_known() -> None:
    for arch in (None, "x86_64", "amd64"):
        assert runs_on("haswell", arch=arch)["avx2"].values == ["on"]
    assert runs_on("haswell", arch="aarch64") == runs_on(None) == {}


def test_code_for_any_card_of_the_machine_counts() -> None:
    assert runs_on(gpu="GTX 1080") == {"sm": Config("sm", ["61", "60"], True)}
    assert runs_on(gpu="RX 6700 XT") == {"gfx": Config("gfx", ["gfx1031"], True)}
    both = machine_from_flags(gpu=["GTX 1080", "Tesla K40c", "RX 6700 XT", "RX 7900 XTX"], os="linux", arch="x86_64")
    found = by_name(supported_by(both))
    assert found["sm"].values == ["61", "60", "35", "30"]
    assert found["gfx"].values == ["gfx1031", "gfx1100"]


def test_an_installer_is_told_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_from_flags(gpu=["GTX 1080"], os="linux", arch="x86_64")
    monkeypatch.setattr(plugin, "_machine", lambda: machine)
    assert RekindlePlugin.get_supported_configs() == supported_by(machine) != []


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What this machine's uv says of itself."""
    said = ["uv 99.0"]

    class Uv(BareHost):
        def run(self, argv: Any, **_: Any) -> Completed:
            assert list(argv) == ["uv", "--version"]
            return Completed(argv=tuple(argv), code=0, out=said[0])

    monkeypatch.setattr(plugin, "LiveHost", Uv)
    return said


def notes_of(machine: Machine, gpu: str | None = None) -> str:
    return "\n".join(variant_environment(machine, gpu=gpu).notes)


def test_the_notes_say_what_the_variables_cannot(told: list[str]) -> None:
    def machine(*cards: str, driver: str | None = "580.95") -> Machine:
        return machine_from_flags(gpu=list(cards), os="linux", driver=driver)

    assert notes_of(machine("GTX 1080")) == notes_of(machine("GTX 1080", "GTX 1070")) == ""
    mixed = notes_of(machine("RTX 4090", "GTX 1080", "RTX 3060"))
    assert mixed.startswith("sm_61 decides; sm_86, sm_89 must run")
    assert notes_of(machine("RTX 4090", "GTX 1080"), "RTX 4090") == ""
    assert notes_of(machine("RTX 4090", driver=None)).startswith("no NVIDIA driver was found")
    assert notes_of(machine("RX 6700 XT")).startswith("no NVIDIA card was found")
    assert notes_of(machine("RTX 4090"), "RX 6700 XT").startswith("no NVIDIA card was found")
    told[0] = "uv 0.1.0"
    assert notes_of(machine("GTX 1080")).startswith("uv 0.1.0 takes the CPU wheel")


def test_a_card_that_uv_cannot_see_is_told(told: list[str]) -> None:
    first = plugin.first_visible_arch()
    older = [sm for kit in load_facts().toolkits for sm in load_facts().cuda.toolkit[kit].sass if sm < first]
    for sm in (str(first), str(max(older))):
        notes = notes_of(machine_from_flags(gpu=[sm], os="linux", driver="470.256.02"))
        assert ("uv gives no compute capability below" in notes) is (sm != str(first))


def test_the_driver_of_the_machines_own_system_is_asked(told: list[str]) -> None:
    for system, driver in (("linux", "527.41"), ("windows", "527.41")):
        found = variant_environment(machine_from_flags(gpu=["RTX 4090"], os=system, driver=driver))
        assert plugin.DRIVER_VARIABLE in found.variables, system
    old = {
        system: variant_environment(machine_from_flags(gpu=["RTX 4090"], os=system, driver="525.60.13")).variables
        for system in ("linux", "windows")
    }
    assert old["linux"][plugin.DRIVER_VARIABLE] == "12.0" != old["windows"].get(plugin.DRIVER_VARIABLE)


def test_without_a_machine_it_is_this_one(told: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plugin, "this_machine", lambda: machine_from_flags(gpu=["GTX 1080"], os="linux"))
    assert variant_environment().variables == {plugin.SM_VARIABLE: "6.1"}
