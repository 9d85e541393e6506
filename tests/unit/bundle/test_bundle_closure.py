"""Which libraries are brought, left and missed: the closure over synthetic files, without a wheel around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from binaries import make_elf, make_pe
from rekindle.bundle import collect as collecting
from rekindle.bundle.collect import Collection, collect, fold, read_native
from rekindle.bundle.rules import load_rules
from rekindle.errors import BadInput


def _collect(folder: Path, inside: dict[str, bytes], *places: Path, exclude: Sequence[str] = ()) -> Collection:
    libs = {}
    for member, data in inside.items():
        path = folder / "inside" / member
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if native := read_native(path):
            libs[member] = native
    return collect(libs, load_rules(), places, exclude=exclude, requires=())


def _lib(folder: Path, **files: bytes) -> Path:
    """``__`` stands for a dot in names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def test_a_wheel_of_two_systems_is_refused(tmp_path: Path) -> None:
    inside = {"pkg/a.so": make_elf(needed=["libx.so.1"]), "pkg/b.pyd": make_pe(imports=["x.dll"])}
    with pytest.raises(BadInput, match="libraries for both Linux and Windows"):
        _collect(tmp_path, inside)


def test_a_wheel_of_one_system_may_hold_many_libraries_or_none(tmp_path: Path) -> None:
    many = {f"pkg/{name}.so": make_elf(needed=["libc.so.6"]) for name in "abc"}
    found = _collect(tmp_path, many)
    assert list(found.left) == ["libc.so.6"] and found.left["libc.so.6"].needed_by == "a.so"
    assert _collect(tmp_path, {}) == Collection()


def test_what_is_in_the_wheel_is_not_looked_for_by_file_or_soname(tmp_path: Path) -> None:
    inside = {
        "pkg/a.so": make_elf(needed=["libown.so.1", "libfile.so"]),
        "pkg/libown-1.2.so": make_elf(soname="libown.so.1"),
        "pkg/deep/libfile.so": make_elf(),
    }
    lib = _lib(tmp_path / "lib", libown__so__1=make_elf(), libfile__so=make_elf())
    assert _collect(tmp_path, inside, lib) == Collection()


def test_case_counts_in_names_on_linux_only(tmp_path: Path) -> None:
    elf = {"pkg/a.so": make_elf(needed=["LIBOWN.so"]), "pkg/libown.so": make_elf()}
    assert list(_collect(tmp_path / "linux", elf).missing) == ["LIBOWN.so"]
    pe = {"pkg/a.pyd": make_pe(imports=["OWN.DLL"]), "pkg/own.dll": make_pe(imports=["kernel32.dll"])}
    assert not _collect(tmp_path / "windows", pe).missing
    assert [fold(name) for name in ("A.dll", "A.DLL", "_C.PYD", "A.so", "dll")] == [
        "a.dll", "a.dll", "_c.pyd", "A.so", "dll"
    ]  # fmt: skip


def test_the_first_place_wins_and_a_library_says_who_needs_it(tmp_path: Path) -> None:
    first = _lib(tmp_path / "first", libx__so__1=make_elf(needed=["liby.so.1"]))
    second = _lib(tmp_path / "second", libx__so__1=make_elf(), liby__so__1=make_elf(needed=["libz9.so"]))
    found = _collect(tmp_path, {"pkg/a.so": make_elf(needed=["libx.so.1"])}, first, second)
    assert {name: (lib.path.parent, lib.why) for name, lib in found.brought.items()} == {
        "libx.so.1": (first, "needed by a.so"),
        "liby.so.1": (second, "needed by libx.so.1"),
    }
    (lost,) = found.missing.values()
    assert (lost.name, lost.why, lost.needed_by) == ("libz9.so", "not found", "liby.so.1")


@pytest.mark.parametrize(
    ("pattern", "out"), [("libx.so.1", True), ("libx*", True), ("LIBX*", False), ("libx.so", False)]
)
def test_what_is_excluded_stays_outside(tmp_path: Path, pattern: str, out: bool) -> None:
    lib = _lib(tmp_path / "lib", libx__so__1=make_elf())
    found = _collect(tmp_path, {"pkg/a.so": make_elf(needed=["libx.so.1"])}, lib, exclude=["other", pattern])
    assert [left.why for left in found.left.values()] == ["excluded by --exclude"] * out
    assert list(found.brought) == ["libx.so.1"] * (not out)


