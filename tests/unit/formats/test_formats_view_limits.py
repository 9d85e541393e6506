"""A view of bytes and a zip's directory: the last thing that is taken and the first that is not."""

from __future__ import annotations

import io
import mmap
import struct
import zipfile
from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.formats import view as views
from rekindle.formats.view import Malformed, View, release
from rekindle.formats.zip_directory import check_count


def test_numbers_and_pieces_end_with_the_bytes() -> None:
    view = View(bytes(range(10)), "lib")
    assert view.size == 10
    assert view.unpack("<BB", 0) == (0, 1)
    assert view.unpack("<BB", 8) == (8, 9)
    assert view.number("<H", 8) == 0x908
    assert view.number("<B", 0) == 0
    assert view.take(0, 10) == bytes(range(10))
    assert view.take(3, 2) == b"\3\4"
    assert view.take(10, 0) == view.take(0, 0) == b""
    assert View(b"").what == "file"
    for offset in (9, -1, 1 << 70):
        with pytest.raises(Malformed, match=f"lib ends before offset {offset}"):
            view.unpack("<BB", offset)
    for offset, size in ((-1, 1), (0, 11), (10, 1), (9, 2), (5, -1), (-1, 5)):
        with pytest.raises(Malformed, match=f"no {size} bytes at offset {offset}"):
            view.take(offset, size)


@pytest.mark.parametrize(
    ("offset", "size", "inside"),
    [(0, 10, True), (10, 0, True), (9, 1, True), (9, 2, False), (0, 11, False), (-1, 1, False), (1, -1, False),
     (0, 0, True), (11, -1, False), (-1, 0, False), (-5, 20, False), (20, -15, False)],
)  # fmt: skip
def test_inside(offset: int, size: int, inside: bool) -> None:
    assert View(b"\0" * 10).inside(offset, size) is inside


def test_names_end_with_a_zero_inside_their_table() -> None:
    view = View(b"ab\0cd\0ef")
    assert [view.text(at) for at in (0, 1, 2, 3, 5)] == ["ab", "b", "", "cd", ""]
    assert view.text(3, 6) == "cd"
    assert view.text(3, 99) == "cd"
    for offset, limit in ((6, None), (7, None), (3, 5), (6, 99), (0, 2)):
        with pytest.raises(Malformed, match="never ends"):
            view.text(offset, limit)
    for offset, limit in ((8, None), (-1, None), (3, 3), (4, 3), (8, 99), (0, 0)):
        with pytest.raises(Malformed, match="outside its table"):
            view.text(offset, limit)
    assert View(b"a\xff\0").text(0) == "a\\xff"


@pytest.mark.parametrize("length", [0, 1, 254, 255, 256, 257, 300, 65535])
@pytest.mark.parametrize("before", [0, 7, 300])
def test_long_names(length: int, before: int) -> None:
    data = b"z" * before + b"n" * length + b"\0"
    for after in (b"", b"more\0"):
        assert View(data + after).text(before) == "n" * length
        assert View(data + after).text(before, len(data)) == "n" * length
    with pytest.raises(Malformed, match=r"never ends|outside"):
        View(data).text(before, len(data) - 1)


def test_a_name_of_64_kib_is_none() -> None:
    with pytest.raises(Malformed, match="at offset 3 that never ends"):
        View(b"abc" + b"n" * 65536 + b"\0").text(3)


class Reads(bytes):
    """Bytes that note how much of them is asked for."""

    asked: list[int]

    def __getitem__(self, where: slice) -> bytes:  # type: ignore[override]
        self.asked.append(where.stop - where.start)
        return super().__getitem__(where)


@pytest.mark.parametrize(("length", "asked"), [(3, [256]), (255, [256]), (256, [256, 999])])
def test_short_names_cost_one_short_read(length: int, asked: list[int]) -> None:
    data = Reads((b"n" * length + b"\0").ljust(999, b"x"))
    data.asked = []
    assert View(data).text(0) == "n" * length
    assert data.asked == asked


def test_a_table_of_256_bytes_is_read_once() -> None:
    data = Reads(b"n" * 256)
    data.asked = []
    with pytest.raises(Malformed):
        View(data).text(0)
    assert data.asked == [256]


class Mapped(mmap.mmap):
    calls: list[tuple[int, int, int]]

    def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
        self.calls.append((option, start, length))


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="needs madvise")
def test_only_whole_pages_that_were_read_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    page = mmap.PAGESIZE
    with Mapped(-1, 8 * page) as mapped:
        for offset, size, given in (
            (0, page, (0, page)),
            (0, page - 1, None),
            (1, page, None),
            (1, 2 * page - 2, None),
            (1, 2 * page - 1, (page, page)),
            (page, 3 * page + 5, (page, 3 * page)),
            (2 * page + 7, 0, None),
        ):
            mapped.calls = []
            release(mapped, offset, size)
            assert mapped.calls == ([] if given is None else [(mmap.MADV_DONTNEED, *given)])
    release(b"\0" * 4 * page, 0, page)
    release(bytearray(page), 0, page)
    assert views.MAX_NAME_BYTES == 65536


# A zip's directory


def entry(name: bytes = b"a", extra: bytes = b"", comment: bytes = b"", magic: bytes = b"PK\x01\x02") -> bytes:
    head = struct.pack(
        "<4s6H3L5H2L", magic, 20, 20, 0, 0, 0, 33, 0, 0, 0, len(name), len(extra), len(comment), 0, 0, 0, 0
    )
    return head + name + extra + comment


