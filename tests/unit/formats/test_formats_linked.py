"""What libraries need of each other: names as each system compares them, and a library told by its first bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from binaries import make_elf, make_pe
from rekindle.formats.binary import map_binary, open_binary
from rekindle.formats.elf import Elf
from rekindle.formats.gitmodules import read_gitmodules
from rekindle.formats.linked import Linked, Needs, is_native, link_fields
from rekindle.formats.pe import Pe
from rekindle.formats.view import Malformed


def linux(file: str, *needed: str, soname: str | None = None) -> Linked:
    return Linked(file=file, format="elf", machine="x86_64", needed=needed, soname=soname)


def windows(file: str, *needed: str, delayed: tuple[str, ...] = (), forwards: tuple[str, ...] = ()) -> Linked:
    return Linked(file=file, format="pe", machine="x86_64", needed=needed, delayed=delayed, forwards=forwards)


@pytest.mark.parametrize(("file", "base"), [("a.so", "a.so"), ("t/lib/a.so", "a.so"), ("t/", "")])
def test_a_file_without_its_folders(file: str, base: str) -> None:
    assert linux(file).base == base


def test_each_wish_once_and_in_order() -> None:
    library = windows("a.dll", "x.dll", "y.dll", delayed=("z.dll", "x.dll"), forwards=("y.dll", "w"))
    assert library.wishes == ("x.dll", "y.dll", "z.dll", "w") and library.system == "windows"
    assert linux("a.so").wishes == () and linux("a.so").system == "linux"


def test_on_linux_names_are_exact() -> None:
    needs = Needs([linux("t/a.so", "libB.so", "libc.so.6"), linux("t/libb.so", "libc.so.6", soname="libB.so.1")])
    assert needs.users == {"libB.so": ["a.so"], "libc.so.6": ["a.so", "libb.so"]}
    assert needs.external == ["libB.so", "libc.so.6"]
    for name, brought in (("libb.so", True), ("libB.so.1", True), ("a.so", True), ("t/a.so", False), ("A.so", False)):
        assert needs.bundled(name) == brought
    assert Needs([]).external == [] and not Needs([]).bundled("a.so")


def test_on_windows_names_have_no_case() -> None:
    needs = Needs([windows("t/A.dll", "B.DLL", "KERNEL32.dll", delayed=("late.dll",)), windows("t/b.dll", "a.DLL")])
    assert needs.external == ["KERNEL32.dll", "late.dll"]
    assert needs.users["late.dll"] == ["A.dll"]
    assert needs.bundled("a.dll") and needs.bundled("B.Dll") and not needs.bundled("c.dll")
    assert Needs([windows("a.dll"), linux("b.so")]).bundled("B.SO"), "one of them is enough"


@pytest.mark.parametrize(
    ("name", "native"),
    [("a.so", True), ("a.so.1.2", True), ("A.DLL", True), ("m.pyd", True), ("t.exe", True), ("demo/bin/ptxas", True),
     ("bin/nvcc", True), ("a.py", False), ("a.so.txt~", False), ("bin/a.py", False), ("cabin/x", False),
     ("a.so/b", False)],
)  # fmt: skip
def test_names_of_machine_code(name: str, native: bool) -> None:
    assert is_native(name) == native


def test_the_fields_of_a_file() -> None:
    image = make_elf(needed=["libc.so.6"], soname="me.so", rpath="$ORIGIN")
    fields = {"format": "elf", "machine": "x86_64", "needed": ("libc.so.6",), "delayed": (), "soname": "me.so"}
    assert link_fields(Elf(image)) == fields | {"rpath": ("$ORIGIN",)}
    dll = link_fields(Pe(make_pe(imports=["kernel32.dll"])))
    assert (dll["format"], dll["needed"], dll["soname"], dll["rpath"]) == ("pe", ("kernel32.dll",), None, ())


def test_a_library_by_its_first_bytes(tmp_path: Path) -> None:
    for name, content, kind in (("a.dll", make_elf(), Elf), ("b.so", make_pe(), Pe)):
        assert type(open_binary(content, name)) is kind
        (tmp_path / name).write_bytes(content)
        with map_binary(tmp_path / name) as read:
            assert type(read) is kind and read.machine == "x86_64" and read.view.what == name
    for content in (b"", b"\x7fEL", b"M", b"#!/bin/sh\n", b"/* GNU ld script */"):
        assert open_binary(content, "x") is None
        (tmp_path / "x").write_bytes(content)
        with map_binary(tmp_path / "x") as none:
            assert none is None
    with pytest.raises(Malformed, match="x"):
        open_binary(b"\x7fELF", "x")
    with pytest.raises(Malformed, match="x"):
        open_binary(b"MZ", "x")


def test_a_submodule_without_a_path_is_none() -> None:
    assert read_gitmodules('[submodule "a"]\npath =\nurl = u\n[submodule "b"]\n\tpath = b\n\turl\n') == {"b": None}


def test_a_submodule_named_twice_is_what_it_was_named_last() -> None:
    text = '[submodule "a"]\npath = a\nurl = u\nurl = v\n[submodule "a"]\npath = c\n'
    assert read_gitmodules(text) == {"c": "v"}
