"""What a build takes from the system and what is brought for it alone: BLAS, third parties, CMake."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

import msgspec
import pytest

import needs
from bare_host import BareHost
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.model.interpreter import Interpreter
from rekindle.model.machine import Check
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.model.supply import TreePart
from rekindle.readiness.case import PlannedBuild, wheel_name, wheel_version
from rekindle.readiness.programs import (
    check_release,
    cmake_for_build,
    find_build_python,
    python_for_build,
    python_tools,
)
from rekindle.readiness.register import check_build
from rekindle.readiness.space import place_for_build
from rekindle.readiness.supplies import libraries_for_build, submodules_for_build


class Machine(BareHost):
    """With these programs (and what they say) and files."""

    def __init__(self, programs: Mapping[str, str], *files: str) -> None:
        super().__init__()
        self.programs, self.files = programs, files

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{Path(name).name}" if Path(name).name in self.programs else None

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(name for name in self.files if fnmatch(name, pattern))

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        said = self.programs.get(Path(argv[0]).name)
        return Completed(argv=tuple(argv), code=None if said is None else 0, out=said or "")


def plan(torch: str = "1.13.1", **recipe: object) -> Plan:
    told = {"source": "torch", "env": {}, "pins": {"cmake": "<4"}, **recipe}
    return Plan(answer="build", torch=torch, build=BuildRecipe(**told))  # type: ignore[arg-type]


def _third_parties(host: Machine, folder: Path, **recipe: object) -> Check | None:
    asked = PlannedBuild(plan=plan("1.13.1", **recipe), python=sys.executable, place=folder)
    return next((check for check in check_build(host, asked) if check.id == "third-parties"), None)


@needs.posix()
def test_a_blas_that_pip_brings_is_not_asked_of_the_system(tmp_path: Path) -> None:
    host = Machine({"apt-get": ""})
    asked = _third_parties(host, tmp_path)
    assert asked and asked.status == "fail" and "blas" in (asked.found or "").lower()
    brought = _third_parties(host, tmp_path, pins={"mkl-static": "==2024.0"})
    assert brought is None or "blas" not in (brought.found or "").lower()


@needs.posix()
def test_third_parties_come_from_the_system_where_the_sources_bring_none(tmp_path: Path) -> None:
    host = Machine({"apt-get": ""}, "/usr/lib/libopenblas.so")
    packages = ("libsleef-dev",)
    for origin, status in (("debian", "fail"), ("git", "ok"), ("tarball", "ok")):
        check = _third_parties(host, tmp_path, packages=packages, origin=origin)
        assert check and check.status == status, origin
    without = _third_parties(host, tmp_path, origin="debian")
    assert without and without.status == "ok", "a recipe that names no packages takes none"


@needs.posix()
def test_of_what_the_system_has_only_what_was_looked_for_is_counted(tmp_path: Path) -> None:
    parts = (
        TreePart(name="sleef", path="third_party/sleef", way="system"),
        TreePart(name="foxi", path="third_party/foxi", way="off"),
    )
    tree = SourceTree(project="torch", version="1.13.1", root="/t", parts=parts)
    libraries = ("/usr/lib/libopenblas.so", "/usr/lib/libsleef.so", "/usr/include/sleef.h")
    asked = PlannedBuild(plan=plan(), python="", place=tmp_path, tree=tree)
    (check,) = libraries_for_build(Machine({}, *libraries), asked)
    words = "2 libraries taken from this system, all there"
    assert (check.status, check.found) == ("ok", words), "foxi asks nothing of a system"


@pytest.mark.parametrize(
    ("system", "project", "torch", "asks"),
    [
        ("linux", "torch", "1.13.1", True),
        ("windows", "torch", "1.13.1", False),
        ("linux", "torch", None, False),
        ("linux", "xformers", "1.13.1", False),
    ],
)
def test_libraries_are_asked_for_where_torch_is_built_on_linux(
    system: str, project: str, torch: str | None, asks: bool, tmp_path: Path
) -> None:
    host = Machine({})
    host.system = system
    wanted = msgspec.structs.replace(plan(), project=project, torch=torch)
    found = list(libraries_for_build(host, PlannedBuild(plan=wanted, python="", place=tmp_path)))
    assert [check.id for check in found] == (["third-parties"] if asks else [])


@pytest.mark.parametrize(
    ("torch", "version", "good"),
    [("2.7.1", "3.31.9", True), ("2.7.1", "4.0.0", False), ("2.8.0", "4.0.0", True), ("2.8.0", "4.1.2", True)],
)
def test_torch_2_8_is_the_first_whose_files_cmake_4_takes(torch: str, version: str, good: bool, tmp_path: Path) -> None:
    asked = PlannedBuild(plan=plan(torch, pins={}), python="", place=tmp_path)
    host = Machine({"cmake": f"cmake version {version}"})
    if good:
        (check,) = cmake_for_build(host, asked)
        assert (check.status, check.found) == ("ok", f"/usr/bin/cmake {version}")
    else:
        with pytest.raises(BadInput, match=f"CMake {version} refuses the CMake files of torch {torch}"):
            list(cmake_for_build(host, asked))


def test_a_python_that_knows_no_compiler_of_its_own_has_none_that_is_missing() -> None:
    told = '{"CC": null, "CXX": "g++ -pthread", "LDSHARED": "  ", "LDCXXSHARED": ""}'
    tools = python_tools(Machine({"python3": told}), "/usr/bin/python3")
    assert (tools.commands, tools.missing) == ({"CXX": "g++ -pthread"}, {"CXX": "g++"})


@pytest.mark.parametrize(
    ("project", "torch", "told"), [("torch", "1.13.1", True), ("torchvision", "1.13.1", False), ("torch", None, False)]
)
def test_only_torchs_own_releases_are_asked_which_pythons_they_know(
    project: str, torch: str | None, told: bool
) -> None:
    wanted = msgspec.structs.replace(plan(), project=project, torch=torch)
    found = [check.id for check in check_release(wanted, Interpreter(path="p", version="3.14.0"))]
    assert found == (["python-release"] if told else [])


@pytest.mark.parametrize(("missing", "words"), [(("b",), "1 third party is"), (("b", "c"), "2 third parties are")])
def test_third_parties_that_the_tree_lacks_are_counted_and_the_first_fix_is_told(
    missing: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    parts = tuple(TreePart(name=n, path=n, way="copy", ready=n not in missing, fix=f"bring {n}") for n in "abc")
    tree = SourceTree(project="torch", version="1.13.1", root="/t", missing_submodules=missing, parts=parts)
    asked = PlannedBuild(plan=plan(), python=sys.executable, place=tmp_path, tree=tree)
    (check,) = submodules_for_build(Machine({}), asked)
    assert (check.found, check.fix) == (f"{words} missing in /t: b", "bring b")


def test_a_cmake_from_the_index_is_told_unless_one_was_named(tmp_path: Path) -> None:
    host = Machine({"cmake": "cmake version 3.31.0"})
    for named, words in ((None, "cmake<4 from the index"), ("/usr/bin/cmake", "3.31.0")):
        asked = PlannedBuild(plan=plan("2.6.0"), python=sys.executable, place=tmp_path, cmake=named)
        (check,) = [check for check in check_build(host, asked) if check.id == "cmake"]
        assert check.status == "ok" and words in (check.found or "")


def test_what_the_plan_calls_its_wheel_tells_it_apart() -> None:
    tree = SourceTree(project="torch", version="1.13.1", root="/t")
    env = {"CFLAGS": "-O2+x-march", "PYTORCH_BUILD_VERSION": "1.13.1+cpu-ivybridge"}
    assert wheel_version(plan(env=env), tree) == "1.13.1+rekindle.cpu.ivybridge"
    assert wheel_version(plan(env={"CFLAGS": "-O2+x-march"}), tree) == "1.13.1+rekindle.cpu"


@needs.posix("an embedded Python has no headers")
@pytest.mark.parametrize(("project", "told"), [("torch", True), ("torchvision", False)])
def test_the_wheel_is_told_with_the_python_that_builds_it(project: str, told: bool, tmp_path: Path) -> None:
    wanted = msgspec.structs.replace(plan("2.6.0"), project=project)
    asked = PlannedBuild(plan=wanted, python=sys.executable, place=tmp_path)
    found = {check.id: check.found or "" for check in python_for_build(LiveHost(), asked)}
    assert found["python"].endswith(", with Python.h") and ("wheel" in found) is told, "an extension has no tree yet"
    assert not told or found["wheel"].startswith("torch-2.6.0+rekindle.cpu-cp3")


@pytest.mark.parametrize(
    ("torch", "version", "public"),
    [("2.6.0+cu124", "2.6.0a0", "2.6.0"), (None, "2.7.0", "2.7.0"), (None, None, "0")],
)
def test_a_wheel_is_called_by_the_plan_or_by_its_tree(torch: str | None, version: str | None, public: str) -> None:
    wanted = msgspec.structs.replace(plan("2.6.0"), torch=torch)
    tree = SourceTree(project="torch", version=version, root="/t") if version else None
    name = wheel_name(wanted, tree, "cp311", BareHost()) or ""
    assert name.startswith(f"torch-{public}+rekindle.cpu-cp311-cp311-")


def test_of_two_pythons_the_one_with_headers_builds() -> None:
    class Two(BareHost):
        def which_all(self, name: str) -> tuple[str, ...]:
            return ("/a/python3.11", "/b/python3.11") if name == "python3.11" else ()

        def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, object] | None:
            return {"version": "3.11.2", "include": "/i", "headers": path.startswith("/b"), "executable": path}

        def realpath(self, path: str) -> str:
            return path

    assert find_build_python(Two(), "3.11").path == "/b/python3.11"


@needs.posix()
@pytest.mark.parametrize(
    ("name", "cuda", "words"),
    [
        ("plain", None, None),
        ("a b ü", "12.4", None),
        ("a;b", None, "holds ;, which CMake"),
        ("a,b", None, None),
        ("a,b", "12.4", "at which nvcc cuts"),
    ],
)
def test_letters_of_a_path_that_tools_read_otherwise(name: str, cuda: str | None, words: str | None) -> None:
    asked = PlannedBuild(plan=msgspec.structs.replace(plan("2.6.0"), cuda=cuda), python="", place=Path("/w") / name)
    if words is None:
        assert list(place_for_build(BareHost("linux"), asked)) == []
    else:
        with pytest.raises(BadInput, match=words):
            list(place_for_build(BareHost("linux"), asked))
