"""``verify`` joined: what a run is told before it starts, and what becomes of its report."""

from __future__ import annotations

import functools
import importlib
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rekindle import api
from rekindle.api.verify_torch import Audit
from rekindle.errors import BadInput
from rekindle.model.document import encode, load
from rekindle.model.progress import Silent
from rekindle.model.verify import VerifyCheck, VerifyReport
from rekindle.verify.target import Trial
from tiny_wheels import make_wheel

verifying: Any = importlib.import_module("rekindle.api.verify_torch")
LIST = {"name": "cuSOLVER", "arch": "sm_90", "code": "none", "operators": ["torch.linalg.svd"], "why": "has no code"}
GRAFT = msgspec.json.encode({"schema": 1, "libraries": [LIST]})
GOOD = VerifyReport(verdict="proven", environment={"torch": "2.7.0"}, checks=(VerifyCheck(id="a", status="passed"),))
BAD = msgspec.structs.replace(GOOD, verdict="failed", checks=(VerifyCheck(id="a", status="failed", detail="x"),))
INSIDE = "torch-2.7.0.dist-info/rekindle-graft.json"


class Runs:
    """Stands in for the runs of the checks: what each was told, in ``seen``; all of them give ``report``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.audited: list[bool] = []
        self.kept: list[Path] = []
        self.audit = Audit()
        self.report = GOOD
        monkeypatch.setattr(verifying, "keep_trials", lambda report, place: self.kept.append(place))
        monkeypatch.setattr(verifying, "audit_for", self.look)
        monkeypatch.setattr(verifying, "read_events", functools.partial(self.run, "read_events"))
        for name in ("prove_wheel", "prove_installed", "prove_emulated"):
            monkeypatch.setattr(verifying.prove, name, functools.partial(self.run, name))

    def look(self, *_: object) -> Audit:
        self.audited.append(True)
        return self.audit

    def run(self, name: str, host: object, *words: Any, **named: Any) -> VerifyReport:
        trial = next((each for each in words if isinstance(each, Trial)), None)
        self.seen.append((name, {**named, "trial": trial}))
        return self.report

    @property
    def foretold(self) -> list[list[str]]:
        return [[row.id for row in told["trial"].foretold] for _, told in self.seen]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runs:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith(("ATEN", "MKL", "CUDA", "OMP"))]:
        monkeypatch.delenv(name)
    return Runs(monkeypatch)


def test_a_grafted_wheel_is_held_to_what_it_says_of_itself(runs: Runs, tmp_path: Path) -> None:
    grafted = make_wheel(tmp_path / "a", "torch", "2.7.0", files={INSIDE: GRAFT})
    plain = make_wheel(tmp_path / "b", "torch", "2.7.0")
    broken = tmp_path / "torch-2.7.0-py3-none-any.whl"
    broken.write_bytes(b"no archive")
    for wheel in (grafted, plain, broken):
        api.verify(wheel=wheel, only=("a",))
    assert runs.foretold == [["gpu*.linalg"], [], []]


def test_so_is_the_grafted_torch_that_is_installed(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / INSIDE).parent.mkdir()
    targets = importlib.import_module("rekindle.inspect.targets")
    places: dict[tuple[str, str], Path] = {("torch", "py"): tmp_path, ("xformers", "py"): tmp_path}
    monkeypatch.setattr(targets, "installed_in", lambda name, python: places.get((name, python)))
    api.verify(python="py", only=("a",))
    (tmp_path / INSIDE).write_bytes(GRAFT)
    for python, package in (("py", None), ("py", "xformers"), ("other", None)):
        api.verify(python=python, package=package, only=("a",))
    assert [len(rows) for rows in runs.foretold] == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("told", "way"),
    [
        ({}, "prove_installed"),
        ({"wheel": "torch-2.7.0-py3-none-any.whl"}, "prove_wheel"),
        ({"wheel": "torch-2.7.0-py3-none-any.whl", "cpu": "nehalem"}, "prove_emulated"),
        ({"events": "events.jsonl"}, "read_events"),
        ({"events": "events.jsonl", "cpu": "nehalem"}, "read_events"),
    ],
)
def test_each_way_to_a_proof(told: dict[str, str], way: str, runs: Runs, tmp_path: Path) -> None:
    make_wheel(tmp_path, "torch", "2.7.0")
    paths = {name: tmp_path / value if name != "cpu" else value for name, value in told.items()}
    assert api.verify(**paths, only=("a",), env={"MKL_NUM_THREADS": "1"}).environment == (  # type: ignore[arg-type]
        {"torch": "2.7.0"} if "events" in told else {"torch": "2.7.0", "settings": "MKL_NUM_THREADS=1"}
    )
    ((name, asked),) = runs.seen
    assert name == way and ("cache" not in asked or asked["cache"] == tmp_path / "cache" / "rekindle")
    assert way != "prove_installed" or (asked["package"], asked["companions"]) == ("torch", ())


def test_a_cpu_is_tried_with_a_wheel(runs: Runs) -> None:
    with pytest.raises(BadInput, match="--cpu needs a wheel"):
        api.verify(cpu="nehalem")
    assert runs.seen == []


@pytest.mark.parametrize(
    ("told", "audited", "kept"),
    [
        ({}, True, True),
        ({"only": ("import",)}, False, False),
        ({"only": ("import", "operators.conv")}, True, False),
        ({"env": {"MKL_NUM_THREADS": "1"}}, True, False),
        ({"events": Path("events.jsonl")}, False, False),
    ],
)
def test_operators_are_audited_where_they_are_tried_and_kept_where_the_run_says_it_of_the_wheel(
    told: dict[str, Any], audited: bool, kept: bool, runs: Runs, tmp_path: Path
) -> None:
    runs.audit = Audit(place=tmp_path / "trials.json")
    api.verify(**told)
    assert bool(runs.audited) is audited and runs.kept == [tmp_path / "trials.json"] * kept


def test_a_failure_says_since_when_unless_it_proves_nothing_of_torch(runs: Runs, tmp_path: Path) -> None:
    torch, other = make_wheel(tmp_path, "torch", "2.7.0"), make_wheel(tmp_path, "torchvision", "0.22")
    api.verify(wheel=other)
    api.verify(only=("a",))
    runs.report = BAD
    assert api.verify().since is None, "neither was a proof of torch"
    runs.report = GOOD
    assert api.verify(wheel=torch).since is None
    runs.report = BAD
    same: list[dict[str, Any]] = [{}, {"wheel": torch}]
    for told in same:
        since = api.verify(**told).since
        assert since is not None and since.worse == ("a",)
    others: list[dict[str, Any]] = [{"wheel": other}, {"only": ("a",)}, {"wheel": torch, "cpu": "nehalem"}]
    assert [api.verify(**told).since for told in others] == [None] * 3
    runs.report = msgspec.structs.replace(BAD, environment={"spark": "1.0"})
    assert api.verify(package="spark").since is None, "the miniature has a memory of its own"


def test_the_report_is_saved_and_told_to_what_runs_tests(runs: Runs, tmp_path: Path) -> None:
    report = api.verify(save=tmp_path / "report.json", junit=tmp_path / "junit.xml")
    assert (
        load(tmp_path / "report.json", VerifyReport) == report and "<testsuite" in (tmp_path / "junit.xml").read_text()
    )


def test_each_kind_of_run_has_a_memory_of_its_own(runs: Runs, tmp_path: Path) -> None:
    wheel, cache = make_wheel(tmp_path, "torch", "2.7.0"), tmp_path / "cache" / "rekindle"
    spark = msgspec.structs.replace(GOOD, environment={"spark": "1.0"})
    told: list[tuple[VerifyReport, dict[str, Any], str, bool]] = [
        (GOOD, {}, "torch", False),
        (GOOD, {"wheel": wheel, "cpu": "nehalem"}, "torch", True),
        (spark, {"package": "spark"}, "spark", False),
    ]
    for report, asked, package, emulated in told:
        runs.report = report
        place = verifying.output.proof_place(cache, package, report.level, emulated)
        assert not place.exists() and api.verify(**asked).since is None and place.is_file()
        runs.report = msgspec.structs.replace(BAD, environment=report.environment)
        since = api.verify(**asked).since
        assert since is not None and since.worse == ("a",)


def test_who_listens_is_told_and_nobody_need_listen(runs: Runs) -> None:
    class Listener(Silent):
        pass

    for listener in (Listener(), None):
        api.verify(only=("a",), progress=listener)
    first, second = (told["progress"] for _, told in runs.seen)
    assert isinstance(first, Listener) and isinstance(second, Silent) and not isinstance(second, Listener)


def test_two_saved_reports_are_compared(tmp_path: Path) -> None:
    for name, report in (("before", GOOD), ("after", BAD)):
        (tmp_path / name).write_bytes(encode(report))
    found = api.compare_verifications(tmp_path / "before", tmp_path / "after")
    assert [(one.id, one.before, one.after) for one in found.worse] == [("a", "passed", "failed")]
    back = api.compare_verifications(tmp_path / "after", tmp_path / "before")
    assert back.worse == () and [one.id for one in back.better] == ["a"]
