"""``rebuild`` of a build, up to the compilers and from what they give: which statement, whose, which tree, the same?"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rekindle import api
from rekindle.errors import BadInput, StageFailed, Untrusted
from rekindle.formats.statement import IN_TOTO, provenance_object, seal, write_statement
from rekindle.host.files import sha256_of
from rekindle.host.keys import read_private
from rekindle.host.made import mark_made
from rekindle.model.build import BuildFailure, BuildResult, ForeignPlan
from rekindle.model.build_options import BuildOptions
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree
from rekindle.spark import unpack
from tiny_wheels import make_wheel

rebuilding: Any = importlib.import_module("rekindle.api.rebuild_wheel")
PLAN = {"schema": 1, "answer": "build", "project": "spark", "build": {"source": "<source>"}}


def state(folder: Path, wheel: Path, *, plan: dict[str, Any] = PLAN, **digest: str) -> Path:
    path = folder / f"{wheel.name}.intoto.json"
    path.write_bytes(
        write_statement(
            [(wheel.name, sha256_of(wheel))],
            kind="rekindle/build/v1",
            asked={},
            settings={"plan": plan},
            materials=[{"uri": "tree", "digest": digest}],
            tools={},
        )
    )
    return path


@pytest.fixture
def original(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "house", "spark-miniature", "1.0", files={"spark/a.py": b"1"})


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[BuildOptions, bool]]:
    """Builds give another wheel of the same name; what was asked is kept."""
    other = make_wheel(tmp_path / "made", "spark-miniature", "1.0", files={"spark/a.py": b"2"})
    asked: list[tuple[BuildOptions, bool]] = []

    def build_one(options: BuildOptions, progress: object, *, trust: bool) -> BuildResult:
        asked.append((options, trust))
        digest = sha256_of(other)
        return BuildResult(
            project="spark", wheel=str(other), wheel_sha256=digest, plan_digest="", plan=Plan(answer="build")
        )

    monkeypatch.setattr(rebuilding, "build_one", build_one)
    return asked


def test_the_miniature_is_built_again_from_its_own_source(
    original: Path, built: list[tuple[BuildOptions, bool]], tmp_path: Path
) -> None:
    done = api.rebuild(state(original.parent, original), workspace=tmp_path / "w", trust=True)
    ((options, trusted),) = built
    assert trusted is True and options.as_is is True and isinstance(options.source, SourceTree)
    assert options.pythons == (sys.executable,)
    assert Path(options.source.root) == tmp_path / "w" / "source" / "spark"
    assert isinstance(options.plan, Plan) and options.plan.build is not None
    assert options.plan.build.source == options.source.root, "the place of whoever repeats it"
    assert done.verdict == "different" and "spark/a.py" in (done.difference or "")
    assert done.claimed == sha256_of(original) != done.sha256
    original.unlink()
    done = api.rebuild(original.with_name(f"{original.name}.intoto.json"), workspace=tmp_path / "w", trust=True)
    assert "the original is not here to look into" in (done.difference or "")


def test_a_plan_with_packages_of_its_own_gets_an_environment(
    original: Path, built: list[tuple[BuildOptions, bool]], tmp_path: Path
) -> None:
    plan = {**PLAN, "build": {"source": "x", "pins": {"numpy": "1.26"}}}
    api.rebuild(state(original.parent, original, plan=plan), workspace=tmp_path / "w", python="3.12", trust=True)
    assert built[0][0].as_is is False and built[0][0].pythons == ("3.12",)


@pytest.mark.parametrize("letter", ["=", "$", ";", ""])
def test_a_path_that_compilers_cannot_keep_out_is_named_where_the_wheels_differ(
    letter: str, original: Path, built: list[tuple[BuildOptions, bool]], tmp_path: Path
) -> None:
    done = api.rebuild(state(original.parent, original), workspace=tmp_path / f"w{letter}x", trust=True)
    told = done.difference or ""
    assert told.count("the path of the tree has a ") == told.count(f"has a {letter} in it") == len(letter)


def test_the_original_is_never_replaced(original: Path, tmp_path: Path) -> None:
    place = tmp_path / "w"
    wheel = make_wheel(place / "wheels", "spark-miniature", "1.0")
    statement = state(original.parent, original)
    with pytest.raises(BadInput, match="would replace the original"):
        api.rebuild(statement, wheel=wheel, workspace=place, trust=True)


def test_another_source_than_the_statement_names_is_refused(
    original: Path, built: list[tuple[BuildOptions, bool]], tmp_path: Path
) -> None:
    spark_tree = tmp_path / "tree"
    unpack.unpack(spark_tree)
    wrong = state(original.parent, original, sha256="0" * 64)
    with pytest.raises(BadInput, match="the statement was made from 000000000000"):
        api.rebuild(wrong, source=spark_tree, workspace=tmp_path / "w", trust=True)
    digest = api.source_status(spark_tree).digest
    assert digest is not None
    right = state(original.parent, original, sha256=digest)
    api.rebuild(right, source=spark_tree, workspace=tmp_path / "w", trust=True)
    assert len(built) == 1
    said = json.loads(right.read_bytes())
    said["predicate"]["buildDefinition"]["resolvedDependencies"] = []
    right.write_text(json.dumps(said))
    api.rebuild(right, source=spark_tree, workspace=tmp_path / "w", trust=True)
    assert len(built) == 2, "a statement that names no source is taken at its word"
    torch = state(original.parent, original, plan={**PLAN, "project": "torch"})
    with pytest.raises(BadInput, match="which source tree of torch"):
        api.rebuild(torch, workspace=tmp_path / "w", trust=True)


def test_a_build_that_fails_is_told(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = BuildFailure(project="spark", phase="compile", message="no compiler", log="build.log")
    monkeypatch.setattr(rebuilding, "build_one", lambda *_, **__: failure)
    with pytest.raises(StageFailed, match="could not be repeated: no compiler"):
        api.rebuild(state(original.parent, original), workspace=tmp_path / "w", trust=True)


def test_who_signed_a_strangers_statement_is_shown(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    api.key_new("maker")
    key = read_private("maker")
    plain = state(original.parent, original)
    signed = plain.with_name(plain.name.replace(".json", ".dsse.json"))
    signed.write_bytes(seal(IN_TOTO, plain.read_bytes(), key.id, key.sign))

    def told(path: Path) -> str:
        with pytest.raises(Untrusted) as caught:
            api.rebuild(path, workspace=tmp_path / "w")
        assert isinstance(caught.value.account, ForeignPlan)
        return caught.value.account.signed

    assert told(plain) == "nobody signed it"
    assert told(signed) == "by maker, whose key is believed here"
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "nobody"))
    assert told(signed) == f"by no key that is believed here (it says {key.id})"
    served = signed.with_name(f"{original.name}.provenance")
    served.write_bytes(provenance_object(signed.read_bytes(), "x"))
    assert told(served) == told(signed), "as a wheelhouse serves it"
    signed.write_bytes(seal("application/other", plain.read_bytes(), "", key.sign))
    assert told(signed) == "by no key that is believed here (it says no name)"


def test_what_was_built_here_needs_no_yes(
    original: Path, built: list[tuple[BuildOptions, bool]], tmp_path: Path
) -> None:
    statement = state(original.parent, original)
    api.rebuild(statement, workspace=tmp_path / "w", trust=True)
    assert isinstance(built[0][0].plan, Plan)
    mark_made(built[0][0].plan)
    assert api.rebuild(statement, workspace=tmp_path / "w").verdict == "different"


def test_a_statement_without_a_subject_or_a_predicate(tmp_path: Path) -> None:
    definition = {"buildType": "rekindle/build/v1", "internalParameters": {"plan": PLAN}}
    for said, words in (
        ({"predicate": {"buildDefinition": definition}}, "names no wheel"),
        ({"subject": []}, "is no provenance statement"),
    ):
        (tmp_path / "x.json").write_text(json.dumps(said))
        with pytest.raises(BadInput, match=words):
            api.rebuild(tmp_path / "x.json", trust=True)
