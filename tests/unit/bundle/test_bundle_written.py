"""What a fat wheel holds, byte by byte: search paths, tags, rights, data, room on the disk."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binaries import make_elf, make_entry, make_fatbin
from rekindle.bundle.fat import BundleOrder, make_fat, new_path, reaches
from rekindle.bundle.rules import load_rules
from rekindle.errors import BadInput, StageFailed
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Disk
from rekindle.model.arch import Sm
from rekindle.model.build import BundleReport
from rekindle.model.progress import Silent
from tiny_wheels import make_wheel

TAG = "cp311-cp311-linux_x86_64"
Setter = Callable[[Path, str], None]


def _bundle(
    wheel: Path, out: Path, *places: Path, set_path: Setter = lambda path, text: None, **more: Any
) -> BundleReport:
    order = BundleOrder(wheel=wheel, out=out, places=places, rules=load_rules(), set_path=set_path, **more)
    return make_fat(order, Silent())


def _read(report: BundleReport) -> dict[str, bytes]:
    with zipfile.ZipFile(report.out or "") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _lib(folder: Path, **files: bytes) -> Path:
    """``__`` stands for a dot in names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def _wheel(folder: Path, files: dict[str, bytes], **more: Any) -> Path:
    return make_wheel(folder, "pkg", "1.0", tag=TAG, files=files, **more)


def _append(path: Path, text: str) -> None:
    """In place of patchelf: what it is told stands behind the file."""
    with path.open("ab") as file:
        file.write(f"|{text}".encode())


def test_a_library_is_told_where_the_brought_ones_lie(tmp_path: Path) -> None:
    """Only those that ask for one and would not find it; brought ones look beside themselves."""
    lib = _lib(
        tmp_path / "lib",
        libx__so__1=make_elf(needed=["liby.so.1"]),
        liby__so__1=make_elf(rpath="$ORIGIN/sub:$ORIGIN"),
    )
    inside = {
        "pkg/__init__.py": b"",
        "pkg/asks.so": make_elf(needed=["libx.so.1"], rpath="/build:$ORIGIN/own"),
        "pkg/finds.so": make_elf(needed=["libx.so.1"], rpath="$ORIGIN/../pkg.libs:/build"),
        "pkg/alone.so": make_elf(needed=["libc.so.6"], rpath="/build"),
    }
    report = _bundle(_wheel(tmp_path, inside), tmp_path / "out", lib, set_path=_append)
    made = _read(report)
    assert made["pkg/asks.so"] == inside["pkg/asks.so"] + b"|$ORIGIN/../pkg.libs:$ORIGIN/own"
    assert made["pkg/finds.so"] == inside["pkg/finds.so"] and made["pkg/alone.so"] == inside["pkg/alone.so"]
    assert made["pkg.libs/libx.so.1"] == (lib / "libx.so.1").read_bytes() + b"|$ORIGIN"
    assert made["pkg.libs/liby.so.1"] == (lib / "liby.so.1").read_bytes(), "it has the path already"
    assert report.patched == ("pkg/asks.so",)
    with zipfile.ZipFile(report.out or "") as archive:
        rights = {info.filename: (info.external_attr >> 16) & 0o777 for info in archive.infolist()}
    assert rights["pkg.libs/libx.so.1"] == rights["pkg.libs/liby.so.1"] == 0o755
    assert rights["pkg-1.0.dist-info/WHEEL"] == 0o644


@pytest.mark.parametrize(
    ("members", "where"),
    [
        (["pkg/a.so"], "pkg.libs"),
        (["a.so"], "pkg.libs"),
        (["pkg/lib/a.so"], "pkg/lib"),
        (["pkg/lib/a.so", "other/lib/a.so"], "other/lib"),
        (["aaa/lib/a.so", "torch/lib/a.so"], "torch/lib"),
        (["pkg/mylib/a.so"], "pkg.libs"),
    ],
)
def test_where_the_libraries_go(tmp_path: Path, members: list[str], where: str) -> None:
    lib = _lib(tmp_path / "lib", libx__so__1=make_elf())
    wheel = _wheel(tmp_path, {name: make_elf(needed=["libx.so.1"]) for name in members})
    (row,) = _bundle(wheel, tmp_path / "out", lib).brought
    assert row.file == f"{where}/libx.so.1"


@pytest.mark.parametrize(
    ("member", "entry", "there"),
    [
        ("pkg/a.so", "$ORIGIN/../pkg.libs", True),
        ("pkg/a.so", "${ORIGIN}/../pkg.libs/", True),
        ("a.so", "$ORIGIN/pkg.libs", True),
        ("pkg/a.so", "$ORIGIN", False),
        ("pkg/a.so", "pkg.libs", False),
    ],
)
def test_a_search_path_reaches_a_folder_or_does_not(member: str, entry: str, there: bool) -> None:
    assert reaches(member, (entry,), "pkg.libs") == there
    assert reaches(member, ("$ORIGIN/other", entry), "pkg.libs") == there, "another folder of the wheel may come first"
    assert not reaches(member, ("/outside", entry), "pkg.libs")


