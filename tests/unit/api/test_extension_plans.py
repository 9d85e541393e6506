"""An extension by its name: where its archive comes from, and the plan for the torch it is compiled against."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from rekindle.api.extensions import fetch_sources, own_plan, with_own_plan, with_sources
from rekindle.build.companion import Torch
from rekindle.errors import BadInput
from rekindle.host.workspace import Workspace
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import encode
from rekindle.model.machine import Machine
from rekindle.model.plan import BuildRecipe, Change, Plan, Reason, Wish
from rekindle.model.progress import Silent
from rekindle.plan.describe import machine_from_flags

extending: Any = importlib.import_module("rekindle.api.extensions")
CARD = machine_from_flags(gpu=["RTX 3060"], os="linux", arch="x86_64", driver="570.86")


@pytest.mark.parametrize("name", ["odd-1.0.tar.gz", "odd-1.0.zip"])
@pytest.mark.parametrize("remote", [True, False])
def test_an_archive_is_fetched_once_or_taken_where_it_lies(
    name: str, remote: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "a b" / name
    url = f"https://x.example/{name}" if remote else there.as_uri()
    sdist = SimpleNamespace(file=SimpleNamespace(name=name, url=url, sha256="00"))
    fetched: list[tuple[str, Path, str]] = []
    unpacked: list[Path] = []
    monkeypatch.setattr(extending, "find_sdist", lambda package, places: sdist)
    monkeypatch.setattr(extending, "find_extension", lambda tree: "odd" if (tree / "x").exists() else None)
    monkeypatch.setattr(
        extending, "download", lambda url, path, *, sha256, progress: fetched.append((url, path, sha256))
    )

    def unpack(archive: Path, tree: Path, *, progress: object) -> None:
        assert isinstance(progress, Silent)
        unpacked.append(archive)
        tree.mkdir(parents=True)

    monkeypatch.setattr(extending, "unpack", unpack)
    place = Workspace(tmp_path / "w")
    with pytest.raises(BadInput, match=rf"nothing in {name} compiles against torch"):
        fetch_sources("odd", place)
    (place.source / "odd-1.0" / "x").touch()
    assert fetch_sources("odd", place) == place.source / "odd-1.0"
    kept = place.cache / "sdists" / name
    assert fetched == ([(url, kept, "00")] if remote else []) and unpacked == [kept if remote else there]


def test_options_that_name_no_package_and_no_companion_stay_as_they_are(tmp_path: Path) -> None:
    plain = BuildOptions(workspace=tmp_path)
    others = [
        plain,
        replace(plain, project="torch"),
        replace(plain, project="torchvision", source=tmp_path),
        replace(plain, project="torchvision", plan=Plan(answer="build")),
    ]
    for options in others:
        assert with_sources(options) == options


def test_a_companions_tree_is_found_by_the_plan_of_the_workspace(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    place.plan.parent.mkdir(parents=True, exist_ok=True)
    asked = BuildOptions(project="torchvision", workspace=tmp_path)
    with pytest.raises(BadInput, match="holds no torchvision tree") as refused:
        with_sources(asked)
    place.plan.write_bytes(encode(Plan(answer="build", torch="2.6.0")))
    with pytest.raises(BadInput) as refused:
        with_sources(asked)
    assert "--release 0.21.0 --workspace" in (refused.value.remedy or "")
    for release in ("0.20.0", "0.21.0"):
        (place.source / f"torchvision-{release}").mkdir(parents=True)
        (place.source / f"torchvision-{release}.json").touch()
    assert with_sources(asked).source == place.source / "torchvision-0.21.0"
    place.plan.write_bytes(encode(Plan(answer="build", torch="2.4.0")))
    with pytest.raises(BadInput, match=r"holds torchvision-0\.20\.0, torchvision-0\.21\.0") as refused:
        with_sources(asked)
    assert refused.value.remedy == f"name one with --source {place.source / 'torchvision-0.21.0'}"


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is asked of the planner, and its ``answer``."""
    seen: dict[str, Any] = {"answer": Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="x"))}

    def plan(machine: Machine, wish: Wish, *, wheelhouses: Any) -> Plan:
        assert list(wheelhouses) == []
        seen.update(machine=machine, wish=wish)
        made: Plan = seen["answer"]
        return made

    monkeypatch.setattr(extending, "plan", plan)
    monkeypatch.setattr(extending, "this_machine", lambda: CARD)
    interpreter = SimpleNamespace(short="3.11", path="/py")
    monkeypatch.setattr(extending, "find_build_python", lambda host, requested: interpreter)
    monkeypatch.setattr(extending, "torch_of", lambda host, path: Torch("2.5.1", "cu121", "3.11"))
    return seen


