"""Real builds of the miniature tree: wheels that install, come out the same, and survive being interrupted."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import needs
import rekindle.spark
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
from rekindle.source.patches import status

pytestmark = [pytest.mark.integration, needs.tool("g++"), pytest.mark.skipif(sys.platform != "linux", reason="Linux")]

QUICK = {"USE_HEAVY": "0", "SPARK_OPS": "2", "CMAKE_POLICY_VERSION_MINIMUM": "3.5"}
OPTIONS = BuildOptions(jobs=2)


def spark_tree(folder: Path) -> SourceTree:
    root = folder / "spark"
    shutil.copytree(Path(rekindle.spark.__file__).parent / "tree", root)
    version = (root / "version.txt").read_text().strip()
    return SourceTree(project="spark", version=version, root=str(root), digest=status(root).digest)


def spark_plan(*, asserts: dict[str, str] | None = None, **env: str) -> Plan:
    recipe = BuildRecipe(source="spark", env={**QUICK, **env}, pins={"setuptools": "<74"}, asserts=asserts or {})
    return Plan(answer="build", project="spark", variant="cpu", python="3.11", build=recipe)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Letters outside ASCII in the path, as people's home directories have them."""
    return tmp_path_factory.mktemp("Wörkbench")


@pytest.fixture(scope="module")
def workspace(place: Path) -> Workspace:
    """One workspace, so that the target's environment is made only once."""
    return Workspace(place / "ws")


@pytest.fixture(scope="module")
def first(place: Path, workspace: Workspace) -> Any:
    tree = spark_tree(place / "first")
    return tree, build(spark_plan(), tree, workspace, python=sys.executable, options=OPTIONS)


def test_spark_becomes_a_wheel_that_runs(place: Path, workspace: Workspace, first: Any) -> None:
    _, result = first
    wheel = Path(result.wheel)
    assert wheel.parent == workspace.wheels
    assert "+rekindle.cpu-cp" in wheel.name
    kept = json.loads((workspace.wheels / "build.json").read_text())
    assert kept["wheel_sha256"] == result.wheel_sha256
    assert {"environment", "configure", "compile", "finish"} <= {phase["name"] for phase in kept["phases"]}
    assert all(fact.ok is not False for fact in result.facts)
    assert any(fact.ok for fact in result.facts)
    site = place / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, wheel], check=True)
    said = subprocess.run(
        [sys.executable, "-c", "import spark; print(spark.__version__)"],
        env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=True, cwd=place,
    )  # fmt: skip
    assert said.stdout.strip().endswith("+rekindle.cpu")


def test_what_lies_in_and_beside_the_wheel(first: Any) -> None:
    _, result = first
    with zipfile.ZipFile(result.wheel) as wheel:
        assert wheel.testzip() is None
        names = wheel.namelist()
        bill = json.loads(wheel.read(next(name for name in names if name.endswith(".cdx.json"))))
        identity = json.loads(wheel.read(next(name for name in names if name.endswith("rekindle.json"))))
    assert bill["bomFormat"] == "CycloneDX"
    assert "setuptools" in {component["name"] for component in bill["components"]}
    assert identity["plan_digest"] == result.plan_digest
    statement = json.loads(Path(result.provenance).read_text())
    assert statement["subject"][0]["digest"]["sha256"] == result.wheel_sha256
    report = Path(result.report).read_text()
    assert "<rect" in report
    assert "http" not in report.split("<h2>Settings")[0], "the report must be readable with no network"


def test_the_same_again_gives_the_same_bytes(place: Path, workspace: Workspace, first: Any) -> None:
    _, result = first
    tree = spark_tree(place / "second")
    again = build(spark_plan(), tree, workspace, python=sys.executable, options=OPTIONS)
    assert again.wheel_sha256 == result.wheel_sha256


def lines_of(log: Path) -> set[str]:
    return set(log.read_text().splitlines())


def objects_since(log: Path, before: set[str]) -> list[str]:
    """Objects compiled since; by lines, not by position: Ninja rewrites its log now and then."""
    new = [line.split("\t") for line in log.read_text().splitlines() if line not in before]
    return [fields[3] for fields in new if len(fields) == 5 and fields[3].endswith(".o")]


def test_a_second_run_compiles_nothing(workspace: Workspace, first: Any) -> None:
    tree, result = first
    log = Path(tree.root) / "build/.ninja_log"
    before = lines_of(log)
    again = build(spark_plan(), tree, workspace, python=sys.executable, options=OPTIONS)
    assert objects_since(log, before) == []
    assert again.wheel_sha256 == result.wheel_sha256


def test_a_changed_file_goes_on_with_what_depends_on_it(place: Path, workspace: Workspace, first: Any) -> None:
    """A patch that came later, or an edit: the rest is not compiled again, and the user is told."""
    tree = spark_tree(place / "changed")
    build(spark_plan(), tree, workspace, python=sys.executable, options=OPTIONS)
    log = Path(tree.root) / "build/.ninja_log"
    before = lines_of(log)
    file = min(Path(tree.root, "spark").rglob("*.cpp"))
    file.write_text(file.read_text() + "\n// patched\n")
    changed = msgspec.structs.replace(tree, digest=status(Path(tree.root)).digest)
    assert changed.digest != tree.digest
    result = build(spark_plan(), changed, workspace, python=sys.executable, options=OPTIONS)
    assert [Path(name).name for name in objects_since(log, before)] == [f"{file.name}.o"]
    assert any("sources have changed" in note for note in result.notes), result.notes


