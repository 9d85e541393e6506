"""``up`` where the plan says graft: after a yes the official wheel is grafted, kept and installed; nothing is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rekindle.errors import BadInput, MissingTool, StageFailed
from rekindle.host.files import sha256_of
from rekindle.host.workspace import Workspace
from rekindle.journey import grafting, up
from rekindle.journey.walk import Walk
from rekindle.model.graft import GraftReport, UnitOutcome
from rekindle.model.journey import Installation, Journey, UpOptions
from rekindle.model.machine import Examination, Os, Ready
from rekindle.model.plan import GraftOutline, Plan, Request
from rekindle.model.progress import Silent
from rekindle.model.verify import VerifyReport
from rekindle.render.summary import summarise_plan

TORCH = Request(name="torch", version="2.12.1+cu126", index="https://index.example/cu126")
BESIDE = Request(name="torchvision", version="0.27.1+cu126")
OUTLINE = GraftOutline(
    wheel="torch 2.12.1+cu126", archs=("sm_75",), toolkit="12.6", minutes=(10, 12), disk_gib=8.0, losses=("MAGMA",)
)
PLAN = Plan(
    answer="graft", torch="2.12.1", variant="cu126", cuda="12.6", python="3.12", requests=(TORCH,), graft=OUTLINE
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What the graft stage was told; it answers with a file that lies there."""
    told: dict[str, Any] = {}
    wheel = tmp_path / "torch-2.12.1+cu126.sm75-cp312-cp312-linux_x86_64.whl"

    def made(*words: object, **named: object) -> GraftReport:
        told.setdefault("calls", []).append((words, named))
        wheel.write_bytes(b"grafted")
        units = tuple(
            UnitOutcome(library="l", container=number, state=state, why=told.get("why", {}).get(number, "why so"))
            for number, state in enumerate(told.get("states", ("added", "left-out")))
        )
        out = str(wheel) if any(unit.state == "added" for unit in units) else None
        return GraftReport(
            wheel="w", wheel_sha256="0", bytes_before=1, card="sm_75", arch="sm_75", units=units, out=out,
            sha256=sha256_of(wheel),
        )  # fmt: skip

    monkeypatch.setattr("rekindle.api.graft", made)
    monkeypatch.setattr("rekindle.api.graft_apply", made)
    return told


def _legs(folder: Path, plan: Plan = PLAN, **chosen: Any) -> tuple[Path, list[tuple[str, str, str]]]:
    walk = Walk(Workspace(folder / "w"), Silent())
    wheel, requests = grafting.graft_requests(walk, plan, (TORCH, BESIDE), UpOptions(**chosen))
    assert requests == (Request(name="torch", url=str(wheel), why="the official wheel, grafted"), BESIDE)
    return wheel, [(leg.name, leg.status, leg.detail) for leg in walk.legs]


def test_the_wheel_of_the_plans_index_is_grafted_and_kept(asked: dict[str, Any], tmp_path: Path) -> None:
    wheel, legs = _legs(tmp_path, jobs=3, find_links=("here",), offline=True)
    ((name, chosen), named), *more = asked["calls"]
    assert name == "torch==2.12.1" and chosen.index == TORCH.index and not more
    assert (named["gpu"], chosen.jobs, chosen.links, chosen.offline) == (("sm_75",), 3, ("here",), True)
    assert chosen.leave_out is True and chosen.sources is None
    assert legs == [("graft", "done", "1 of 2 units got code for sm_75; 1 stay without")]
    assert _legs(tmp_path)[1][0][1] == "kept" and len(asked["calls"]) == 1
    busier = msgspec.structs.replace(PLAN, graft=msgspec.structs.replace(OUTLINE, jobs=1, minutes=(90, 120)))
    assert _legs(tmp_path, busier)[1][0][1] == "kept" and len(asked["calls"]) == 1
    wheel.write_bytes(b"another")
    assert _legs(tmp_path)[1][0][1] == "done" and len(asked["calls"]) == 2


@pytest.mark.parametrize("other", [{"archs": ("sm_70",)}, {"wheel": "torch 2.12.1+cu128"}, {"file": "/house/x.graft"}])
def test_a_graft_of_something_else_is_made_again(asked: dict[str, Any], tmp_path: Path, other: dict[str, Any]) -> None:
    _legs(tmp_path)
    plan = msgspec.structs.replace(PLAN, graft=msgspec.structs.replace(OUTLINE, **other))
    assert _legs(tmp_path, plan)[1][0][1] == "done" and len(asked["calls"]) == 2


