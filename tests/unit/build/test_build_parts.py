"""The small parts: sizes, names, environment, state, front ends, requirements, estimates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rekindle.build import tree as state
from rekindle.build.environment import make_environment, render_cache_script
from rekindle.build.frontend import find_front_end
from rekindle.build.governor import fixed_jobs
from rekindle.build.history import Estimate, History, ObjectCosts, kept_history, kind_of
from rekindle.build.tree import forget_python
from rekindle.errors import BadInput
from rekindle.formats.ninja import BuildEdge
from rekindle.model.build_options import memory_budget
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.readiness.case import wheel_version
from rekindle.scripts.quoting import is_forwarded

GIB = 1 << 30


def plan(**how: Any) -> Plan:
    recipe = BuildRecipe(source="x", env=how.pop("env", {}), cmake=how.pop("cmake", {}))
    return Plan(**{"answer": "build", "torch": "2.0.1", "build": recipe, **how})


@pytest.mark.parametrize(
    ("text", "size"),
    [("8", 8 * GIB), ("64m", GIB // 16), ("8G", 8 * GIB), ("1.5 GiB", 3 * GIB // 2), ("512m", GIB // 2)],
)
def test_sizes(text: str, size: int) -> None:
    assert memory_budget(text) == size


@pytest.mark.parametrize("text", ["", "8b", "0.05", "many", "-3G", "8 parsecs"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(BadInput):
        memory_budget(text)


def test_versions() -> None:
    tree = SourceTree(project="torch", version="2.0.0a0+git123", root="/t")
    assert wheel_version(plan(variant="cu118", arch_list=("3.5",)), tree) == "2.0.1+rekindle.cu118.sm35"
    assert wheel_version(plan(arch_list=("5.0", "6.0", "7.0", "8.0")), tree) == "2.0.1+rekindle.cpu"
    named = BuildRecipe(source="", env={"PYTORCH_BUILD_VERSION": "2.0.1+rocm6.4-x86.64.v2"})
    assert wheel_version(plan(build=named), tree) == "2.0.1+rekindle.cpu.x86.64.v2"
    assert wheel_version(plan(variant="rocm6.2", arch_list=("gfx1031",)), tree) == "2.0.1+rekindle.rocm6.2.gfx1031"


def test_the_shell_cannot_change_the_build() -> None:
    shell = {"PATH": "/bin", "USE_CUDA": "0", "CFLAGS": "-O9", "MAX_JOBS": "99", "HOME": "/h", "CMAKE_ARGS": "x"}
    made = make_environment(
        plan(env={"USE_CUDA": "1"}, cmake={"CMAKE_BUILD_TYPE": "Release", "CAFFE2_X": "1"}),
        shell, path_first=["/first"], extra={}, version="2.0.1+x",
    )  # fmt: skip
    assert made.full["USE_CUDA"] == "1"
    assert not {"CFLAGS", "MAX_JOBS", "CMAKE_ARGS"} & made.full.keys()
    assert set(made.dropped) == {"CFLAGS", "CMAKE_ARGS", "MAX_JOBS", "USE_CUDA"}
    assert made.full["PATH"].startswith("/first")
    assert made.full["PYTORCH_BUILD_VERSION"] == "2.0.1+x"
    assert made.cache_settings == {"CAFFE2_X": "1"}
    assert not is_forwarded("CAFFE2_X")


def test_cache_script_survives_any_value() -> None:
    assert 'set(X [===[a "b" ${c} ; ]]]===] CACHE' in render_cache_script({"X": 'a "b" ${c} ; ]]'})


def test_another_plan_is_refused_with_the_difference(tmp_path: Path) -> None:
    old = state.TreeState(project="torch", version="1", settings={"env USE_CUDA": "1"})
    state.save_state(tmp_path, old)
    assert state.load_state(tmp_path) == old
    assert state.differences(old, old) == []
    new = state.TreeState(project="torch", version="1", settings={"env USE_CUDA": "0"})
    with pytest.raises(BadInput, match="USE_CUDA was '1' and is now '0'"):
        state.refuse_other_plan(state.differences(old, new), tmp_path)


def test_an_unreadable_state_is_another_tree(tmp_path: Path) -> None:
    (tmp_path / state.FILE_NAME).write_text("{half")
    kept = state.load_state(tmp_path)
    assert kept is not None
    assert kept.project == "unknown"
    assert state.load_state(tmp_path / "none") is None


def test_front_ends(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="neither setup"):
        find_front_end(tmp_path)
    (tmp_path / "setup.py").write_text("setup()")
    assert find_front_end(tmp_path).kind == "setup"
    # torchvision: requirements, and torch among them, but no backend.
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires=["setuptools","torch"]')
    front = find_front_end(tmp_path)
    assert (front.kind, front.wheel("py", tmp_path)[1:3]) == ("setup", ["setup.py", "bdist_wheel"])
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires=["setuptools","ninja"]\nbuild-backend="b"')
    front = find_front_end(tmp_path)
    assert (front.kind, front.requires) == ("pep517", ("setuptools",))
    assert front.configure("py", again=False, out=tmp_path, defines={}) is None
    (tmp_path / "setup.py").write_text("if arg == '--cmake-only': pass")
    front = find_front_end(tmp_path)
    assert front.kind == "cmake-setup"
    assert front.configure("py", again=True, out=tmp_path, defines={}) == [
        "py",
        "setup.py",
        "build",
        "--cmake-only",
        "--cmake",
    ]
    assert front.wheel("py", tmp_path)[1:4] == ["-m", "build", "--wheel"], "it names a backend"


def test_scikit_build_core_gets_settings_by_name_and_can_build_nothing(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("raise SystemExit('CMAKE_ONLY is gone')")
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires=["scikit-build-core>=0.9"]\nbuild-backend="scikit_build_core.build"'
    )
    front = find_front_end(tmp_path)
    assert front.kind == "scikit"
    given = {"USE_CUDA": "1", "CMAKE_BUILD_TYPE": "Debug", "CMAKE_GENERATOR": "Ninja", "ARCHS": "7.5;9.0"}
    wheel = front.wheel("py", tmp_path, given)
    assert {"-Cbuild-dir=build", "-Ccmake.define.ARCHS=7.5;9.0", "-Ccmake.build-type=Debug"} <= set(wheel)
    assert not any("GENERATOR" in word for word in wheel)
    only = front.configure("py", again=False, out=tmp_path, defines=given)
    assert only is not None
    assert wheel is not None
    assert set(only) - set(wheel) == {"-Cbuild.targets=help", "-Cinstall.components=rekindle-nothing"}


def test_another_python_is_forgotten_with_its_comments(tmp_path: Path) -> None:
    kept = "//How hot\nEMBER_LEVEL:STRING=1\n\nUSE_NUMPY:BOOL=ON\n"
    gone = "//The interpreter\nPYTHON_EXECUTABLE:FILEPATH=/py\n_Python_INCLUDE_DIR:PATH=/i\nNUMPY_DIR:PATH=/n\n"
    (tmp_path / "CMakeCache.txt").write_text(kept + gone)
    assert forget_python(tmp_path) == 3
    assert (tmp_path / "CMakeCache.txt").read_text() == kept
    assert forget_python(tmp_path) == forget_python(tmp_path / "none") == 0


def test_kinds() -> None:
    assert [kind_of(n) for n in ("a.cu.o", "a.cpp.o", "a.c.o", "libx.so.1", "x.h")] == [
        "gpu", "cxx", "c", "link", "other",
    ]  # fmt: skip


def test_learning(tmp_path: Path) -> None:
    with kept_history(tmp_path / "h.json") as learnt:
        unknown = learnt.expected("a.cpp.o")
        learnt.record("a.cpp.o", 3 * GIB, 60.0)
        assert learnt.expected("a.cpp.o") > 3 * GIB > unknown
        learnt.record("a.cpp.o", GIB // 10, 1.0)
        assert learnt.expected("a.cpp.o") > 2 * GIB, "a cache hit must not teach that a giant is small"
    with kept_history(tmp_path / "h.json") as learnt:
        assert learnt.seconds("a.cpp.o") == 1.0
    (tmp_path / "h.json").write_text("{")
    with kept_history(tmp_path / "h.json") as learnt:
        assert learnt.history().objects == {}


def test_estimate_takes_the_larger_of_work_and_critical_path() -> None:
    edges = [
        BuildEdge(rule="C", outputs=("a.cpp.o",), inputs=("a.cpp",)),
        BuildEdge(rule="C", outputs=("b.cpp.o",), inputs=("b.cpp",)),
        BuildEdge(rule="L", outputs=("lib.so",), inputs=("a.cpp.o", "b.cpp.o")),
        BuildEdge(rule="phony", outputs=("all",), inputs=("lib.so",)),
    ]
    learnt = ObjectCosts(History(objects={"a.cpp.o": (1, 100.0), "b.cpp.o": (1, 20.0), "lib.so": (1, 30.0)}))
    estimate = Estimate(edges, learnt, {})
    assert estimate.left(jobs=1, steps_left=3) == 150
    assert estimate.left(jobs=2, steps_left=3) == 130
    again = Estimate(edges, learnt, {"a.cpp.o": 100.0})
    assert again.left(jobs=2, steps_left=2) == 50


def test_estimate_follows_the_pace_of_this_run() -> None:
    """A hot compiler cache makes everything a hundredth of what earlier builds took; a busy machine makes it more."""
    edges = [BuildEdge(rule="C", outputs=(f"{n}.cpp.o",), inputs=()) for n in range(20)]
    learnt = ObjectCosts(History(objects={f"{n}.cpp.o": (1, 100.0) for n in range(20)}))
    estimate = Estimate(edges, learnt, {})
    assert estimate.left(jobs=2, steps_left=20, elapsed=1.0) == 1000
    for number in range(10):
        learnt.record(f"{number}.cpp.o", 1, 1.0)
        estimate.finished(f"{number}.cpp.o")
    assert estimate.left(jobs=2, steps_left=10) == 500
    assert estimate.left(jobs=2, steps_left=10, elapsed=5.0) == pytest.approx(5.0)
    assert estimate.left(jobs=2, steps_left=10, elapsed=1000.0) == pytest.approx(1000.0)


def test_fixed_jobs() -> None:
    assert fixed_jobs(8, 4 * GIB, GIB) == 4
    assert fixed_jobs(8, GIB // 2, GIB) == 1
    assert fixed_jobs(8, None, GIB) == 8


def test_a_front_end_without_backend_or_setup_py_gets_setuptools(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[build-system]\nrequires=["setuptools","torch"]')
    front = find_front_end(tmp_path)
    assert (front.kind, front.backend) == ("pep517", "setuptools.build_meta")
    project.write_text('[build-system]\nbuild-backend="flit_core.buildapi"')
    front = find_front_end(tmp_path)
    assert (front.kind, front.backend, front.requires) == ("pep517", "flit_core.buildapi", ())
    assert not (front.only_flag or front.serial or front.chooses_jobs or front.takes_cmake_settings)
    project.write_text("[project]\nname='x'")
    with pytest.raises(BadInput, match="neither setup"):
        find_front_end(tmp_path)
    project.write_text("[build-system")
    with pytest.raises(BadInput, match="cannot be read"):
        find_front_end(tmp_path)


@pytest.mark.parametrize(
    ("setup", "chooses"),
    [
        ("os.environ['MAX_JOBS'] = str(4)", True),
        ("n = int(os.environ.get('MAX_JOBS', 4)); os.environ['MAX_JOBS'] = str(n)", False),
        ("n = int(os.environ['MAX_JOBS'])", False),
        ("setup()", False),
    ],
)
def test_a_setup_py_that_fixes_the_number_of_jobs_is_given_a_word(setup: str, chooses: bool, tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(setup)
    assert find_front_end(tmp_path).chooses_jobs is chooses


def test_ninja_works_in_the_tree_or_in_the_folder_of_the_newest_python(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("setup()")
    front = find_front_end(tmp_path)
    assert front.ninja_tree == tmp_path / "build", "where it will be"
    for number, name in enumerate(("temp.cp312", "temp.cp310", "temp.cp311")):
        (tmp_path / "build" / name).mkdir(parents=True)
        (tmp_path / "build" / name / "build.ninja").touch()
        os.utime(tmp_path / "build" / name / "build.ninja", (1000 + number, 1000 + number))
    assert front.ninja_tree == tmp_path / "build" / "temp.cp311", "the latest, whatever its name"
    (tmp_path / "build" / "build.ninja").touch()
    assert front.ninja_tree == tmp_path / "build"


def test_scikit_build_core_is_told_a_build_type_that_is_one(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[build-system]\nbuild-backend="scikit_build_core.build"')
    front = find_front_end(tmp_path)
    kinds = [
        [word for word in front.wheel("py", tmp_path, given) if "build-type" in word]
        for given in ({"CMAKE_BUILD_TYPE": "Debug", "USE_CUDA": "1"}, {"CMAKE_BUILD_TYPE": ""}, {"USE_CUDA": "1"}, None)
    ]
    assert kinds == [["-Ccmake.build-type=Debug"], [], [], []]


def test_what_setup_py_passes_on_is_no_setting_of_a_file_and_the_rest_no_variable() -> None:
    made = make_environment(
        plan(env={"MAX_JOBS": "2"}, cmake={"USE_CUDA": "0", "CAFFE2_X": "1"}), {}, path_first=[], extra={}, version="9"
    )
    assert made.chosen["USE_CUDA"] == "0" and "CAFFE2_X" not in made.full
    assert made.cache_settings == {"CAFFE2_X": "1"} and made.dropped == ()


@pytest.mark.parametrize(
    ("project", "named", "number"),
    [("torch", "PYTORCH_BUILD_VERSION", "1"), ("torchvision", "BUILD_VERSION", None), ("anybodys", None, None)],
)
def test_each_project_is_told_its_version_by_its_own_variable(
    project: str, named: str | None, number: str | None
) -> None:
    made = make_environment(plan(project=project), {}, path_first=[], extra={}, version="9")
    told = {name: value for name, value in made.chosen.items() if "VERSION" in name}
    assert told == ({named: "9"} if named else {}) and made.chosen.get("PYTORCH_BUILD_NUMBER") == number
    without = make_environment(plan(project=project), {}, path_first=[], extra={}, version="")
    assert not any("VERSION" in name for name in without.chosen)
    mine = make_environment(
        plan(project=project, env={"PYTORCH_BUILD_NUMBER": "7"}), {}, path_first=[], extra={}, version="9"
    )
    assert mine.chosen["PYTORCH_BUILD_NUMBER"] == "7"
