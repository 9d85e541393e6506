"""``up --wheel``: which wheels are taken, what they make of the wish and the plan, and which are refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rekindle.api.plan_torch import plan as make_plan
from rekindle.errors import BadInput
from rekindle.host.made import MARK
from rekindle.host.workspace import Workspace
from rekindle.interpreters.environment import python_of
from rekindle.journey import up
from rekindle.journey.taken import name_taken, plan_taken, read_taken, refuse_other_plan, refuse_two_ways, wish_for
from rekindle.journey.walk import Walk
from rekindle.model.journey import BuiltCompanion, UpOptions
from rekindle.model.machine import Examination, Gpu, Machine, Os
from rekindle.model.plan import BuildRecipe, Plan, Request, Wish
from rekindle.model.progress import Silent
from rekindle.model.wheel import WheelReport
from rekindle.plan.describe import machine_from_flags
from rekindle.render.summary import summarise_plan
from rekindle.verify.target import promises
from tiny_wheels import make_wheel

NAME = Path("torch-2.6.0+cu124-cp311-cp311-linux_x86_64.whl")
BARE = Machine(os=Os(system="linux"))
CARD = Machine(os=Os(system="linux"), gpus=(Gpu(vendor="nvidia"),))


def report(version: str = "2.6.0+cu124", **more: Any) -> WheelReport:
    return WheelReport(name="torch", version=version, **more)


def plan(**more: Any) -> Plan:
    recipe = BuildRecipe(
        source="x", asserts={"USE_CUDA": "OFF"}, patches=("a",), losses=("slow",), disk_gib=12.0, minutes=(60, 90)
    )
    return Plan(**{"answer": "build", "torch": "2.6.0", "python": "3.11", "build": recipe, **more})


def test_it_is_read_without_running(tmp_path: Path) -> None:
    version = b"raise SystemExit\n__version__ = '2.6.0+cu124'\ncuda = '12.4'\n"
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="cp311-cp311-linux_x86_64", files={"torch/version.py": version})
    read = read_taken(wheel)
    assert (read.version, read.cuda) == ("2.6.0+cu124", "12.4")
    with pytest.raises(BadInput, match=r"tiny-1.0-py3-none-any.whl is tiny, and --wheel takes a torch"):
        read_taken(make_wheel(tmp_path))
    with pytest.raises(BadInput, match="there is no wheel"):
        read_taken(tmp_path / "torch.whl")


def test_what_the_wish_leaves_open_comes_from_the_wheel() -> None:
    made = wish_for(Wish(), report(cuda="12.4.131"), NAME, CARD)
    assert (made.torch, made.python, made.cuda, made.variant, made.build) == ("2.6.0", "3.11", "12.4", None, True)
    made = wish_for(Wish(), report(cuda="12.4"), NAME, BARE)
    assert (made.cuda, made.variant) == (None, None), "without a card nothing is compiled for one"
    assert wish_for(Wish(), report("2.6.0"), NAME, CARD).variant == "cpu"
    asked = Wish(torch=">=2.5", variant="cu126", python="3.11.7")
    made = wish_for(asked, report(cuda="12.4"), NAME, CARD)
    assert (made.torch, made.variant, made.cuda, made.python) == (">=2.5", "cu126", None, "3.11.7"), "said is said"


@pytest.mark.parametrize("python", ["3.12", "3.1"])
def test_a_wheel_for_another_python_is_refused(python: str) -> None:
    with pytest.raises(BadInput, match=rf"is for Python 3.11, and Python {python} is to get it") as refused:
        wish_for(Wish(python=python), report(), NAME, CARD)
    assert (refused.value.remedy or "").startswith("--python 3.11")


def test_nothing_of_torch_itself_is_left_in_the_plan(tmp_path: Path) -> None:
    wheel = tmp_path / NAME.name
    wheel.write_bytes(b"torch")
    wanted = Wish(torch="2.6.0", cuda="12.4", build=True, python="3.11")
    made = make_plan(machine_from_flags(gpu=["sm_75"]), wanted, wheelhouses=(), taken=name_taken(wheel))
    refuse_other_plan(made, report(cuda="12.4.131"), wheel)
    assert made.build is not None and (made.build.taken or "").startswith(f"{NAME.name} sha256:")
    build = made.build
    assert (build.asserts, build.patches, build.losses, build.disk_gib, build.minutes) == ({}, (), (), None, None)
    assert promises(made) == {"version": "2.6.0", "cuda": made.cuda}, "its code was not planned here"
    assert summarise_plan(made) == f"take {NAME.name} for Python 3.11, and build what goes beside it"
    first = name_taken(wheel)
    wheel.write_bytes(b"another torch")
    assert name_taken(wheel) != first, "another file is another plan"
    refuse_other_plan(plan(build=None, answer="none"), report(), wheel)


@pytest.mark.parametrize(
    ("planned", "found", "words", "remedy"),
    [
        ({"torch": "2.7.1"}, {}, "torch 2.7.1 was asked for", "--torch 2.6.0"),
        ({"cuda": "12.6"}, {"cuda": "12.4.131"}, r"for CUDA 12.6, and .* was built with CUDA 12.4.131", "--cuda 12.4"),
        ({"cuda": "12.4"}, {"version": "2.6.0"}, "was built with no CUDA", "--variant cpu"),
        ({"rocm": "6.2"}, {"cuda": "12.4"}, "was built with no ROCm", "--variant cpu"),
    ],
)
def test_a_wheel_that_the_plan_does_not_mean_is_refused(
    tmp_path: Path, planned: dict[str, Any], found: dict[str, Any], words: str, remedy: str
) -> None:
    wheel = tmp_path / NAME.name
    wheel.touch()
    with pytest.raises(BadInput, match=words) as refused:
        refuse_other_plan(plan(**planned), report(**found), wheel)
    assert (refused.value.remedy or "").endswith(remedy)


@pytest.mark.parametrize("other", [{"source": Path("tree")}, {"target": "c10"}, {"clean": True}])
def test_two_ways_at_once_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="is about building one"):
        refuse_two_ways(UpOptions(wheel=NAME, **other))
    refuse_two_ways(UpOptions(wheel=NAME))


@pytest.mark.parametrize(
    ("numpy", "companion", "asked"),
    [
        ("<2", True, ["torch", "torchvision", "numpy"]),
        (">=1.26", True, ["torch", "torchvision"]),
        ("<2", False, ["torch"]),
    ],
)
def test_a_companion_brings_no_numpy_that_the_torch_cannot_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numpy: str, companion: bool, asked: list[str]
) -> None:
    class Reached(Exception):
        pass

    def installed(_story: object, requests: tuple[Request, ...], _inputs: str) -> None:
        assert [one.name for one in requests] == asked
        assert [one.specifier for one in requests if one.name == "numpy"] == ["<2"] * ("numpy" in asked)
        raise Reached

    torch, vision = (make_wheel(tmp_path, name, "1.0") for name in ("torch", "torchvision"))
    beside = (
        BuiltCompanion(name="torchvision", version="1.0", wheel=str(vision) if companion else None, why=None),
        BuiltCompanion(name="torchaudio", why="Debian has none"),
    )
    machine = Examination(os=Os(system="linux"))
    monkeypatch.setattr(up, "doctor", lambda **_: machine)
    monkeypatch.setattr(up, "make_plan", lambda *_: plan(torch="1.13.1", numpy=numpy, python=None))
    monkeypatch.setattr(up._PlannedUp, "check", lambda _: ())
    monkeypatch.setattr(up, "build_from_source", lambda *_: torch)
    monkeypatch.setattr(up, "build_companions", lambda *_: beside)
    monkeypatch.setattr(up._PlannedUp, "_installed", installed)
    options = UpOptions(offline=True)
    with pytest.raises(Reached):
        up.run_up(Workspace(tmp_path / "ws"), options, Silent(), lambda *_: True)


def test_what_was_built_before_the_environment_was_there_is_kept_afterwards(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "ws")
    options = UpOptions(venv=tmp_path / "env")
    story = up._PlannedUp(
        walk=Walk(workspace, Silent()), workspace=workspace, options=options, progress=Silent(), machine=BARE,
        plan=plan(python=None),
    )  # fmt: skip
    before = story.build_python
    assert before == sys.executable
    python = python_of(tmp_path / "env")
    python.parent.mkdir(parents=True)
    python.touch()
    assert story.build_python == str(python), "an environment of the user's own gets the wheel for its own Python"
    (tmp_path / "env" / MARK).touch()
    assert story.build_python == before, "ours stands for the one it was made with"


def test_the_plan_of_a_taken_wheel_takes_that_very_file(tmp_path: Path) -> None:
    version = b"__version__ = '2.6.0+cu124'\ncuda = '12.4'\n"
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="cp311-cp311-linux_x86_64", files={"torch/version.py": version})
    machine = machine_from_flags(gpu=["sm_75"], os="linux", cuda="12.4", compiler="gcc-12")
    made = plan_taken(machine, Wish(), wheel)
    assert (made.answer, made.torch, made.cuda, made.python) == ("build", "2.6.0", "12.4", "3.11")
    assert made.build is not None and made.build.taken == name_taken(wheel)
    with pytest.raises(BadInput, match=r"was asked for, and torch-2\.6\.0"):
        plan_taken(machine, Wish(torch="2.7.1"), wheel)
