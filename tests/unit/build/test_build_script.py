"""A build as a script: what build would run, with the same environment, settings and commands, for a POSIX shell."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

import needs
from bare_host import BareHost
from rekindle.build import steps
from rekindle.build.request import BuildOrder
from rekindle.build.steps import render_script
from rekindle.errors import BadInput
from rekindle.host.workspace import Workspace
from rekindle.model.build_options import BuildOptions
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree

pytestmark = needs.posix("a script for a POSIX shell")


class Machine(BareHost):
    """One with two CUDA toolkits and no Python but python3.11."""

    nvccs: tuple[str, ...] = ()

    def glob(self, pattern: str) -> tuple[str, ...]:
        files = [*self.nvccs, *(nvcc.replace("bin/nvcc", "include/cuda_runtime.h") for nvcc in self.nvccs)]
        folders = [nvcc.removesuffix("/bin/nvcc") for nvcc in self.nvccs]
        return tuple(name for name in (*files, *folders) if Path(name).match(pattern))


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(steps, "LiveHost", lambda: made)
    return made


def order(tmp_path: Path, setup: str = "--cmake-only", project: str = "torch", **more: Any) -> BuildOrder:
    root = tmp_path / "tree"
    root.mkdir(exist_ok=True)
    (root / "setup.py").write_text(setup)
    recipe = BuildRecipe(source="git", **more.pop("recipe", {}))
    plan = Plan(
        answer="build", project=project, torch=more.pop("torch", "2.6.0"), cuda=more.pop("cuda", None), build=recipe
    )
    pythons = more.pop("pythons", ("3.99",))
    return BuildOrder(
        plan=plan,
        tree=SourceTree(project=project, version="1.2", root=str(root)),
        workspace=Workspace(tmp_path / "ws"),
        pythons=pythons,
        options=BuildOptions(**more),
    )


def lines(order: BuildOrder) -> list[str]:
    return render_script(order).text.splitlines()


def commands(order: BuildOrder) -> list[list[str]]:
    """Each line as words, without those that set a variable and without comments."""
    return [shlex.split(line) for line in lines(order) if not line.startswith(("export ", "#", "set "))]


def settings(order: BuildOrder) -> dict[str, str]:
    pairs = [shlex.split(line)[1] for line in lines(order) if line.startswith("export ")]
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def test_a_tree_is_configured_and_then_made_into_a_wheel_in_an_environment_of_its_own(tmp_path: Path) -> None:
    made = order(tmp_path, recipe={"pins": {"numpy": "<2"}})
    place, python = tmp_path / "ws" / "python" / "script-0", tmp_path / "ws/python/script-0/bin/python"
    run = commands(made)
    assert run[0] == ["cd", str(tmp_path / "tree")]
    assert run[1] == ["python3.99", "-m", "venv", str(place)]
    assert str(place) in " ".join(run[2])
    assert run[3][:4] == [str(python), "-m", "pip", "install"]
    assert run[3][4:] == ["numpy<2", "setuptools", "wheel", "ninja>=1.13", "cmake"]
    assert run[4:] == [
        [str(python), "setup.py", "build", "--cmake-only"],
        [str(python), "setup.py", "bdist_wheel", "--dist-dir", str(tmp_path / "ws" / "wheels")],
    ]
    assert lines(made)[1] == "# torch 2.6.0+rekindle.cpu, as planned by rekindle."


def test_each_python_has_its_environment_and_configures_over_the_one_before(tmp_path: Path) -> None:
    run = commands(order(tmp_path, pythons=("3.98", "3.99", "pypy")))
    assert [words[0] for words in run if "venv" in words] == ["python3.98", "python3.99", "pypy"]
    assert [words[-1] for words in run if "venv" in words] == [
        str(tmp_path / "ws" / "python" / f"script-{number}") for number in range(3)
    ]
    assert [words[-1] for words in run if "build" in words] == ["--cmake-only", "--cmake", "--cmake"]


def test_an_interpreter_that_is_here_is_named_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    import sys

    [python] = [words[0] for words in commands(order(tmp_path, pythons=(sys.executable,))) if "venv" in words]
    assert Path(python).is_absolute() and Path(python).exists()


def test_as_it_is_nothing_is_installed(tmp_path: Path) -> None:
    run = commands(order(tmp_path, as_is=True))
    assert run[1:] == [
        ["python3.99", "setup.py", "build", "--cmake-only"],
        ["python3.99", "setup.py", "bdist_wheel", "--dist-dir", str(tmp_path / "ws" / "wheels")],
    ]


def test_a_pinned_cmake_is_not_asked_for_twice(tmp_path: Path) -> None:
    [install] = [words for words in commands(order(tmp_path, recipe={"pins": {"cmake": "<4"}})) if "install" in words]
    assert [word for word in install if word.startswith("cmake")] == ["cmake<4"] and "ninja>=1.13" in install


def test_targets_alone_are_built_by_cmake(tmp_path: Path) -> None:
    run = commands(order(tmp_path, target="c10,c11"))
    assert run[-1] == ["cmake", "--build", "build", "--target", "c10", "c11"]
    assert not any("bdist_wheel" in words for words in run)


@pytest.mark.parametrize(("target", "configures"), [(None, False), ("c10", True)])
def test_scikit_build_core_configures_apart_only_for_a_target(
    target: str | None, configures: bool, tmp_path: Path
) -> None:
    made = order(tmp_path, target=target)
    (tmp_path / "tree" / "pyproject.toml").write_text('[build-system]\nbuild-backend="scikit_build_core.build"')
    run = commands(made)
    assert any("-Cinstall.components=rekindle-nothing" in words for words in run) is configures
    assert any("--outdir" in words and "-Cbuild.targets=help" not in words for words in run) is not configures


def test_a_tree_that_stops_by_a_variable_is_given_it_for_that_command(tmp_path: Path) -> None:
    [line] = [line for line in lines(order(tmp_path, "CMAKE_ONLY")) if line.endswith("setup.py build")]
    assert line.startswith("CMAKE_ONLY=1 ")


def test_the_plans_settings_are_set_and_the_path_is_left_alone(tmp_path: Path) -> None:
    told = settings(order(tmp_path, recipe={"env": {"USE_CUDA": "0", "CC": "gcc-12"}}))
    assert told["USE_CUDA"] == "0" and told["CC"] == "gcc-12" and "PATH" not in told
    assert told["PYTORCH_BUILD_VERSION"] == "2.6.0+rekindle.cpu"
    assert "MAX_JOBS" not in told and "CMAKE_C_COMPILER_LAUNCHER" not in told
    assert list(told) == sorted(told)


def test_jobs_and_launcher_are_told_by_the_names_that_setup_py_knows(tmp_path: Path) -> None:
    told = settings(order(tmp_path, jobs=3, launcher="ccache"))
    assert told["MAX_JOBS"] == "3" and told["CMAKE_CXX_COMPILER_LAUNCHER"] == "ccache"


def test_settings_that_setup_py_does_not_pass_on_stand_in_a_file(tmp_path: Path) -> None:
    recipe = {"cmake": {"CAFFE2_X": "1", "USE_CUDA": "0"}}
    text = render_script(order(tmp_path, recipe=recipe)).text
    file = "build/rekindle-settings.cmake"
    assert "mkdir -p build\n" in text and f"> {file}\n" in text and "CAFFE2_X 1 CACHE" in text
    assert f'CMAKE_PROJECT_INCLUDE_BEFORE="$PWD"/{file}' in text or f"$PWD/{file}" in text
    assert "rekindle-settings" not in render_script(order(tmp_path)).text
    assert "rekindle-settings" not in render_script(order(tmp_path, "setup()", recipe=recipe)).text


@pytest.mark.parametrize(
    ("torch", "against", "wanted"),
    [("2.6.0", None, "torch==2.6.0"), (None, None, "torch"), ("2.6.0", "torch==2.7.1+cpu", "torch==2.7.1+cpu")],
)
def test_an_extension_gets_the_torch_that_is_meant(
    torch: str | None, against: str | None, wanted: str, tmp_path: Path
) -> None:
    made = order(tmp_path, "cpp_extension", "ours", torch=torch, against=against)
    (tmp_path / "tree" / "pyproject.toml").write_text('[build-system]\nrequires=["setuptools","torch>=1","torchx"]')
    [install] = [words for words in commands(made) if "install" in words]
    assert [word for word in install if word.startswith("torch")] == [wanted]
    assert "setuptools" in install and lines(made)[1].startswith("# ours 1.2+rekindle.")


def test_of_two_toolkits_the_planned_one_is_named(tmp_path: Path, machine: Machine) -> None:
    assert "CUDACXX" not in settings(order(tmp_path, cuda="12.4"))
    machine.nvccs = ("/usr/local/cuda-12.8/bin/nvcc", "/usr/local/cuda-12.4/bin/nvcc")
    named = order(tmp_path, cuda="12.4", recipe={"env": {"CUDA_HOME": "/usr/local/cuda-12.4"}})
    assert settings(named)["CUDA_PATH"] == "/usr/local/cuda-12.4"


def test_a_plan_that_builds_nothing_has_no_script(tmp_path: Path) -> None:
    made = order(tmp_path)
    plan = msgspec.structs.replace(made.plan, answer="install", build=None)
    with pytest.raises(BadInput, match="the plan's answer is 'install', so there is nothing to build"):
        render_script(BuildOrder(plan=plan, tree=made.tree, workspace=made.workspace, pythons=(), options=made.options))