def test_what_is_no_library_or_for_another_processor_is_passed_over(tmp_path: Path) -> None:
    script = _lib(tmp_path / "script", libx__so__1=b"INPUT(libx.so)")
    arm = _lib(tmp_path / "arm", libx__so__1=make_elf(machine=183))
    (tmp_path / "folder/libx.so.1").mkdir(parents=True)
    right = _lib(tmp_path / "right", libx__so__1=make_elf())
    inside = {"pkg/a.so": make_elf(needed=["libx.so.1"])}
    assert _collect(tmp_path, inside, script, arm, tmp_path / "folder", right).brought["libx.so.1"].path.parent == right
    assert list(_collect(tmp_path, inside, script, arm, tmp_path / "folder").missing) == ["libx.so.1"]


def test_what_one_library_opens_is_not_brought_for_another(tmp_path: Path) -> None:
    """Both lie in one folder: only who opens it by name brings it."""
    files = {"libcudnn_ops__so__9": make_elf(soname="libcudnn_ops.so.9"), "libcudnn__so__9": make_elf()}
    lib = _lib(tmp_path / "lib", libplain__so__1=make_elf(), **files)
    plain = _collect(tmp_path / "plain", {"pkg/a.so": make_elf(needed=["libplain.so.1"])}, lib)
    assert list(plain.brought) == ["libplain.so.1"]
    cudnn = _collect(tmp_path / "cudnn", {"pkg/a.so": make_elf(needed=["libcudnn.so.9"])}, lib)
    assert {name: lib.opened_by for name, lib in cudnn.brought.items()} == {
        "libcudnn.so.9": "", "libcudnn_ops.so.9": "libcudnn.so.9"
    }  # fmt: skip


def test_a_library_is_no_companion_of_its_own(tmp_path: Path) -> None:
    """nvJitLink is opened by others by a pattern that it matches itself, by the name of its file, too."""
    lib = _lib(tmp_path / "lib", libnvJitLink__so__12__4=make_elf())
    try:
        (lib / "libnvJitLink.so.12").symlink_to("libnvJitLink.so.12.4")
    except OSError:
        pytest.skip("no links here")
    if not (lib / "libnvJitLink.so.12").is_symlink():
        pytest.skip("no links here")
    found = _collect(tmp_path, {"pkg/a.so": make_elf(needed=["libnvJitLink.so.12"])}, lib)
    assert list(found.brought) == ["libnvJitLink.so.12"]


def test_what_is_opened_by_name_and_not_there_is_not_missed(tmp_path: Path) -> None:
    """It may be another processor's, or one release's only: the library runs without it or says so itself."""
    lib = _lib(tmp_path / "lib", libcudnn__so__9=make_elf(), libcudnn_adv__so__9=make_elf(machine=183))
    found = _collect(tmp_path, {"pkg/a.so": make_elf(needed=["libcudnn.so.9"])}, lib)
    assert list(found.brought) == ["libcudnn.so.9"] and not found.missing


def test_what_is_no_library_is_no_companion(tmp_path: Path) -> None:
    lib = _lib(tmp_path / "lib", libcudnn__so__9=make_elf(), libcudnn_notes__so__txt=b"text")
    found = _collect(tmp_path, {"pkg/a.so": make_elf(needed=["libcudnn.so.9"])}, lib)
    assert list(found.brought) == ["libcudnn.so.9"] and not found.left


def test_data_comes_along_where_it_is(tmp_path: Path) -> None:
    inside = {"pkg/a.so": make_elf(needed=["librocblas.so.4"])}
    lib = _lib(tmp_path / "lib", librocblas__so__4=make_elf())
    assert _collect(tmp_path, inside, lib).brought["librocblas.so.4"].data == ()
    (lib / "rocblas/library").mkdir(parents=True)
    expected = (("rocblas/library", lib / "rocblas/library"),)
    assert _collect(tmp_path, inside, lib).brought["librocblas.so.4"].data == expected


@pytest.mark.parametrize("ending", ["dll", "DLL", "Dll"])
def test_dlls_are_found_whatever_the_case_of_their_files(tmp_path: Path, ending: str) -> None:
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / f"Some.{ending}").write_bytes(make_pe(imports=["KERNEL32.dll"]))
    (bin / "other.dll").write_bytes(make_pe(imports=["KERNEL32.dll"]))
    found = _collect(tmp_path, {"pkg/a.pyd": make_pe(imports=["sOME.dll"])}, bin)
    assert found.brought["some.dll"].path.name.lower() == "some.dll"


def test_more_libraries_than_any_wheel_needs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "MAX_LIBRARIES", 3)
    lib = _lib(tmp_path / "lib", **{f"lib{name}__so": make_elf() for name in "wxyz"})
    inside = {"pkg/a.so": make_elf(needed=[f"lib{name}.so" for name in "xyz"])}
    assert len(_collect(tmp_path, inside, lib).brought) == 3
    inside = {"pkg/a.so": make_elf(needed=[f"lib{name}.so" for name in "wxyz"])}
    with pytest.raises(BadInput, match="more than 3 libraries; something is wrong"):
        _collect(tmp_path, inside, lib)
