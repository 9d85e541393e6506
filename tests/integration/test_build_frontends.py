"""Each front end for real: the wheel and its name, planned against configured, jobs by tokens, killed and continued."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import needs
import sample_trees
from failed_builds import failed
from rekindle.build import build
from rekindle.errors import BadInput, BuildFailed
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import encode
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.readiness.programs import find_build_python
from rekindle.toolkits import programs

pytestmark = [pytest.mark.integration, needs.tool("g++"), pytest.mark.skipif(sys.platform != "linux", reason="Linux")]

OPTIONS = BuildOptions(jobs=2)
TREES = {"scikit": sample_trees.scikit, "pep517": sample_trees.pep517, "old": sample_trees.old_setup}


def plan(*, asserts: dict[str, str] | None = None, **env: str) -> Plan:
    settings = {"USE_SPARKS": "1", "CMAKE_BUILD_TYPE": "Release", **env}
    recipe = BuildRecipe(
        source="x", env=settings, cmake={"EMBER_LEVEL": "a b;c"}, pins={"setuptools": "<82"}, asserts=asserts or {}
    )
    return Plan(answer="build", project="spark", variant="cpu", build=recipe)


def tree_at(root: Path) -> SourceTree:
    return SourceTree(project="spark", version="1.4.0", root=str(root))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("front") / "ws")


@pytest.fixture(scope="module", params=list(TREES))
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, workspace: Workspace) -> Any:
    root = TREES[request.param](tmp_path_factory.mktemp(request.param) / "tree")
    return root, build(plan(), tree_at(root), workspace, python=sys.executable, options=OPTIONS)


def test_the_wheel_is_named_and_runs(built: Any, tmp_path: Path) -> None:
    _, result = built
    wheel = Path(result.wheel)
    tag = f"cp3{sys.version_info[1]}"
    assert re.fullmatch(rf"ember-1\.4\.0\+rekindle\.cpu-{tag}-{tag}-linux_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as inside:
        names = inside.namelist()
        metadata = inside.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
        assert any(name.endswith("rekindle.json") for name in names)
        assert "Version: 1.4.0+rekindle.cpu" in metadata
        inside.extractall(tmp_path)
    said = subprocess.run(
        [sys.executable, "-c", "import spark; print(spark.glow())"], cwd=tmp_path, capture_output=True, text=True
    )
    assert said.stdout.strip() == "42", said.stderr


def test_what_was_planned_was_compared(built: Any) -> None:
    root, result = built
    facts = {fact.name: fact for fact in result.facts}
    assert facts["USE_SPARKS"].ok is True
    assert facts["CMAKE_BUILD_TYPE"].ok is True
    cache = (root / "build/CMakeCache.txt").read_text()
    assert re.search(r"^EMBER_LEVEL:\w+=a b;c$", cache, re.MULTILINE), "a setting that nothing forwards must arrive"


def test_again_compiles_nothing(built: Any, workspace: Workspace) -> None:
    root, result = built
    log = root / "build/.ninja_log"
    before = {line for line in log.read_text().splitlines() if ".o\t" in line}
    again = build(plan(), tree_at(root), workspace, python=sys.executable, options=OPTIONS)
    assert {line for line in log.read_text().splitlines() if ".o\t" in line} == before
    assert again.wheel_sha256 == result.wheel_sha256


def test_another_python_reuses_the_library(built: Any, workspace: Workspace) -> None:
    root, _ = built
    other = _other_python()
    log = root / "build/.ninja_log"
    before = set(log.read_text().splitlines())
    result = build(plan(), tree_at(root), workspace, python=other, options=OPTIONS)
    new = [line.split("\t")[3] for line in log.read_text().splitlines() if line not in before and ".o\t" in line]
    assert new
    assert all("module.cpp" in name for name in new), "only what includes Python's headers"
    assert Path(result.wheel).name.split("-")[2] == f"cp{other.replace('.', '')}"


def _other_python() -> str:
    for version in ("3.12", "3.10", "3.13"):
        try:
            find_build_python(LiveHost(), version)
        except BadInput:
            continue
        return version
    pytest.skip("needs another Python with headers (3.10, 3.12 or 3.13)")


@pytest.mark.parametrize("make", TREES.values(), ids=TREES)
def test_what_configure_turns_off_stops_before_compiling(
    make: Callable[[Path], Path], tmp_path: Path, workspace: Workspace
) -> None:
    root = make(tmp_path / "tree")
    with pytest.raises(BuildFailed, match="USE_SPARKS was planned as 1 but configured as OFF") as caught:
        build(plan(EMBER_DAMP="1"), tree_at(root), workspace, python=sys.executable, options=OPTIONS)
    assert any("the tinder is damp" in line for line in failed(caught).error)
    assert not list(root.rglob("*.o"))


def test_cuda_that_silently_falls_back_is_stopped_with_its_reason(tmp_path: Path, workspace: Workspace) -> None:
    root = sample_trees.scikit(tmp_path / "tree")
    with pytest.raises(BuildFailed, match="USE_CUDA was planned as 1 but configured as OFF") as caught:
        build(plan(USE_CUDA="1"), tree_at(root), workspace, python=sys.executable, options=OPTIONS)
    assert any("no toolkit was found" in line for line in failed(caught).error)
    assert not list(root.rglob("*.o"))


def test_the_planned_cmake_comes_with_the_build_where_the_machine_has_none(
    tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain Debian has no CMake: the check says that the index brings it, so the build must not ask for another."""
    everywhere = programs.places_of
    monkeypatch.setattr(programs, "places_of", lambda host, name: () if name == "cmake" else everywhere(host, name))
    planned = plan()
    assert planned.build is not None
    recipe = msgspec.structs.replace(planned.build, pins={**planned.build.pins, "cmake": ">=3.27,<4"})
    root = sample_trees.old_setup(tmp_path / "tree")
    planned = msgspec.structs.replace(planned, build=recipe)
    result = build(planned, tree_at(root), workspace, python=sys.executable, options=OPTIONS)
    assert re.match(rf"3\.\d+.* \({re.escape(str(workspace.root))}", result.toolchain["cmake"])


