"""Packages that changed can be put back exactly, and those of the system are never touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.interpreters.kept_places import KeptPlaces
from rekindle.interpreters.packages import package_places


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    place = tmp_path / "site-packages"
    (place / "tiny").mkdir(parents=True)
    (place / "tiny" / "__init__.py").write_text("version = 1\n", encoding="utf-8")
    (place / "other.py").write_text("x = 1\n", encoding="utf-8")
    (place / "link.py").symlink_to("other.py")
    return place


def change(place: Path) -> None:
    """As installers do: the old file goes, a new one comes."""
    (place / "tiny" / "__init__.py").unlink()
    (place / "tiny" / "__init__.py").write_text("version = 2\n", encoding="utf-8")
    (place / "new.py").write_text("", encoding="utf-8")
    (place / "other.py").unlink()


def test_what_was_installed_since_is_taken_back(packages: Path) -> None:
    before = contents(packages)
    snapshot = KeptPlaces([packages])
    snapshot.keep()
    change(packages)
    snapshot.restore()
    assert contents(packages) == before
    assert (packages / "link.py").is_symlink()
    assert os.listdir(packages.parent) == ["site-packages"]


def test_what_stays_leaves_no_copies(packages: Path) -> None:
    snapshot = KeptPlaces([packages])
    snapshot.keep()
    change(packages)
    snapshot.forget()
    assert (packages / "tiny" / "__init__.py").read_text() == "version = 2\n"
    assert os.listdir(packages.parent) == ["site-packages"]
    snapshot.restore()
    assert (packages / "tiny" / "__init__.py").read_text() == "version = 2\n"


def test_files_are_linked_where_that_is_possible_and_copied_elsewhere(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KeptPlaces([packages]).keep()
    assert (packages / "other.py").stat().st_nlink == 2

    def refuse(*_words: object, **_more: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    before = contents(packages)
    snapshot = KeptPlaces([packages])
    snapshot.keep()
    change(packages)
    snapshot.restore()
    assert contents(packages) == before


def test_an_environment_has_packages_and_scripts(tmp_path: Path) -> None:
    env = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
    places = package_places(LiveHost(), str(env / "bin" / "python"))
    assert [place.name for place in places] == ["site-packages", "bin"]


@pytest.mark.parametrize("answer", ["[true, '{0}', '{0}', '/none']", "[false, '{0}/none', '{0}/none', '/none']"])
def test_packages_of_the_system_are_refused(tmp_path: Path, answer: str) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "{answer.format(tmp_path)}" | tr "\'" \'"\'\n', encoding="utf-8")
    python.chmod(0o755)
    with pytest.raises(BadInput, match="belong to the system"):
        package_places(LiveHost(), str(python))


def test_a_python_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not answer"):
        package_places(LiveHost(), str(tmp_path / "none"))


def test_the_scripts_of_a_python_that_is_no_environment_are_left_alone(tmp_path: Path) -> None:
    for name in ("lib/site-packages", "bin"):
        (tmp_path / name).mkdir(parents=True)
    python = tmp_path / "python"
    lib, scripts = tmp_path / "lib" / "site-packages", tmp_path / "bin"
    python.write_text(f'#!/bin/sh\necho \'[false, "{lib}", "{lib}", "{scripts}"]\'\n', encoding="utf-8")
    python.chmod(0o755)
    assert package_places(LiveHost(), str(python)) == [lib]
    (tmp_path / "pyvenv.cfg").touch()
    assert package_places(LiveHost(), str(python)) == [lib, scripts]
    scripts.rmdir()
    assert package_places(LiveHost(), str(python)) == [lib]


def test_several_places_are_put_back_together(packages: Path, tmp_path: Path) -> None:
    other = tmp_path / "bin"
    other.mkdir()
    (other / "tool").write_text("1", encoding="utf-8")
    snapshot = KeptPlaces([packages, other])
    snapshot.keep()
    change(packages)
    (other / "tool").unlink()
    snapshot.restore()
    assert (other / "tool").read_text() == "1" and (packages / "other.py").is_file()
    assert sorted(os.listdir(tmp_path)) == ["bin", "site-packages"]
