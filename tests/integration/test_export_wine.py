"""Batch files run by a real cmd (wine's), with fake tools on the path that note how they were called.

Wine's cmd keeps only zero and non-zero of a called batch file's exit code, so codes are compared with 0.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import export_plans as plans
import needs
from batch_world import TOOLS, World, measuring, windows
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.scripts import quoting

# Once in about a hundred scripts one ended under wine for a reason not found; what fails twice is ours for sure.
# The report counts second tries.
pytestmark = [pytest.mark.integration, needs.tool("wine"), pytest.mark.flaky(reruns=1)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "a place with spaces ü")


def test_the_whole_build_goes_through(world: World) -> None:
    code, text, calls = world.run(plans.KEPLER_WINDOWS)
    assert code == 0, text + world.log
    assert "torch 2.0.1 cu114 is ready" in text
    order = [call.split()[0] for call in calls]
    assert order.index("vswhere") < order.index("vcvarsall") < len(order)
    assert any(call.startswith("vcvarsall x64 -vcvars_ver=14.29") for call in calls)
    clone = next(call for call in calls if "clone" in call)
    assert "--branch v2.0.1" in clone and "pytorch.git" in clone
    pip = next(call for call in calls if "pip install" in call)
    assert '"setuptools<74"' in pip and '"cmake<4"' in pip and '"numpy==1.26.4"' in pip
    assert any("pip wheel --no-build-isolation" in call for call in calls)
    assert "== build" in world.log and "64 GiB of memory" in text and "5000 GiB free" in text


def test_the_environment_of_the_plan_reaches_the_build(world: World) -> None:
    world.tool("python", TOOLS["python"] + 'if "%3"=="wheel" set >"%WORK%\\env.txt"\r\n')
    code, text, _ = world.run(plans.KEPLER_WINDOWS)
    assert code == 0, text
    env = (world.folder / "work space" / "env.txt").read_text(errors="replace")
    for name, value in (plans.KEPLER_WINDOWS.build or BuildRecipe(source="")).env.items():
        assert f"{name}={value}\n" in env.replace("\r", ""), name
    assert "MAX_JOBS=" in env and "DISTUTILS_USE_SDK=1" in env


@pytest.mark.parametrize(
    ("tool", "body", "message"),
    [
        ("nvcc", TOOLS["nvcc"].replace("11.4", "12.3"), "nvcc is CUDA 12.3; this plan is for 11.4"),
        ("vswhere", "", "no Visual Studio with the C++ tools (toolset 14.29"),
        ("git", 'if "%4"=="clone" exit /b 128\r\n', "git clone failed"),
        ("git", "exit /b 1\r\n", "there is no git on PATH"),
        ("python", TOOLS["python"] + 'if "%3"=="wheel" exit /b 1\r\n', "the build failed"),
        ("python", TOOLS["python"] + 'if "%3"=="install" exit /b 1\r\n', "pip could not install"),
        ("python", TOOLS["python"].replace("3.10", "3.13"), "is Python 3.13; this plan is for 3.10"),
        ("powershell", measuring(7, 900), "the build needs 16 GiB of memory, there are 7"),
        ("powershell", measuring(32, 12), "the build needs 40 GiB of disk, 12 are free"),
    ],
)  # fmt: skip
def test_it_stops_at_the_first_failure_and_says_why(world: World, tool: str, body: str, message: str) -> None:
    world.tool(tool, body)
    code, text, _ = world.run(plans.KEPLER_WINDOWS)
    assert code != 0 and "FAILED" in text and message in text, text
    assert message in world.log and "is ready" not in text


def test_a_failing_vcvars_is_noticed(world: World) -> None:
    (world.studio / "vcvarsall.bat").write_bytes(b"@exit /b 1\r\n")
    code, text, calls = world.run(plans.KEPLER_WINDOWS)
    assert code != 0 and "vcvarsall.bat failed" in text and not any("clone" in call for call in calls)


def test_a_second_run_does_not_fetch_again(world: World) -> None:
    code, text, _ = world.run(plans.KEPLER_WINDOWS)
    assert code == 0, text
    code, text, calls = world.run(plans.KEPLER_WINDOWS)
    assert code == 0 and not any("clone" in call for call in calls), text


def test_clean_removes_the_old_build(world: World) -> None:
    assert world.run(plans.KEPLER_WINDOWS)[0] == 0
    old = world.folder / "work space" / "source" / "build"
    old.mkdir()
    (old / "CMakeCache.txt").write_text("USE_CUDA:BOOL=OFF\n")
    (world.folder / "work space" / "built.txt").unlink()
    for _ in range(2):  # a wheel that is not what was planned is not taken for one the next time
        code, text, _ = world.run(plans.KEPLER_WINDOWS)
        assert code != 0 and "USE_CUDA is not on in the build" in text, text
    code, text, _ = world.run(plans.KEPLER_WINDOWS, CLEAN="1")
    assert code == 0 and not old.exists(), text


def test_patches_are_written_and_applied(world: World) -> None:
    plan = Plan(
        answer="build", torch="2.6.0", python="3.10",
        build=BuildRecipe(source="v2.6.0", patches=("one", "two"), compiler="msvc-19.40"),
    )  # fmt: skip
    (world.folder.parent / "Visual Studio" / "VC" / "Tools" / "MSVC" / "14.40.33807").mkdir()
    code, text, calls = world.run(plan)
    assert code == 0, text + world.log
    applied = [call for call in calls if call.startswith("git apply") and "--reverse" not in call]
    assert len(applied) == 2 and "one.patch" in applied[0] and "two.patch" in applied[1]
    assert sum("base64" in call for call in calls) == 2


def test_an_install_plan_installs(world: World) -> None:
    world.tool("python", TOOLS["python"].replace("3.10", "3.11"))
    code, text, calls = world.run(plans.BLACKWELL)
    assert code == 2 and "there is no NVIDIA driver" in text
    for driver, good in (("470.99", False), ("525.09", False), ("525.60", True), ("580.01", True)):
        world.tool("nvidia-smi", f"echo {driver}\r\n")
        code, text, calls = world.run(plans.BLACKWELL)
        assert good or (code == 2 and f"the NVIDIA driver is {driver}; this wheel needs 525.60" in text), text
        assert any("is_available" in call for call in calls) is good, (text, calls, world.log)
    assert code == 0, text
    assert any('pip install "torch==2.7.1" --index-url' in call for call in calls)


def test_cmd_reads_back_what_was_set(world: World) -> None:
    # No non-ASCII here: wine's cmd reads batch files in the OEM code page whatever chcp says.
    values = [plans.NASTY, 'with "quotes" & more', "100 %done%", "a^b", "tail\\", "(x)", "!delayed!", 'x"', "=;,"]
    lines = ["@echo off", "setlocal EnableExtensions DisableDelayedExpansion", "chcp 65001 >nul"]
    for number, value in enumerate(values):
        lines += [quoting.batch_set(f"REKINDLE_VALUE_{number}", value), f"set REKINDLE_VALUE_{number}"]
    script = world.folder / "value.bat"
    script.write_bytes("\r\n".join([*lines, ""]).encode())
    _, text, _ = world.run_file(script)
    assert text.splitlines() == [f"REKINDLE_VALUE_{number}={value}" for number, value in enumerate(values)]


def test_each_missing_thing_is_named_before_anything_is_begun(world: World) -> None:
    def stops(message: str) -> None:
        code, text, calls = world.run(plans.KEPLER_WINDOWS)
        assert code != 0 and message in text, text
        assert not any("clone" in call or "pip install" in call for call in calls)

    (world.cuda / "include" / "cudnn_version.h").unlink()
    stops("there is no cuDNN")
    world.cudnn(9)
    stops("is cuDNN 9; this plan is for 8.7")
    world.cudnn(8)
    world.tool("reg", "exit /b 1\r\n")
    stops("long paths are off")


def test_the_visual_studio_with_the_toolset_of_the_plan_is_taken(world: World) -> None:
    newer = world.folder.parent / "Newer Studio"
    (newer / "VC" / "Tools" / "MSVC" / "14.44.35207").mkdir(parents=True)
    right = windows(world.folder.parent / "Visual Studio")
    world.tool("vswhere", f"echo {windows(newer)}\r\necho {right}\r\n")
    code, text, calls = world.run(plans.KEPLER_WINDOWS)
    assert code == 0 and right in text, text
    asked = next(call for call in calls if call.startswith("vswhere"))
    assert "[16.0,17.0)" in asked and "-latest" not in asked
    (world.folder.parent / "Visual Studio" / "VC" / "Tools" / "MSVC" / "14.29.30133").rmdir()
    code, text, _ = world.run(plans.KEPLER_WINDOWS, CLEAN="1")
    assert code != 0 and "toolset 14.29 of Visual Studio 2019" in text, text


def test_what_is_built_is_not_built_again_until_the_plan_changes(world: World) -> None:
    assert world.run(plans.KEPLER_WINDOWS)[0] == 0
    code, text, calls = world.run(plans.KEPLER_WINDOWS)
    assert code == 0 and "built already" in text and not any("pip wheel" in call for call in calls), text
    assert (world.folder / "work space" / "build.previous.log").exists()
    build = plans.KEPLER_WINDOWS.build or BuildRecipe(source="")
    other = msgspec.structs.replace(
        plans.KEPLER_WINDOWS,
        build=msgspec.structs.replace(build, env={**build.env, "USE_CUDA": "1", "BUILD_TEST": "0"}),
    )
    (world.folder / "work space" / "source" / "build").mkdir()
    code, text, calls = world.run(other)
    assert code == 0 and any("pip wheel" in call for call in calls), text
    assert not (world.folder / "work space" / "source" / "build").exists(), "another plan's build is removed"


def test_removing_everything_asks(world: World) -> None:
    assert world.run(plans.KEPLER_WINDOWS)[0] == 0
    kept = world.folder / "work space" / "source" / "mine.txt"
    kept.write_text("x")
    code, text, _ = world.run(plans.KEPLER_WINDOWS, CLEAN="all")
    assert code != 0 and "nothing was removed" in text and kept.exists(), text
    code, text, calls = world.run(plans.KEPLER_WINDOWS, CLEAN="all", YES="1")
    assert code == 0 and not kept.exists() and any("clone" in call for call in calls), text