def test_a_graft_made_before_is_applied(asked: dict[str, Any], tmp_path: Path) -> None:
    made = msgspec.structs.replace(OUTLINE, file="/house/x.graft", toolkit=None, minutes=None)
    _legs(tmp_path, msgspec.structs.replace(PLAN, graft=made))
    assert asked["calls"][0][0][:2] == ("torch==2.12.1", "/house/x.graft") and "gpu" not in asked["calls"][0][1]


def test_nothing_grafted_is_one_line_and_names_the_build(asked: dict[str, Any], tmp_path: Path) -> None:
    asked["states"], asked["why"] = ("has", "refused", "left-out"), {0: "it has it", 1: None}
    with pytest.raises(StageFailed, match=r"could not be grafted: 0 of \d units.*why so") as stopped:
        _legs(tmp_path, source=tmp_path)
    assert asked["calls"][0][0][1].sources == str(tmp_path)
    assert "--build" in (stopped.value.remedy or "") and "\n" not in stopped.value.message


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Examination(os=Os(system="linux", distro="debian 12"), ready=Ready(build=True, use=True))
    monkeypatch.setattr(up, "doctor", lambda **_: machine)
    monkeypatch.setattr(up, "make_plan", lambda *_, **__: PLAN)
    monkeypatch.setattr(up, "look_for_network", lambda _: None)
    monkeypatch.setattr(up._PlannedUp, "_foresee", lambda *_: (None,))


def test_a_dry_run_says_what_it_would_do(planned: None, asked: dict[str, Any], tmp_path: Path) -> None:
    journey = up.run_up(Workspace(tmp_path / "w"), UpOptions(dry_run=True), Silent(), lambda *_: True)
    assert journey.arrived and "dry run" in journey.verdict and not asked and not (tmp_path / "w").exists()
    assert journey.card is not None and journey.card.minutes == (10, 12)
    assert journey.card.what == (
        "torch 2.12.1+cu126, grafted for sm_75 by nvcc of CUDA 12.6, which is not here (its compiler is enough:"
        " pip install nvidia-cuda-nvcc)",
    )
    assert "MAGMA" in journey.card.wont
    assert summarise_plan(PLAN).startswith("graft the official torch 2.12.1+cu126 for Python 3.12 for sm_75, about")


def test_without_a_yes_or_a_toolkit_nothing_is_done(
    planned: None, asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr("rekindle.graft.order.find_tools", lambda _, cards, *__: found.extend(map(str, cards)))
    with pytest.raises(BadInput, match="needs a yes"):
        up.run_up(Workspace(tmp_path / "w"), UpOptions(), Silent(), lambda *_: False)
    assert found == ["sm_75"] and not asked

    def none(*_: object) -> None:
        raise MissingTool("there is no ptxas")

    monkeypatch.setattr("rekindle.graft.order.find_tools", none)
    with pytest.raises(MissingTool):
        up.run_up(Workspace(tmp_path / "w"), UpOptions(), Silent(), lambda *_: True)
    assert not asked


def test_the_grafted_wheel_takes_the_place_of_the_official_one_alone(asked: dict[str, Any], tmp_path: Path) -> None:
    vision = Request(name="torchvision", version="0.27.1+cu126", index=TORCH.index)
    walk = Walk(Workspace(tmp_path / "w"), Silent())
    wheel, requests = grafting.graft_requests(walk, PLAN, (vision, TORCH), UpOptions())
    assert [(one.name, one.url) for one in requests] == [("torch", str(wheel)), ("torchvision", None)]
    assert asked["calls"][0][0][0] == "torch==2.12.1"


def test_a_grafted_torch_is_installed_proven_and_named(
    planned: None, asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.graft.order.find_tools", lambda *_: None)
    installed: list[tuple[tuple[Request, ...], str]] = []

    def install(self: object, requests: tuple[Request, ...], inputs: str) -> Installation:
        installed.append((requests, inputs))
        return Installation(python="p", packages={"torch": "2.12.1"}, wheel_sha256=sha256_of(wheel), fingerprint="f")

    monkeypatch.setattr(up._PlannedUp, "_installed", install)
    monkeypatch.setattr(up._PlannedUp, "_fingerprint", lambda _: "f")
    monkeypatch.setattr(up, "verify", lambda **_: VerifyReport(verdict="proven", passed=4))
    wheel = tmp_path / "torch-2.12.1+cu126.sm75-cp312-cp312-linux_x86_64.whl"

    def walk() -> Journey:
        return up.run_up(Workspace(tmp_path / "w"), UpOptions(), Silent(), lambda *_: True)

    journey = walk()
    assert journey.arrived and journey.verdict == "torch 2.12.1 runs on this machine: 4 checks passed"
    assert (journey.wheel, journey.wheel_sha256) == (str(wheel), sha256_of(wheel))
    assert [request.url for request in installed[0][0]] == [str(wheel)]
    assert walk().arrived and installed[1] == installed[0], "the same wheel is the same install"
