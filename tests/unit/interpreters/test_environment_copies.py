"""An embeddable Python copied, a wheel laid out by hand, and what an interpreter already has."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput
from rekindle.host.protocol import Completed
from rekindle.interpreters import environment
from rekindle.interpreters.environment import (
    copy_embedded,
    is_embedded,
    make_environment,
    requirements,
    take_as_is,
    unpack_wheel,
)
from rekindle.interpreters.installer import InstallerRun
from rekindle.model.interpreter import Interpreter


@pytest.fixture
def embedded(tmp_path: Path) -> Interpreter:
    """One of ten bytes in three files, one of them in a folder."""
    home = tmp_path / "python"
    (home / "DLLs").mkdir(parents=True)
    for name, size in (("python.exe", 5), ("python312.zip", 3), ("DLLs/x.dll", 2)):
        (home / name).write_bytes(b"x" * size)
    return Interpreter(path=str(home / "python.exe"), version="3.12.4", system="win32")


def test_only_a_zipped_library_makes_it_an_embeddable_one(embedded: Interpreter) -> None:
    assert is_embedded(embedded)
    Path(embedded.path).with_name("python312.zip").unlink()
    assert not is_embedded(embedded)


def test_the_copy_is_an_environment(embedded: Interpreter, tmp_path: Path) -> None:
    home = Path(embedded.path).parent
    (home / "__pycache__").mkdir()
    (home / "python312._pth").write_text("../elsewhere", encoding="utf-8")
    exe, site = copy_embedded(embedded, tmp_path / "env")
    assert (exe, site) == (tmp_path / "env/python.exe", tmp_path / "env/Lib/site-packages") and site.is_dir()
    assert (tmp_path / "env/DLLs/x.dll").is_file() and not (tmp_path / "env/__pycache__").exists()
    assert (tmp_path / "env/python312._pth").read_text().splitlines()[0] == "python312.zip"
    (home / "Lib/site-packages/more").mkdir(parents=True)
    _, site = copy_embedded(embedded, tmp_path / "again")
    assert (site / "more").is_dir(), "what it had already comes along"


def test_what_is_too_large_for_one_is_not_copied(
    embedded: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (Path(embedded.path).parent / "huge").open("wb") as file:
        file.truncate((512 << 20) - 9)  # takes no space on the disk
    with pytest.raises(BadInput, match="holds 512 MiB"):
        copy_embedded(embedded, tmp_path / "env")
    assert not (tmp_path / "env").exists()
    (Path(embedded.path).parent / "huge").unlink()
    monkeypatch.setattr(environment, "_MOST_COPIED_BYTES", 10)
    assert copy_embedded(embedded, tmp_path / "env")[0].read_bytes() == b"xxxxx", "just as large as it may be"


def test_a_wheel_is_laid_out_and_each_file_is_told(tmp_path: Path) -> None:
    members = {
        "spark/": b"",
        "spark/a.py": b"12345",
        "spark\\deep/b.py": b"12",
        ".": b"no name",
        "spark-1.data/purelib/c.py": b"1",
        "spark-1.data/platlib/deep/d.py": b"1",
        "spark-1.data/purelib": b"no folder",
        "spark-1.data/scripts/tool": b"no",
        "spark-1.data/headers/spark/x.h": b"no",
        "spark-1.dist-info/METADATA": b"123",
    }
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    heard: list[tuple[int, str]] = []
    site = tmp_path / "new" / "site"
    unpack_wheel(tmp_path / "x.whl", site, lambda done, name: heard.append((done, Path(name).name)))
    laid = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert laid == {"spark/a.py", "spark/deep/b.py", "c.py", "deep/d.py", "spark-1.dist-info/METADATA"}
    assert heard == [(5, "a.py"), (7, "b.py"), (8, "c.py"), (9, "d.py"), (12, "METADATA")]
    unpack_wheel(tmp_path / "x.whl", site)
    assert (site / "spark/a.py").read_bytes() == b"12345", "once more over it"


class Holding(BareHost):
    """An interpreter with these packages."""

    def __init__(self, **versions: str) -> None:
        super().__init__()
        self.versions = versions

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        packages = [{"name": name, "version": version} for name, version in self.versions.items()]
        return Completed(argv=tuple(argv), code=0, out=json.dumps({"packages": packages}))


def test_a_preview_that_is_there_serves() -> None:
    python = Interpreter(path="/p", version="3.12.4")
    taken = take_as_is(Holding(torch="2.10.0a0", My_Tool="1"), python, ["torch>=2.9", "my-tool"])
    assert (taken.interpreter, taken.python) == (python, "/p")
    with pytest.raises(BadInput, match=r"Python 3\.12\.4 at /p lacks torch>=2\.11$"):
        take_as_is(Holding(torch="2.10.0a0"), python, ["torch>=2.11"])


def test_what_a_build_needs_is_named_once_and_in_order() -> None:
    assert requirements({}, [], pep517=True) == ("build", "setuptools", "wheel")
    assert requirements({"Wheel": "1.0"}, ["wheel>2", "My_Tool[x]"], pep517=False) == (
        "My_Tool[x]",
        "setuptools",
        "Wheel==1.0",
    )


@pytest.mark.parametrize("uv", [None, "/bin/uv"])
def test_an_environment_may_lie_in_a_folder_that_is_not_there_yet(tmp_path: Path, uv: str | None) -> None:
    folder = tmp_path / "a" / "b" / "env"

    def run(argv: list[str]) -> InstallerRun:
        assert folder.parent.is_dir() and argv[-1] == str(folder)
        return InstallerRun(argv=tuple(argv), code=0, lines=())

    for _ in range(2):
        assert make_environment("python", folder, run, uv=uv).ok
