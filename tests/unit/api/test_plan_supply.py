"""What ``plan`` is joined with: configured wheelhouses and records, plans made here, machines by their name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rekindle import api
from rekindle.api.plan_torch import assumed_for, configured_places, house_grafts, house_wheels, remember_plan
from rekindle.errors import BadInput
from rekindle.host.made import was_made_here
from rekindle.model.graft import GraftRow
from rekindle.model.machine import Cpu, Machine, Os, Python
from rekindle.model.plan import BuildRecipe, Plan, Wish
from rekindle.model.wheelhouse import WheelRow


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.host.made.own_directories", lambda: (tmp_path / "data", tmp_path / "cache"))


@pytest.mark.usefixtures("own_home")
def test_a_plan_for_another_machine_is_ours_only_where_it_names_no_place() -> None:
    def build_plan(torch: str, **env: str) -> Plan:
        return Plan(answer="build", torch=torch, build=BuildRecipe(source=f"v{torch}", env=env))

    placed, plain = build_plan("2.5.0", CUDA_HOME="/opt/theirs"), build_plan("2.5.1", USE_MKLDNN="0")
    remember_plan(placed, other_machine=True)
    remember_plan(plain, other_machine=True)
    assert was_made_here(plain) and not was_made_here(placed)
    remember_plan(placed)
    assert was_made_here(placed)


def test_places_in_a_variable_are_quoted_as_in_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACES", "/a/b 'with a space' https://x.example/wheels")
    assert configured_places("PLACES") == ["/a/b", "with a space", "https://x.example/wheels"]
    monkeypatch.delenv("PLACES")
    assert configured_places("PLACES") == []
    monkeypatch.setenv("PLACES", "'open")
    with pytest.raises(BadInput, match="PLACES is not readable"):
        configured_places("PLACES")


def test_a_wheelhouse_that_was_named_must_answer_and_a_configured_one_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = api.machine_from_flags(gpu=["sm_86"], os="linux", python="3.12")
    with pytest.raises(BadInput):
        api.plan(machine, wheelhouses=[str(tmp_path / "none")])
    with pytest.raises(BadInput):
        api.plan(machine, wheelhouses=(), proofs=[str(tmp_path / "none")])
    monkeypatch.setenv("REKINDLE_WHEELHOUSES", str(tmp_path / "none"))
    monkeypatch.setenv("REKINDLE_PROOFS", str(tmp_path / "none"))
    codes = {warning.code for warning in api.plan(machine).warnings}
    assert {"wheelhouse-silent", "proofs-silent"} <= codes


def wheel_row(**values: Any) -> WheelRow:
    row = {"file": "torch.whl", "url": "x", "project": "torch", "version": "2.6.0", "bytes": 1, "sha256": "0" * 64}
    row |= {"metadata_sha256": "0" * 64, "added": "2026-01-01", "inspected": True, "pythons": ("3.12",)}
    row |= {"systems": ("linux",), "machines": ("x86_64",), "cuda": "12.4", "sass": ("sm_50", "sm_90", "sm_90a")}
    return WheelRow(**{**row, "ptx": ("compute_90",), **values})


def given_rows(monkeypatch: pytest.MonkeyPatch, *rows: WheelRow) -> list[Any]:
    monkeypatch.setattr("rekindle.index.wheelhouse.catalogue.load_wheels", lambda place: rows)
    return house_wheels("/house")


def test_only_torch_that_was_looked_into_and_not_withdrawn_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    others = (wheel_row(project="triton"), wheel_row(inspected=False), wheel_row(yanked="broken"))
    (found,) = given_rows(monkeypatch, *others, wheel_row())
    assert (found.torch, found.python, found.platform, found.cuda) == ("2.6.0", "3.12", "linux_x86_64", "12.4")
    assert found.archs == ("5.0", "9.0+PTX"), "code of one chip alone is no architecture of its own"


def test_a_wheel_is_offered_for_each_python_and_each_platform_that_plans_know(monkeypatch: pytest.MonkeyPatch) -> None:
    many = wheel_row(pythons=("3.11", "3.12"), systems=("linux", "windows"), machines=("x86_64", "riscv64"))
    found = [(wheel.python, wheel.platform) for wheel in given_rows(monkeypatch, many)]
    platforms = ("linux_x86_64", "windows")
    assert found == [(python, platform) for platform in platforms for python in ("3.11", "3.12")]
    (amd,) = given_rows(monkeypatch, wheel_row(cuda=None, rocm="6.4", gfx=("gfx1031",), machines=("x86_64",)))
    assert amd.archs == ("gfx1031",) and amd.rocm == "6.4"


def test_only_grafts_for_torch_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    values: dict[str, Any] = {
        "url": "x",
        "wheel": "w.whl",
        "wheel_sha256": "1" * 64,
        "version": "2.6.0+g",
        "archs": ("sm_61",),
    }
    values |= {"bytes": 1, "sha256": "2" * 64, "added": "2026-01-01"}
    rows = [GraftRow(file=f"{name}.graft", project=name, **values) for name in ("xformers", "torch")]
    monkeypatch.setattr("rekindle.index.wheelhouse.catalogue.load_grafts", lambda place: rows)
    monkeypatch.setattr("rekindle.index.wheelhouse.catalogue.graft_location", lambda place, row: f"{place}/{row.file}")
    (found,) = house_grafts("/house")
    assert (found.url, found.version, found.archs) == ("/house/torch.graft", "2.6.0+g", ("sm_61",))


def test_what_a_described_machine_took_for_granted_is_told_with_its_flag() -> None:
    made = Plan(answer="install", torch="2.6.0", python="3.12")
    bare = Machine(os=Os(system="linux"))
    assert assumed_for(bare, Wish(), made) == ("x86-64 (--arch)", "Python 3.12 (--python)")
    arm, known = Machine(os=Os(system="linux", arch="aarch64")), Machine(os=bare.os, cpu=Cpu(microarchitecture="zen2"))
    assert assumed_for(arm, Wish(), made) == assumed_for(known, Wish(), made) == ("Python 3.12 (--python)",)
    assert assumed_for(arm, Wish(python="3.12"), made) == ()
    assert assumed_for(Machine(os=arm.os, pythons=(Python(version="3.12.1"),)), Wish(), made) == ()
    assert assumed_for(arm, Wish(), Plan(answer="none")) == ()


@pytest.mark.parametrize("where", ["machine.json", "folder/machine", "folder\\machine"])
def test_the_path_of_a_machine_without_a_file_is_no_profile(where: str) -> None:
    with pytest.raises(BadInput, match="cannot read"):
        api.find_machine(where)


def test_companions_and_an_application_are_planned_for_where_they_are_named() -> None:
    card = api.machine_from_flags(gpu=["RTX 3060"], os="linux", arch="x86_64", driver="570.86")
    assert api.plan(card, Wish(python="3.12"), wheelhouses=()).companions == ()
    beside = api.plan(card, Wish(python="3.12", companions=("triton",)), wheelhouses=())
    assert [one.name for one in beside.companions] == ["triton"]
    for wish in (Wish(python="3.12"), None):
        for_app = api.plan(card, wish, wheelhouses=(), app="comfyui")
        assert any(reason.code.startswith("app-") for reason in (*for_app.because, *for_app.warnings))


def test_a_name_is_a_profile_a_card_or_a_cpu_and_nonsense_is_told() -> None:
    assert api.inspect_machine("k40c-windows").os.system == "windows"
    both = api.inspect_machine("Ryzen 5 5600G")
    assert both.cpu.microarchitecture and all(gpu.vendor == "amd" for gpu in both.gpus)
    with pytest.raises(BadInput):
        api.inspect_machine("no such thing")
    with pytest.raises(BadInput, match="no such file"):
        api.inspect_machine("nowhere.json")


def test_what_can_be_installed_costs_disk_and_what_must_be_built_costs_time() -> None:
    card = api.machine_from_flags(gpu=["GTX 1080"], os="linux", arch="x86_64")
    wheel = api.choose_torch(card, Wish(python="3.12"), wheelhouses=())
    assert wheel.answer == "install" and wheel.pip and wheel.cpu == () and wheel.minutes is None and wheel.disk_gib
    built = api.choose_torch(card, Wish(python="3.12", build=True), wheelhouses=())
    assert built.answer == "build" and built.pip == () and built.minutes and built.disk_gib
    assert wheel.disk_gib < built.disk_gib
    old = api.machine_from_flags(gpu=["GeForce GTX 580"], os="linux", arch="x86_64")
    none = api.choose_torch(old, Wish(python="3.12"), wheelhouses=())
    assert none.answer == "none" and none.disk_gib is None and none.cpu[0][0].startswith("torch==")
