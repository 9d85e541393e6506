"""``rebuild`` of a graft from its statement: the same, or what differs, or what is missing; nothing of it is run."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rekindle import api
from rekindle.errors import BadInput, StageFailed
from rekindle.graft.engine import _tell_written
from rekindle.graft.wheel import Applied
from rekindle.host.files import sha256_of
from rekindle.model.graft import GraftReport, Making, UnitOutcome
from tiny_wheels import make_wheel

TAG = "cp312-cp312-linux_x86_64"


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Path, Path]:
    """The official wheel, a grafted one, and its statement."""
    official = make_wheel(tmp_path / "house", "torch", "2.12.1", tag=TAG)
    grafted = make_wheel(tmp_path / "house", "torch", "2.12.1+cu130.sm90", tag=TAG, files={"torch/a.py": b"1"})
    units = (UnitOutcome(library="l", container=0, unit="F4_cu", state="left-out", why="not wanted (--without)"),)
    report = GraftReport(
        wheel=str(official), wheel_sha256=sha256_of(official), bytes_before=1, card="H200", arch="sm_90", units=units
    )
    making = Making(way="source", archs=("sm_90", "sm_90a"), tools={"nvcc": "13.0.88"})
    told = _tell_written(report, Applied(grafted, sha256_of(grafted), ""), official, making)
    return official, grafted, Path(told.provenance or "")


def _answers(
    monkeypatch: pytest.MonkeyPatch, official: Path, out: Path | None, nvcc: str = "13.0.88"
) -> list[tuple[str, dict[str, Any]]]:
    asked: list[tuple[str, dict[str, Any]]] = []

    def graft(target: str, **named: Any) -> GraftReport:
        asked.append((target, named))
        return GraftReport(
            wheel=str(official), wheel_sha256=sha256_of(official), bytes_before=1, card="x", arch="sm_90",
            out=str(out) if out else None, sha256=sha256_of(out) if out else None, tools={"nvcc": nvcc},
            units=(
                UnitOutcome(library="l", container=0, state="added", why="it was made"),
                UnitOutcome(library="l", container=1, state="refused"),
                UnitOutcome(library="l", container=2, state="refused", why="another cub"),
            ),
        )  # fmt: skip

    monkeypatch.setattr(importlib.import_module("rekindle.api.graft_wheel"), "graft", graft)
    return asked


def test_the_same_wheel(made: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    official, grafted, statement = made
    asked = _answers(monkeypatch, official, grafted)
    done = api.rebuild(statement, workspace=tmp_path / "ws")
    assert done.verdict == "identical" and done.sha256 == done.claimed == sha256_of(grafted)
    ((target, told),) = asked
    assert target == str(official) and told["gpu"] == ["sm_90"] and told["without"] == ("F4",)
    assert told["leave_out"] is True and told["python"] == "3.12" and told["platform"] == "linux_x86_64"
    assert told["out"] == tmp_path / "ws" / "rebuilt" and told["workspace"] == tmp_path / "ws"


def test_another_wheel_and_the_tools_that_differ(
    made: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official, grafted, statement = made
    other = make_wheel(tmp_path / "o", "torch", "2.12.1+cu130.sm90", tag=TAG, files={"torch/a.py": b"2"})
    _answers(monkeypatch, official, other, nvcc="13.2.1")
    done = api.rebuild(statement, workspace=tmp_path / "ws")
    assert done.verdict == "different" and "torch/a.py" in (done.difference or "")
    assert "nvcc 13.0.88 made it, and here is 13.2.1" in (done.difference or "")
    grafted.unlink()
    done = api.rebuild(statement, workspace=tmp_path / "ws")
    assert "the original is not here" in (done.difference or "") and "13.2.1" in (done.difference or "")


def test_what_is_missing_is_said(
    made: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official, grafted, statement = made
    changed = make_wheel(tmp_path / "c", "torch", "2.12.1", tag=TAG, files={"torch/b.py": b"x"})
    asked = _answers(monkeypatch, changed, grafted)
    official.unlink()
    with pytest.raises(BadInput, match="and what was found has"):
        api.rebuild(statement, workspace=tmp_path / "ws")
    assert asked[0][0] == "torch==2.12.1" and asked[0][1]["python"] == "3.12"
    assert asked[0][1]["platform"] == "linux_x86_64"
    _answers(monkeypatch, make_wheel(tmp_path / "house", "torch", "2.12.1", tag=TAG), None)
    with pytest.raises(StageFailed, match=r"nothing was grafted.*compare: another cub"):
        api.rebuild(statement, workspace=tmp_path / "ws")


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said["externalParameters"].pop("wheel"),
        lambda said: said["externalParameters"].update(wheel="../../etc/passwd"),
        lambda said: said["externalParameters"].update(archs=[]),
        lambda said: said["externalParameters"].update(archs="sm_90"),
        lambda said: said.update(resolvedDependencies=[]),
        lambda said: said.update(internalParameters=None),
    ],
    ids=["no wheel", "a path", "no card", "no list", "no digest", "no settings"],
)
def test_a_strange_statement_is_refused_in_one_line(
    made: tuple[Path, Path, Path], tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    statement = made[2]
    said = json.loads(statement.read_bytes())
    change(said["predicate"]["buildDefinition"])
    statement.write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        api.rebuild(statement, workspace=tmp_path / "ws")
    assert "\n" not in refused.value.message
