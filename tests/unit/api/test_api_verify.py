"""``verify`` joined: what a run is told before it starts, and what becomes of its report."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rekindle import api
from rekindle.model.verify import VerifyCheck, VerifyReport
from rekindle.verify.target import Trial
from tiny_wheels import make_wheel

verifying: Any = importlib.import_module("rekindle.api.verify")
LIST = {"name": "cuSOLVER", "arch": "sm_90", "code": "none", "operators": ["torch.linalg.svd"], "why": "has no code"}
GRAFT = msgspec.json.encode({"schema": 1, "libraries": [LIST]})
INSIDE = "torch-2.7.0.dist-info/rekindle-graft.json"


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Trial]:
    """What each run of the checks is told; all of them pass."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    seen: list[Trial] = []

    def prove(host: object, *told: Any, **named: Any) -> VerifyReport:
        seen.append(next(each for each in told if isinstance(each, Trial)))
        return VerifyReport(
            verdict="proven", environment={"torch": "2.7.0"}, checks=(VerifyCheck(id="a", status="passed"),)
        )

    for name in ("prove_wheel", "prove_installed"):
        monkeypatch.setattr(verifying.prove, name, prove)
    return seen


def test_a_grafted_wheel_is_held_to_what_it_says_of_itself(tried: list[Trial], tmp_path: Path) -> None:
    grafted = make_wheel(tmp_path / "a", "torch", "2.7.0", files={INSIDE: GRAFT})
    plain = make_wheel(tmp_path / "b", "torch", "2.7.0")
    broken = tmp_path / "torch-2.7.0-py3-none-any.whl"
    broken.write_bytes(b"no archive")
    for wheel in (grafted, plain, broken):
        api.verify(wheel=wheel, only=("a",))
    assert [[row.id for row in trial.foretold] for trial in tried] == [["gpu*.linalg"], [], []]


def test_so_is_the_grafted_torch_that_is_installed(
    tried: list[Trial], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / INSIDE).parent.mkdir()
    targets = importlib.import_module("rekindle.inspect.targets")
    places: dict[tuple[str, str], Path] = {("torch", "py"): tmp_path, ("xformers", "py"): tmp_path}
    monkeypatch.setattr(targets, "installed_in", lambda name, python: places.get((name, python)))
    api.verify(python="py", only=("a",))
    (tmp_path / INSIDE).write_bytes(GRAFT)
    for python, package in (("py", None), ("py", "xformers"), ("other", None)):
        api.verify(python=python, package=package, only=("a",))
    assert [len(trial.foretold) for trial in tried] == [0, 1, 0, 0]
