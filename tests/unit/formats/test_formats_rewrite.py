"""A wheel rewritten member by member: bytes, headers and RECORD as another reader sees them."""

from __future__ import annotations

import base64
import hashlib
import io
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from binaries import make_wheel
from rekindle.errors import BadInput
from rekindle.formats import rewrite
from rekindle.formats.rewrite import Rewriter, extract, file_chunks

LONG = bytes(range(256)) * 9000  # more than two chunks


def source(files: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> zipfile.ZipFile:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in {"d/RECORD": b"a,x,1\nd/RECORD,,\n", **files}.items():
            info = zipfile.ZipInfo(name, (2020, 2, 3, 4, 5, 6))
            info.external_attr, info.create_system, info.compress_type = 0o100755 << 16, 3, method
            info.extra = struct.pack("<HH", 0x9999, 3) + b"xyz"
            archive.writestr(info, data)
    return zipfile.ZipFile(out)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_copied_members_are_as_they_were(method: int) -> None:
    files = {"a": b"content", "größe": LONG, "empty": b""}
    old, out = source(files, method), io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        writer = Rewriter(old, target, "d")
        for name in files:
            writer.copy(old.getinfo(name))
        writer.finish()
    with zipfile.ZipFile(out) as again:
        assert again.testzip() is None
        assert again.namelist() == [*files, "d/RECORD"]
        for name, data in files.items():
            assert again.read(name) == data
            was, now = old.getinfo(name), again.getinfo(name)
            for field in ("date_time", "compress_type", "external_attr", "create_system", "CRC", "compress_size"):
                assert getattr(now, field) == getattr(was, field)
            assert now.flag_bits == (0x800 if name == "größe" else 0)
            assert now.extra == b""


def test_a_data_descriptor_is_not_carried_on() -> None:
    out = io.BytesIO()

    class Pipe(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: object, /) -> int:
            return out.write(bytes(data))  # type: ignore[call-overload]

    with zipfile.ZipFile(Pipe(), "w") as archive:
        archive.writestr("a", b"content")
        archive.writestr("d/RECORD", b"")
    old, new = zipfile.ZipFile(out), io.BytesIO()
    assert old.getinfo("a").flag_bits & 8
    with zipfile.ZipFile(new, "w") as target:
        Rewriter(old, target, "d").copy(old.getinfo("a"))
    with zipfile.ZipFile(new) as again:
        assert again.getinfo("a").flag_bits == 0
        assert again.read("a") == b"content"
    assert struct.unpack_from("<3L", new.getvalue(), 14) == (zlib.crc32(b"content"), 7, 7)


def test_a_damaged_source_is_refused() -> None:
    old = source({"a": b"content"})
    info = old.getinfo("a")
    with zipfile.ZipFile(io.BytesIO(), "w") as target:
        writer = Rewriter(old, target, "d")
        info.header_offset += 1
        with pytest.raises(BadInput, match="nothing is stored where 'a'"):
            writer.copy(info)
        assert old.fp is not None
        length = old.fp.seek(0, 2)
        info.header_offset = length - 29
        with pytest.raises(BadInput, match="nothing is stored where 'a'"):
            writer.copy(info)
        info = source({"a": b"content"}).getinfo("a")
        info.compress_size = length
        with pytest.raises(BadInput, match="cut short in 'a'"):
            writer.copy(info)


def test_added_members_and_record() -> None:
    old, out = source({}), io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        writer = Rewriter(old, target, "d")
        assert writer.rows == {"a": ("x", "1"), "d/RECORD": ("", "")}
        taken = writer.add("new,one", [b"x" * 5000, b"y"])
        writer.add("tool", [b""], mode=0o755)
        writer.finish()
    with zipfile.ZipFile(out) as again:
        one, tool, record = (again.getinfo(name) for name in ("new,one", "tool", "d/RECORD"))
        assert again.read("new,one") == b"x" * 5000 + b"y"
        assert taken == one.compress_size < 100
        assert [info.external_attr >> 16 for info in (one, tool, record)] == [0o100644, 0o100755, 0o100644]
        assert {info.date_time for info in (one, tool, record)} == {(1980, 1, 1, 0, 0, 0)}
        assert {info.compress_type for info in (one, tool, record)} == {zipfile.ZIP_DEFLATED}
        digests = [
            base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            for data in (b"x" * 5000 + b"y", b"")
        ]
        assert again.read("d/RECORD").decode() == (
            f'a,x,1\n"new,one",sha256={digests[0]},5001\ntool,sha256={digests[1]},0\nd/RECORD,,\n'
        )


def test_record_elsewhere_short_or_missing() -> None:
    old = source({"e/RECORD": b"a,b,c\nshort,row\nlong,1,2,3\n", "bad/RECORD": b"\xff"})
    with zipfile.ZipFile(io.BytesIO(), "w") as target:
        assert Rewriter(old, target, "d", record="e/RECORD").rows == {"a": ("b", "c"), "long": ("1", "2")}
        for folder in ("none", "bad"):
            with pytest.raises(BadInput, match=f"no readable {folder}/RECORD"):
                Rewriter(old, target, folder)


def test_files_in_chunks(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(LONG)
    assert [len(chunk) for chunk in file_chunks(path)] == [1 << 20, 1 << 20, len(LONG) - (2 << 20)]
    assert b"".join(file_chunks(path)) == LONG
    with source({"../../a": LONG}) as archive:
        extract(archive, "../../a", tmp_path / "here")
    assert (tmp_path / "here").read_bytes() == LONG


class Noting(io.BytesIO):
    """Notes how much is read at once."""

    most = 0

    def read(self, size: int | None = -1, /) -> bytes:
        got = super().read(size)
        self.most = max(self.most, len(got))
        return got


def test_memory_is_bounded() -> None:
    raw = Noting(make_wheel({"big": b""}))
    with zipfile.ZipFile(raw, "a") as archive:
        archive.writestr("large", LONG)
    raw.most = 0
    old = zipfile.ZipFile(raw)
    with zipfile.ZipFile(io.BytesIO(), "w") as target:
        Rewriter(old, target, "demo-1.0.dist-info").copy(old.getinfo("large"))
    assert raw.most == 1 << 20 == rewrite._CHUNK


@pytest.mark.parametrize("over", [0, 1])
def test_sizes_beyond_32_bits_get_a_wide_header(over: int) -> None:
    old = source({"a": b"content"})
    info = old.getinfo("a")
    info.file_size = zipfile.ZIP64_LIMIT + over
    out = io.BytesIO()
    target = zipfile.ZipFile(out, "w")
    Rewriter(old, target, "d").copy(info)
    size, extra = struct.unpack_from("<L", out.getvalue(), 22)[0], struct.unpack_from("<H", out.getvalue(), 28)[0]
    assert (size, extra) == ((0xFFFFFFFF, 20) if over else (zipfile.ZIP64_LIMIT, 0))
    target.close()