def test_a_backend_that_cannot_configure_alone_is_watched(tmp_path: Path, workspace: Workspace) -> None:
    """No CMAKE_ONLY: one command configures and compiles. It is stopped as soon as CMake has said too much."""
    root = sample_trees.pep517(tmp_path / "tree", stops=False)
    with pytest.raises(BuildFailed, match="USE_SPARKS was planned as 1"):
        build(plan(EMBER_DAMP="1"), tree_at(root), workspace, python=sys.executable, options=OPTIONS)
    assert not list(root.rglob("*.so"))
    result = build(plan(), tree_at(root), workspace, python=sys.executable, options=BuildOptions(jobs=2, clean=True))
    assert {fact.name for fact in result.facts if fact.ok} >= {"USE_SPARKS", "CMAKE_BUILD_TYPE"}


@pytest.mark.parametrize(("target", "objects"), [("ember_core", 6), (None, 7)], ids=["a target", "the wheel"])
@pytest.mark.parametrize("make", TREES.values(), ids=TREES)
def test_ninja_obeys_the_tokens(
    make: Callable[[Path], Path], target: str | None, objects: int, tmp_path: Path, workspace: Workspace
) -> None:
    """One job: no two compilers may overlap in Ninja's own log, though the machine has more cores and the plan names
    a number for builds without us (with a number of its own Ninja asks no jobserver)."""
    root = make(tmp_path / "tree")
    options = BuildOptions(jobs=1, target=target)
    build(plan(MAX_JOBS="4"), tree_at(root), workspace, python=sys.executable, options=options)
    spans = sorted(
        (int(start), int(end))
        for start, end, _, name, _ in (
            line.split("\t") for line in (root / "build/.ninja_log").read_text().splitlines() if "\t" in line
        )
        if name.endswith(".o")
    )
    assert len(spans) == objects
    assert all(earlier[1] <= later[0] + 1 for earlier, later in itertools.pairwise(spans))


def made(root: Path, pattern: str) -> bool:
    """Folders that CMake removes while they are looked through are no answer."""
    try:
        return any(root.rglob(pattern))
    except OSError:
        return False


@pytest.mark.parametrize("make", TREES.values(), ids=TREES)
def test_killed_and_continued(make: Callable[[Path], Path], tmp_path: Path, workspace: Workspace) -> None:
    root = make(tmp_path / "tree")
    (tmp_path / "plan.json").write_bytes(encode(plan()))
    argv = [
        sys.executable, "-m", "rekindle", "build", "--trust",
        "--plan", str(tmp_path / "plan.json"), "--source", str(root),
        "--workspace", str(workspace.root), "--python", sys.executable, "--jobs", "1", "--json", "-q",
    ]  # fmt: skip
    started = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    try:
        while not made(root, "op*.o") and started.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    result = json.loads(done.stdout)["results"][0]
    assert result["resumed"] is True
    assert Path(result["wheel"]).is_file()