def test_a_new_search_path_leads_to_each_folder_once() -> None:
    assert new_path("a.so", ("/x",), "pkg.libs") == "$ORIGIN/pkg.libs"
    old = ("${ORIGIN}/../pkg.libs", "$ORIGIN", "/build", "$ORIGIN")
    assert new_path("pkg/a.so", old, "pkg.libs") == "$ORIGIN/../pkg.libs:$ORIGIN"


@pytest.mark.parametrize(
    ("file", "tag", "made"),
    [
        (f"pkg-1.0-{TAG}.whl", "1fat", f"pkg-1.0-1fat-{TAG}.whl"),
        (f"pkg-1.0-3-{TAG}.whl", "3fat", f"pkg-1.0-3fat-{TAG}.whl"),
        (f"pkg-1.0-12abc-{TAG}.whl", "12abcfat", f"pkg-1.0-12abcfat-{TAG}.whl"),
    ],
)
def test_the_build_tag_grows_in_name_and_content(tmp_path: Path, file: str, tag: str, made: str) -> None:
    told = f"Wheel-Version: 1.0\n\nTag: {TAG}\nBuild: 3\n\n".encode()
    wheel = _wheel(tmp_path, {"pkg/__init__.py": b""}, file=file, unlisted={"pkg-1.0.dist-info/WHEEL": told})
    report = _bundle(wheel, tmp_path / "out")
    assert Path(report.out or "").name == made
    assert _read(report)["pkg-1.0.dist-info/WHEEL"].decode() == f"Wheel-Version: 1.0\nTag: {TAG}\nBuild: {tag}\n"


def test_a_name_that_says_no_tags_is_refused(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, {"pkg/__init__.py": b""}, file="pkg-1.0.whl")
    with pytest.raises(BadInput):
        _bundle(wheel, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_wheel_that_brings_nothing_has_no_bill(tmp_path: Path) -> None:
    inside = {"pkg/__init__.py": b"x = 1\n", "pkg/a.so": make_elf(needed=["libc.so.6"])}
    report = _bundle(_wheel(tmp_path, inside), tmp_path / "out", archs=())
    made = _read(report)
    assert {name for name in made if ".dist-info" in name} == {
        f"pkg-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")
    }
    assert all(made[name] == data for name, data in inside.items()) and not report.patched and not report.trimmed


def test_the_wheel_itself_is_never_replaced(tmp_path: Path) -> None:
    """A second run on a fat wheel makes another name; a link to the wheel under that name is the wheel itself."""
    wheel = _wheel(tmp_path, {"pkg/__init__.py": b""})
    before = wheel.read_bytes()
    target = tmp_path / f"pkg-1.0-1fat-{TAG}.whl"
    try:
        target.symlink_to(wheel.name)
    except OSError:
        pytest.skip("no links here")
    if not target.is_symlink():
        pytest.skip("no links here")
    with pytest.raises(BadInput, match="is the wheel itself"):
        _bundle(wheel, tmp_path)
    assert wheel.read_bytes() == before and target.is_symlink()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".bundle-")]


@pytest.mark.parametrize("free", [-1, 0, 1, None])
def test_a_disk_must_hold_the_wheel_again_and_its_largest_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int | None
) -> None:
    """The largest of those in the wheel and those that come: here the one that comes."""
    lib = _lib(tmp_path / "lib", libx__so__1=make_elf({".text": bytes(3000)}))
    wheel = _wheel(tmp_path, {"pkg/data.bin": bytes(9000), "pkg/a.so": make_elf(needed=["libx.so.1"])})
    need = wheel.stat().st_size + (lib / "libx.so.1").stat().st_size
    disk = None if free is None else Disk(total=1 << 40, free=need + free)
    monkeypatch.setattr(LiveHost, "disk", lambda self, path: disk if path == str(tmp_path / "out") else None)
    if free == -1:
        with pytest.raises(BadInput, match=r"bundle needs at least .* are free there") as refused:
            _bundle(wheel, tmp_path / "out", lib)
        assert "write to another disk with --out DIR" in (refused.value.remedy or "")
        assert not list((tmp_path / "out").iterdir())
    else:
        assert _bundle(wheel, tmp_path / "out", lib).out
    assert _bundle(wheel, tmp_path / "out", lib, dry_run=True).brought, "a dry run needs no room"


