"""Links of several libraries put together, findings at their limits, sources that read alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from binaries import make_elf
from rekindle.errors import BadInput
from rekindle.formats.binary import open_binary
from rekindle.formats.linked import is_native
from rekindle.inspect import reader
from rekindle.inspect.gpu import GpuSurvey
from rekindle.inspect.libraries import Library, join_links, link_findings, newest
from rekindle.inspect.reader import DirectorySource, FileSource, open_local
from rekindle.model.wheel import External, LibraryLinks, Links


def library(file: str, **more: object) -> Library:
    fields = {"format": "elf", "machine": "x86_64", "gpu": GpuSurvey(file), "floors": {}, **more}
    return Library(file=file, **fields)  # type: ignore[arg-type]


def test_what_is_brought_and_what_is_not() -> None:
    one = library("p/lib/a.so", needed=("libb.so.1", "libc.so.6", "B.so"), soname="liba.so.1", rpath=("$ORIGIN",))
    two = library("p/lib/b.so", needed=("liba.so.1", "libc.so.6"), soname="libb.so.1")
    found = join_links([one, two])
    assert found.needed == ("B.so", "liba.so.1", "libb.so.1", "libc.so.6")
    assert found.bundled == ("liba.so.1", "libb.so.1")
    assert found.external == ("B.so", "libc.so.6")
    assert [(row.library, row.needed_by) for row in found.sources] == [
        ("B.so", ("a.so",)),
        ("libc.so.6", ("a.so", "b.so")),
    ]
    assert found.libraries[0].missing == ("libc.so.6", "B.so")
    assert (found.libraries[0].soname, found.libraries[0].rpath) == ("liba.so.1", ("$ORIGIN",))


def test_windows_knows_no_case() -> None:
    one = library("p/A.dll", format="pe", needed=("b.DLL",), delayed=("c.dll",))
    found = join_links([one, library("p/B.dll", format="pe")])
    assert (found.bundled, found.external) == (("b.DLL",), ("c.dll",))
    assert (found.libraries[0].needed, found.libraries[0].missing) == (("b.DLL", "c.dll"), ())


def test_the_newest_floor_and_the_face() -> None:
    rows = [
        library("libtorch.so", floors={"GLIBC": "2.9", "GLIBCXX": "3.4.5"}, cxx_abi="cxx11"),
        library("x.so", floors={"GLIBC": "2.17"}, cxx_abi="pre-cxx11"),
        library("y.so", cxx_abi="pre-cxx11"),
    ]
    found = join_links(rows, platform="manylinux_2_17_x86_64")
    assert (found.glibc, found.glibcxx, found.cxx_abi) == ("2.17", "3.4.5", "cxx11")
    assert (found.manylinux_claim, found.manylinux_fact) == ("manylinux_2_17_x86_64", "manylinux_2_17_x86_64")
    assert join_links(rows[1:]).cxx_abi == "pre-cxx11"
    assert join_links(rows, platform="linux_x86_64").manylinux_claim is None
    mixed = join_links([*rows, library("z.so", machine="aarch64")])
    assert mixed.manylinux_fact is None
    none = join_links([library("z.so")])
    assert (none.glibc, none.cxx_abi, none.manylinux_fact) == (None, None, None)
    assert newest([]) is None


def row(glibc: str | None, *rpath: str) -> LibraryLinks:
    return LibraryLinks(file="a/b.so", glibc=glibc, rpath=rpath)


def test_a_promise_at_its_limit() -> None:
    def codes(glibc: str, platform: str | None) -> list[str]:
        return [one.code for one in link_findings(Links(glibc=glibc, libraries=(row("2.1"), row(glibc))), platform)]

    assert codes("2.17", "manylinux_2_17_x86_64") == []
    assert codes("2.18", "manylinux_2_17_x86_64") == ["manylinux-claim"]
    assert codes("2.9", "manylinux_2_17_x86_64") == []
    assert codes("2.18", None) == []
    assert codes("2.18", "linux_x86_64") == []
    (found,) = link_findings(Links(glibc="2.18", libraries=(row("2.18"),)), "manylinux_2_17_x86_64")
    assert found.text == "the tag manylinux_2_17_x86_64 promises glibc 2.17, but b.so needs 2.18"


def test_libraries_nobody_brings() -> None:
    sources = (
        External(library="LibOMP140.x86_64.dll", needed_by=("a",), package="Visual C++"),
        External(library="odd.so", needed_by=("a", "b", "c", "d")),
        External(library="libc.so.6", needed_by=("a",), package="glibc", system=True),
    )
    found = link_findings(Links(sources=sources), None)
    assert [(one.code, one.severity) for one in found] == [("missing-dll", "error"), ("unknown-library", "warning")]
    assert found[0].text == "LibOMP140.x86_64.dll is missing: Visual C++"
    assert found[1].text == "odd.so (needed by a, b, c) is not in the wheel"


@pytest.mark.parametrize(
    ("path", "found"),
    [("/opt/x", True), ("$ORIGIN/../lib", False), ("/usr/lib/x", False), ("/lib64", False), ("/usr/local", True)],
)
def test_paths_of_the_builders_machine(path: str, found: bool) -> None:
    rows = link_findings(Links(libraries=(row(None, path),)), None)
    assert [one.text for one in rows] == ([f"a/b.so looks for libraries in {path}"] if found else [])


@pytest.mark.parametrize(
    ("name", "native"),
    [("a.so", True), ("a.so.1.2", True), ("a.SO", True), ("a.dll", True), ("a.pyd", True), ("x/bin/tool", True),
     ("bin/tool", True), ("x/bin/tool.txt", False), ("xbin/tool", False), ("a.sox", False), ("a.py", False)],
)  # fmt: skip
def test_native_files_by_name(name: str, native: bool) -> None:
    assert is_native(name) is native


def test_a_folder_and_a_file_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elf = make_elf({})
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "a.so").write_bytes(elf)
    (tmp_path / "two" / "b.txt").write_bytes(b"12345")
    (tmp_path / "two" / "empty").write_bytes(b"")
    (tmp_path / "two" / "link").symlink_to(tmp_path / "two" / "b.txt")
    folder = open_local(tmp_path)
    assert isinstance(folder, DirectorySource)
    assert folder.files == {"one/a.so": len(elf), "two/b.txt": 5, "two/empty": 0}
    assert (folder.size, folder.kind, folder.label) == (len(elf) + 5, "directory", str(tmp_path))
    some = DirectorySource(tmp_path, "torch", ["two"])
    assert (sorted(some.files), some.kind, some.label) == (["two/b.txt", "two/empty"], "installed", "torch")
    assert (folder.read("two/b.txt", 5), folder.read("two/b.txt", 4), folder.read("two/no", 9)) == (
        b"12345",
        None,
        None,
    )
    assert list(folder.heads(["two/no", "two/b.txt"], 2)) == [("two/b.txt", b"12")]
    with folder.mapped("two/b.txt") as data, folder.mapped("two/empty") as nothing:
        assert (bytes(data[:]), nothing) == (b"12345", b"")
    file = open_local(tmp_path / "one" / "a.so")
    assert isinstance(file, FileSource)
    assert (file.files, file.read("a.so", len(elf)), file.read("a.so", len(elf) - 1), file.read("b.so", 9)) == (
        {"a.so": len(elf)}, elf, None, None,
    )  # fmt: skip
    assert list(file.heads(["a.so"], 4)) == [("a.so", b"\x7fELF")]
    monkeypatch.setattr(reader, "MAX_FILES", 3)
    assert len(DirectorySource(tmp_path).files) == 3
    monkeypatch.setattr(reader, "MAX_FILES", 2)
    with pytest.raises(BadInput, match="more than 2 files"):
        DirectorySource(tmp_path)
    with pytest.raises(BadInput, match="cannot read"):
        open_local(tmp_path / "nowhere")
    assert open_binary(b"#!/bin/sh", "x") is None


def test_the_kind_of_c_plus_plus_is_asked_of_those_that_tell() -> None:
    rows = [library("a.so"), library("b.so"), library("c.so", cxx_abi="cxx11")]
    assert join_links(rows).cxx_abi == "cxx11"


def test_the_library_that_breaks_the_promise_is_named() -> None:
    fine, bad = LibraryLinks(file="p/fine.so", glibc="2.5"), LibraryLinks(file="p/bad.so", glibc="2.28")
    (found,) = link_findings(Links(glibc="2.28", libraries=(fine, bad)), "manylinux_2_17_x86_64")
    assert "but bad.so needs 2.28" in found.text
