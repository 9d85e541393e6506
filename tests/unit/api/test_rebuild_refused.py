"""``rebuild`` before anything runs: which statements can be repeated, where, and when two wheels are the same."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.host.files import sha256_of
from rekindle.model.build import BuildResult
from rekindle.model.build_options import BuildOptions
from rekindle.model.graft import GraftReport
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree
from tiny_wheels import make_wheel

rebuilding: Any = importlib.import_module("rekindle.api.rebuild_wheel")
PLAN = {"schema": 1, "answer": "build", "project": "torch", "build": {"source": "<source>"}}
BUILD, GRAFT = "rekindle/build/v1", "rekindle/graft/v1"


def state(folder: Path, subject: Any, kind: str = BUILD, **definition: Any) -> Path:
    """A statement about ``subject`` (name and digest), beside which nothing need lie."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {"buildType": kind, "internalParameters": {"plan": PLAN}, **definition}
    subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in subject]
    path = folder / "said.intoto.json"
    path.write_text(json.dumps({"subject": subjects, "predicate": {"buildDefinition": made}}), encoding="utf-8")
    return path


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[BuildOptions]:
    """Nobody asks who made the plan, any folder is a tree; builds give the wheel in ``made``."""
    asked: list[BuildOptions] = []
    made = make_wheel(tmp_path / "made", "torch", "2.6.0", files={"torch/a.py": b"2"})
    tree = SourceTree(project="torch", version="2.6.0", root="/tree", commit="c0ffee" * 6, digest="d" * 64)
    monkeypatch.setattr(rebuilding, "admit_here", lambda plan, **told: None)
    monkeypatch.setattr(rebuilding, "source_status", lambda root: tree)

    def build_one(options: BuildOptions, progress: object, *, trust: bool) -> BuildResult:
        asked.append(options)
        assert trust
        plan = Plan(answer="build")
        return BuildResult(project="t", wheel=str(made), wheel_sha256=sha256_of(made), plan=plan, plan_digest="")

    monkeypatch.setattr(rebuilding, "build_one", build_one)
    return asked


NAME = "torch-2.6.0-py3-none-any.whl"


def test_it_is_built_beside_the_statement_or_where_it_was_told(built: list[BuildOptions], tmp_path: Path) -> None:
    made = tmp_path / "made" / NAME
    statement = state(tmp_path / "house", [(NAME, sha256_of(made))])
    done = api.rebuild(statement, source=tmp_path)
    assert done.verdict == "identical" and done.difference is None and done.statement == str(statement)
    api.rebuild(statement, source=tmp_path, workspace=tmp_path / "w")
    place = tmp_path / "house" / f"rebuilt-{sha256_of(made)[:12]}"
    assert [options.workspace for options in built] == [place, tmp_path / "w"]
    for options in built:
        assert isinstance(options.plan, Plan) and options.plan.build is not None and options.as_is is False
        assert options.plan.build.source == str(tmp_path), "the place of whoever repeats it"


def test_two_wheels_are_compared_where_the_original_is_here(built: list[BuildOptions], tmp_path: Path) -> None:
    statement = state(tmp_path / "house", [(NAME, "ab" * 32)])
    gone = api.rebuild(statement, source=tmp_path)
    made = sha256_of(tmp_path / "made" / NAME)
    assert gone.verdict == "different" and (gone.claimed, gone.sha256) == ("ab" * 32, made)
    assert f"sha256 {made[:12]}…, not {('ab' * 32)[:12]}…" in (gone.difference or "")
    same = make_wheel(tmp_path / "other", "torch", "2.6.0", files={"torch/a.py": b"2"})
    assert api.rebuild(statement, source=tmp_path, wheel=same).verdict != "different"
    other = make_wheel(tmp_path / "house", "torch", "2.6.0", files={"torch/a.py": b"1"})
    found = api.rebuild(statement, source=tmp_path)
    assert found.verdict == "different" and "torch/a.py" in (found.difference or "")
    assert api.rebuild(statement, source=tmp_path, wheel=other).difference == found.difference
    with pytest.raises(BadInput, match="would replace the original"):
        api.rebuild(statement, source=tmp_path, wheel=tmp_path / "w" / "wheels" / NAME, workspace=tmp_path / "w")


@pytest.mark.parametrize(
    ("subject", "definition", "words"),
    [
        ([(NAME, "0" * 64)], {"buildType": "other/v1"}, "a build of another kind"),
        ([(NAME, "0" * 64)], {"buildType": None}, "a build of another kind"),
        ([(NAME, "0" * 64)], {"internalParameters": {}}, "holds no plan"),
        ([(NAME, "0" * 64)], {"internalParameters": None}, "holds no plan"),
        ([], {}, "names no wheel"),
        ([("../x.whl", "0" * 64)], {}, "names a path"),
    ],
)
def test_what_cannot_be_repeated_is_told(subject: Any, definition: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=words):
        api.rebuild(state(tmp_path, subject, **definition), trust=True)