def test_a_library_in_the_wheel_needs_room_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = make_elf({".text": bytes(3000)})
    wheel = _wheel(tmp_path, {"pkg/a.so": library, "pkg/b.so": make_elf()})
    need = wheel.stat().st_size + len(library)
    monkeypatch.setattr(LiveHost, "disk", lambda self, path: Disk(total=1 << 40, free=need - 1))
    with pytest.raises(BadInput, match="bundle needs at least"):
        _bundle(wheel, tmp_path / "out")
    monkeypatch.setattr(LiveHost, "disk", lambda self, path: Disk(total=1 << 40, free=need))
    assert _bundle(wheel, tmp_path / "out").out


def test_a_wheel_without_libraries_needs_room_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = _wheel(tmp_path, {"pkg/__init__.py": b""})
    monkeypatch.setattr(LiveHost, "disk", lambda self, path: Disk(total=1 << 40, free=wheel.stat().st_size))
    assert _bundle(wheel, tmp_path / "out").out


def test_a_folder_that_cannot_be_cleared_does_not_spoil_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virus scanner or a network's disk may hold a file a little longer; the next run takes it away."""
    real = os.rmdir

    def busy(path: Any, *args: Any, **options: Any) -> None:
        if Path(path).name.startswith(".bundle-"):
            raise OSError(errno.EBUSY, "busy")
        real(path, *args, **options)

    monkeypatch.setattr(os, "rmdir", busy)
    report = _bundle(_wheel(tmp_path, {"pkg/__init__.py": b""}), tmp_path / "out")
    assert zipfile.is_zipfile(report.out or "")


