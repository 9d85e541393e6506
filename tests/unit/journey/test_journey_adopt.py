"""``adopt``: what it answers where torch must be compiled or a wheel is given, and after an undo that was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from app_trees import make_app
from rekindle import api
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.interpreters.kept_places import ChangeRecord, KeptPlaces
from rekindle.journey import adopt as adopting
from rekindle.journey.adopt_place import finish_restoring
from rekindle.model.plan import BuildRecipe, Plan
from tiny_wheels import make_wheel


@pytest.mark.parametrize("place", ["venv", "."])
def test_an_environment_that_is_missing_comes_back(tmp_path: Path, place: str) -> None:
    app = tmp_path / "ComfyUI"
    root = app / place if place != "." else app
    root.mkdir(parents=True)
    (root / "torch.py").write_text("old")
    kept = KeptPlaces([root])
    kept.keep()
    assert not finish_restoring(app, load_facts()), "nothing is missing"
    kept.write(ChangeRecord(phase="restoring"))
    root.rename(kept.folder / "changed")
    assert finish_restoring(app, load_facts())
    assert (root / "torch.py").read_text() == "old" and not kept.folder.exists()
    assert not finish_restoring(app, load_facts())


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """ComfyUI with an environment that holds nothing."""
    folder = make_app(tmp_path / "my apps" / "ComfyUI", "comfyui", version="0.38.1")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    return folder


def stand_in(monkeypatch: pytest.MonkeyPatch, made: Plan) -> None:
    monkeypatch.setattr(adopting, "this_machine", lambda: None)
    monkeypatch.setattr(adopting, "make_plan", lambda *_words, **_more: made)
    monkeypatch.setattr(adopting, "plan_taken", lambda *_words, **_more: made)


def recipe(**more: object) -> BuildRecipe:
    return msgspec.convert({"source": "git", "minutes": [200, 400], **more}, BuildRecipe)


def test_a_torch_that_must_be_compiled_is_a_no_with_hours_and_lines(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, Plan(answer="build", torch="2.7.1", cuda="11.8", build=recipe()))
    told = api.adopt(app)
    assert (told.state, told.good, told.changes) == ("no", False, ())
    assert "3.3 to 6.7 hours" in told.verdict and "no wheel of it was given" in told.verdict
    assert any(line.startswith("rekindle up --build --torch 2.7.1 --cuda 11.8 --python 3.") for line in told.next)
    assert any("--wheel" in line and line.endswith("torch-2.7.1*.whl") for line in told.next)


def test_a_wheel_that_was_built_before_is_what_comes(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, Plan(answer="build", torch="2.7.1", numpy=">=1.26,<2", build=recipe(taken="torch.whl")))
    wheels = [make_wheel(tmp_path, "torch", "2.7.1+cu118"), make_wheel(tmp_path, "torchvision", "0.22.1+cu118")]
    make_wheel(tmp_path, "numpy", "1.26.4")
    told = api.adopt(app, wheel=wheels, dry_run=True, offline=True, find_links=[str(tmp_path)])
    assert (told.state, told.next) == ("planned", ())
    assert {(one.name, one.to, one.why) for one in told.changes} == {
        ("torch", "2.7.1+cu118", "the wheel that was given"),
        ("torchvision", "0.22.1+cu118", "the wheel that was given"),
    }
    with pytest.raises(BadInput, match="names no torch"):
        api.adopt(app, wheel=wheels[1:], dry_run=True)


@pytest.mark.parametrize(
    ("there", "wanted", "same"),
    [
        ("2.9.1+cpu", "2.9.1+cpu", True),
        ("2.9.1", "2.9.1+cpu", True),
        ("2.9.1+cu126.sm75", "2.9.1+cu126", True),
        ("2.9.1+cu118", "2.9.1", True),
        ("2.9.1+cu130", "2.9.1+cu126", False),
        ("2.9.10", "2.9.1", False),
        ("", "2.9.1", False),
    ],
)
def test_a_torch_of_an_earlier_adoption_is_known_again(there: str, wanted: str, same: bool) -> None:
    assert adopting.is_same_torch(there, wanted) is same
