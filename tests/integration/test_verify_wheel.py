"""A wheel in a fresh environment, by each installer there is, in folders with awkward names."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import BadInput, Unprepared
from rekindle.host.live import LiveHost
from rekindle.verify import environment

pytestmark = pytest.mark.integration

CODE = """
import struct
__version__ = "0.3.0"
def config(): return "BUILD_TYPE=Release"
def cpu_capability(): return "DEFAULT"
def axpy(a, x, y): return [a * u + v for u, v in zip(x, y)]
def dot(x, y): return sum(u * v for u, v in zip(x, y))
def checksum(x): return sum(struct.unpack("<%dI" % len(x), struct.pack("<%df" % len(x), *x)))
def cuda_arch_list(): return []
"""


def wheel(folder: Path, requires: str = "", tag: str = "py3-none-any") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"spark_miniature-0.3.0-{tag}.whl"
    info = "spark_miniature-0.3.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("spark/__init__.py", CODE)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: spark-miniature\nVersion: 0.3.0\n{requires}"
        )
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def choose_installer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv, the pip beside us, or the environment's own."""
    if name != "uv":
        monkeypatch.setattr(LiveHost, "which", lambda self, program: None if program == "uv" else shutil.which(program))
    monkeypatch.setattr(environment, "our_pip_serves", lambda release: name == "ours")


@pytest.mark.parametrize("installer", ["uv", "ours", "own"])
def test_a_wheel_is_installed_tried_and_thrown_away(
    installer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if installer == "uv" and LiveHost().which("uv") is None:
        pytest.skip("needs uv on PATH")
    choose_installer(installer, monkeypatch)
    place = tmp_path / "plätze mit leer"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    report = api.verify(wheel=wheel(tmp_path / "räder #1 @hier, 100% & so"), dependencies=False)
    assert report.good and report.environment["spark"] == "0.3.0"
    assert list(place.iterdir()) == [], "the environment is gone"


def test_a_dependency_that_cannot_be_had_is_one_line(tmp_path: Path) -> None:
    broken = wheel(tmp_path, requires="Requires-Dist: no-such-package-anywhere-3141592\n")
    with pytest.raises(Unprepared) as error:
        api.verify(wheel=broken)
    assert error.value.exit_code == 2 and "no-such-package-anywhere" in error.value.message
    assert api.verify(wheel=broken, dependencies=False).good


def test_a_version_other_than_the_wheels_name_is_noticed(tmp_path: Path) -> None:
    lying = wheel(tmp_path).rename(tmp_path / "spark_miniature-0.3.1-py3-none-any.whl")
    with pytest.raises((Unprepared, BadInput)):
        api.verify(wheel=lying, dependencies=False)


def test_other_interpreters_get_their_own_environment(tmp_path: Path) -> None:
    others = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
    others = [path for path in others if not path.parent.parent.name.startswith(f"3.{sys.version_info[1]}.")]
    if not others:
        pytest.skip("no other Python versions on this machine")
    for python in (others[0], others[-1]):
        report = api.verify(wheel=wheel(tmp_path), python=str(python), dependencies=False)
        assert report.good and report.environment["python"] == python.parent.parent.name
