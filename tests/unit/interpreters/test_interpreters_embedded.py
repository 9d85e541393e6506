"""Windows' embeddable Python as an environment: a copy, its paths, the wheel laid out as an installer would."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput, MissingTool
from rekindle.interpreters.environment import is_embedded, unpack_wheel
from rekindle.model.interpreter import Interpreter
from rekindle.model.progress import Silent
from rekindle.verify.environment import prepare_environment
from rekindle.verify.target import read_subject
from tiny_wheels import make_wheel


def _python(home: Path, system: str = "win32", machine: str = "AMD64") -> Interpreter:
    home.mkdir(parents=True)
    for name in ("python.exe", "python311.zip", "python311._pth", "python311.dll"):
        (home / name).write_bytes(name.encode())
    return Interpreter(
        path=str(home / "python.exe"), version="3.11.9", machine=machine, system=system, implementation="CPython"
    )


def test_what_is_an_embeddable_python(tmp_path: Path) -> None:
    python = _python(tmp_path / "a")
    assert is_embedded(python)
    assert not is_embedded(_python(tmp_path / "b", system="linux"))
    (tmp_path / "a" / "Lib" / "venv").mkdir(parents=True)
    assert not is_embedded(python), "a full one has venv"


def test_the_copy_finds_the_wheel_and_the_original_stays(tmp_path: Path) -> None:
    python = _python(tmp_path / "a b ü")
    wheel = make_wheel(
        tmp_path, "spark", "0.3.0", tag="py3-none-any",
        files={"spark/__init__.py": b"x = 1\n", "spark-0.3.0.data/platlib/more.py": b"y = 2\n",
               "spark-0.3.0.data/scripts/tool": b"no\n"},
    )  # fmt: skip
    exe = prepare_environment(
        BareHost("windows"), tmp_path / "env", python, read_subject(wheel), dependencies=False, progress=Silent()
    )
    assert exe == tmp_path / "env" / "python.exe" and exe.read_bytes() == b"python.exe"
    site = tmp_path / "env" / "Lib" / "site-packages"
    assert {p.relative_to(site).as_posix() for p in site.rglob("*.py")} == {"spark/__init__.py", "more.py"}
    assert not list(tmp_path.joinpath("env").rglob("tool"))
    paths = (tmp_path / "env" / "python311._pth").read_text().splitlines()
    assert paths == ["python311.zip", ".", r"Lib\site-packages", "import site"]
    assert (tmp_path / "a b ü" / "python311._pth").read_bytes() == b"python311._pth"


def test_without_pip_and_uv_dependencies_cannot_come(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "spark", "0.3.0", tag="py3-none-any", files={"spark/__init__.py": b""})
    with pytest.raises(MissingTool, match="embeddable Python") as caught:
        prepare_environment(BareHost("windows"), tmp_path / "env", _python(tmp_path / "a"), read_subject(wheel),
                         progress=Silent())  # fmt: skip
    assert "--no-deps" in (caught.value.remedy or "")


@pytest.mark.parametrize("name", ["../out.py", "/etc/out.py", "C:/out.py", "a\\..\\..\\out.py"])
def test_a_wheel_cannot_write_beside_its_folder(tmp_path: Path, name: str) -> None:
    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(name, b"x")
    (tmp_path / "deep" / "site").mkdir(parents=True)
    with pytest.raises(BadInput, match="leads out"):
        unpack_wheel(wheel, tmp_path / "deep" / "site")
    assert not list(tmp_path.rglob("out.py"))


def test_a_folder_that_is_more_than_a_python_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.interpreters.environment._MOST_COPIED_BYTES", 10)
    wheel = make_wheel(tmp_path, "spark", "0.3.0", tag="py3-none-any", files={"spark/__init__.py": b""})
    with pytest.raises(BadInput, match="more than an embeddable Python"):
        prepare_environment(BareHost("windows"), tmp_path / "env", _python(tmp_path / "a"), read_subject(wheel),
                         dependencies=False, progress=Silent())  # fmt: skip
    assert not (tmp_path / "env").exists()
