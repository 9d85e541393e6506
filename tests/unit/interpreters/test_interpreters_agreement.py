"""doctor, build, verify and up find the same Pythons and hear the same of each, wherever they lie."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rekindle.doctor.pythons import probe_pythons
from rekindle.errors import BadInput, MissingTool
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.interpreters.search import base_of_ours, find_interpreter, search_version
from rekindle.journey.target import base_python, wanted_python
from rekindle.model.interpreter import Interpreter
from rekindle.model.journey import UpOptions
from rekindle.readiness.programs import find_build_python
from rekindle.verify.prove import installed_python, python_for
from rekindle.verify.target import read_subject
from tiny_wheels import make_wheel

HOME = "/home/ada"
# path → version; each from another installer, in the places where that one keeps them.
LINUX = {
    "/usr/bin/python3": "3.6.15",
    "/opt/tools/bin/python3.7": "3.7.17",
    f"{HOME}/.pyenv/versions/3.8.18/bin/python": "3.8.18",
    f"{HOME}/.local/share/uv/python/cpython-3.9.18-linux/bin/python3": "3.9.18",
    f"{HOME}/miniconda3/envs/old/bin/python": "3.10.13",
    "/srv/envs/lab/bin/python": "3.12.1",
    "/opt/python/cp313-cp313t/bin/python3": "3.13.0",
    "/opt/conda/envs/new/bin/python": "3.14.0",
}
WINDOWS = {
    r"C:\Users\ada\AppData\Local\Programs\Python\Python39\python.exe": "3.9.13",
    r"C:\Users\ada\miniforge3\envs\old\python.exe": "3.10.13",
    r"C:\Program Files\Python312\python.exe": "3.12.1",
    r"C:\Users\ada\.pyenv\pyenv-win\versions\3.13.0\python.exe": "3.13.0",
}


def _answer(path: str, version: str) -> dict[str, Any]:
    free = "cp313t" in path
    return {
        "version": version, "implementation": "CPython", "gil_disabled": free, "bits": 64, "machine": "x86_64",
        "executable": path, "prefix": str(Path(path).parent), "base_prefix": str(Path(path).parent), "headers": True,
    }  # fmt: skip


def _linux(**more: Any) -> RecordedHost:
    record = Record(
        system="linux",
        machine="x86_64",
        env={"HOME": HOME, "PATH": "/usr/bin:/opt/tools/bin"},
        programs={"python3": ("/usr/bin/python3",)},
        paths=dict.fromkeys(LINUX),
        files={f"{HOME}/.conda/environments.txt": b"/srv/envs/lab\n"},
        pythons={path: _answer(path, version) for path, version in LINUX.items()},
        **more,
    )
    return RecordedHost(record)


def _windows() -> RecordedHost:
    record = Record(
        system="windows",
        machine="x86_64",
        env={"USERPROFILE": r"C:\Users\ada", "LOCALAPPDATA": r"C:\Users\ada\AppData\Local"},
        paths=dict.fromkeys(WINDOWS),
        pythons={path: _answer(path, version) for path, version in WINDOWS.items()},
    )
    return RecordedHost(record)


def _listed(host: RecordedHost) -> dict[str, Interpreter]:
    pythons, answers = probe_pythons(Asking(host, "pythons", time.monotonic() + 20.0))
    assert {python.path for python in pythons} == set(answers)
    return dict(answers)


def test_doctor_lists_every_one() -> None:
    assert {path: found.version for path, found in _listed(_linux()).items()} == LINUX
    assert {path: found.version for path, found in _listed(_windows()).items()} == WINDOWS


@pytest.mark.parametrize("path", [*LINUX, *WINDOWS])
def test_each_verb_finds_it_by_its_version_and_hears_the_same(path: str, tmp_path: Path) -> None:
    host = _linux() if path in LINUX else _windows()
    listed = _listed(host)[path]
    version = listed.short + ("t" if listed.gil_disabled else "")
    tag = f"cp{version.replace('.', '')}"
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag=f"{tag.removesuffix('t')}-{tag}-linux_x86_64")
    options = UpOptions(python=version, venv=tmp_path / "new")
    assert find_build_python(host, version) == listed
    assert python_for(host, read_subject(wheel), None) == listed
    assert python_for(host, read_subject(wheel), version) == listed
    assert installed_python(host, version).version == listed.version
    assert base_python(host, options, None) == listed.path
    assert wanted_python(host, options) == version


@pytest.mark.parametrize("path", [*LINUX, *WINDOWS])
def test_each_verb_hears_the_same_by_its_path(path: str, tmp_path: Path) -> None:
    host = _linux() if path in LINUX else _windows()
    listed = _listed(host)[path]
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="py3-none-any")
    assert find_interpreter(host, path) == find_build_python(host, path) == listed
    assert python_for(host, read_subject(wheel), path) == listed
    assert wanted_python(host, UpOptions(python=path)) == listed.short


def test_what_none_lists_none_finds(tmp_path: Path) -> None:
    host = _linux()
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="cp35-cp35m-linux_x86_64")
    with pytest.raises(BadInput, match=r"no Python 3\.5"):
        find_build_python(host, "3.5")
    with pytest.raises(BadInput, match=r"for Python 3\.5, and there is none"):
        python_for(host, read_subject(wheel), None)
    with pytest.raises(MissingTool, match=r"Python 3\.5"):
        base_python(host, UpOptions(python="3.5"), None)
    for ask in (find_interpreter, find_build_python, installed_python):
        with pytest.raises(BadInput, match="/nowhere/python is no Python that runs here"):
            ask(host, "/nowhere/python")


def test_a_version_without_the_lock_is_asked_for_by_its_letter() -> None:
    with pytest.raises(BadInput, match=r"no Python 3\.13 that"):
        find_interpreter(_linux(), "3.13")
    assert find_interpreter(_linux(), "3.13t").abi == "cp313t"


def test_of_one_version_a_build_takes_the_one_with_headers() -> None:
    host = _linux()
    bare, whole = "/usr/bin/python3.10", f"{HOME}/miniconda3/envs/old/bin/python"
    host = RecordedHost(host.record)
    host.record.programs["python3.10"] = (bare,)
    host.record.pythons[bare] = {**_answer(bare, "3.10.12"), "headers": False}
    assert find_interpreter(host, "3.10").path == bare
    assert find_build_python(host, "3.10").path == whole
    host.record.pythons[whole] = {**_answer(whole, "3.10.13"), "headers": False}
    with pytest.raises(BadInput, match=f"{bare} has no headers"):
        find_build_python(host, "3.10")


def test_a_program_that_only_starts_another_is_left_out() -> None:
    """The Store's alias and pyenv's shim are programs of their own."""
    host = _linux()
    host.record.programs["python"] = ("/usr/bin/python",)
    host.record.pythons["/usr/bin/python"] = _answer(f"{HOME}/.pyenv/versions/3.8.18/bin/python", "3.8.18")
    assert find_interpreter(host, "3.8").path == f"{HOME}/.pyenv/versions/3.8.18/bin/python"
    assert {path: found.version for path, found in _listed(host).items()} == LINUX


def test_the_active_environment_is_found_and_its_base_too() -> None:
    host = _linux()
    inside = {f"{HOME}/lab/bin/python": f"{HOME}/lab", f"{HOME}/play/bin/python": f"{HOME}/play"}
    host.record.env |= {"VIRTUAL_ENV": f"{HOME}/lab", "CONDA_PREFIX": f"{HOME}/play"}
    for path, prefix in inside.items():
        host.record.files[f"{prefix}/pyvenv.cfg"] = b""
        host.record.links[path] = "/usr/bin/python3"
        base = {"executable": path, "prefix": prefix, "base_prefix": "/usr"}
        host.record.pythons[path] = {**_answer("/usr/bin/python3", "3.6.15"), **base}
    host = RecordedHost(host.record)
    assert {path: found.version for path, found in _listed(host).items()} == {
        **LINUX,
        **dict.fromkeys(inside, "3.6.15"),
    }
    assert find_interpreter(host, "3.6").path == f"{HOME}/lab/bin/python", "the active one first"


def test_the_active_environment_on_windows() -> None:
    host = _windows()
    host.record.env |= {"VIRTUAL_ENV": r"D:\work", "CONDA_PREFIX": r"D:\play"}
    more = {r"D:\work\Scripts\python.exe": "3.8.1", r"D:\play\python.exe": "3.8.2"}
    host.record.pythons.update({path: _answer(path, version) for path, version in more.items()})
    assert {path: found.version for path, found in _listed(host).items()} == {**WINDOWS, **more}


def test_shims_and_the_folders_of_windows_are_not_asked() -> None:
    host = _linux()
    shim = f"{HOME}/.pyenv/shims/python3.8"
    host.record.env["PATH"] += f":{HOME}/.pyenv/shims:/mnt/c/tools:relative"
    host.record.programs["python3.8"] = (shim,)
    slow = ["/mnt/c/tools/python3.9", shim, "relative/python3.9"]
    host.record.paths.update(dict.fromkeys(slow))
    host.record.pythons.update({path: _answer(path, "3.8.99") for path in slow})
    assert find_interpreter(RecordedHost(host.record), "3.8").version == "3.8.18"
    assert set(_listed(RecordedHost(host.record))) == set(LINUX)


def test_the_python_that_runs_us_may_be_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    host = _linux()
    monkeypatch.setattr("sys._base_executable", "/srv/own/python", raising=False)
    assert base_of_ours() == "/srv/own/python"
    host.record.paths["/srv/own/python"] = None
    host.record.pythons["/srv/own/python"] = _answer("/srv/own/python", "3.8.1")
    host = RecordedHost(host.record)
    assert "/srv/own/python" in _listed(host)
    assert find_interpreter(host, "3.8").path != "/srv/own/python"
    assert next(search_version(host, "3.8", ours_first=True)).path == "/srv/own/python"
    monkeypatch.setattr("sys._base_executable", None, raising=False)
    assert base_of_ours() == sys.executable
