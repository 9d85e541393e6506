"""One cell on the machine it lands on, where the build and the proof are stand-ins: what is kept and what is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from matrix_mini import cell

from rekindle.errors import BadInput, RekindleError, StageFailed, Untrusted, WorkspaceBusy
from rekindle.facts import load_facts
from rekindle.host.files import sha256_of
from rekindle.journey import matrix_work
from rekindle.journey.matrix_work import matrix_cell
from rekindle.matrix.ledger import CellFolder, tree_place
from rekindle.model.build import BuildFailure, BuildResult, Phase
from rekindle.model.build_options import BuildOptions
from rekindle.model.diagnosis import Diagnosis, Match
from rekindle.model.machine import Cpu, Machine, Os
from rekindle.model.matrix import CellState
from rekindle.model.plan import Plan
from rekindle.model.progress import Silent
from rekindle.model.source import AppliedPatch, SourceTree
from rekindle.model.verify import VerifyReport
from tiny_wheels import make_wheel


class Worker:
    """Builds a wheel of the miniature unless ``fails`` says otherwise, and proves it as ``verdict`` says."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "matrix"
        self.made = make_wheel(folder / "made", "spark-miniature", "1.0")
        self.made.with_name(f"{self.made.name}.intoto.json").write_text("{}")
        self.fails: Exception | BuildFailure | None = None
        self.verdict = "proven"
        self.wheel = True
        self.built: list[BuildOptions] = []
        self.verified: list[dict[str, Any]] = []

    def build(self, options: BuildOptions, progress: object, *, trust: bool) -> BuildResult | BuildFailure:
        assert trust
        self.built.append(options)
        if isinstance(self.fails, Exception):
            raise self.fails
        return self.fails or BuildResult(
            project="spark",
            wheel=str(self.made) if self.wheel else "",
            wheel_sha256=sha256_of(self.made) if self.wheel else "",
            plan=Plan(answer="build"),
            plan_digest="0",
            phases=(Phase(name="a", seconds=1.234), Phase(name="b", seconds=2.0)),
        )

    def verify(self, **told: Any) -> VerifyReport:
        self.verified.append(told)
        return VerifyReport(verdict=self.verdict, passed=3, failed=1, skipped=2)  # type: ignore[arg-type]

    def run(self, *, force: bool = False, trust: bool = True, **more: Any) -> CellState:
        self.cell = cell(1, **more)
        self.folder = CellFolder(self.root, self.cell.id)
        self.folder.freeze(self.cell)
        chosen = BuildOptions(jobs=3)
        state = matrix_cell(self.root, self.cell.id, chosen, force=force, trust=trust, progress=Silent())
        assert state == self.folder.state(), "as its directory says"
        return state


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    made = Worker(tmp_path)
    monkeypatch.setattr(matrix_work, "build_one", made.build)
    monkeypatch.setattr(matrix_work, "verify", made.verify)
    return made


@pytest.mark.parametrize(
    ("prove", "stage", "proof", "level"),
    [
        ("smoke", "proven", "3 passed, 1 failed, 2 skipped", "smoke"),
        ("full", "proven", "3 passed, 1 failed, 2 skipped", "full"),
        ("none", "built", "not asked for", None),
    ],
)
def test_a_cell_is_built_kept_and_proven_as_its_table_asks(
    prove: str, stage: str, proof: str, level: str | None, worker: Worker
) -> None:
    state = worker.run(prove=prove)
    assert (state.stage, state.proof, state.seconds, state.failure) == (stage, proof, 3.23, None)
    assert (
        state.wheel == str(worker.folder.wheels / worker.made.name)
        and sha256_of(Path(state.wheel)) == state.wheel_sha256
    )
    assert {path.name for path in worker.folder.wheels.iterdir()} == {
        worker.made.name,
        f"{worker.made.name}.intoto.json",
        "inspect.json",
    }
    assert state.attempts[-1].ended is not None and state.attempts[-1].jobs == 3
    assert [told["level"] for told in worker.verified] == [level] * (level is not None)
    for told in worker.verified:
        assert told["plan"] == tree_place(worker.root, worker.cell.tree) / "plan.json" and told["plan"].is_file()
        assert told["wheel"] == Path(state.wheel) and told["save"] == worker.folder.wheels / "verify.json"
    (options,) = worker.built
    assert isinstance(options.source, SourceTree) and options.source.project == "spark"
    assert (options.plan, options.pythons, options.jobs, options.against) == (worker.cell.plan, ("3.11",), 3, None)
    assert worker.run(prove=prove) == state and len(worker.built) == 1, "it is done"
    worker.run(prove=prove, force=True)
    assert len(worker.built) == 2


def test_a_target_alone_makes_no_wheel(worker: Worker) -> None:
    worker.wheel = False
    state = worker.run(target="c10")
    assert (state.stage, state.wheel, state.wheel_sha256, worker.verified) == ("built", None, None, [])
    assert state.attempts[-1].ended is not None and worker.built[0].target == "c10"


