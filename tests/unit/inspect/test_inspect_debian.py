"""Which package of the system brings what wheels need: found as the loader finds it, with tools that stand in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from binaries import make_elf, make_wheel
from rekindle.inspect import debian
from rekindle.inspect.debian import ask, find_library, listed_libraries, main, package_of, read_library, read_wheel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Debian is a Linux")
ARM, X86 = 183, 62


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system whose loader lists nothing and knows no places; ``dpkg`` knows what the file ``owners`` says."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ldconfig").write_text(f'#!/bin/sh\n[ "$1" = -p ] && cat "{tmp_path}/cache"\n', encoding="utf-8")
    (tools / "dpkg").write_text(f'#!/bin/sh\n[ "$1" = -S ] && grep -F ": $2" "{tmp_path}/owners"\n', encoding="utf-8")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    for name in ("cache", "owners"):
        (tmp_path / name).write_text("", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(debian, "_PLACES", (str(tmp_path / "last"),))
    return tmp_path


def library(path: Path, *needed: str, machine: int = X86, rpath: str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(make_elf(needed=needed, soname=path.name, machine=machine, rpath=rpath))
    return path


def wheel(folder: Path, *needed: str, rpath: str | None = None, requires: str = "", **others: bytes) -> Path:
    files = {"demo/x.so": make_elf(needed=needed, rpath=rpath), "demo/readme.txt": b"no library", "demo/y.so": b"text"}
    files |= {f"demo/{name}.so": data for name, data in others.items()}
    path = folder / "demo-1.0-py3-none-linux_x86_64.whl"
    metadata = f"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n{requires}\n".encode()
    path.write_bytes(make_wheel({**files, "other-1.0.dist-info/METADATA": metadata}))
    return path


def test_what_a_wheel_holds(place: Path) -> None:
    made = wheel(place, "libz.so.1", rpath="/opt/x", requires="Requires-Dist: numpy\nRequires-Dist: sympy>=1\n")
    libraries, requires = read_wheel(made)
    assert [(one.base, one.machine, one.needed, one.rpath) for one in libraries] == [
        ("x.so", "x86_64", ("libz.so.1",), ("/opt/x",))
    ]
    assert requires == ["numpy", "sympy>=1"]


def test_the_loaders_order(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the places that are told, then its list, then its own; a file for another machine is passed over."""
    told, listed, last = (library(place / name / "liba.so") for name in ("told", "listed", "last"))
    names = {"liba.so": [str(listed)]}
    assert find_library("liba.so", "x86_64", [str(told.parent)], names) == told
    assert find_library("liba.so", "x86_64", [], names) == listed
    assert find_library("liba.so", "x86_64", [], {}) == last
    assert find_library("libb.so", "x86_64", [str(told.parent)], names) is None
    monkeypatch.chdir(place)
    assert find_library("liba.so", "x86_64", ["told"], {}) == last, "a place that is no path from the root is none"
    library(told, machine=ARM)
    assert find_library("liba.so", "x86_64", [str(told.parent)], names) == listed
    assert find_library("liba.so", "aarch64", [str(told.parent)], names) == told
    told.write_bytes(b"\x7fELF broken")
    assert find_library("liba.so", "x86_64", [str(told.parent)], names) == listed
    assert list(read_library(Path(__file__), "x")) == []


def test_the_loaders_list(place: Path) -> None:
    (place / "cache").write_text(
        "2 libs found in cache\n\tliba.so.1 (libc6,x86-64) => /x/liba.so.1\n\tliba.so.1 (libc6) => /y/liba.so.1\n"
        "\tlibb.so (libc6,x86-64) => /x/libb.so\n",
        encoding="utf-8",
    )
    assert listed_libraries() == {"liba.so.1": ["/x/liba.so.1", "/y/liba.so.1"], "libb.so": ["/x/libb.so"]}


def test_a_package_knows_a_file_by_either_name(place: Path) -> None:
    """Where /lib became a link to /usr/lib, a package may list what it brought under the old name."""
    there = library(place / "liba.so")
    assert package_of(there) is None
    (place / "owners").write_text(f"libfirst:amd64, libsecond: {there}\n", encoding="utf-8")
    assert package_of(there) == "libfirst"
    (place / "owners").write_text(f"libmoved: /usr{there}\n", encoding="utf-8")
    assert package_of(there) == "libmoved"
    (place / "owners").write_text("libold: /lib/liba.so\n", encoding="utf-8")
    assert package_of(Path("/usr/lib/liba.so")) == "libold"


def test_packages_copies_and_what_they_need(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owned = library(place / "last" / "libowned.so", "libnever.so")
    loose = library(place / "opt" / "libloose.so", "libdeep.so")
    deep = library(place / "opt" / "libdeep.so")
    (place / "owners").write_text(f"libowned1: {owned}\n", encoding="utf-8")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(place / "opt"))
    found = ask([wheel(place, "libowned.so", "libloose.so", "libcuda.so.1", "inside.so", inside=make_elf())])
    assert found.packages == ("libowned1",)
    assert found.libraries == {"libdeep.so": deep, "libloose.so": loose, "libowned.so": owned}
    assert found.loose == {"libloose.so": loose, "libdeep.so": deep}, "what a copy needs comes along"


def test_a_librarys_own_places_count(place: Path) -> None:
    there = library(place / "mine" / "libmine.so")
    assert ask([wheel(place, "libmine.so", rpath=str(there.parent))]).libraries == {"libmine.so": there}
    # Those of a library that does not need it are nobody's.
    with pytest.raises(LookupError, match="libmine"):
        ask([wheel(place, "libmine.so", a=make_elf(rpath=str(there.parent)))])


def test_what_is_nowhere_is_told_with_its_users(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = wheel(place, "libnowhere.so", "liblost.so")
    with pytest.raises(LookupError, match=r"^liblost\.so \(needed by x\.so\); libnowhere\.so \(needed by x\.so\)$"):
        ask([made])
    assert main([str(place / "out"), str(made)]) == 1
    assert "the wheel needs what is not on this system: liblost.so" in capsys.readouterr().err
    assert not (place / "out").exists()
    required = wheel(place, "libcublas.so.12", requires="Requires-Dist: nvidia-cublas-cu12\n")
    assert main([str(place / "out"), str(required)]) == 0, "pip brings it"


def test_what_is_written(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    owned, loose = library(place / "last" / "libowned.so"), library(place / "opt" / "libloose.so")
    (place / "owners").write_text(f"libowned1: {owned}\n", encoding="utf-8")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(place / "opt"))
    out = place / "deep" / "out"
    assert main([str(out), str(wheel(place, "libowned.so"))]) == 0
    assert "copied" not in capsys.readouterr().out
    for _ in range(2):
        assert main([str(out), str(wheel(place, "libowned.so", "libloose.so"))]) == 0
    assert (out / "packages.txt").read_text() == "libowned1\n"
    assert (out / "libraries.txt").read_text() == f"libloose.so {loose}\nlibowned.so {owned}\n"
    assert [path.read_bytes() for path in (out / "libraries").iterdir()] == [loose.read_bytes()]
    said = capsys.readouterr().out
    assert "2 libraries from outside; packages: libowned1" in said
    assert "of no package, so copied: libloose.so" in said


def test_bad_words_and_bad_wheels(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main([str(place)]) == 2
    assert "usage:" in capsys.readouterr().err
    broken = place / "broken.whl"
    broken.write_bytes(b"no zip")
    assert main([str(place / "out"), str(broken)]) == main([str(place / "out"), str(place / "none.whl")]) == 1
