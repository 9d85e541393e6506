"""Exported GitHub workflows, run by a small runner of our own: bash steps by bash, cmd steps by wine's cmd."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

import export_plans as plans
import needs
from batch_world import World, windows
from rekindle import api
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.scripts.formats import render
from rekindle.scripts.recipe import make_recipe
from rekindle.spark.unpack import tree_version, unpack
from workflow_runner import Runner

pytestmark = pytest.mark.integration
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def _tool(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def _environment(tools: Path, **more: str) -> dict[str, str]:
    kept = {key: os.environ[key] for key in os.environ if key == "HOME" or key.startswith("PIP_")}
    return {**kept, "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}", **more}


@pytest.mark.skipif(not os.environ.get("REKINDLE_LONG"), reason="builds spark once more, 40 s: REKINDLE_LONG=1")
@needs.tool("g++", "git", "ccache")
def test_spark_is_built_uploaded_and_attested(tmp_path: Path) -> None:
    """The container's own set-up (apt) is a stand-in; everything else of the job is run as written."""
    unpack(tmp_path / "tree")
    recipe = BuildRecipe(
        source="spark", env={"USE_CUDA": "0"}, asserts={"USE_CUDA": "OFF"}, disk_gib=1, memory_gib=1,
        patches=("cmake-4-policies", "setuptools-74-msvccompiler"),
    )  # fmt: skip
    plan = Plan(answer="build", project="spark", torch=tree_version(), variant="cpu", python=HERE, build=recipe)
    text = api.export(plan, "github", out=tmp_path / "build.yml", system="linux", arch="x86_64").path
    tools = tmp_path / "tools"
    _tool(tools, "apt-get", f'echo "apt-get $*" >>"{tmp_path}/apt"')
    runner = Runner(tmp_path / "store", _environment(tools, SOURCE=str(tmp_path / "tree")))
    assert runner.run(Path(str(text)).read_text(), tmp_path / "jobs"), "\n".join(runner.log)[-4000:]
    artifacts = {path.name: path for path in (tmp_path / "store" / "artifacts").iterdir()}
    [wheels] = [path for name, path in artifacts.items() if "-log-" not in name]
    [wheel] = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith(".so") for name in archive.namelist())
    assert list(runner.attested) == [wheel.name]
    report = (wheels / "report.md").read_text()
    assert wheel.name in report and runner.attested[wheel.name] in report and "USE_CUDA:" in report
    assert runner.pythons == [HERE] and "install -y" in (tmp_path / "apt").read_text()
    assert list((tmp_path / "store" / "caches").iterdir()), "the compiler cache is kept"
    assert any((path / "build.log").stat().st_size for name, path in artifacts.items() if "-log-" in name)


def _fake_build(fails: int) -> str:
    """A build that needs several jobs: the compiler cache tells how far the ones before came."""
    return (
        'count=$(cat "$CCACHE_DIR/count" 2>/dev/null || echo 0); mkdir -p "$CCACHE_DIR" "$WORK/wheels"\n'
        'echo $((count + 1)) >"$CCACHE_DIR/count"; echo log >"$WORK/build.log"\n'
        f'[ "$count" -ge {fails} ] || exit 1\n'
        'echo wheel >"$WORK/wheels/torch-1-py3-none-any.whl"\n'
    )


@pytest.mark.parametrize(("fails", "good"), [(1, True), (9, False)])
def test_a_split_build_goes_on_where_the_job_before_stopped(tmp_path: Path, fails: int, good: bool) -> None:
    text = render(make_recipe(plans.ALL["ivybridge"], {}), "github", system="linux")
    assert "build-2:" in text, "five hours on four cores: two jobs"
    tools = tmp_path / "tools"
    for name in ("apt-get", "df"):
        _tool(tools, name, "exit 0")
    # The build itself is hours long: in its place a script that fails until a job before has been here.
    _tool(tools, "sh", f'if [ "$1" = build.sh ]; then {_fake_build(fails)} else exec /bin/sh "$@"; fi')
    runner = Runner(tmp_path / "store", _environment(tools), private=True)
    assert runner.run(text, tmp_path / "jobs") == good, "\n".join(runner.log)[-3000:]
    jobs = list(runner.outcome)
    assert len(jobs) >= 2 and runner.outcome[jobs[0]] == "success", "the first may run out of time"
    assert not runner.attested and "skip Provenance" in runner.log, "a private repository cannot attest"
    logs = [p for p in (tmp_path / "store" / "artifacts").iterdir() if "-log-" in p.name]
    assert len(logs) == len(jobs), "each job's log is kept, also of one that failed"
    caches = sorted((tmp_path / "store" / "caches").iterdir())
    assert (caches[-1] / "count").read_text().strip() == str(len(jobs))


@needs.tool("wine")
def test_the_windows_workflow_under_cmd(tmp_path: Path) -> None:
    """CUDA's download, choco and cygpath are stand-ins; the script is written by bash and run by wine's cmd."""
    text = render(make_recipe(msgspec.structs.replace(plans.KEPLER_WINDOWS), {}), "github", system="windows")
    world = World(tmp_path / "a place ü")
    tools = tmp_path / "tools"
    _tool(tools, "choco", f'echo "choco $*" >>"{tmp_path}/choco"')
    _tool(tools, "cygpath", 'printf "Z:%s\\n" "$2" | tr / "\\\\\\\\"')
    fetch = f'{{ mkdir -p cuda/bin; cp -r "{world.cuda}/." cuda/; exit 0; }}'
    _tool(tools, "python", f'[ "$1" != fetch_cuda.py ] || {fetch}\nexec {sys.executable} "$@"')

    def cmd(line: str, workspace: Path, env: Mapping[str, str]) -> tuple[int, str]:
        script = workspace / "step.bat"
        script.write_bytes(f"@echo off\r\n{line}\r\nexit /b %errorlevel%\r\n".encode())
        world.folder = workspace
        given = {key: env[key] for key in ("CUDA_PATH", "CMAKE_CXX_COMPILER_LAUNCHER", "PYTHON")}
        code, said, _ = world.run_file(script, **given, WORK=windows(workspace / "work"))
        return code, said

    runner = Runner(tmp_path / "store", _environment(tools), shells={"cmd": cmd})
    good = runner.run(text, tmp_path / "jobs")
    assert good, "\n".join(runner.log)[-5000:]
    artifacts = {path.name for path in (tmp_path / "store" / "artifacts").rglob("*") if path.is_file()}
    assert {"torch.whl", "build.log", "report.md"} <= artifacts
    assert runner.attested and "ccache" in (tmp_path / "choco").read_text()