def test_what_is_no_statement_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.json"
    with pytest.raises(BadInput, match="cannot read"):
        api.rebuild(file)
    for text in ("{", "[]", "{}"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(BadInput, match="is no provenance statement"):
            api.rebuild(file)
    monkeypatch.setattr(rebuilding.statements, "MAX_ENVELOPE_BYTES", 1)
    with pytest.raises(BadInput, match="is larger than"):
        api.rebuild(file)


@pytest.mark.parametrize(
    ("materials", "good"),
    [
        ([{"digest": {"gitCommit": "c0ffee" * 6}}], True),
        ([{"digest": {"gitCommit": "c0ffee" * 6, "sha256": "d" * 64}}], True),
        ([{"digest": {"sha256": "e" * 64}}], False),
        ([{"digest": {"gitCommit": "badbad" * 6}}], False),
        ([{"digest": {"gitCommit": "c0ffee" * 6, "sha256": "e" * 64}}], False),
        ([{"digest": {"sha1": "0"}}, {"digest": {"sha256": "e" * 64}}], True),
        ([{"digest": 7}], True),
        ({"digest": {"sha256": "e" * 64}}, True),
        (None, True),
    ],
)
def test_the_source_is_the_one_that_the_statement_names_first(
    materials: Any, good: bool, built: list[BuildOptions], tmp_path: Path
) -> None:
    statement = state(tmp_path, [(NAME, "0" * 64)], resolvedDependencies=materials)
    if good:
        api.rebuild(statement, source=tmp_path)
    else:
        with pytest.raises(BadInput, match=r"is at (c0ffeec0ffee|dddddddddddd), the statement was made from"):
            api.rebuild(statement, source=tmp_path)
    assert len(built) == good


def test_what_a_tree_does_not_know_of_itself_is_taken_at_its_word(
    built: list[BuildOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = SourceTree(project="torch", version="2.6.0", root="/tree")
    monkeypatch.setattr(rebuilding, "source_status", lambda root: tree)
    digests = {"gitCommit": "c0ffee" * 6, "sha256": "e" * 64}
    api.rebuild(state(tmp_path, [(NAME, "0" * 64)], resolvedDependencies=[{"digest": digests}]), source=tmp_path)
    assert len(built) == 1


@pytest.fixture
def grafted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Grafts of an official wheel of this digest give the wheel in ``made``."""
    asked: list[tuple[str, Mapping[str, Any]]] = []
    made = make_wheel(tmp_path / "made", "torch", "2.6.0")

    def graft(target: str, **told: Any) -> GraftReport:
        asked.append((target, told))
        return GraftReport(
            wheel=target, wheel_sha256="ab" * 32, bytes_before=1, card="x", arch="sm_90", out=str(made),
            sha256=sha256_of(made), tools={"nvcc": "13.0"},
        )  # fmt: skip

    monkeypatch.setattr(importlib.import_module("rekindle.api.graft_wheel"), "graft", graft)
    return asked


def graft_statement(folder: Path, wheel: str, digest: str = "ab" * 32, **asked: Any) -> Path:
    parameters = {"wheel": wheel, "archs": ["sm_90", "sm_90a"], **asked}
    settings = {"tools": {"nvcc": "12.9", "cub": "2.8"}}
    return state(
        folder, [("new.whl", "0" * 64)], GRAFT, externalParameters=parameters, internalParameters=settings,
        resolvedDependencies=[{"digest": {"sha256": digest}}],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("tag", "python", "platform"),
    [("cp312-cp312-linux_x86_64", "3.12", "linux_x86_64"), ("py3-none-win_amd64", None, "win_amd64")],
)
def test_the_official_wheel_is_looked_for_as_it_was_and_grafted_for_the_cards_alone(
    tag: str, python: str | None, platform: str, grafted: list[tuple[str, Mapping[str, Any]]], tmp_path: Path
) -> None:
    name = f"torch-2.6.0+cu126-{tag}.whl"
    done = api.rebuild(graft_statement(tmp_path / "s", name), workspace=tmp_path / "w")
    ((target, told),) = grafted
    assert target == "torch==2.6.0+cu126" and (told["python"], told["platform"]) == (python, platform)
    assert told["gpu"] == ["sm_90"] and told["without"] == () and told["sources"] is None
    assert "cub 2.8 made it, and here is none; nvcc 12.9 made it, and here is 13.0" in (done.difference or "")
    only = graft_statement(tmp_path / "s", name, archs=["sm_90a"], without=["F4"])
    api.rebuild(only, workspace=tmp_path / "w", source=tmp_path / "tree")
    assert grafted[1][1]["gpu"] == ["sm_90a"] and grafted[1][1]["without"] == ("F4",)
    assert grafted[1][1]["sources"] == str(tmp_path / "tree")


def test_an_official_wheel_beside_the_statement_or_the_grafted_one_is_taken_if_it_is_the_same(
    grafted: list[tuple[str, Mapping[str, Any]]], tmp_path: Path
) -> None:
    official = make_wheel(tmp_path / "there", "torch", "2.6.0")
    statement = graft_statement(tmp_path / "s", official.name, sha256_of(official))
    make_wheel(tmp_path / "s", "torch", "2.6.0", files={"torch/other.py": b""})
    with pytest.raises(BadInput, match=f"SHA-256 {sha256_of(official)[:12]}…, and what was found has {'ab' * 6}…"):
        api.rebuild(statement, workspace=tmp_path / "w", wheel=tmp_path / "there" / "new.whl")
    with pytest.raises(BadInput):
        api.rebuild(statement, workspace=tmp_path / "w")
    assert [target for target, _ in grafted] == [str(official), "torch==2.6.0"]