def test_another_python_compiles_only_the_python_parts(workspace: Workspace, first: Any) -> None:
    tree, _ = first
    log = Path(tree.root) / "build/.ninja_log"
    before = lines_of(log)
    for other in ("3.10", "3.12", "3.9", "3.13"):
        try:
            find_build_python(LiveHost(), other)
            break
        except BadInput:
            continue
    else:
        pytest.skip("needs another Python with headers (3.9, 3.10, 3.12 or 3.13)")
    result = build(spark_plan(), tree, workspace, python=other, options=OPTIONS)
    compiled = objects_since(log, before)
    assert compiled, "the binding must be compiled for the other Python"
    assert all("spark_python" in name for name in compiled)
    assert Path(result.wheel).name.split("-")[2] != f"cp3{sys.version_info[1]}"


def test_another_plan_in_the_same_tree_is_refused(workspace: Workspace, first: Any) -> None:
    tree, _ = first
    with pytest.raises(BadInput, match="was made for another plan: env SPARK_OPS was '2' and is now '3'"):
        build(spark_plan(SPARK_OPS="3"), tree, workspace, python=sys.executable, options=OPTIONS)


def test_a_configuration_that_differs_stops_before_compiling(place: Path, workspace: Workspace) -> None:
    tree = spark_tree(place / "asserts")
    with pytest.raises(BuildFailed, match="USE_CUDA was planned as ON but configured as 0") as caught:
        plan = spark_plan(asserts={"USE_CUDA": "ON"}, USE_CUDA="0")
        build(plan, tree, workspace, python=sys.executable, options=OPTIONS)
    assert failed(caught).phase == "check"
    assert not list(Path(tree.root, "build").rglob("*.o"))


def test_the_dry_run_is_a_script_that_builds_without_rekindle(place: Path, workspace: Workspace, first: Any) -> None:
    _, expected = first
    tree = spark_tree(place / "script")
    (place / "script.json").write_bytes(encode(spark_plan()))
    argv = [
        sys.executable, "-m", "rekindle", "build", "--trust",
        "--plan", str(place / "script.json"), "--source", tree.root,
        "--workspace", str(place / "script-ws"), "--python", sys.executable, "--jobs", "2", "--dry-run",
    ]  # fmt: skip
    said = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert not Path(tree.root, "build").exists(), "a dry run must do nothing"
    done = subprocess.run(["sh"], input=said.stdout, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]
    names = [path.name for path in (place / "script-ws/wheels").glob("*.whl")]
    assert names == [Path(expected.wheel).name]


def test_only_a_target(place: Path, workspace: Workspace) -> None:
    tree = spark_tree(place / "a target with spaces")
    options = replace(OPTIONS, target="spark_ember")
    result = build(spark_plan(), tree, workspace, python=sys.executable, options=options)
    assert result.wheel == ""
    assert any(Path(tree.root, "build").rglob("libspark_ember.so"))
    assert not any(Path(tree.root, "build").rglob("libspark_core.so"))


def test_an_error_in_the_source_is_shown_and_mended_by_the_same_command(place: Path, workspace: Workspace) -> None:
    tree = spark_tree(place / "broken")
    source = Path(tree.root) / "spark/csrc/core/checksum.cpp"
    good = source.read_text()
    source.write_text(good + "\nint broken( { return 1; }\n")
    with pytest.raises(BuildFailed) as caught:
        build(spark_plan(), tree, workspace, python=sys.executable, options=OPTIONS)
    failure = failed(caught)
    assert "checksum.cpp" in failure.message
    assert "error:" in failure.message
    assert "-o " in (failure.command or "")
    source.write_text(good)
    result = build(spark_plan(), tree, workspace, python=sys.executable, options=OPTIONS)
    assert result.resumed
    assert Path(result.wheel).is_file()


def test_interrupted_again_and_again_it_ends_in_the_same_wheel(place: Path, workspace: Workspace, first: Any) -> None:
    """Killed at random moments in every way a user, a kernel or a power cut may."""
    _, expected = first
    tree = spark_tree(place / "killed")
    plan = place / "plan.json"
    plan.write_bytes(encode(spark_plan()))
    Path(tree.root, "source.json").write_bytes(encode(tree))
    argv = [
        sys.executable, "-m", "rekindle", "build", "--trust",
        "--plan", str(plan), "--source", tree.root, "--json", "-q",
        "--workspace", str(workspace.root), "--python", sys.executable, "--jobs", "2",
    ]  # fmt: skip
    times = int(os.environ.get("REKINDLE_INTERRUPTIONS", "4"))
    dice = random.Random(20261115)
    cut = 0
    for _ in range(times):
        started = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            started.wait(timeout=dice.uniform(0.5, 6.0))
        except subprocess.TimeoutExpired:
            started.send_signal(dice.choice((signal.SIGINT, signal.SIGKILL, signal.SIGTERM)))
            started.wait()
            cut += 1
        deadline = time.monotonic() + 20
        while _busy(tree.root) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _busy(tree.root), "a process of the build outlived it"
    assert cut, "no run was cut short, so nothing was shown"
    done = subprocess.run(argv, capture_output=True, check=True)
    result = msgspec.json.decode(done.stdout)["results"][0]
    assert result["wheel_sha256"] == expected.wheel_sha256


def _busy(root: str) -> list[str]:
    """Processes whose working directory lies in the tree, or whose command names it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            where = os.readlink(entry / "cwd")
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if where.startswith(root) and state != "Z":
            found.append(entry.name)
    return found
