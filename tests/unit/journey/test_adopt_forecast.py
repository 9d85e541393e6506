"""What an adoption changes, told before: what is replaced, what goes, who wants another torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from app_trees import add_extension, make_app
from rekindle.facts import load_facts
from rekindle.interpreters.app_folder import find_app
from rekindle.interpreters.packages import Contents
from rekindle.journey.adopt_forecast import SwapForecast
from rekindle.model.adopt import AdoptOptions
from rekindle.model.guard import PackageRecord
from rekindle.model.interpreter import Interpreter
from rekindle.model.plan import Companion, Plan, Request

TORCH = Request(name="torch", version="2.7.1+cu126", why="runs on the card")
XFORMERS = {"xformers": "0.0.28"}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return make_app(tmp_path / "ComfyUI", "comfyui", version="0.38.1")


def forecast(app: Path, plan: Plan, held: dict[str, str], requires: tuple[str, ...] = ()) -> SwapForecast:
    options, facts = AdoptOptions(folder=app), load_facts()
    one = SwapForecast(
        options=options, found=find_app(app, facts), interpreter=Interpreter(path=sys.executable, version="3.12.1")
    )
    packages = tuple(PackageRecord(name=name, version=version, requires=requires) for name, version in held.items())
    known: dict[str, Any] = vars(one)
    known.update(held=Contents(packages=packages), plan=plan)
    return one


def companion(name: str, answer: str, version: str | None = None) -> Companion:
    requests = (Request(name=name, version=version),) if version else ()
    return Companion(name=name, answer=answer, version=version, why=f"{name}: {answer}", requests=requests)  # type: ignore[arg-type]


def changes(one: SwapForecast) -> list[tuple[str, str | None, str | None]]:
    return [(change.name, change.from_, change.to) for change in one.changes()]


def test_only_what_becomes_another_is_a_change(app: Path) -> None:
    plan = Plan(answer="install", torch="2.7.1", requests=(TORCH,))
    assert changes(forecast(app, plan, {"torch": "2.5.0"})) == [("torch", "2.5.0", "2.7.1+cu126")]
    assert changes(forecast(app, plan, {})) == [("torch", None, "2.7.1+cu126")]
    assert changes(forecast(app, plan, {"torch": "2.7.1+cu126", "torchvision": "0.22"})) == []


def test_what_was_compiled_for_the_old_torch_goes_where_nothing_fits_the_new_one(app: Path) -> None:
    held = {"torch": "2.5.0", "torchvision": "0.20.0", "einops": "0.8", **XFORMERS}
    plan = Plan(
        answer="install",
        torch="2.7.1",
        requests=(TORCH,),
        companions=(companion("xformers", "none"), companion("sageattention", "none"), companion("triton", "unknown")),
    )
    one = forecast(app, plan, held)
    assert set(one.goes) == {"torchvision", "xformers"} and one.goes["xformers"] == "xformers: none"
    assert ("torchvision", "0.20.0", None) in changes(one) and ("xformers", "0.0.28", None) in changes(one)
    # Torch and its pair are no companions, nor is what no table names.
    assert one.installed_companions == {"xformers": "xformers"}
    same = forecast(app, plan, {**held, "torch": "2.7.1+cu126"})
    assert same.goes == {}, "it stays what it was compiled for"


def test_a_companion_with_a_wheel_is_exchanged(app: Path) -> None:
    runs = companion("xformers", "runs", "0.0.30")
    assert runs.comes and not companion("xformers", "build", "0.0.30").comes and not companion("x", "runs").comes
    plan = Plan(answer="install", torch="2.7.1", requests=(TORCH,), companions=(runs,))
    one = forecast(app, plan, {"torch": "2.5.0", **XFORMERS})
    assert ("xformers", "0.0.28", "0.0.30") in changes(one) and one.goes == {}
    assert not any(name == "xformers" for name, _, _ in changes(forecast(app, plan, {"torch": "2.5.0"})))
    already = forecast(app, plan, {"torch": "2.5.0", "xformers": "0.0.30"})
    assert not any(name == "xformers" for name, _, _ in changes(already))


def test_who_wants_another_torch_is_told_with_the_way_around_it(app: Path) -> None:
    add_extension(app, "old-nodes", "torch<2.7\nnumpy\n")
    plan = Plan(answer="install", torch="2.7.1", requests=(TORCH,))
    told = forecast(app, plan, {"torch": "2.5.0"}).conflicts()
    assert any("old-nodes wants torch<2.7" in line and "--leave-out old-nodes" in line for line in told)
    by_package = forecast(app, plan, {"peft": "0.1"}, requires=("torch<2.7", "numpy")).conflicts()
    assert any("peft 0.1 wants torch<2.7" in line and "--leave-out" not in line for line in by_package)
    assert not any("torch" in line for line in forecast(app, plan, {"torch": "2.5.0"}, ("torch<2",)).conflicts()[1:])


def test_what_comes_is_known_where_its_version_is(app: Path) -> None:
    numpy = Request(name="NumPy", specifier="<2")
    one = forecast(app, Plan(answer="install", torch="2.7.1", requests=(TORCH, numpy)), {"numpy": "2.1"})
    assert one.coming == {"torch": "2.7.1+cu126"} and changes(one) == [("torch", None, "2.7.1+cu126")]


def test_the_torch_that_will_be_there_is_that_of_the_request_then_of_the_plan(app: Path) -> None:
    assert forecast(app, Plan(answer="install", torch="2.7.1", requests=(TORCH,)), {}).torch == "2.7.1+cu126"
    assert forecast(app, Plan(answer="none", torch="2.7.1"), {}).torch == "2.7.1"
    assert forecast(app, Plan(answer="none"), {}).torch == ""
