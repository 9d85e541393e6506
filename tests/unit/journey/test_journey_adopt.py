"""``adopt``: what it answers where torch must be compiled or a wheel is given, and after an undo that was killed."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from app_trees import add_extension, make_app
from rekindle import api
from rekindle.errors import BadInput, NotReady
from rekindle.facts import load_facts
from rekindle.interpreters.app_folder import AppFolder, find_app
from rekindle.interpreters.kept_places import ChangeRecord, KeptPlaces
from rekindle.journey import adopt as adopting
from rekindle.journey import adopt_forecast
from rekindle.journey import install as installing
from rekindle.journey.adopt_forecast import finish_restoring, kept_environments, own_root, recover_environment
from rekindle.model.adopt import AdoptOptions
from rekindle.model.interpreter import Interpreter
from rekindle.model.journey import Package
from rekindle.model.plan import BuildRecipe, Plan, Reason, Request
from rekindle.model.progress import Silent
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
    monkeypatch.setattr(adopt_forecast, "this_machine", lambda: None)
    monkeypatch.setattr(adopt_forecast, "make_plan", lambda *_words, **_more: made)
    monkeypatch.setattr(adopt_forecast, "plan_taken", lambda *_words, **_more: made)


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
    assert told.card is not None and told.card.places == (str(tmp_path),) and told.card.new is False
    assert told.card.network is None, "nothing but the folder is asked"
    with pytest.raises(BadInput, match="names no torch"):
        api.adopt(app, wheel=wheels[1:], dry_run=True)


def test_what_an_index_would_bring_is_asked_only_where_it_answers(app: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(name="torch", version="2.7.1", index="https://index.example")
    stand_in(monkeypatch, Plan(answer="install", torch="2.7.1", requests=(request,)))
    package = Package(name="torch", version="2.7.1", bytes=7)
    asked: list[dict[str, object]] = []

    def foresee(*_words: object, **told: object) -> tuple[tuple[Package, ...]]:
        asked.append(told)
        return ((package,),)

    monkeypatch.setattr(installing, "foresee", foresee)
    for why, packages in (("it is silent", None), (None, 1)):
        monkeypatch.setattr(adopting, "look_for_network", lambda places, why=why: why)
        card = api.adopt(app, dry_run=True).card
        assert card is not None and (card.network, card.packages) == (why, packages)
        assert card.places == ("https://index.example",) and card.into == str(app / "venv" / "bin" / "python")
    assert asked == [{"fresh": False, "substituted": False}]


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


def test_a_folder_that_may_not_be_written_is_refused_before_anything(
    app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, Plan(answer="none"))
    monkeypatch.setattr(os, "access", lambda place, _mode: Path(place) != app)
    with pytest.raises(NotReady, match="may not be written by you") as caught:
        api.adopt(app)
    assert str(app) in caught.value.message and "venv" not in caught.value.message


def found_app(root: Path) -> AppFolder:
    return AppFolder(name="comfyui", app=load_facts().apps.app["comfyui"], root=root, version=None, python=None)


def test_only_an_environment_of_the_applications_own_is_changed(tmp_path: Path) -> None:
    def python(root: Path, **more: object) -> Interpreter:
        return msgspec.convert({"path": "python", "version": "3.12.1", "prefix": str(root), **more}, Interpreter)

    app = found_app(tmp_path / "apps/ComfyUI")
    inside, beside, away = app.root / "venv", tmp_path / "apps/python_embeded", tmp_path / "elsewhere"
    for root in (inside, beside):
        assert own_root(python(root), app) == root
    with pytest.raises(NotReady, match="belongs to the system"):
        own_root(python(away), app)
    with pytest.raises(NotReady, match="belongs to the system"):
        own_root(python(inside, externally_managed=True), app)
    for mark in ("pyvenv.cfg", "python312._pth", "conda-meta"):
        root = tmp_path / f"away-{mark}"
        root.mkdir()
        (root / mark).mkdir() if mark == "conda-meta" else (root / mark).touch()
        assert own_root(python(root), app) == root
    with pytest.raises(NotReady, match="this Rekindle runs inside"):
        own_root(python(Path(sys.prefix)), app)


def test_a_later_change_that_was_cut_short_is_put_back_before_the_first(tmp_path: Path) -> None:
    root = tmp_path / "venv"
    root.mkdir()
    (root / "torch.py").write_text("before")
    first, again = kept_environments(root)
    first.keep()
    (root / "torch.py").unlink()
    (root / "torch.py").write_text("adopted")
    first.settle({"pins": "{}"}, again)
    again.keep()
    again.change_files({tmp_path / "uv.toml": "new"})
    (root / "torch.py").unlink()
    assert recover_environment(root) and not recover_environment(root)
    assert (root / "torch.py").read_text() == "adopted" and not (tmp_path / "uv.toml").exists()
    assert first.record is not None and first.record.notes == {"pins": "{}"} and again.record is None
    first.restore()
    assert (root / "torch.py").read_text() == "before" and [path.name for path in tmp_path.iterdir()] == ["venv"]


def test_what_a_second_adoption_wrote_goes_with_the_undo_of_the_first(tmp_path: Path) -> None:
    root, settings, node = tmp_path / "venv", tmp_path / "webui-user.sh", tmp_path / "nodes/old"
    root.mkdir()
    node.mkdir(parents=True)
    settings.write_text("mine")
    first, again = kept_environments(root)
    first.keep()
    first.change_files({settings: "mine, ours"})
    first.settle({}, again)
    again.keep()
    again.note_files([settings])
    first.put_files_back()
    assert settings.read_text() == "mine"
    again.change_files({settings: "mine, ours anew", tmp_path / "lists/pip": "torch"}, [(str(node), f"{node}.off")])
    first.settle({"pins": "{}"}, again)
    assert settings.read_text() == "mine, ours anew" and not node.exists() and again.record is None
    first.restore()
    assert settings.read_text() == "mine" and node.is_dir() and not (tmp_path / "lists").exists()


def test_an_extension_that_is_left_out_gets_the_name_that_the_application_passes_over(tmp_path: Path) -> None:
    folder = make_app(tmp_path / "ComfyUI", "comfyui", version="0.38.1")
    add_extension(folder, "wants-old-torch", "torch<2\n")
    found = find_app(folder, load_facts())

    def moves(found: AppFolder, *names: str) -> tuple[tuple[str, str], ...]:
        return adopting._Adopting(
            options=AdoptOptions(folder=folder, leave_out=names),
            found=found,
            interpreter=Interpreter(path=sys.executable, version="3.12.1"),
            root=folder,
            progress=Silent(),
            confirm=lambda _: True,
        )._moves()

    place = str(folder / "custom_nodes" / "wants-old-torch")
    assert moves(found, "wants-old-torch") == ((place, f"{place}.disabled"),) and moves(found) == ()
    with pytest.raises(BadInput, match="no such extension") as refused:
        moves(found, "unknown")
    assert "wants-old-torch" in (refused.value.remedy or "")
    without = dataclasses.replace(found, app=msgspec.structs.replace(found.app, disabled=None))
    with pytest.raises(BadInput, match="no such extension"):
        moves(without, "wants-old-torch")


@pytest.mark.parametrize(("code", "told"), [("app-torch-outside", True), ("another-warning", False)])
def test_a_torch_outside_of_what_the_application_takes_is_a_no(
    code: str, told: bool, app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warning = Reason(code=code, text="It takes torch below 2.0.")
    stand_in(monkeypatch, Plan(answer="none", torch="2.7.1", warnings=(warning,)))
    verdict = api.adopt(app).verdict
    assert ("It takes torch below 2.0." in verdict) is told and ("no torch can run here" in verdict) is not told
