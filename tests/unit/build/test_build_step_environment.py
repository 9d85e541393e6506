"""The first step of a build: its environment, from tree, plan, launcher and shell; the files it leaves for CMake."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import needs
from bare_host import BareHost
from rekindle.build.environment import FLAG_FILE, BuildEnvironment
from rekindle.build.frontend import FrontEnd
from rekindle.build.launchers import Launcher
from rekindle.build.steps import environment
from rekindle.host.workspace import Workspace
from rekindle.interpreters.environment import TargetPython
from rekindle.model.build_options import BuildOptions
from rekindle.model.interpreter import Interpreter
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.toolkits.programs import Tool

pytestmark = needs.posix("folders of links, scripts before compilers")
SETTINGS = "rekindle-settings.cmake"


class Build:
    """What the step looks at, in a folder; ``notes`` is what the user was told."""

    def __init__(self, folder: Path, kind: str = "cmake-setup", project: str = "torch", **recipe: Any) -> None:
        root = folder / "tree"
        (root / "build").mkdir(parents=True, exist_ok=True)
        self.plan = Plan(answer="build", project=project, torch="2.6.0", build=BuildRecipe(source="x", **recipe))
        self.tree = SimpleNamespace(project=project)
        self.front = FrontEnd(kind=kind, root=root)
        self.workspace = Workspace(folder / "ws")
        self.options = BuildOptions()
        self.launcher: Launcher | None = None
        self.host: Any = BareHost(env={"PATH": "/bin", "HOME": "/h"})
        self.version = "2.6.0+ours"
        self.notes: list[str] = []
        self.note = self.notes.append

    def target(self, place: str = "/env") -> TargetPython:
        made_of = Interpreter(path="/py", version="3.11.7", implementation="CPython")
        return TargetPython(interpreter=made_of, python=f"{place}/bin/python")

    def environment(self, *, own_paths: bool = True, place: str = "/env") -> BuildEnvironment:
        tools = (Tool(name=name, path=f"/usr/bin/{name}", version="3.27") for name in ("cmake", "ninja"))
        work: Any = self
        return environment(work, self.target(place), *tools, own_paths=own_paths)

    def written(self, name: str = SETTINGS) -> str | None:
        file = self.front.build_tree / name
        return file.read_text() if file.is_file() else None

    @property
    def flag(self) -> str:
        return f"-ffile-prefix-map={self.front.root}=."


def test_our_tools_come_first_on_the_path_and_then_the_targets_own(tmp_path: Path) -> None:
    env = Build(tmp_path).environment()
    tools = tmp_path / "ws" / "tools"
    assert env.full["PATH"] == f"{tools}:/env/bin:/bin"
    assert (tools / "cmake").readlink() == Path("/usr/bin/cmake")
    assert env.full["HOME"] == "/h" and env.full["PYTORCH_BUILD_VERSION"] == "2.6.0+ours"


def test_a_shell_without_a_path_has_the_usual_one(tmp_path: Path) -> None:
    build = Build(tmp_path)
    build.host = BareHost()
    assert build.environment().full["PATH"].startswith(f"{tmp_path / 'ws' / 'tools'}:/env/bin:")
    assert build.notes == []


def test_what_is_left_out_of_the_shell_is_told(tmp_path: Path) -> None:
    disguise = tmp_path / "lib" / "ccache"
    disguise.mkdir(parents=True)
    (tmp_path / "ccache").write_text("")
    (disguise / "g++").symlink_to(tmp_path / "ccache")
    build = Build(tmp_path)
    build.host = BareHost(env={"PATH": f"{disguise}:/bin", "USE_CUDA": "0", "CFLAGS": "-O9"})
    env = build.environment()
    assert str(disguise) not in env.full["PATH"] and "USE_CUDA" not in env.full
    assert build.notes[0].startswith(f"left {disguise} out of PATH: its compilers are a cache in disguise")
    assert build.notes[1:] == ["not taken from your shell: CFLAGS, USE_CUDA"]


def test_where_the_compilers_cannot_hide_the_place_nothing_is_written(tmp_path: Path) -> None:
    build = Build(tmp_path)
    env = build.environment(own_paths=False)
    assert build.written() is build.written(FLAG_FILE) is None
    assert env.after_configure == {} and "CMAKE_PROJECT_INCLUDE_BEFORE" not in env.chosen


def test_the_flag_reaches_cmake_nvcc_and_what_setuptools_compiles(tmp_path: Path) -> None:
    build = Build(tmp_path, env={"CFLAGS": "-O1"})
    env = build.environment()
    text = build.written() or ""
    assert f"LANGUAGE:C,CXX>:{build.flag}>" in text and f"-Xcompiler=@{FLAG_FILE}" in text
    assert build.written(FLAG_FILE) == f"{build.flag}\n"
    assert env.chosen["CMAKE_PROJECT_INCLUDE_BEFORE"] == str(build.front.build_tree / SETTINGS)
    assert env.after_configure == {"CFLAGS": f"-O1 {build.flag}"}, "torch compiles no C++ by setuptools"
    assert env.chosen["CFLAGS"] == "-O1", "configure sees the plan's alone"
    assert "=python" not in text, "torch is no extension of itself"


def test_a_place_with_a_space_is_one_word_for_setuptools(tmp_path: Path) -> None:
    build = Build(tmp_path / "a b")
    assert build.environment().after_configure["CFLAGS"] == f'"{build.flag}"'
    plain = Build(tmp_path / "plain")
    assert plain.environment().after_configure["CFLAGS"] == plain.flag, "no quotes where none are wanted"


def test_an_extension_hides_the_place_of_its_torch_too(tmp_path: Path) -> None:
    build = Build(tmp_path, "setup", "torchvision", env={"CXXFLAGS": "-g0"})
    env = build.environment(place="/my env")
    assert shlex.split(env.after_configure["CFLAGS"]) == [build.flag, "-ffile-prefix-map=/my env=python"]
    assert shlex.split(env.after_configure["CXXFLAGS"])[0] == "-g0"
    assert build.written() is None and build.notes == [], "no CMake settings, nothing left out"


@pytest.mark.parametrize(("place", "as_is"), [("/env=1", False), ("/env", True)])
def test_a_torch_whose_place_cannot_be_mapped_or_is_the_users_own_stays(
    place: str, as_is: bool, tmp_path: Path
) -> None:
    build = Build(tmp_path, "setup", "torchvision")
    build.options = BuildOptions(as_is=as_is)
    assert build.environment(place=place).after_configure["CFLAGS"] == build.flag
    without = build.environment(own_paths=False)
    assert without.after_configure == {}


def test_cmake_of_an_extension_is_told_both_places(tmp_path: Path) -> None:
    build = Build(tmp_path, project="ours")
    build.environment()
    text = build.written() or ""
    assert build.flag in text and "-ffile-prefix-map=/env=python" in text


def test_scikit_build_core_compiles_nothing_by_setuptools(tmp_path: Path) -> None:
    build = Build(tmp_path, "scikit")
    assert build.environment().after_configure == {}
    assert build.flag in (build.written() or "")


def test_settings_that_setup_py_does_not_pass_on_reach_cmake_by_a_file(tmp_path: Path) -> None:
    build = Build(tmp_path, cmake={"CAFFE2_X": "1", "USE_CUDA": "0"})
    env = build.environment(own_paths=False)
    text = build.written() or ""
    assert "set(CAFFE2_X 1 " in text and "USE_CUDA" not in text and env.full["USE_CUDA"] == "0"
    assert env.chosen["CMAKE_PROJECT_INCLUDE_BEFORE"] == str(build.front.build_tree / SETTINGS)
    assert build.written(FLAG_FILE) is None and env.after_configure == {}


def test_a_tree_without_cmake_is_told_to_lack_its_settings(tmp_path: Path) -> None:
    build = Build(tmp_path, "setup", "torchvision", cmake={"CAFFE2_Y": "1", "CAFFE2_X": "1"})
    env = build.environment()
    assert build.notes == ["this tree takes no CMake settings: CAFFE2_X, CAFFE2_Y left out"]
    assert build.written() is None and "CFLAGS" in env.after_configure


def launched(build: Build, name: str, **env: str) -> BuildEnvironment:
    launcher = {f"CMAKE_{language}_COMPILER_LAUNCHER": f"/bin/{name}" for language in ("C", "CXX", "CUDA", "HIP")}
    build.launcher = Launcher(name=name, path=f"/bin/{name}", env={**launcher, **env}, private={"SERVER": "s"})
    return build.environment()


def test_ccache_is_told_that_the_folder_counts_for_nothing(tmp_path: Path) -> None:
    build = Build(tmp_path)
    assert launched(build, "ccache").chosen["CCACHE_NOHASHDIR"] == "1"
    assert build.written(FLAG_FILE) is not None
    wanted = Build(tmp_path / "other", env={"CCACHE_HASHDIR": "1"})
    assert "CCACHE_NOHASHDIR" not in launched(wanted, "ccache").chosen, "the plan wants it to count"
    build = Build(tmp_path / "third")
    launched(build, "ccache")
    assert "CCACHE_NOHASHDIR" not in build.environment(own_paths=False).chosen


def test_behind_other_caches_nvcc_is_left_as_it_is(tmp_path: Path) -> None:
    build = Build(tmp_path)
    env = launched(build, "sccache")
    assert build.written(FLAG_FILE) is None and "Xcompiler" not in (build.written() or "")
    assert "CCACHE_NOHASHDIR" not in env.chosen


def test_a_launcher_stands_behind_scripts_of_one_name_where_cmake_is_told_so(tmp_path: Path) -> None:
    env = launched(Build(tmp_path), "sccache")
    script = tmp_path / "ws" / "tools" / "launch"
    assert env.full["CMAKE_C_COMPILER_LAUNCHER"] == str(script) and "/bin/sccache" in script.read_text()
    assert env.full["SERVER"] == "s" and "SERVER" not in env.chosen, "another each time, so it is no setting"
    bare = launched(Build(tmp_path / "two", "setup", "torchvision"), "sccache")
    assert bare.full["CMAKE_C_COMPILER_LAUNCHER"] == "/bin/sccache"


def test_without_a_launcher_its_scripts_only_go_on(tmp_path: Path) -> None:
    env = Build(tmp_path).environment()
    assert Path(env.full["CMAKE_CXX_COMPILER_LAUNCHER"]).read_text() == '#!/bin/sh\nexec "$@"\n'
    assert "SERVER" not in env.full


class WithStub(BareHost):
    """CUDA as Debian packages it: the driver's stub lies where configure does not look."""

    FILES = ("/usr/bin/nvcc", "/usr/include/cuda_runtime.h", "/usr/lib/x86_64-linux-gnu/stubs/libcuda.so")

    def which(self, name: str) -> str | None:
        return self.FILES[0] if name == "nvcc" else None

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(name for name in self.FILES if Path(name).match(pattern))


@pytest.mark.parametrize(("project", "told"), [("torch", True), ("torchvision", False)])
def test_only_torch_is_told_where_the_drivers_stub_lies(project: str, told: bool, tmp_path: Path) -> None:
    build = Build(tmp_path, project=project)
    build.plan = Plan(answer="build", project=project, torch="2.6.0", cuda="11.8", build=BuildRecipe(source="x"))
    build.host = WithStub(env={"PATH": "/bin"})
    assert ("CUDA_CUDA_LIB" in build.environment().cache_settings) is told
