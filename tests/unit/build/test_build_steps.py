"""Small steps of a build: tools by links, a place for the wheel, the Python it gets, what an earlier run left."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.build import companion, engine, steps
from rekindle.build.companion import Torch, torch_of
from rekindle.build.report import _title
from rekindle.build.tree import TreeState, load_state, save_state
from rekindle.errors import BadInput, OtherPlan
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.interpreters.packages import Contents
from rekindle.model.build import BuildResult
from rekindle.model.build_options import BuildOptions
from rekindle.model.guard import PackageRecord
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.toolkits.programs import Tool

PLAN = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="torch", pins={"numpy": "<2"}))
posix = pytest.mark.skipif(os.name == "nt", reason="Windows gets the tools' own folders")


@posix
def test_exactly_the_chosen_tools_are_found_first(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_text("")
    folder = tmp_path / "ws" / "tools"
    chosen = Tool(name="ninja", path=str(tmp_path / "old"), version="1.13")
    assert steps.link_tools(folder, chosen) == [folder]
    link = folder / "ninja"
    assert link.readlink() == tmp_path / "old"
    first = link.lstat().st_ino
    steps.link_tools(folder, chosen)
    assert link.lstat().st_ino == first, "what is right stays"
    steps.link_tools(folder, Tool(name="ninja", path=str(tmp_path / "new"), version="1.13"))
    assert link.readlink() == tmp_path / "new"


def test_the_place_of_the_wheel_is_empty(tmp_path: Path) -> None:
    work: Any = SimpleNamespace(workspace=Workspace(tmp_path))
    out = steps._empty_dist(work)
    (out / "old.whl").write_text("")
    assert out == tmp_path / "build" / "dist"
    assert list(steps._empty_dist(work).iterdir()) == []


def building(tmp_path: Path, **more: Any) -> Any:
    tree = tmp_path / "build"
    tree.mkdir(exist_ok=True)
    notes: list[str] = []
    return SimpleNamespace(
        plan=PLAN,
        options=BuildOptions(**more),
        workspace=Workspace(tmp_path / "ws"),
        front=SimpleNamespace(build_tree=tree, requires=("setuptools<80", "torch"), backend=""),
        host=LiveHost(),
        log=SimpleNamespace(write=notes.append),
        notes=notes,
        note=notes.append,
        phase=lambda name, detail="": contextlib.nullcontext(),
    )


def test_the_environment_of_an_extension_is_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(engine, "prepare_target", lambda *words: asked.append(words))
    monkeypatch.setattr(engine, "take_as_is", lambda *words: "as it is")
    python: Any = SimpleNamespace(tag="cp311", path="/p", version="3.11.4")
    work = building(tmp_path)
    engine._target_python(work, python, None)
    assert asked[0][2] == tmp_path / "ws" / "python" / "cp311"
    assert asked[0][3] == ("numpy<2", "setuptools<80", "torch", "wheel")
    engine._target_python(work, python, "torch==2.6.0")
    assert asked[1][2] == tmp_path / "ws" / "python" / "cp311-torch"
    assert asked[1][3] == ("numpy<2", "setuptools<80", "wheel", "torch==2.6.0")
    assert engine._target_python(building(tmp_path, as_is=True), python, None) == "as it is"  # type: ignore[comparison-overlap]


def state(**more: Any) -> TreeState:
    values: dict[str, Any] = {"project": "torch", "version": "1", "settings": {}, "runs": 1, **more}
    return TreeState(**values)


def test_a_state_says_nothing_that_was_not_said() -> None:
    bare = TreeState(project="torch", version=None, settings={})
    assert (bare.running, bare.configured, bare.runs, bare.python, bare.source_digest) == (False, False, 0, None, None)


def test_a_first_run_finds_nothing(tmp_path: Path) -> None:
    assert engine._earlier_state(building(tmp_path), state()) is None


def test_a_clean_build_leaves_an_empty_tree(tmp_path: Path) -> None:
    work = building(tmp_path, clean=True)
    save_state(work.front.build_tree, state())
    for _ in range(2):
        assert engine._earlier_state(work, state()) is None
        assert list(work.front.build_tree.iterdir()) == [], "also where it is empty already"


def test_another_plan_is_refused_only_where_something_was_compiled(tmp_path: Path) -> None:
    work = building(tmp_path)
    save_state(work.front.build_tree, state(version="2"))
    assert engine._earlier_state(work, state()) is None
    assert work.notes == ["configuring anew: version was '2' and is now '1'"]
    assert load_state(work.front.build_tree) is None
    save_state(work.front.build_tree, state(version="2"))
    (work.front.build_tree / ".ninja_log").write_text("# ninja log v5\n0\t9\t9\ta.o\tff\n")
    (work.front.build_tree / "a.o").write_text("x")
    with pytest.raises(OtherPlan, match="version was '2' and is now '1'"):
        engine._earlier_state(work, state())


def test_an_interrupted_run_continues_without_empty_outputs(tmp_path: Path) -> None:
    work = building(tmp_path)
    tree = work.front.build_tree
    (tree / ".ninja_log").write_text("# ninja log v5\n0\t9\t9\ta.o\tff\n")
    (tree / "a.o").write_text("")
    save_state(tree, state(running=True, source_digest="aa"))
    before = engine._earlier_state(work, state(source_digest="bb"))
    assert before is not None and not (tree / "a.o").exists()
    assert len(work.notes) == 3 and work.notes[0].startswith("the sources have changed")
    assert work.notes[2] == "1 outputs were empty after the last run and are made again"
    work.notes.clear()
    save_state(tree, state())
    assert engine._earlier_state(work, state()) == state() and work.notes == []


def test_the_torch_of_a_python_by_its_own_word(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Contents(packages=(PackageRecord(name="torch", version="2.6.0"),))
    monkeypatch.setattr(companion, "ask_interpreter", lambda host, python: SimpleNamespace(short="3.11"))
    monkeypatch.setattr(companion, "ask_contents", lambda host, python: held)
    assert torch_of(LiveHost(), "p") == Torch("2.6.0", None, "3.11")
    held = Contents(packages=held.packages, torch={"__version__": "2.6.0+cu124"})
    assert torch_of(LiveHost(), "p") == Torch("2.6.0", "cu124", "3.11")
    held = Contents()
    with pytest.raises(BadInput, match="p has no torch"):
        torch_of(LiveHost(), "p")


def test_the_title_of_a_report() -> None:
    made = BuildResult(project="torch", wheel="/w/torch.whl", wheel_sha256="", plan=PLAN, plan_digest="", python="3.11")
    assert _title(made) == ("torch 2.6.0 is built", "torch.whl, for Python 3.11")
    import msgspec

    again = msgspec.structs.replace(made, resumed=True, wheel="", target="c10", python=None)
    assert _title(again) == ("c10 of torch 2.6.0 is built", "no wheel asked for, continued an earlier run")


def test_only_the_first_three_differences_are_named(tmp_path: Path) -> None:
    from rekindle.build.tree import differences, refuse_other_plan

    def other(count: int) -> str:
        changes = differences(state(), state(settings={f"env {n}": "1" for n in range(count)}))
        with pytest.raises(OtherPlan) as caught:
            refuse_other_plan(changes, tmp_path)
        return caught.value.message

    assert differences(state(), state()) == []
    assert other(3).count(" is now ") == 3 and "more)" not in other(3)
    assert other(4).count(" is now ") == 3 and other(4).endswith("(and 1 more)")


@pytest.mark.parametrize(
    ("text", "told"),
    [("argparse --cmake-only", {}), ("os.environ['CMAKE_ONLY']", {"CMAKE_ONLY": "1"}), ("setup()", {})],
)
def test_how_a_tree_is_told_to_configure_only(tmp_path: Path, text: str, told: dict[str, str]) -> None:
    from rekindle.build.frontend import find_front_end

    (tmp_path / "setup.py").write_text(text)
    assert find_front_end(tmp_path).configure_environment == told


def test_a_wheel_is_packed_at_the_usual_level(tmp_path: Path) -> None:
    import random
    import zipfile
    import zlib

    from rekindle.build.finish import finish_wheel

    dice = random.Random(1)
    data = b"".join(dice.choice((b"alpha", b"beta", b"gamma", b"delta", b"epsilon")) for _ in range(20_000))
    sizes = {}
    for level in (5, 6, 7):
        press = zlib.compressobj(level, zlib.DEFLATED, -15)
        sizes[level] = len(press.compress(data) + press.flush())
    assert len(set(sizes.values())) == 3
    with zipfile.ZipFile(tmp_path / "in.whl", "w") as out:
        out.writestr("torch/data", data)
        out.writestr("torch-1.dist-info/METADATA", "Name: torch\n")
    finish_wheel(tmp_path / "in.whl", tmp_path / "out.whl", epoch=0, add={})
    with zipfile.ZipFile(tmp_path / "out.whl") as made:
        assert made.getinfo("torch/data").compress_size == sizes[6]
        assert made.getinfo("torch/data").date_time == (1980, 1, 1, 0, 0, 0)
    finish_wheel(tmp_path / "in.whl", tmp_path / "later.whl", epoch=1_700_000_000, add={})
    with zipfile.ZipFile(tmp_path / "later.whl") as made:
        assert made.getinfo("torch/data").date_time == (2023, 11, 14, 22, 13, 20)
