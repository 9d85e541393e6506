"""Disk, phase by phase: which file system each writes to, the first that cannot end, and what is not known."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import needs
from bare_host import BareHost
from rekindle.compat.resources import Demand, Shortage, first_shortage, measured_bytes
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Disk, Host
from rekindle.model.machine import Check
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.model.spoken import GIB
from rekindle.model.supply import DiskPhase
from rekindle.readiness.case import PlannedBuild
from rekindle.readiness.space import demands_of, disk_for_build
from small_disks import small_disk_at

ROOM = {"/a": (1, 10), "/b": (2, 5), "/a/too": (1, 10), "/untold": (None, 4), "/untold too": (None, 4)}


class Disks(BareHost):
    """File systems by the beginning of a path."""

    def __init__(self, **free_gib: float) -> None:
        self.free = free_gib

    def disk(self, path: str) -> Disk | None:
        for number, (name, gib) in enumerate(self.free.items()):
            if path.replace("\\", "/").startswith(f"/{name}"):
                return Disk(total=1 << 50, free=int(gib * GIB), device=number)
        return None


def check_disk(host: Host, plan: Plan, places: Mapping[DiskPhase, Path], tree: SourceTree | None) -> Iterator[Check]:
    return disk_for_build(host, PlannedBuild(plan=plan, python="", place=places["compile"], places=places, tree=tree))


def plan(**more: Any) -> Plan:
    recipe = BuildRecipe(source="x", origin=more.pop("origin", "debian"), disk_gib=12.0)
    return Plan(**{"answer": "build", "torch": "1.13.1", "build": recipe, **more})


def places(**named: str) -> dict[DiskPhase, Path]:
    usual = {"fetch": "/work", "environment": "/work", "compile": "/work", "wheel": "/work"}
    return {phase: Path(place) for phase, place in {**usual, **named}.items()}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("asked", "short"),
    [
        ([("/a", 10)], None),
        ([("/a", 11)], (0, 0)),
        ([("/a", 6), ("/a/too", 4)], None),
        ([("/a", 6), ("/a/too", 5)], (1, 6)),
        ([("/a", 6), ("/b", 5), ("/a", 4)], None),
        ([("/a", 6), ("/b", 6), ("/a", 5)], (1, 0)),
        ([("/a", None), ("/a", 10)], None),
        ([("/nowhere", 99)], None),
        ([("/untold", 4), ("/untold too", 4)], None),
        ([("/untold", 2), ("/untold", 3)], (1, 2)),
        ([], None),
    ],
)
def test_what_stays_on_one_file_system_adds_up(
    asked: list[tuple[str, int | None]], short: tuple[int, int] | None
) -> None:
    demands = [Demand(f"phase {number}", place, size) for number, (place, size) in enumerate(asked)]
    found = first_shortage(demands, ROOM.get)
    if short is None:
        assert found is None
        return
    number, before = short
    place = ROOM.get(asked[number][0])
    assert place is not None
    assert found == Shortage(demands[number], before, place[1])


def test_only_what_was_measured_counts() -> None:
    facts = load_facts()
    assert measured_bytes("compile", "torch", "1.13.1", facts, gpu=False) == int(2.8 * GIB)
    assert measured_bytes("compile", "torch", "1.13.1", facts, gpu=True) is None, "no CUDA build's tree was measured"
    assert measured_bytes("fetch", "torch", "1.13.1", facts, gpu=False, origin="git") is None
    older, newer = (
        measured_bytes("fetch", "torch", version, facts, gpu=True, origin="debian") for version in ("2.5.1", "2.6.0")
    )
    assert older and newer and older < newer, "each release by the newest row that counts for it"
    assert measured_bytes("compile", "torch-scatter", "2.6.0", facts, gpu=False) is None


@needs.posix()
def test_enough_is_told_with_what_is_not_known() -> None:
    (check,) = check_disk(Disks(work=30), plan(origin="git"), places(verify="/work"), None)
    assert (check.status, check.want) == ("ok", "12 GiB")
    words = "(fetch unknown, environment 193 MB, compile 3.0 GB, wheel 54 MB, verify unknown)"
    assert check.found == f"32 GB free where /work lies {words}"
    (check,) = check_disk(Disks(work=11), plan(), places(), None)
    assert check.status == "warn", "less than the plan expects, more than was measured"


@needs.posix()
def test_the_phase_that_does_not_fit_is_named() -> None:
    with pytest.raises(BadInput) as refused:
        list(check_disk(Disks(work=3), plan(), places(), None))
    assert refused.value.message == (
        "compile needs 3.0 GB beside 365 MB of earlier phases at /work, and 3.2 GB are free there"
    )
    assert (refused.value.remedy or "").endswith("or work on another: --workspace DIR")
    gpu = plan(cuda="11.8")
    with pytest.raises(BadInput, match=r"^verify needs 2.5 GB at /venv, and 2.1 GB are free there") as refused:
        list(check_disk(Disks(work=9, venv=2), gpu, places(verify="/venv", bundle="/work"), None))
    assert "--venv DIR" in (refused.value.remedy or "")
    with pytest.raises(BadInput, match=r"^bundle needs 752 MB at /out"):
        list(check_disk(Disks(work=9, out=0.5), gpu, places(bundle="/out"), None))
    with pytest.raises(BadInput, match=r"^only 1.9 GiB are free where /work lies"):
        list(check_disk(Disks(work=1.9), plan(torch="9.9", project="torch-scatter"), places(), None))
    assert not list(check_disk(Disks(), plan(), places(), None)), "a disk that does not answer is not held against us"


@needs.posix()
def test_what_is_there_is_not_asked_for_again(tmp_path: Path) -> None:
    tree = SourceTree(project="torch", version="1.13.1", root=str(tmp_path))
    phases = [one.phase for one in demands_of(plan(), places(), tree)]
    assert phases == ["environment", "compile", "wheel"], "the tree is there"
    (tmp_path / "build/temp.linux").mkdir(parents=True)
    (tmp_path / "build/temp.linux/a.o").touch()
    assert [one.phase for one in demands_of(plan(), places(), tree)] == ["environment", "wheel"], "a build continues"
    (check,) = check_disk(Disks(work=3), plan(), places(), tree)
    assert check.status == "ok"


@needs.tool("mount")
def test_two_real_file_systems() -> None:
    with tempfile.TemporaryDirectory() as folder, small_disk_at(Path(folder, "small"), "64m") as small:
        host = LiveHost()
        big, little = host.disk(folder), host.disk(str(small / "not/yet"))
        assert big and little and big.device != little.device
        assert little.free <= 64 << 20
        asked = {"fetch": Path(folder), "environment": Path(folder), "compile": Path(folder), "wheel": small}
        with pytest.raises(BadInput, match=r"wheel needs 204 MB at .*small, and 67 MB are free there"):
            list(check_disk(host, plan(cuda="11.8"), asked, None))  # type: ignore[arg-type]


def test_just_enough_is_enough() -> None:
    stranger = plan(project="torch-scatter", torch=None)
    (check,) = check_disk(Disks(work=2), stranger, places(), None)
    assert check.status == "warn", "two gibibytes are what any build begins with"
    with pytest.raises(BadInput, match="are free where"):
        list(check_disk(Disks(work=2 - 1 / GIB), stranger, places(), None))
    for free, status in ((12.0, "ok"), (12.0 - 1 / GIB, "warn")):
        (check,) = check_disk(Disks(work=free), plan(), places(), None)
        assert check.status == status


def test_without_a_release_the_newest_counts() -> None:
    newest = load_facts().releases[0]
    assert demands_of(plan(torch=None), places(), None) == demands_of(plan(torch=newest), places(), None)
    assert demands_of(plan(torch=None), places(), None) != demands_of(plan(torch="1.13.1"), places(), None)