def test_the_largest_parts_are_told_first_and_only_ten(tmp_path: Path) -> None:
    noise = bytes((n * 167 + n // 256 * 31) % 251 for n in range(4096))
    files = {f"pkg/{number:02}.bin": noise * number + bytes([number]) for number in range(12)}
    report = _bundle(_wheel(tmp_path, files, compression=zipfile.ZIP_STORED), tmp_path / "out")
    assert [part.file for part in report.biggest] == [f"pkg/{number:02}.bin" for number in range(11, 1, -1)]
    assert report.biggest[0].bytes == 11 * 4096 + 1 and report.bytes_after == Path(report.out or "").stat().st_size


def test_several_libraries_that_are_nowhere(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, {"pkg/a.so": make_elf(needed=["libx.so.1", "liby.so.1"])})
    with pytest.raises(StageFailed) as failed:
        _bundle(wheel, tmp_path / "out")
    assert "2 libraries are nowhere to be found, first libx.so.1 (needed by a.so)" in str(failed.value)
    assert "--library-path DIR" in (failed.value.remedy or "")


def test_device_code_of_other_cards_goes_from_what_comes_in_too(tmp_path: Path) -> None:
    code = make_fatbin([make_entry(2, 50, payload=b"\1" * 800), make_entry(2, 86)])
    lib = _lib(tmp_path / "lib", libx__so__1=make_elf({".nv_fatbin": code}), liby__so__1=make_elf())
    wheel = _wheel(tmp_path, {"pkg/a.so": make_elf(needed=["libx.so.1", "liby.so.1"])})
    report = _bundle(wheel, tmp_path / "out", lib, archs=(Sm(8, 6),))
    (row,) = report.trimmed
    assert (row.file, row.archs, row.bytes) == ("pkg.libs/libx.so.1", ("sm_50",), 864)
    whole = _bundle(wheel, tmp_path / "whole", lib)
    assert not whole.trimmed and _read(whole)["pkg.libs/libx.so.1"] == (lib / "libx.so.1").read_bytes()


def test_device_code_of_other_cards_goes_from_what_was_there(tmp_path: Path) -> None:
    """What the report says was taken out is zeros in the wheel."""
    code = make_fatbin([make_entry(2, 50, payload=b"\1" * 800), make_entry(2, 86, payload=b"\2" * 80)])
    inside = {"pkg/a.so": make_elf({".nv_fatbin": code}), "pkg/b.so": make_elf()}
    report = _bundle(_wheel(tmp_path, inside), tmp_path / "out", archs=(Sm(8, 6),))
    made = _read(report)
    assert [(row.file, row.bytes) for row in report.trimmed] == [("pkg/a.so", 864)] and not report.patched
    assert len(made["pkg/a.so"]) == len(inside["pkg/a.so"])
    assert b"\1" * 8 not in made["pkg/a.so"] and b"\2" * 80 in made["pkg/a.so"]
    assert made["pkg/b.so"] == inside["pkg/b.so"]


def test_a_library_that_was_kept_whole_is_told_and_copied(tmp_path: Path) -> None:
    damaged = bytearray(make_fatbin([make_entry(2, 50), make_entry(2, 86)]))
    damaged[16 + 8 : 16 + 16] = (1 << 40).to_bytes(8, "little")
    inside = {"pkg/a.so": make_elf({".nv_fatbin": bytes(damaged)})}
    report = _bundle(_wheel(tmp_path, inside), tmp_path / "out", archs=(Sm(8, 6),))
    (row,) = report.trimmed
    assert row.file == "pkg/a.so" and row.kept_whole and row.bytes == 0
    assert _read(report)["pkg/a.so"] == inside["pkg/a.so"] and not report.patched
    with zipfile.ZipFile(report.out or "") as archive:
        assert archive.getinfo("pkg/a.so").date_time[0] == 2020, "not written anew"


def test_data_beside_and_above_a_library_keeps_its_place_relative_to_it(tmp_path: Path) -> None:
    lib = _lib(tmp_path / "rocm/lib", libMIOpen__so__1=make_elf())
    (tmp_path / "rocm/share/miopen/db/deep").mkdir(parents=True)
    (tmp_path / "rocm/share/miopen/db/deep/a.db").write_bytes(b"rows")
    report = _bundle(_wheel(tmp_path, {"pkg/lib/a.so": make_elf(needed=["libMIOpen.so.1"])}), tmp_path / "out", lib)
    made = _read(report)
    assert made["pkg/share/miopen/db/deep/a.db"] == b"rows" and "pkg/lib/libMIOpen.so.1" in made


def test_the_report_counts_what_lies_on_the_disk(tmp_path: Path) -> None:
    lib = _lib(tmp_path / "lib", libx__so__1=make_elf())
    wheel = _wheel(tmp_path, {"pkg/a.so": make_elf(needed=["libx.so.1"])})
    for dry_run in (True, False):
        report = _bundle(wheel, tmp_path / "out", lib, dry_run=dry_run, set_path=_append)
        (row,) = report.brought
        size = (lib / "libx.so.1").stat().st_size
        assert row.bytes == size + len("|$ORIGIN") * (not dry_run), "as it lies in the wheel"
        assert (row.origin, row.licence) == (str(lib / "libx.so.1"), None)
        assert report.bytes_before == wheel.stat().st_size and report.wheel == str(wheel)
    bill = json.loads(_read(report)["pkg-1.0.dist-info/sboms/rekindle-bundle.cdx.json"])
    assert [part["name"] for part in bill["components"]] == ["libx.so.1"]


def test_a_folder_of_a_wheel_is_no_file(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, {"pkg/__init__.py": b""}, unlisted={"pkg/empty/": b""})
    assert "pkg/empty/" not in _read(_bundle(wheel, tmp_path / "out"))


class Listening(Silent):
    """``done`` of ``total`` as it is told while the wheel is written."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float, float | None]] = []

    def stage(self, name: str, detail: str = "") -> None:
        self.told.append((f"{name} {detail}", 0, None))

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        self.told.append((detail, done, total))


def test_each_step_is_counted_once(tmp_path: Path) -> None:
    lib = _lib(tmp_path / "lib", libx__so__1=make_elf(), liby__so__1=make_elf())
    wheel = _wheel(tmp_path, {"pkg/a.so": make_elf(needed=["libx.so.1", "liby.so.1"]), "pkg/b.so": make_elf()})
    progress = Listening()
    order = BundleOrder(
        wheel=wheel, out=tmp_path / "deep/out", places=[lib], rules=load_rules(), set_path=lambda path, text: None
    )
    make_fat(order, progress)
    assert progress.told[:4] == [
        ("read 2 libraries", 0, None),
        ("pkg/a.so", 0, 2),
        ("pkg/b.so", 1, 2),
        ("find what the wheel lacks", 0, None),
    ]
    assert progress.told[4][0] == f"write pkg-1.0-1fat-{TAG}.whl"
    assert [done for _, done, _ in progress.told[5:]] == list(range(7)), "two files, three of .dist-info, two come"
    assert {total for _, _, total in progress.told[5:]} == {7}


def test_what_is_called_no_library_is_not_read(tmp_path: Path) -> None:
    """Programs and models may be ELF files, too: what they need is not brought, and they are copied."""
    strange = make_elf({".nv_fatbin": make_fatbin([make_entry(2, 50), make_entry(2, 86)])}, needed=["libnone.so.1"])
    names = ["pkg/program", "pkg/model.so.bin", "pkg/my.sox", "pkg/a.so.1.x"]
    report = _bundle(_wheel(tmp_path, dict.fromkeys(names, strange)), tmp_path / "out", archs=(Sm(8, 6),))
    made = _read(report)
    assert all(made[name] == strange for name in names) and not report.missing and not report.trimmed


@pytest.mark.parametrize("name", ["a.so", "a.SO", "liba.so.1", "liba.so.1.22.333", "a.pyd", "A.DLL"])
def test_what_is_called_a_library_is_read(tmp_path: Path, name: str) -> None:
    wheel = _wheel(tmp_path, {f"pkg/{name}": make_elf(needed=["libnone.so.1"])})
    assert [row.name for row in _bundle(wheel, tmp_path / "out", allow_missing=True).missing] == ["libnone.so.1"]
