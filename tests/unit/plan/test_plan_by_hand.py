"""The way by hand, walked: the lines of a plan in a real bash, with stand-ins for what would take hours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from planning import FACTS, ask, build, plan

from rekindle.model.machine import Toolkit
from rekindle.model.plan import Plan
from rekindle.plan.solve import make_plan
from rekindle.plan.steps import cudnn_package, front_end, interpreter_words, toolkit_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="bash")

GIT = """#!/bin/bash
echo "git $*" >> "$LOG"
mkdir -p pytorch/tools/amd_build && touch pytorch/requirements.txt pytorch/setup.py pytorch/tools/amd_build/build_amd.py
"""
# The interpreter: makes an environment, "installs" cuDNN as its package lies, and "builds" a wheel.
PYTHON = """#!/bin/bash
echo "python $*" >> "$LOG"
site=".venv/lib/$PYNAME/site-packages/nvidia/cudnn"
case "$*" in
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python
     echo 'PATH="$PWD/.venv/bin:$PATH"' > .venv/bin/activate;;
  *nvidia-cudnn*) mkdir -p $site/include $site/lib
     touch $site/include/cudnn.h $site/lib/libcudnn.so.8 $site/lib/libcudnn.so.9;;
  *bdist_wheel*|*"-m build"*) env > built.env; mkdir -p dist && touch dist/torch-0-py3-none-any.whl;;
