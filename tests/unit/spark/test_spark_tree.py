"""The Python in the miniature: what it asks of CMake, what it writes, and what the built package says.

It is run as its users run it, in a process of its own; CMake, setuptools and the compiled module are stand-ins that
note what they are asked. Real builds of it are among the tests with real tools.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rekindle.spark.unpack import unpack

# Runs setup.py with stand-ins for what it imports; prints what they were asked.
SETUP = """
import json, os, runpy, subprocess, sys, sysconfig, types
asked = {"commands": [], "python": [sys.executable, sysconfig.get_paths()["include"]]}
sys.platform = os.environ.get("STAND_IN_PLATFORM", sys.platform)
def module(name, **holds):
    sys.modules[name] = made = types.ModuleType(name)
    made.__dict__.update(holds)
    return made
class Extension:
    def __init__(self, name, sources, **more):
        self.__dict__.update(more, name=name, sources=sources, library_dirs=["own"])
class BuildPy:
    def run(self): asked["collected"] = True
class BuildExt:
    def build_extensions(self): asked["linked"] = [each.__dict__ for each in self.extensions]
def setup(cmdclass, ext_modules, **more):
    asked["setup"] = more
    for name, holds in (("build_py", {}), ("build_ext", {"extensions": ext_modules})):
        command = cmdclass[name]()
        command.__dict__.update(holds)
        (command.run if name == "build_py" else command.build_extensions)()
module("setuptools", Extension=Extension, setup=setup, find_packages=lambda **which: which)
module("setuptools.command")
module("setuptools.command.build_py", build_py=BuildPy)
module("setuptools.command.build_ext", build_ext=BuildExt)
old = module("distutils.msvccompiler", get_build_architecture=lambda: "Windows' own word")
module("distutils", msvccompiler=old)
def check_call(command, cwd): asked["commands"].append([command, cwd, os.path.isdir(cwd)])
subprocess.check_call = check_call
try:
    runpy.run_path(sys.argv[1], run_name="__main__")
except SystemExit as ended:
    asked["ended"] = ended.code
print("ASKED " + json.dumps(asked))
"""
# Imports the package with a stand-in for its compiled module; prints what it says.
PACKAGE = """
import json, os, sys, types
sys.path.insert(0, sys.argv[1])
sys.platform, devices, archs = sys.argv[2], int(sys.argv[3]), sys.argv[4]
opened = []
os.add_dll_directory = opened.append
names = "axpy dot checksum apply_op op_count ember config cpu_capability cuda_axpy".split()
made = sys.modules["spark._C"] = types.ModuleType("spark._C")
made.__dict__.update({name: name for name in names}, cuda_devices=lambda: devices, cuda_arch_list=lambda: archs)
import spark
said = {name: getattr(spark, name) for name in [*names, "__version__", "cuda", "git_version"]}
said.update(available=spark.cuda_available(), archs=spark.cuda_arch_list(), opened=opened)
print(json.dumps(said))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    unpack(tmp_path / "späne")
    return tmp_path / "späne"


