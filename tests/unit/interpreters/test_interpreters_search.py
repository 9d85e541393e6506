"""One search for a Python: what a word means, who is asked and in which order, and who is the same."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from rekindle.errors import BadInput
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import RegistryKey
from rekindle.interpreters.search import (
    ask_interpreter,
    candidate_paths,
    distinct_paths,
    find_interpreter,
    identity_of,
    search_version,
    started_directly,
    usual_python,
)
from rekindle.model.interpreter import Interpreter


class Machine(RecordedHost):
    """A machine with these Pythons (path → version), which keeps who was asked."""

    def __init__(self, pythons: Mapping[str, str | None], system: str = "linux", **more: Any) -> None:
        answers: dict[str, Mapping[str, Any] | None] = {
            path: self.answer(path, version) for path, version in pythons.items() if version
        }
        super().__init__(Record(system=system, paths=dict.fromkeys(pythons), pythons=answers, **more))
        self.asked: list[str] = []

    @staticmethod
    def answer(path: str, version: str) -> dict[str, Any]:
        return {
            "version": version.rstrip("t"), "implementation": "CPython", "gil_disabled": version.endswith("t"),
            "bits": 64, "machine": "x86_64", "executable": path, "prefix": "/usr", "base_prefix": "/usr",
        }  # fmt: skip

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        self.asked.append(path)
        return super().python(path)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python that runs the tests is none of the machine's."""
    monkeypatch.setattr("sys._base_executable", "/not/of/this/machine", raising=False)


def test_a_word_is_a_path_or_a_name_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    there = ["/usr/bin/python3.12", "./python", r"D:\py\python.exe", "/home/ada/env/bin/python"]
    host = Machine(dict.fromkeys(there, "3.12.1"), programs={"python3.12": (there[0],)})
    host.record.paths.clear()  # a path need not be found by a search
    for word, path in zip(["python3.12", *there[1:3], "~/env/bin/python"], there, strict=True):
        assert ask_interpreter(host, word).path == path
    with pytest.raises(BadInput, match="pythonx is no Python that runs here: it is not on PATH") as refused:
        ask_interpreter(host, "pythonx")
    assert "rekindle doctor" in (refused.value.remedy or "")
    with pytest.raises(BadInput, match=r"\./other is no Python"):
        ask_interpreter(host, "./other")


@pytest.mark.parametrize(
    ("wanted", "asked"),
    [
        ("3.10", ["python3", "python3.10"]),
        ("3.10.4", ["python3", "python3.10"]),
        ("3.1", ["python3", "python3.1"]),
        ("3.13t", ["python3", "python3.13", "python3.13t"]),
        ("3", ["python3", "python3.1", "python3.10", "python3.13", "python3.13t", "python3.9"]),
    ],
)
def test_only_who_can_be_of_that_version_is_asked(wanted: str, asked: list[str]) -> None:
    names = ["python3", "python3.1", "python3.9", "python3.10", "python3.13", "python3.13t", "python3-config"]
    host = Machine({f"/usr/bin/{name}": "2.7.18" for name in names})
    assert list(search_version(host, wanted)) == []
    assert host.asked == [f"/usr/bin/{name}" for name in asked]


def test_a_python_of_another_name_is_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys._base_executable", "/srv/own/pypy", raising=False)
    assert find_interpreter(Machine({"/srv/own/pypy": "3.10.1"}), "3.10").path == "/srv/own/pypy"
    # Whose folder a search would take for a pattern is left out.
    monkeypatch.setattr("sys._base_executable", "/srv/o[w]n/pypy", raising=False)
    assert "/srv/o[w]n/pypy" not in candidate_paths(Machine({"/srv/o[w]n/pypy": "3.10.1"}))


def test_each_is_asked_when_it_is_its_turn_and_once() -> None:
    pythons = {
        "/usr/bin/python3.10": "3.10.1",
        "/usr/local/bin/python3.10": "3.10.1",
        "/opt/python/x/bin/python3": "3.10.2",
    }
    links = {"/usr/local/bin/python3.10": "/usr/bin/python3.10"}
    host = Machine(pythons, links=links, programs={"python3.10": ("/home/ada/.pyenv/shims/python3.10",)})
    found = search_version(host, "3.10")
    assert next(found).path == "/usr/bin/python3.10" and len(host.asked) == 1
    assert [python.path for python in found] == ["/opt/python/x/bin/python3"]
    assert host.asked == ["/usr/bin/python3.10", "/opt/python/x/bin/python3"]


def test_what_path_names_comes_before_the_usual_places() -> None:
    host = Machine({"/usr/bin/python3.10": "3.10.1", "/srv/tools/python3.10": "3.10.9"})
    host.record.programs["python3.10"] = ("/srv/tools/python3.10",)
    assert [python.version for python in search_version(host, "3.10")] == ["3.10.9", "3.10.1"]


def test_who_answers_nothing_or_another_version_is_passed_over() -> None:
    host = Machine({"/usr/bin/python3": None, "/usr/bin/python3.10": "3.11.2", "/usr/local/bin/python3": "3.10.2"})
    assert find_interpreter(host, "3.10").path == "/usr/local/bin/python3"
    with pytest.raises(BadInput, match=r"there is no Python 3\.9 that runs here") as refused:
        find_interpreter(host, "3.9")
    assert "--python" in (refused.value.remedy or "")


def test_one_that_two_programs_start_is_one() -> None:
    """A shim is a program of its own, whose answer names what it starts."""
    host = Machine({"/usr/bin/python3.10": "3.10.1", "/usr/local/bin/python3": "3.10.1"})
    host.record.pythons["/usr/local/bin/python3"] = Machine.answer("/usr/bin/python3.10", "3.10.1")
    assert [python.path for python in search_version(host, "3.10")] == ["/usr/bin/python3.10"]