esac
"""
FIND = """cmake_minimum_required(VERSION 3.18)
project(find NONE)
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
find_path(HEADER cudnn.h HINTS $ENV{CUDNN_INCLUDE_DIR} PATH_SUFFIXES cuda/include cuda include REQUIRED)
find_library(LIBRARY cudnn PATHS $ENV{CUDNN_LIBRARY} PATH_SUFFIXES lib lib64 cuda/lib cuda/lib64 lib/x64 REQUIRED)
"""


def walk(made: Plan, folder: Path) -> tuple[list[str], dict[str, str]]:
    """What was called, and the environment the build saw."""
    tools = folder / "tools"
    tools.mkdir()
    name = f"python{made.python}"
    for tool, text in (("git", GIT), (name, PYTHON), ("rekindle", '#!/bin/bash\necho "rekindle $*" >> "$LOG"\n')):
        (tools / tool).write_text(text, "utf-8")
        (tools / tool).chmod(0o755)
    log = folder / "log"
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "LOG": str(log), "PYNAME": name, "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "-eu"], input="\n".join(made.commands), text=True, capture_output=True, cwd=folder, env=env
    )
    assert done.returncode == 0, done.stderr
    seen = (folder / "pytorch" / "built.env").read_text("utf-8")
    return log.read_text("utf-8").splitlines(), dict(line.split("=", 1) for line in seen.splitlines() if "=" in line)


@pytest.mark.parametrize(
    ("gpu", "flags"),
    [
        ("sm_35", {}),
        ("sm_86", {"cpu": "ivybridge", "torch": "2.6.0", "build": True}),
        ("RX 580", {}),
        ("Jetson Xavier NX", {"build": True}),
        ("none", {"torch": "2.15.0", "build": True}),
    ],
)
def test_the_lines_run_one_after_the_other(gpu: str, flags: dict[str, Any], tmp_path: Path) -> None:
    made = plan(gpu, **flags)
    assert made.build is not None
    called, seen = walk(made, tmp_path)
    assert called[0].startswith(f"git clone --branch v{made.torch} ")
    assert called[-1] == "python -m pip install --force-reinstall dist/torch-0-py3-none-any.whl"
    front = " ".join(front_end(made.torch or "", FACTS).command)
    assert called[-2] == front
    for name, value in made.build.env.items():
        assert seen[name] == value
    assert ("tools/amd_build/build_amd.py" in " ".join(called)) == (made.rocm is not None)
    assert ("ROCM_PATH" in seen) == (made.rocm is not None)
    assert ("CUDNN_LIBRARY" in seen) == (made.cuda is not None and gpu != "Jetson Xavier NX")
    assert ("CUDA_HOME" in seen) == (made.cuda is not None and gpu != "Jetson Xavier NX")
    if made.build.cmake:
        assert Path(seen["CMAKE_PROJECT_INCLUDE"]).read_text("utf-8").count("FORCE") == len(made.build.cmake)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_cmake_finds_the_cudnn_of_the_lines(tmp_path: Path) -> None:
    _, seen = walk(plan("sm_35"), tmp_path)
    looking = tmp_path / "looking"
    looking.mkdir()
    (looking / "CMakeLists.txt").write_text(FIND, "utf-8")
    env = {**os.environ, **{name: seen[name] for name in ("CUDNN_INCLUDE_DIR", "CUDNN_LIBRARY")}}
    subprocess.run(["cmake", "-S", looking, "-B", looking / "b"], check=True, capture_output=True, env=env)


def test_where_cudnn_comes_from() -> None:
    linux, windows, arm = ask("sm_35"), ask("sm_35", os="windows"), ask("sm_90", arch="aarch64")
    old, new = build("2.0.1", cuda="11.8"), build("2.8.0", cuda="12.8")
    assert cudnn_package(old, "8.5.0", linux) == "nvidia-cudnn-cu11==8.5.0.*"
    assert cudnn_package(old, "8.4.1", linux) is None
    assert cudnn_package(old, "8.5.0.96", linux) == "nvidia-cudnn-cu11==8.5.0.*"
    assert cudnn_package(new, "8.8.0", linux) == "nvidia-cudnn-cu12==8.8.0.*"
    assert cudnn_package(new, "9.0.0", arm) == "nvidia-cudnn-cu12==9.0.0.*"
    assert cudnn_package(new, "8.9.7", arm) is None
    assert cudnn_package(old, "8.9.4", windows) is None
    assert cudnn_package(old, None, linux) is None
    assert cudnn_package(build("2.8.0"), "9.0.0", linux) is None
    assert cudnn_package(build("2.1.2", cuda="11.4"), "8.6.0", ask("Jetson Xavier NX")) is None
    assert cudnn_package(build("1.10.2", cuda="10.2"), "8.6.0", linux) is None


def test_a_cudnn_that_is_there_is_not_fetched() -> None:
    question = ask("sm_35")
    here = msgspec.structs.replace(question.machine, toolkits=(Toolkit(kind="cudnn", version="8.7.0"),))
    made = make_plan(here, question.wish, FACTS)
    assert not any("nvidia-cudnn" in line for line in made.commands)
    assert not any(warning.code == "cudnn-by-hand" for warning in made.warnings)


@pytest.mark.parametrize(("gpu", "system", "by_hand"), [("sm_35", "windows", True), ("sm_35", "linux", False)])
def test_a_cudnn_nobody_packages_is_told(gpu: str, system: str, by_hand: bool) -> None:
    warned = any(warning.code == "cudnn-by-hand" for warning in plan(gpu, os=system).warnings)
    assert warned is by_hand


def test_folders_of_toolkits() -> None:
    question = ask("sm_86")
    assert toolkit_folder("cuda", "11.8", question) == "/usr/local/cuda-11.8"
    assert (toolkit_folder("cuda", "11.8.0", ask("sm_86", os="windows")) or "").endswith("CUDA\\v11.8")
    kits = (
        Toolkit(kind="cuda", version="12.4.1", path="/opt/cuda-12.4"),
        Toolkit(kind="rocm", version="6.4.1", path="/opt/rocm-6.4.1"),
        Toolkit(kind="cudnn", version="11.8", path="/no"),
    )
    full = type(question)(msgspec.structs.replace(question.machine, toolkits=kits), question.wish, FACTS)
    assert toolkit_folder("cuda", "12.4", full) == "/opt/cuda-12.4"
    assert toolkit_folder("cuda", "11.8", full) == "/usr/local/cuda-11.8"
    assert toolkit_folder("rocm", "6.4", full) == "/opt/rocm-6.4.1"
    assert toolkit_folder("rocm", "6.3", full) == "/opt/rocm"
    assert toolkit_folder("rocm", "6.4", ask("gfx1100", os="windows")) is None


def test_how_an_interpreter_is_called() -> None:
    assert interpreter_words("3.12", "windows") == ("py", "-3.12")
    assert interpreter_words(None, "windows") == ("py",)
    assert interpreter_words("3.12", "linux") == ("python3.12",)
    assert interpreter_words(None, "linux") == ("python3",)


def line(gpu: str, **flags: Any) -> str:
    return plan(gpu, **flags).commands[0]


def test_companions_of_the_time_before_own_indexes() -> None:
    page = "-f https://download.pytorch.org/whl/torch_stable.html"
    assert line("sm_61", torch="1.7.1+cu110", python="3.8").endswith(
        f"torch==1.7.1+cu110 torchvision==0.8.2+cu110 torchaudio==0.7.2 {page}"
    )
    assert line("sm_61", torch="1.2.0+cu92", python="3.7").endswith(
        f"torch==1.2.0+cu92 torchvision==0.4.0+cu92 torchaudio==0.3.0 {page}"
    )
    # PyPI's own wheel needs no page
    assert line("sm_61", torch="1.7.1+cu102", python="3.8").endswith(
        "torch==1.7.1 torchvision==0.8.2 torchaudio==0.7.2"
    )
    # before 1.2 a version did not name its flavour, and each had a page
    assert line("sm_61", torch="1.1.0+cu100", python="3.7").endswith(
        "torch==1.1.0 -f https://download.pytorch.org/whl/cu100/torch_stable.html"
    )
    assert "--index-url" in line("sm_61", torch="1.11.0+cu113", python="3.8")
    assert "-f" in line("sm_61", torch="1.10.2+cu113", python="3.8")


def test_a_compiler_is_called_and_installed_as_the_distribution_does() -> None:
    def recipe(distro: str, **more: Any) -> tuple[str, str]:
        made = plan("sm_86", distro=distro, torch="2.9.0", build=True, **more).build
        assert made is not None
        return made.env["CC"], made.toolchain["compiler"]

    assert recipe("debian 12") == ("gcc-12", "gcc 12: apt install g++-12")
    assert recipe("ubuntu 22.04") == ("gcc-11", "gcc 11: apt install g++-11")
    assert recipe("fedora 42") == ("gcc", "gcc 15: dnf install -y gcc-c++")
    assert recipe("fedora 42", compiler="gcc-13") == ("gcc-13", "gcc 13 (fedora 42 itself has gcc 15)")
    assert recipe("arch") == ("gcc-13", "gcc 13"), "pacman's packages do not name their version"
    assert "zypper install -y gcc" in recipe("opensuse 15.6")[1]


def test_a_whole_build_is_valid_bash_and_in_order() -> None:
    made = plan("sm_35", torch="1.13.1", build=True, cuda="11.8", cpu="ivybridge", memory=16)
    lines = made.commands
    checked = subprocess.run(["bash", "-n"], input="\n".join(lines), text=True, capture_output=True)
    assert checked.returncode == 0, checked.stderr
    text = "\n".join(lines)
    order = [
        "git clone",
        "cd pytorch",
        "-m venv",
        "activate",
        "mkl-static",
        "-r requirements.txt",
        "CMAKE_PREFIX_PATH",
        "CMAKE_PROJECT_INCLUDE",
        "TORCH_CUDA_ARCH_LIST=3.5",
        "MAX_JOBS=",
        "setup.py bdist_wheel",
        "dist/*.whl",
    ]
    assert sorted(order, key=text.index) == order
    assert made.powershell == ()


def test_a_windows_build_sets_the_compiler_up_before_it_builds() -> None:
    made = plan("sm_35", torch="2.0.1", build=True, os="windows")
    for lines in (made.commands, made.powershell):
        text = "\n".join(lines)
        assert text.index("core.longpaths") < text.index("git clone") < text.index("vcvarsall") < text.index("setup.py")
    assert made.commands != made.powershell