def test_a_failure_says_its_class_and_its_cause(worker: Worker) -> None:
    cause = Match(id="out-of-memory", confidence="high", cause="c", title="t")
    diagnosis = Diagnosis(matches=(cause,))
    worker.fails = BuildFailure(
        project="spark", phase="b", message="cc1plus was killed", log="a.log", diagnosis=diagnosis
    )
    state = worker.run()
    assert (state.stage, state.diagnosis, state.log) == ("failed", "out-of-memory", "a.log")
    assert state.message == "cc1plus was killed" and state.failure is not None
    worker.fails, worker.verdict = None, "failed"
    state = worker.run()
    assert (state.stage, state.failure) == ("failed", "proof") and "3 passed, 1 failed" in state.message


@pytest.mark.parametrize(
    ("error", "kind"),
    [(BadInput("no such thing"), "setup"), (StageFailed("it broke"), "compile"), (OSError("broken pipe"), "setup")],
)
def test_what_keeps_a_cell_from_being_tried_is_told_apart(error: Exception, kind: str, worker: Worker) -> None:
    worker.fails = error
    state = worker.run()
    said = error.message if isinstance(error, RekindleError) else str(error)
    assert (state.stage, state.failure, state.message) == ("failed", kind, said)


def test_who_is_busy_or_a_stranger_is_not_a_failure_of_the_cell(worker: Worker) -> None:
    with pytest.raises(Untrusted):
        worker.run(trust=False)
    worker.fails = WorkspaceBusy("somebody else builds here")
    with pytest.raises(WorkspaceBusy):
        worker.run()
    assert worker.folder.state().failure is None


def test_a_directory_is_copied_once_for_each_identity(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = SourceTree(project="torch", version="2.7.1", root="/t")
    asked: list[Path] = []

    def patch(root: Path, plan: Path) -> SourceTree:
        asked.append(plan)
        return tree

    monkeypatch.setattr(matrix_work, "source_patch", patch)
    own = tmp_path / "own"
    for name in ("build/old.o", ".git/HEAD", "torch/a.py"):
        (own / name).parent.mkdir(parents=True)
        (own / name).write_text("1")

    def copied(identity: str) -> tuple[set[str], str]:
        worker.run(project="torch", source=str(own), identity=identity, force=True, prove="none")
        root = tree_place(worker.root, worker.cell.tree) / "source" / "torch"
        return {path.name for path in root.iterdir()}, (root / "torch" / "a.py").read_text()

    assert copied("one") == ({"torch"}, "1") and worker.built[-1].source == tree
    (own / "torch" / "a.py").write_text("2")
    assert copied("one") == ({"torch"}, "1") and copied("two") == ({"torch"}, "2")
    assert set(asked) == {worker.folder.place / "plan.json"}


def test_a_wheel_for_a_cpu_that_this_one_is_not_stays_unproven(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    table = load_facts().cpu.microarchitecture

    def here(cpu: str) -> Callable[[], Machine]:
        return lambda: Machine(os=Os(system="linux"), cpu=Cpu(features=tuple(table[cpu].features)))

    for wanted, cpu, stage in (
        ("haswell", "nehalem", "built"),
        ("nehalem", "haswell", "proven"),
        ("haswell", "haswell", "proven"),
    ):
        monkeypatch.setattr(matrix_work, "this_machine", here(cpu))
        state = worker.run(axes={"cpu": wanted}, force=True)
        assert state.stage == stage and (stage == "proven") is ("this CPU lacks" not in state.proof)


def test_the_report_of_a_build_lies_in_its_cell(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "report.html"
    page.write_text("how it was built")
    build = worker.build

    def build_with_report(options: BuildOptions, progress: object, *, trust: bool) -> BuildResult | BuildFailure:
        return msgspec.structs.replace(build(options, progress, trust=trust), report=str(page))

    monkeypatch.setattr(matrix_work, "build_one", build_with_report)
    assert worker.run().stage == "proven"
    assert (worker.folder.place / "report.html").read_text() == "how it was built"
    page.unlink()
    assert worker.run(force=True).stage == "proven", "one that is gone is no failure"


def test_patches_that_do_not_apply_are_a_failure_of_the_setup(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    patch = AppliedPatch(id="cmake4-own-lists", state="conflict")
    tree = SourceTree(project="torch", version="2.7.1", root="/t", patches=(patch,))
    monkeypatch.setattr(matrix_work, "source_patch", lambda *_, **__: tree)
    state = worker.run(project="torch", source=str(tmp_path / "own"))
    assert (state.stage, state.failure, worker.built) == ("failed", "setup", [])
    assert state.message.startswith("patches do not apply: cmake4-own-lists")


def test_a_wheel_never_lies_in_its_cell_without_what_belongs_to_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ending in (".bill.json", ".zz.json"):
        worker.made.with_name(worker.made.name + ending).write_text("{}")
    came: list[str] = []
    usual = Path.replace

    def replace(source: Path, target: Path) -> Path:
        if worker.made.name in target.name:
            came.append(target.name)
        return usual(source, target)

    monkeypatch.setattr(Path, "replace", replace)
    assert worker.run().stage == "proven"
    assert len(came) == 4 and came[-1] == worker.made.name, "a kill in between leaves no wheel alone"