def test_the_plan_is_for_the_torch_and_the_python_that_were_named(planned: dict[str, Any]) -> None:
    def wish(**told: Any) -> tuple[Any, ...]:
        own_plan(BuildOptions(**told))
        asked: Wish = planned["wish"]
        assert asked.build is True
        return asked.torch, asked.variant, asked.cuda, asked.python

    assert wish() == (None, None, None, None)
    assert wish(against="torch==2.6.0+cu124") == ("2.6.0", "cu124", "12.4", None)
    assert wish(against="torch-2.6.0+cu118-cp312-cp312-linux_x86_64.whl") == ("2.6.0", "cu118", "11.8", "3.12")
    assert wish(against="torch==2.6.0+cu118", pythons=("py",)) == ("2.6.0", "cu118", "11.8", "3.11")
    assert wish(pythons=("py",), as_is=True) == ("2.5.1", "cu121", "12.1", "3.11")
    assert wish(against="torch==2.6.0") == ("2.6.0", None, "12.4", None), "the package index's own"
    assert wish(against="torch==9.9.9") == ("9.9.9", None, None, None)
    assert planned["machine"] == CARD
    own_plan(BuildOptions(gpus=("sm_61",)))
    assert [str(gpu.arch) for gpu in planned["machine"].gpus] == ["sm_61"]


def test_why_nothing_can_be_built_is_said(planned: dict[str, Any]) -> None:
    because = (Reason(code="a", text="a wheel fits"), Reason(code="b", text="glibc is old: take another"))
    changes = (Change(what="cuda", why="x"), Change(what="build", why="glibc is old"))
    for told, words in (
        ({"because": because, "changes": changes}, "glibc is old: take another$"),
        ({"because": because[:1], "changes": changes}, "glibc is old$"),
        ({"because": because, "changes": ()}, "a wheel fits$"),
        ({}, "nothing fits$"),
    ):
        planned["answer"] = Plan(answer="install", torch="2.6.0", **told)
        with pytest.raises(BadInput, match=f"no build is possible here: {words}"):
            own_plan(BuildOptions())


@pytest.mark.parametrize(("cuda", "good"), [("12.4", True), ("12.4.1", True), ("12.6", False), (None, True)])
def test_code_for_another_cuda_than_the_torchs_is_refused(
    cuda: str | None, good: bool, planned: dict[str, Any]
) -> None:
    changes = (Change(what="python", why="no"), Change(what="variant", why="it cannot"))
    planned["answer"] = replace(planned["answer"], cuda=cuda, changes=changes)
    asked = BuildOptions(against="torch==2.6.0+cu124")
    if good:
        assert own_plan(asked).cuda == cuda
        return
    with pytest.raises(BadInput, match=r"is for CUDA 12\.4, and code for the same cannot be compiled here: it cannot"):
        own_plan(asked)


def test_a_tree_of_ones_own_needs_no_plan_unless_it_compiles_against_torch(
    tmp_path: Path, planned: dict[str, Any]
) -> None:
    plain, extension = tmp_path / "plain", tmp_path / "extension"
    for tree, text in ((plain, "x = 1\n"), (extension, "from torch.utils.cpp_extension import CppExtension\n")):
        tree.mkdir()
        (tree / "setup.py").write_text(text, encoding="utf-8")
    options = BuildOptions(source=extension, workspace=tmp_path / "w")
    assert with_own_plan(options).plan == planned["answer"]
    named = replace(options, plan=tmp_path / "plan.json")
    assert with_own_plan(named) == named
    none = replace(options, source=None)
    assert with_own_plan(none) == none
    with pytest.raises(BadInput, match="--gpu is for extensions"):
        with_own_plan(replace(none, gpus=("sm_61",)))
