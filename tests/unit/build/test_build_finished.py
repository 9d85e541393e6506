"""The end of a build: the wheel in the wheelhouse with its papers, the result as it is kept, and the report."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bare_host import BareHost
from rekindle.build.environment import BuildEnvironment
from rekindle.build.failure import BuildLog
from rekindle.build.finish import finish
from rekindle.build.frontend import FrontEnd
from rekindle.build.governor import Governor, Sample
from rekindle.build.history import History, ObjectCosts
from rekindle.build.launchers import Launcher
from rekindle.build.report import TimedSpan
from rekindle.build.work import Work
from rekindle.host.files import sha256_of
from rekindle.host.made import was_made_here
from rekindle.host.protocol import Completed
from rekindle.host.workspace import Workspace
from rekindle.interpreters.environment import TargetPython
from rekindle.model.build import BuildResult, Fact
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import load
from rekindle.model.farm import FarmUse
from rekindle.model.interpreter import Interpreter
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.progress import Silent
from rekindle.model.source import AppliedPatch, SourceTree

NAME = "torch-2.6.0+ours-cp311-cp311-linux_x86_64.whl"
PLAN = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="git"))
PATCH = AppliedPatch(id="fix", state="applied", sha256="ab")


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


class Holding(BareHost):
    """A machine whose Python tells that it holds NumPy, or does not answer."""

    answers = True

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        told = {"packages": [{"name": "numpy", "version": "1.26"}]}
        return Completed(argv=tuple(argv), code=0 if self.answers else 1, out=json.dumps(told))


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    root = tmp_path / "tree"
    (root / "build").mkdir(parents=True)
    (root / "build" / ".ninja_log").write_text("# ninja log v6\n0\t9000\t1\ta.cpp.o\tx\n")
    tree = SourceTree(
        project="torch", version="2.6.0", root=str(root), commit="c" * 40, digest="d" * 64, patches=(PATCH,)
    )
    with contextlib.closing(BuildLog(tmp_path / "b.log")) as log:
        yield Work(
            plan=PLAN,
            tree=tree,
            workspace=Workspace(tmp_path / "ws"),
            options=BuildOptions(memory="2G"),
            progress=Silent(),
            host=Holding(env={"HOME": "/home/ann"}),
            log=log,
            front=FrontEnd(kind="setup", root=root),
            version="2.6.0+ours",
            spans=[TimedSpan(name="compile", begun=1.0, seconds=12.34567)],
            toolchain={"ninja": "1.13.0 (/usr/bin/ninja)"},
            facts=(Fact(name="BLAS", wanted="MKL"),),
            steps=7,
            retried=["a.o"],
            notes=["hello"],
        )


def wheel(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / NAME, "w") as out:
        out.writestr("torch/__init__.py", b"x = 1\n")
        out.writestr("torch-2.6.0+ours.dist-info/METADATA", b"Name: torch\n")
    return tmp_path / NAME


def finished(work: Work, wheel: Path | None, **chosen: str) -> BuildResult:
    values = {"SOURCE_DATE_EPOCH": "1700000000", "CC": "/home/ann/gcc", **chosen}
    env = BuildEnvironment(full={}, chosen=values, dropped=(), cache_settings={})
    made_of = Interpreter(path="/py", version="3.11.7", implementation="CPython")
    return finish(work, wheel, env, TargetPython(interpreter=made_of, python="/env/bin/python"))


def test_the_wheel_moves_into_the_wheelhouse_with_its_papers(work: Work, tmp_path: Path) -> None:
    given = wheel(tmp_path)
    result = finished(work, given)
    final = tmp_path / "ws" / "wheels" / NAME
    assert not given.exists() and result.wheel == str(final) and result.wheel_sha256 == sha256_of(final)
    assert was_made_here(result.wheel_sha256)
    beside = {path.name.removeprefix(NAME) for path in final.parent.iterdir()}
    assert beside == {"", ".cdx.json", ".intoto.json", ".sha256", ".build.json", "build.json"}
    assert (result.sbom, result.provenance) == (f"{final}.cdx.json", f"{final}.intoto.json")
    assert Path(f"{final}.sha256").read_text() == f"{result.wheel_sha256}  {NAME}\n"
    kept = load(tmp_path / "ws" / "wheels" / "build.json", BuildResult)
    assert kept == result == load(Path(f"{final}.build.json"), BuildResult)


def test_inside_it_stands_what_it_was_made_from(work: Work, tmp_path: Path) -> None:
    result = finished(work, wheel(tmp_path))
    with zipfile.ZipFile(result.wheel) as made:
        folder = "torch-2.6.0+ours.dist-info"
        assert json.loads(made.read(f"{folder}/rekindle.json")) == {
            "schema": 1, "plan_digest": result.plan_digest, "source_commit": "c" * 40, "source_digest": "d" * 64,
            "patches": [{"id": "fix", "sha256": "ab"}],
        }  # fmt: skip
        bill = made.read(f"{folder}/sboms/torch.cdx.json")
        assert made.getinfo("torch/__init__.py").date_time == (2023, 11, 14, 22, 13, 20)
    assert bill == Path(result.sbom or "").read_bytes()
    components = {part["name"]: part["version"] for part in json.loads(bill)["components"]}
    assert components == {"numpy": "1.26", "ninja": "1.13.0"}


@pytest.mark.parametrize("variable", ["HOME", "USERPROFILE"])
def test_what_is_published_names_no_place_of_this_machine(variable: str, work: Work, tmp_path: Path) -> None:
    work.host = Holding(env={variable: "/home/ann"})
    result = finished(work, wheel(tmp_path), CXX=str(tmp_path / "ws" / "g++"))
    told = json.loads(Path(result.provenance or "").read_text())
    settings = told["predicate"]["buildDefinition"]["internalParameters"]["environment"]
    assert (settings["CC"], settings["CXX"]) == ("<home>/gcc", "<workspace>/g++")
    assert told["subject"] == [{"name": NAME, "digest": {"sha256": result.wheel_sha256}}]
    assert result.environment["CC"] == "/home/ann/gcc", "the user's own result tells it"


def test_a_machine_without_a_home_and_a_python_that_does_not_answer_end_no_build(work: Work, tmp_path: Path) -> None:
    host = Holding()
    host.answers = False
    work.host = host
    result = finished(work, wheel(tmp_path))
    names = [part["name"] for part in json.loads(Path(result.sbom or "").read_text())["components"]]
    assert names == ["ninja"]


def test_the_result_tells_how_it_went(work: Work, tmp_path: Path) -> None:
    result = finished(work, wheel(tmp_path))
    assert [(phase.name, phase.seconds) for phase in result.phases[:1]] == [("compile", 12.346)]
    assert [phase.name for phase in result.phases] == ["compile", "finish"]
    assert (result.project, result.python, result.steps, result.retried) == ("torch", "3.11.7", 7, ("a.o",))
    assert (result.notes, result.facts, result.patches) == (("hello",), work.facts, (PATCH,))
    assert (result.memory_budget_bytes, result.log, result.resumed) == (2 << 30, str(tmp_path / "b.log"), False)
    assert (result.peak_memory_bytes, result.paused, result.launcher, result.farm) == (None, 0, {}, None)


def test_what_governor_launcher_and_farm_saw_is_told(work: Work, tmp_path: Path) -> None:
    learnt = ObjectCosts(History(objects={"a.cpp.o": (300 << 20, 1.0)}))
    governor = Governor(None, learnt, max_jobs=2, peak_bytes=5 << 30, pauses=3)
    governor.samples += [Sample(n, 1 << 30, 1, 1, 0, 2) for n in range(3)]
    jobs: Any = SimpleNamespace(governor=governor, learnt=learnt)
    use = FarmUse(scheduler="http://10.0.0.1:10600")
    farm: Any = SimpleNamespace(use=lambda compilers: use)
    work.jobs, work.farm, work.launcher = jobs, farm, Launcher(name="distcc", path="/bin/distcc")
    result = finished(work, wheel(tmp_path))
    assert (result.peak_memory_bytes, result.paused, result.launcher) == (5 << 30, 3, {"launcher": "distcc"})
    assert result.farm == use
    page = Path(result.report or "").read_text()
    assert "<h2>The farm</h2>" in page
    assert 'polyline class="used"' in page
    assert "300 MiB" in page


def test_of_a_target_alone_there_is_a_result_and_no_wheel(work: Work, tmp_path: Path) -> None:
    result = finished(work, None)
    wheels = tmp_path / "ws" / "wheels"
    assert [path.name for path in wheels.iterdir()] == ["build.json"]
    assert (result.wheel, result.wheel_sha256, result.sbom, result.provenance) == ("", "", None, None)
    assert load(wheels / "build.json", BuildResult) == result


def test_the_builds_own_report_stays_when_a_walk_writes_over_the_latest(work: Work, tmp_path: Path) -> None:
    result = finished(work, wheel(tmp_path))
    reports = tmp_path / "ws" / "reports"
    assert result.report == str(reports / "report.html")
    assert (reports / "report.html").read_text() == (reports / "build.html").read_text()
    assert "a.cpp.o" in (reports / "build.html").read_text()