def end(said: int, size: int, comment: bytes = b"") -> bytes:
    return struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, said, said, size, 0, len(comment)) + comment


def check(data: bytes, limit: int = 3) -> None:
    check_count(io.BytesIO(data), "demo", limit)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_as_many_as_it_says(count: int) -> None:
    rows = b"".join(entry(b"n" * n, b"e" * (n + 4), b"c" * (n + 9)) for n in range(count))
    for before in (b"", b"x" * 50):
        check(before + rows + end(count, len(rows)))
        for said in (count + 1, count - 1):
            if said >= 0:
                with pytest.raises(BadInput, match=f"says it holds {said} files but lists {count}"):
                    check(before + rows + end(said, len(rows)))


def test_one_more_than_the_limit() -> None:
    with pytest.raises(BadInput, match="more than 3 files"):
        check(entry() * 4 + end(4, len(entry()) * 4))
    check(entry() * 4 + end(4, len(entry()) * 4), 4)


def test_a_directory_of_512_bytes_each() -> None:
    row = entry(b"n" * (512 - 46))
    check(row * 3 + end(3, 3 * 512))
    long = row * 2 + entry(b"n" * (513 - 46))
    with pytest.raises(BadInput, match="directory of 0 MiB; at most 3 files"):
        check(long + end(3, len(long)))
    with pytest.raises(BadInput, match="directory of 3 MiB"):
        check(end(0, (3 << 20) + 5))


def test_the_list_ends_at_something_else() -> None:
    check(entry() + b"\1" * 60 + end(1, len(entry()) + 60))
    check(entry() + entry(magic=b"PK\x01\x03") + end(1, 2 * len(entry())))
    check(entry() + entry(b"")[:45] + end(1, len(entry()) + 45))
    check(entry() + entry(b"") + end(2, len(entry()) + 46))
    with pytest.raises(BadInput, match="says it holds 1 files but lists 2"):
        check(entry() + entry(b"") + end(1, len(entry()) + 46))


def test_what_is_no_zip_passes() -> None:
    for data in (b"", b"x" * 50, end(7, 0)[:21], b"PK\x05\x06", b"x" * 30 + end(7, 0)[:21]):
        check(data)
    with pytest.raises(BadInput, match="says it holds 7 files but lists 0"):
        check(end(7, 0))
    with pytest.raises(BadInput, match="says it holds 7 files but lists 0"):
        check(b"x" + end(7, 0))


def test_the_longest_comment() -> None:
    rows = entry() * 2
    check(rows + end(2, len(rows), b"c" * 65535))
    with pytest.raises(BadInput, match="says it holds 1 files but lists 2"):
        check(rows + end(1, len(rows), b"c" * 65535))
    with pytest.raises(BadInput, match="says it holds 1 files but lists 2"):
        check(b"x" * 70_000 + rows + end(1, len(rows), b"c" * 65535))
    # One byte further away nothing is an end any more.
    check(b"x" * 70_000 + rows + end(1, len(rows), b"c" * 65535) + b"c")


def test_65536_entries_may_be_said_to_be_none() -> None:
    row = entry(b"")
    for count, said, taken in ((65536, 0, True), (65537, 1, True), (65537, 0, False), (65536, 1, False)):
        data = row * count + end(said, len(row) * count)
        if taken:
            check(data, 70_000)
        else:
            with pytest.raises(BadInput, match=f"says it holds {said} files but lists {count}"):
                check(data, 70_000)


def large(said: int, size: int, where: int, magic: bytes = b"PK\x06\x06", locator: bytes = b"PK\x06\x07") -> bytes:
    last = struct.pack("<4sQ2H2L4Q", magic, 44, 45, 45, 0, 0, said, said, size, 0)
    return last + struct.pack("<4sLQL", locator, 0, where, 1)


@pytest.mark.parametrize("before", [0, 33])
def test_the_end_of_large_zips_counts(before: int) -> None:
    rows = entry() * 2
    where = before + len(rows)
    head = b"x" * before + rows
    check(head + large(2, len(rows), where) + end(0xFFFF, 0xFFFFFFFF))
    with pytest.raises(BadInput, match="says it holds 3 files but lists 2"):
        check(head + large(3, len(rows), where) + end(2, len(rows)))
    with pytest.raises(BadInput, match="says it holds 65535 files"):
        check(head + large(2, len(rows), where, locator=b"PK\x06\x08") + end(0xFFFF, 0))
    with pytest.raises(BadInput, match="says it holds 65535 files"):
        check(head + large(2, len(rows), where, magic=b"PK\x06\x05") + end(0xFFFF, 0))
    for wrong in (where + 1, 1 << 62, where + 60):
        with pytest.raises(BadInput, match="says it holds 65535 files"):
            check(head + large(2, len(rows), wrong) + end(0xFFFF, 0))


def test_a_locator_at_the_very_beginning() -> None:
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 42, 1)
    last = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 5, 5, 0, 0)
    with pytest.raises(BadInput, match="says it holds 5 files but lists 0"):
        check(locator + end(0, 0) + last)
    check(locator[1:] + end(0, 0) + last)


def test_the_same_count_as_another_reader(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for n in range(20):
            archive.writestr(f"{n}/" * n + "x", b"y" * n)
        archive.comment = b"PK said nothing"
    with path.open("rb") as stream:
        check_count(stream, "a", 20)
        with pytest.raises(BadInput, match="more than 19"):
            check_count(stream, "a", 19)