def run(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    own = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-S", *map(str, words)],
        env={**own, "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", **env},
        capture_output=True, text=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip


def run_setup(tree: Path, **env: str) -> tuple[dict[str, Any], str]:
    ended = run("-c", SETUP, tree / "setup.py", **env)
    assert ended.returncode == 0, ended.stderr
    told, _, asked = ended.stdout.partition("ASKED ")
    return json.loads(asked), told


def version_file(tree: Path) -> dict[str, Any]:
    holds: dict[str, Any] = {}
    exec((tree / "spark" / "version.py").read_text("utf-8"), holds)  # it is the tree's own
    return {name: holds[name] for name in ("__version__", "git_version", "cuda")}


def test_cmake_is_asked_to_configure_and_to_install_into_the_package(tree: Path) -> None:
    asked, told = run_setup(tree)
    (configure, folder, there), (build, second, _) = asked["commands"]
    python, include = asked["python"]
    assert folder == second == str(tree / "build") and there
    assert configure[:3] == ["cmake", "-GNinja", f"-DCMAKE_INSTALL_PREFIX={tree / 'spark'}"]
    assert configure[3:] == [
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DPYTHON_EXECUTABLE={python}",
        f"-DPYTHON_INCLUDE_DIR={include}",
        "-DSPARK_VERSION=0.3.0",
        str(tree),
    ]
    assert build == ["cmake", "--build", ".", "--target", "install", "--config", "Release"]
    assert asked["collected"] and "ended" not in asked
    assert told.startswith("Building spark 0.3.0 for ") and "None" not in told and "Windows" not in told


def test_a_second_build_goes_on_in_the_same_folder(tree: Path) -> None:
    run_setup(tree)
    (tree / "build" / "kept").touch()
    asked, _ = run_setup(tree)
    assert len(asked["commands"]) == 2 and (tree / "build" / "kept").exists()


def test_settings_with_the_trees_prefixes_reach_cmake_and_no_others(tree: Path) -> None:
    settings = {"USE_HEAVY": "0", "BUILD_PYTHON": "1", "CMAKE_CXX_FLAGS": "-O1 -g", "SPARK_CUDA_ARCH_LIST": "8.6;9.0"}
    kept_out = {"CMAKE_PREFIX_PATH": "/p", "CMAKE_GENERATOR": "Ninja", "SPARK_BUILD_VERSION": "1.2", "OTHER": "x"}
    asked, _ = run_setup(tree, **settings, **kept_out)
    given = asked["commands"][0][0]
    assert {f"-D{name}={value}" for name, value in settings.items()} <= set(given)
    assert not [word for word in given for name in kept_out if word.startswith(f"-D{name}=")]
    assert "-DSPARK_VERSION=1.2" in given  # this one is the version


def test_another_cmake_and_the_number_of_compilers(tree: Path) -> None:
    asked, _ = run_setup(tree, CMAKE_COMMAND="/opt/cmake 4/bin/cmake", MAX_JOBS="3")
    configure, build = (command for command, *_ in asked["commands"])
    assert configure[0] == build[0] == "/opt/cmake 4/bin/cmake"
    assert build[-3:] == ["--", "-j", "3"]


def test_only_cmake_stops_after_the_configuration(tree: Path) -> None:
    asked, told = run_setup(tree, CMAKE_ONLY="1")
    assert len(asked["commands"]) == 1 and asked["ended"] is None and "collected" not in asked
    assert "Finished running cmake" in told


@pytest.mark.parametrize("said", ["1", "on", "Yes", "TRUE", "y"])
def test_the_version_of_cuda_is_written_where_cuda_is_used(tree: Path, said: str) -> None:
    run_setup(tree, USE_CUDA=said, SPARK_CUDA_VERSION="12.4", SPARK_BUILD_VERSION="0.3.0+cu124")
    assert version_file(tree) == {"__version__": "0.3.0+cu124", "git_version": None, "cuda": "12.4"}


@pytest.mark.parametrize("env", [{}, {"USE_CUDA": "0"}, {"USE_CUDA": "off"}])
def test_without_cuda_none_is_written(tree: Path, env: dict[str, str]) -> None:
    asked, _ = run_setup(tree, SPARK_CUDA_VERSION="12.4", **env)
    assert version_file(tree) == {"__version__": "0.3.0", "git_version": None, "cuda": None}
    assert asked["setup"]["version"] == "0.3.0" and asked["setup"]["name"] == "spark-miniature"


def test_the_written_version_is_left_alone_while_it_is_right(tree: Path) -> None:
    run_setup(tree)
    path = tree / "spark" / "version.py"
    os.utime(path, (1, 1))
    run_setup(tree)
    assert path.stat().st_mtime == 1
    run_setup(tree, SPARK_BUILD_VERSION="0.4")
    assert path.stat().st_mtime != 1 and version_file(tree)["__version__"] == "0.4"


@pytest.mark.parametrize(("system", "link"), [("linux", ["-Wl,-rpath,$ORIGIN/lib"]), ("win32", [])])
def test_the_extension_finds_the_libraries_beside_it(tree: Path, system: str, link: list[str]) -> None:
    asked, told = run_setup(tree, STAND_IN_PLATFORM=system)
    (extension,) = asked["linked"]
    assert extension["extra_link_args"] == link and extension["libraries"] == ["spark_python"]
    assert extension["library_dirs"] == ["own", str(tree / "spark" / "lib")]
    assert (tree / extension["sources"][0]).is_file()
    assert ("Windows' own word" in told) is (system == "win32")
    assert asked["setup"]["packages"]["include"] == ["spark", "spark.*"] and asked["setup"]["zip_safe"] is False


def generate(tree: Path, count: int) -> list[Path]:
    ended = run(tree / "tools" / "gen_ops.py", "--count", str(count), "--out", tree / "out")
    assert ended.returncode == 0, ended.stderr
    return [Path(word) for word in ended.stdout.strip().split(";")]


def test_every_operator_gets_a_file_and_a_place_in_the_table(tree: Path) -> None:
    paths = generate(tree, 6)
    assert [path.name for path in paths] == [*(f"op_{number:02}.cpp" for number in range(6)), "table.cpp"]
    bodies = [path.read_text().split("names.empty() ? 0.0 : ")[1].split(";")[0] for path in paths[:-1]]
    assert bodies == ["x + 1.0", "x * 2.0", "x * x + 3.0", "(x + 4.0) / 2.0", "x + 5.0", "x * 6.0"]
    for number, (path, name) in enumerate(zip(paths, ["add", "mul", "square", "mean", "add", "mul"], strict=False)):
        text = path.read_text()
        assert text.count(f"double op_{number}(double x)") == 2 and f'{{{{"{name}", {number}.0}}}}' in text
    table = paths[-1].read_text()
    assert "int op_count() { return 6; }" in table
    assert [f"    case {number}: return op_{number}(x);" in table for number in range(7)] == [*[True] * 6, False]
    assert table.count("double op_") == 6
    for path in paths:
        text = path.read_text()
        assert text.startswith('#include "core/spark.h"\n') and text.count("{") == text.count("}")


def test_files_that_would_not_change_are_left_alone(tree: Path) -> None:
    first, second, *_ = generate(tree, 2)
    second.write_text("something else")
    for path in (first, second):
        os.utime(path, (1, 1))
    generate(tree, 2)
    assert first.stat().st_mtime == 1
    assert second.stat().st_mtime != 1 and "something else" not in second.read_text()


def test_the_generator_wants_to_know_how_many_and_where(tree: Path) -> None:
    for words in (["--count", "2"], ["--out", str(tree / "out")]):
        ended = run(tree / "tools" / "gen_ops.py", *words)
        assert ended.returncode == 2 and "required" in ended.stderr


def test_nothing_is_generated_by_an_import(tree: Path) -> None:
    ended = run("-c", "import sys; sys.path.insert(0, sys.argv[1]); import gen_ops", tree / "tools")
    assert (ended.returncode, ended.stdout) == (0, "")


@pytest.mark.parametrize(("devices", "available"), [(0, False), (1, True), (2, True)])
def test_what_the_built_package_says_of_itself(tree: Path, devices: int, available: bool) -> None:
    run_setup(tree, USE_CUDA="1", SPARK_CUDA_VERSION="12.4")
    ended = run("-c", PACKAGE, tree, "linux", str(devices), "sm_86;sm_90 compute_90")
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["available"] is available and said["archs"] == ["sm_86", "sm_90", "compute_90"]
    assert (said["__version__"], said["cuda"], said["git_version"]) == ("0.3.0", "12.4", None)
    assert [said[name] for name in ("axpy", "dot", "ember")] == ["axpy", "dot", "ember"] and said["opened"] == []


def test_windows_is_told_where_the_libraries_lie(tree: Path) -> None:
    run_setup(tree)
    ended = run("-c", PACKAGE, tree, "win32", "0", "")
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["opened"] == [str(tree / "spark" / "lib")] and said["archs"] == []