def test_headers_decide_only_where_they_are_asked_for() -> None:
    host = Machine({"/usr/bin/python3.10": "3.10.1", "/usr/local/bin/python3": "3.10.2"})
    host.record.pythons["/usr/local/bin/python3"] = {**Machine.answer("/x", "3.10.2"), "headers": True}
    assert find_interpreter(host, "3.10").version == "3.10.1"
    assert find_interpreter(host, "3.10", with_headers=True).version == "3.10.2"
    host.record.pythons["/usr/local/bin/python3"] = Machine.answer("/x", "3.10.2")
    assert find_interpreter(host, "3.10", with_headers=True).version == "3.10.1", "the first where none has them"


PLAIN = Interpreter(
    version="3.10.1", path="/usr/bin/python3", executable="/usr/bin/python3", prefix="/usr", base_prefix="/usr"
)


def other(**fields: str | None) -> Interpreter:
    return msgspec.structs.replace(PLAIN, **fields)


def test_what_two_answers_of_one_python_have_in_common() -> None:
    host = Machine({}, links={"/usr/bin/python3": "/usr/bin/python3.10"})
    assert identity_of(host, PLAIN) == "/usr/bin/python3.10"
    assert identity_of(host, other(executable="/elsewhere/python")) == "/elsewhere/python"
    assert identity_of(host, other(executable=None)) == "/usr/bin/python3.10"
    assert identity_of(host, other(prefix="/home/ada/env")) == "/home/ada/env", "an environment is its folder"


def test_a_program_that_only_starts_another_stands_for_it() -> None:
    host = Machine({}, links={"/usr/bin/python3": "/usr/bin/python3.10"})
    shim = other(path="/shims/python3")
    assert started_directly(host, shim).path == "/usr/bin/python3"
    assert started_directly(host, PLAIN) is PLAIN, "a link to it is no such program"
    for kept in (other(path="/env/bin/python", prefix="/env"), other(path="/shims/python3", executable=None)):
        assert started_directly(host, kept) is kept


def test_an_environment_is_no_link_to_its_base() -> None:
    links = dict.fromkeys(["/e/bin/python", "/f/bin/python", r"D:\e\Scripts\python.exe"], "/usr/bin/python3")
    host = Machine({}, links=links, files={"/e/pyvenv.cfg": b"", r"D:\e\pyvenv.cfg": b""})
    paths = ["/usr/bin/python3", "/f/bin/python", "/e/bin/python", r"D:\e\Scripts\python.exe"]
    assert distinct_paths(host, paths) == ["/usr/bin/python3", "/e/bin/python", r"D:\e\Scripts\python.exe"]


def test_no_python_is_meant_where_none_is_on_path() -> None:
    assert usual_python(Machine({})) is None
    door = "/mnt/c/Users/ada/AppData/Local/Microsoft/WindowsApps/python3"
    assert usual_python(Machine({}, programs={"python3": (door,)})) is None, "a door to the shop is no Python of Linux"
    assert usual_python(Machine({}, "windows")) == sys.executable


SOFTWARE = r"HKLM\SOFTWARE\Python"


def test_windows_knows_its_pythons_by_the_registry() -> None:
    """PEP 514: a program named, a folder with or without its last slash, and an entry without either."""
    core = rf"{SOFTWARE}\PythonCore"
    registry = {
        SOFTWARE: RegistryKey(keys=("PythonCore", "Empty")),
        core: RegistryKey(keys=("3.9", "3.10", "3.11", "3.12")),
        rf"{core}\3.9\InstallPath": RegistryKey(values={"ExecutablePath": r"D:\a\python39.exe", "": "D:\\no\\"}),
        rf"{core}\3.10\InstallPath": RegistryKey(values={"": "D:\\b\\"}),
        rf"{core}\3.11\InstallPath": RegistryKey(values={"": r"D:\c"}),
        r"HKCU\SOFTWARE\Python": RegistryKey(keys=("Own",)),
        r"HKCU\SOFTWARE\Python\Own": RegistryKey(keys=("x",)),
        r"HKCU\SOFTWARE\Python\Own\x\InstallPath": RegistryKey(values={"": r"D:\d"}),
    }
    listed = candidate_paths(Machine({}, "windows", registry=registry))
    assert listed == [r"D:\a\python39.exe", r"D:\b\python.exe", r"D:\c\python.exe", r"D:\d\python.exe"]


def test_a_door_of_the_shop_is_told_from_what_was_bought_there() -> None:
    apps = r"C:\Users\ada\AppData\Local\Microsoft\WindowsApps"
    door, bought = rf"{apps}\python.exe", rf"{apps}\python3.exe"
    links = {bought: r"C:\Program Files\WindowsApps\PythonSoftwareFoundation.Python.3.12_x\python3.exe"}
    programs = {"python": (r"D:\py\python.exe", door), "python3": (bought,)}
    host = Machine({}, "windows", programs=programs, links=links)
    assert candidate_paths(host) == [r"D:\py\python.exe", bought]


@pytest.mark.parametrize(
    ("system", "home", "listed", "program"),
    [
        ("linux", {"HOME": "/home/ada"}, "/home/ada/.conda/environments.txt", "/bin/python"),
        ("windows", {"USERPROFILE": r"C:\ada"}, r"C:\ada\.conda\environments.txt", r"\python.exe"),
    ],
)
def test_conda_s_own_list_is_read(system: str, home: dict[str, str], listed: str, program: str) -> None:
    paths = [f"/srv/{name}{program}" for name in "ab"]
    host = Machine(dict.fromkeys(paths), system, env=home, files={listed: b"\n /srv/a/ \n/srv/b\n/srv/*\n"})
    assert candidate_paths(host) == paths
