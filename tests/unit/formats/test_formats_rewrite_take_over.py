"""What of an old wheel goes into the new one under another name, mode, version or time."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.formats.rewrite import Rewriter, folder_of, member_chunks, new_member, tell_zip_errors

OLD, NEW = "demo-1.0.dist-info", "demo-1.0+k.dist-info"
STAMP = (2021, 5, 6, 7, 8, 10)


def archive(files: dict[str, bytes], modes: dict[str, int] | None = None) -> zipfile.ZipFile:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, (2020, 2, 3, 4, 5, 6))
            info.external_attr = (modes or {}).get(name, 0o100644) << 16 | 0x20  # what DOS would say
            target.writestr(info, data)
    return zipfile.ZipFile(out)


def written(old: zipfile.ZipFile, work: Callable[[Rewriter], object], **options: object) -> zipfile.ZipFile:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        writer = Rewriter(old, target, NEW, **options)  # type: ignore[arg-type]
        work(writer)
        writer.finish()
    return zipfile.ZipFile(out)


@pytest.mark.parametrize(
    ("before", "after"),
    [(0o100644, 0o644), (0o100755, 0o755), (0o100600, 0o600), (0o104755, 0o755), (0o100001, 0o001), (0, 0o755)],
)
def test_who_may_run_a_library_stays_as_it_was(before: int, after: int, tmp_path: Path) -> None:
    """Where the old wheel says nothing, all may."""
    (tmp_path / "new.so").write_bytes(b"new content")
    old = archive({"demo/a.so": b"old"}, {"demo/a.so": before})
    new = written(old, lambda writer: writer.replace(old.getinfo("demo/a.so"), tmp_path / "new.so"), fresh=True)
    assert new.read("demo/a.so") == b"new content"
    assert new.getinfo("demo/a.so").external_attr >> 16 == 0o100000 | after
    assert b"demo/a.so,sha256=" in new.read(f"{NEW}/RECORD") and b",11\n" in new.read(f"{NEW}/RECORD")


METADATA = b"Metadata-Version: 2.1\r\nName: demo\r\nVersion: 1.0\r\n\r\nVersion: of the text\n"


def test_the_folder_of_the_old_wheel_becomes_the_new_ones() -> None:
    files = {
        f"{OLD}/METADATA": METADATA,
        f"{OLD}/sub/LICENSE": b"free",
        f"{OLD}/x.json": b"{}",
        f"{OLD}/RECORD": b"a,b,1\n",
    }
    files |= {f"{OLD}/RECORD.jws": b"signed", f"{OLD}/RECORD.p7s": b"signed"}
    files[f"{OLD}/RECORD"] = b"".join(f"{name},x,1\n".encode() for name in ("demo/a.py", *files))
    old = archive(files)
    told: dict[str, bytes] = {}

    def work(writer: Rewriter) -> None:
        for name in files:
            info = old.getinfo(name)
            told[name] = writer.take_over(info, "1.0+k", leave=("x.json",), change=lambda raw: raw + b"more")

    new = written(old, work, record=f"{OLD}/RECORD", stamp=STAMP)
    assert new.namelist() == [f"{NEW}/METADATA", f"{NEW}/sub/LICENSE", f"{NEW}/RECORD"]
    metadata = METADATA.replace(b"Version: 1.0\r", b"Version: 1.0+k\r", 1) + b"more"
    assert new.read(f"{NEW}/METADATA") == metadata and new.read(f"{NEW}/sub/LICENSE") == b"free"
    assert list(told.values()) == [metadata, b"free", b"", b"", b"", b""]
    rows = [row.split(",")[0] for row in new.read(f"{NEW}/RECORD").decode().splitlines()]
    assert rows == ["demo/a.py", f"{NEW}/METADATA", f"{NEW}/sub/LICENSE", f"{NEW}/RECORD"]
    assert {info.date_time for info in new.infolist()} == {STAMP}


def test_without_a_change_only_the_version_is_another() -> None:
    old = archive({f"{OLD}/METADATA": b"Name: demo\n", f"{OLD}/WHEEL": b"Version: 1.0\n"})
    new = written(old, lambda writer: [writer.take_over(info, "2") for info in old.infolist()], fresh=True)
    assert new.read(f"{NEW}/METADATA") == b"Name: demo\n", "none is made up"
    assert new.read(f"{NEW}/WHEEL") == b"Version: 1.0\n", "that of another file is its own"


def test_a_new_list_leaves_the_old_one_alone() -> None:
    old = archive({f"{NEW}/RECORD": b"a,b,1\n"})
    assert written(old, lambda _: None).read(f"{NEW}/RECORD") == f"a,b,1\n{NEW}/RECORD,,\n".encode()
    for files in ({f"{NEW}/RECORD": b"a,b,1\n"}, {}):
        assert written(archive(files), lambda _: None, fresh=True).read(f"{NEW}/RECORD") == f"{NEW}/RECORD,,\n".encode()


def test_a_row_that_never_ends_is_no_list() -> None:
    with pytest.raises(BadInput, match="no readable"):
        written(archive({f"{NEW}/RECORD": b"a," + b"x" * 200_000 + b",1\n"}), lambda _: None)


@pytest.mark.parametrize(
    ("old", "version", "new"),
    [("demo-1.0.dist-info", "2.0+k", "demo-2.0+k.dist-info"), ("a_b-1.0+x.dist-info", "3", "a_b-3.dist-info")],
)
def test_the_folder_of_another_version(old: str, version: str, new: str) -> None:
    assert folder_of(old, version) == new


def test_a_member_to_be() -> None:
    info = new_member("größe", 0o755, STAMP)
    assert (info.filename, info.date_time, info.external_attr) == ("größe", STAMP, 0o100755 << 16)
    assert (info.compress_type, info.create_system) == (zipfile.ZIP_DEFLATED, 3)
    plain = new_member("a")
    assert (plain.external_attr, plain.date_time) == (0o100644 << 16, (1980, 1, 1, 0, 0, 0))


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_a_member_comes_in_chunks(size: int) -> None:
    chunks = list(member_chunks(archive({"a": b"x" * size}), "a"))
    assert [len(chunk) for chunk in chunks] == [part for part in (min(size, 1 << 20), size - (1 << 20)) if part > 0]


@pytest.mark.parametrize(
    "error",
    [zipfile.BadZipFile("odd"), zlib.error("odd"), EOFError("odd"), NotImplementedError("odd"), RuntimeError("odd"),
     ValueError("odd")],
)  # fmt: skip
def test_what_python_finds_wrong_is_told_of_the_wheel(error: Exception) -> None:
    with pytest.raises(BadInput, match=r"^demo\.whl is no readable wheel: odd$"), tell_zip_errors(Path("x/demo.whl")):
        raise error
    with pytest.raises(KeyError), tell_zip_errors(Path("demo.whl")):
        raise KeyError("other")
