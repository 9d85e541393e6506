"""Every limit of the wheel reader, just inside and just outside: directories made by hand, most without content."""

from __future__ import annotations

import hashlib
import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from binaries import make_wheel
from rekindle.errors import BadInput
from rekindle.formats.wheel import RecordRow, WheelZip, check_wheel, read_headers, read_record

MIB = 1 << 20


class Row(NamedTuple):
    name: str
    size: int = 0
    stored: int = 0
    header: int = 0
    flags: int = 0
    mode: int = 0
    method: int = 0


def directory(rows: Sequence[Row], before: int) -> bytes:
    """The end of a zip of which ``before`` bytes come first."""
    out = b""
    for row in rows:
        name = row.name.encode()
        out += struct.pack(
            "<4s6H3L5H2L", b"PK\x01\x02", 20, 20, row.flags, row.method, 0, 33, 0, row.stored, row.size, len(name),
            0, 0, 0, 0, row.mode << 16, row.header,
        ) + name  # fmt: skip
    return out + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, len(rows), len(rows), len(out), before, 0)


def forged(*rows: Row, before: int = 100_000) -> WheelZip:
    data = b"\0" * before + directory(rows, before)
    return WheelZip(lambda: io.BytesIO(data), "demo.whl")


def opened(data: bytes) -> WheelZip:
    return WheelZip(lambda: io.BytesIO(data), "demo.whl")


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def test_a_member_inflates_64_mib_from_nothing_and_120_times_beyond() -> None:
    assert forged(Row("a", 64 * MIB, 1)).members["a"].size == 64 * MIB
    with pytest.raises(BadInput, match="bomb"):
        forged(Row("a", 64 * MIB + 1, 1))
    with pytest.raises(BadInput, match="bomb"):
        forged(Row("a", 64 * MIB + 1, 0))
    assert forged(Row("a", 72_000_000, 600_000), before=700_000).members["a"].stored == 600_000
    with pytest.raises(BadInput, match="bomb"):
        forged(Row("a", 72_000_001, 600_000), before=700_000)


def rows_of(total: int, each: int = 64 * MIB) -> list[Row]:
    whole, rest = divmod(total, each)
    return [Row(f"{n}", size, 1, n * 100) for n, size in enumerate([each] * whole + [rest])]


def test_all_members_together_inflate_256_mib_or_60_times() -> None:
    assert len(forged(*rows_of(256 * MIB)).members) == 5
    with pytest.raises(BadInput, match=r"would unpack its \d+ bytes to 256 MiB"):
        forged(*rows_of(256 * MIB + 1))
    before = 4_800_000
    length = before + len(directory(rows_of(60 * before), before))
    assert sum(m.size for m in forged(*rows_of(60 * length), before=before).members.values()) == 60 * length
    with pytest.raises(BadInput, match="no wheel worth reading"):
        forged(*rows_of(60 * length + 1), before=before)


def test_no_wheel_unpacks_to_more_than_64_gib(tmp_path: Path) -> None:
    for extra in (0, 1):
        rows = [Row(f"{n}", 4096 * MIB - 4096, 40 * MIB, n * 64 * MIB) for n in range(16)]
        rows.append(Row("last", 16 * 4096 + extra, 4096, 16 * 64 * MIB))
        path = tmp_path / f"{extra}.whl"
        with path.open("wb") as stream:  # sparse: nothing lies where the members should
            stream.seek(1200 * MIB)
            stream.write(directory(rows, 1200 * MIB))
        if extra:
            with pytest.raises(BadInput, match="to 65536 MiB"):
                WheelZip(lambda: path.open("rb"), "demo.whl")
        else:
            assert len(WheelZip(lambda: path.open("rb"), "demo.whl").members) == 17


def test_more_than_a_hundred_thousand_members() -> None:
    row = directory([Row("x")], 0)[:47]
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 34465, 34465, 100_001 * 47, 0, 0)
    with pytest.raises(BadInput, match="more than 100000 files"):
        opened(row * 100_001 + end)


def test_members_may_touch_but_not_overlap_and_must_end_inside() -> None:
    assert forged(Row("a", 10, 10, 0), Row("b", 5, 5, 40)).members["b"].header == 40
    with pytest.raises(BadInput, match=r"'b' lies inside 'a'"):
        forged(Row("a", 10, 10, 0), Row("b", 5, 5, 39))
    with pytest.raises(BadInput, match=r"'b' lies inside 'a'"):
        forged(Row("b", 5, 5, 39), Row("a", 10, 10, 0))
    row = Row("a", 10, 10, 0)
    length = 100 + len(directory([row], 100))
    assert forged(row._replace(stored=length - 30), before=100).members
    with pytest.raises(BadInput, match="cut off inside 'a'"):
        forged(row._replace(stored=length - 29), before=100)


@pytest.mark.parametrize("name", ["a" * 1024, "a/", "a/b/", "a.b", "..a", "a..", "a/b:c", "a\\b"])
def test_names_that_are_taken(name: str) -> None:
    assert list(forged(Row(name)).members) == [name]


@pytest.mark.parametrize("name", ["a" * 1025, "a//b", "./a", "a/.", "a/./b", "a//"])
def test_names_that_are_no_files(name: str) -> None:
    with pytest.raises(BadInput, match="no file's name"):
        forged(Row(name))


def test_a_zero_in_a_name_is_refused_or_ends_it() -> None:
    # zipfile cuts a name at a zero; what is stored under the longer one is then not found
    assert list(forged(Row("a\0b")).members) == ["a"]


@pytest.mark.parametrize("name", ["/", "/a", "\\a", "c:", "c:/a", "a/../b", ".."])
def test_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(BadInput, match="outside the installation"):
        forged(Row(name))


def test_an_empty_name() -> None:
    with pytest.raises(BadInput, match="no file's name"):
        forged(Row(""))


def test_the_name_of_the_first_double_is_given() -> None:
    rows = [Row("a", header=0), Row("b", header=100), Row("b", header=200), Row("a", header=300)]
    with pytest.raises(BadInput, match="two members called 'b'"):
        forged(*rows)


def test_long_names_are_cut_in_messages() -> None:
    for rows in ([Row("/" + "a" * 300)], [Row("./" + "a" * 300)], [Row("a" * 300), Row("a" * 300, header=900)]):
        with pytest.raises(BadInput) as caught:
            forged(*rows)
        quoted = str(caught.value).split("'")[1]
        assert len(quoted) == 200
    with pytest.raises(BadInput) as caught:
        forged(Row("a" * 300, 5, 5), Row("b" * 300, 5, 5, 1))
    assert [len(part) for part in str(caught.value).split("'")[1:4:2]] == [200, 200]
    with pytest.raises(BadInput) as caught:
        forged(Row("a" * 300, 5, 5_000_000))
    assert len(str(caught.value).split("'")[1]) == 200


@pytest.mark.parametrize(("flags", "taken"), [(0, True), (2, True), (1, False), (3, False), (0x801, False)])
def test_only_the_lowest_flag_says_encrypted(flags: int, taken: bool) -> None:
    if taken:
        assert forged(Row("a", flags=flags)).members
    else:
        with pytest.raises(BadInput, match="encrypted"):
            forged(Row("a", flags=flags))


@pytest.mark.parametrize("name", ["plain", "größe", "日本"])
def test_names_are_compared_with_those_before_the_bytes(name: str) -> None:
    data = zipped({name: b"content"})
    wheel = opened(data)
    assert wheel.read(name) == b"content"
    assert data[wheel.begins(name) :][:7] == b"content"
    other = bytearray(data)
    other[30] ^= 1
    with pytest.raises(BadInput, match="stored under another name"):
        opened(bytes(other)).read(name)


def test_old_names_are_read_in_the_old_code_page() -> None:
    data = zipped({"ab": b"content"}).replace(b"ab", b"\x84b")
    assert opened(data).read("\u00e4b") == b"content"


def test_small_reads_end_at_64_mib_or_at_the_limit_given() -> None:
    wheel = forged(Row("a", 64 * MIB, 600_000), Row("b", 64 * MIB + 1, 600_000, 700_000), before=1_400_000)
    with pytest.raises(BadInput, match="nothing is stored"):
        wheel.read("a")
    for read in (wheel.read, wheel.find):
        with pytest.raises(BadInput, match="larger than such a file"):
            read("b")
    with pytest.raises(BadInput, match="nothing is stored"):
        wheel.find("a")
    small = opened(zipped({"a": b"12345"}))
    assert small.read("a", 5) == small.find("a", 5) == b"12345"
    assert small.find("b") is None
    with pytest.raises(BadInput, match="larger than such a file"):
        small.read("a", 4)


def test_pieces_of_stored_and_deflated_members() -> None:
    stored, zeros = bytes(range(256)) * 2500, b"\0" * (20 * MIB)
    pieces: list[int] = []
    wheel = opened(zipped({"a": stored}))
    assert wheel.inflate("a", lambda piece: pieces.append(len(piece))) == hashlib.sha256(stored).hexdigest()
    assert pieces == [1 << 18, 1 << 18, len(stored) - (1 << 19)]
    pieces.clear()
    wheel = opened(zipped({"z": zeros}, zipfile.ZIP_DEFLATED))
    assert wheel.inflate("z", lambda piece: pieces.append(len(piece))) == hashlib.sha256(zeros).hexdigest()
    assert [size for size in pieces if size] == [8 * MIB, 8 * MIB, 4 * MIB]


class Counting(io.BytesIO):
    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.asked: list[int] = []

    def read(self, size: int | None = -1, /) -> bytes:
        self.asked.append(-1 if size is None else size)
        return super().read(size)


def test_heads_read_no_more_than_they_need() -> None:
    data = zipped({"b": b"B" * 50_000, "a": b"A" * 10, "c": b"C" * 50_000})
    stream = Counting(data)
    wheel = opened(data)
    wheel._open = lambda: stream
    assert list(wheel.heads(["c", "a", "b"], 100)) == [("b", b"B" * 100), ("a", b"A" * 10), ("c", b"C" * 100)]
    assert stream.asked == [30, 1, 4196, 30, 1, 10, 30, 1, 4196]
    assert dict(opened(data).heads(["b"], 50_000)) == {"b": b"B" * 50_000}
    assert list(opened(data).digests(["a", "b"])) == [
        ("b", hashlib.sha256(b"B" * 50_000).hexdigest()),
        ("a", hashlib.sha256(b"A" * 10).hexdigest()),
    ]


def test_heads_over_several_pieces() -> None:
    data = bytes(range(256)) * 4096
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert dict(opened(zipped({"a": data}, method)).heads(["a"], 700_000)) == {"a": data[:700_000]}


def test_stored_bytes_end_with_the_member() -> None:
    wheel = opened(zipped({"a": b"0123456789", "b": b"x"}))
    begins = wheel.begins("a")
    assert begins == 31
    assert wheel.stored("a", begins, 0, 10) == b"0123456789"
    assert wheel.stored("a", begins, 3, 4) == b"3456"
    assert wheel.stored("a", begins, 8, 100) == b"89"
    assert wheel.stored("a", begins, 9, 100) == b"9"
    assert wheel.stored("a", begins, 10, 100) == wheel.stored("a", begins, 11, 100) == b""


def test_extra_bytes_before_the_content_are_passed_over() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("a")
        info.extra = struct.pack("<HH", 0x9999, 3) + b"xyz"
        archive.writestr(info, b"content")
    wheel = opened(out.getvalue())
    assert wheel.begins("a") == 30 + 1 + 7
    assert wheel.read("a") == b"content"


def test_size_and_checksum_are_checked_each() -> None:
    data = zipped({"a": b"content"})
    at = data.index(b"PK\x01\x02")
    for place, value in ((16, zlib.crc32(b"content") ^ 1), (24, 8), (24, 6)):
        broken = bytearray(data)
        struct.pack_into("<L", broken, at + place, value)
        with pytest.raises(BadInput, match=r"damaged|declares"):
            opened(bytes(broken)).read("a")


def test_a_member_cut_off_and_one_of_another_method() -> None:
    data = zipped({"a": b"content"})
    wheel = opened(data)
    wheel._open = lambda: io.BytesIO(data[:35])
    with pytest.raises(BadInput, match="cut off inside 'a'"):
        wheel.read("a")
    wheel._open = lambda: io.BytesIO(data[:29])
    with pytest.raises(BadInput, match="nothing is stored"):
        wheel.begins("a")
    broken = bytearray(data)
    struct.pack_into("<H", broken, data.index(b"PK\x01\x02") + 10, 12)
    with pytest.raises(BadInput, match="method 12; wheels use deflate"):
        opened(bytes(broken)).read("a")


def test_a_directory_that_points_before_the_file() -> None:
    wheel = forged(Row("a", 5, 5))
    member = wheel.members["a"]
    assert type(member)("b", 1, 1, 0, 0, 0).mode == 0
    wheel.members["a"] = type(member)("a", 5, 5, 0, 0, -1)
    with pytest.raises(BadInput, match="nothing is stored"):
        wheel.begins("a")


def test_damaged_deflate() -> None:
    data = bytearray(zipped({"a": b"content" * 99}, zipfile.ZIP_DEFLATED))
    data[31] = 0xFF
    with pytest.raises(BadInput, match="'a' is damaged"):
        opened(bytes(data)).read("a")


def test_dist_info_is_a_folder_at_the_top() -> None:
    assert opened(zipped({"b-1.dist-info/x": b"", "a-1.dist-info/x": b""})).dist_info == "a-1.dist-info"
    assert opened(zipped({"a-1.dist-info": b"", "x/b-1.dist-info/y": b""})).dist_info is None
    bare = opened(zipped({"a": b""}))
    assert bare.headers("METADATA") == []
    assert bare.record is None
    assert opened(zipped({"a.dist-info/x": b""})).headers("METADATA") == []


@pytest.mark.parametrize("mode", [0, stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755, 0o644])
def test_files_and_folders_are_installed_beside_no_link(mode: int) -> None:
    forged(Row("a", mode=mode)).check_installable()
    with pytest.raises(BadInput, match="link or a device"):
        forged(Row("a", mode=mode), Row("b", header=100, mode=stat.S_IFLNK | 0o777)).check_installable()


@pytest.mark.parametrize("mode", [stat.S_IFLNK | 0o777, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices_are_not(mode: int) -> None:
    with pytest.raises(BadInput, match="link or a device"):
        forged(Row("a", mode=mode)).check_installable()


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (["a\\b"], "backslash"),
        (["a/B", "A/b"], "one file on Windows"),
        (["e\u0301", "\u00e9"], "one file on Windows"),
        (["a", "a/"], "one file on Windows"),
        (["a", "a/b"], "file and a folder"),
        (["x/a", "x/a/b"], "file and a folder"),
    ],
)
def test_names_that_meet_on_some_disks(names: list[str], word: str) -> None:
    rows = [Row(name, header=100 * n, flags=0x800) for n, name in enumerate(names)]
    with pytest.raises(BadInput, match=word):
        forged(*rows).check_installable()


def test_a_folder_with_its_own_entry_is_fine() -> None:
    names = ["a/", "a/b", "a/c/d"]
    forged(*(Row(name, header=100 * n) for n, name in enumerate(names))).check_installable()
    with pytest.raises(BadInput, match="file and a folder"):
        forged(*(Row(name, header=100 * n) for n, name in enumerate([*names, "a/c"]))).check_installable()


def whole(files: dict[str, bytes]) -> WheelZip:
    return opened(zipped(files))


def test_what_record_must_list() -> None:
    row = "sha256=" + "A" * 43
    record = f"d/a,{row},1\nd.dist-info/RECORD,,\n"
    exempt = {"d.dist-info/RECORD.jws": b"", "d.dist-info/RECORD.p7s": b"", "d/": b"", "d.dist-info/": b""}
    files = {"d/a": b"1", "d.dist-info/RECORD": record.encode(), **exempt}
    whole(files).check_listed()
    with pytest.raises(BadInput, match=r"'d/b' is not listed"):
        whole({**files, "d/b": b""}).check_listed()
    with pytest.raises(BadInput, match="RECORD gives 'd/a' no hash"):
        whole({**files, "d.dist-info/RECORD": b"d/a,,1\n"}).check_listed()
    with pytest.raises(BadInput, match="no RECORD"):
        whole({"d/a": b"1", "d.dist-info/METADATA": b"Name: d\n"}).check_listed()
    with pytest.raises(BadInput, match="no UTF-8"):
        whole({**files, "d.dist-info/METADATA": b"\xff"}).check_listed()
    with pytest.raises(BadInput) as caught:
        whole({**files, "d.dist-info/RECORD": record.encode() + b"x" * 300 + b",,\n"}).check_listed()
    assert "'" + "x" * 200 + "'" in str(caught.value)


@pytest.mark.parametrize(("name", "limit"), [("RECORD", 32 * MIB), ("METADATA", 4 * MIB), ("WHEEL", 4 * MIB)])
def test_what_installers_read_whole_is_small(tmp_path: Path, name: str, limit: int) -> None:
    path = tmp_path / "demo.whl"
    for size in (limit, limit + 1):
        path.write_bytes(b"\0" * 99 + directory([Row(f"d.dist-info/{name}", size, 9)], 99))
        if size == limit:
            assert check_wheel(path, listed=False).what == "demo.whl"
            assert check_wheel(path, listed=False, what="other").what == "other"
        else:
            with pytest.raises(BadInput, match="larger than such a file ever is"):
                check_wheel(path, listed=False)
    path.write_bytes(b"\0" * 99 + directory([Row(f"d.dist-info/not{name}", limit + 1, 9)], 99))
    check_wheel(path, listed=False)


@pytest.mark.parametrize(("name", "limit"), [("RECORD", 32 * MIB), ("METADATA", 4 * MIB)])
def test_own_reads_have_the_same_limits(name: str, limit: int) -> None:
    for size, word in ((limit, "nothing is stored"), (limit + 1, "larger than")):
        wheel = forged(Row(f"d.dist-info/{name}", size, 9))
        with pytest.raises(BadInput, match=word):
            _ = wheel.record if name == "RECORD" else wheel.headers(name)
        with pytest.raises(BadInput, match=word):
            wheel.check_listed()


def test_check_wheel_looks_at_record_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "demo.whl"
    path.write_bytes(zipped({"a": b""}))
    assert check_wheel(path, listed=False).members
    with pytest.raises(BadInput, match="no RECORD"):
        check_wheel(path)
    path.write_bytes(make_wheel({"a": b""}))
    assert check_wheel(path).members
    with pytest.raises(BadInput, match=r"cannot read .*No such file"):
        check_wheel(tmp_path / "none.whl")


def test_headers_keep_order_and_doubles() -> None:
    raw = b"Name: a\nTag: x\nTag: y\n\nbody: no\n"
    assert read_headers(raw) == [("Name", "a"), ("Tag", "x"), ("Tag", "y")]
    assert read_headers(b"Name: \xff\n") == [("Name", "\ufffd")]


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("a", RecordRow(None, None, None)),
        ("a,", RecordRow(None, None, None)),
        ("a,sha256=", RecordRow("sha256", None, None)),
        ("a,sha256=AAA", RecordRow("sha256", b"\0\0", None)),
        ("a,sha256=AA", RecordRow("sha256", b"\0", None)),
        ("a,sha256=AAAA", RecordRow("sha256", b"\0\0\0", None)),
        ("a,sha256=_-8", RecordRow("sha256", b"\xff\xef", None)),
        ("a,sha256=AAAAAAAAAA", RecordRow("sha256", b"\0" * 7, None)),
        ("a,sha256=A", RecordRow("sha256", None, None)),
        ("a,sha256=é", RecordRow("sha256", None, None)),
        ("a,,0", RecordRow(None, None, 0)),
        ("a,,-1", RecordRow(None, None, None)),
        ("a,,", RecordRow(None, None, None)),
        ("a,,\u0661", RecordRow(None, None, None)),
        ("a,,1x", RecordRow(None, None, None)),
        ("a,,999999999999999999", RecordRow(None, None, 10**18 - 1)),
        ("a,,1000000000000000000", RecordRow(None, None, None)),
    ],
)
def test_one_row_of_record(line: str, row: RecordRow) -> None:
    assert read_record(line + "\r\n\r\n") == {"a": row}


def test_record_has_two_rows_for_each_member_at_most() -> None:
    text = "".join(f"{n}\n" for n in range(200_000))
    assert len(read_record(text)) == 200_000
    with pytest.raises(BadInput, match="x: RECORD has more than 200000 rows"):
        read_record(text + "one\n", "x")


def test_a_record_that_is_no_table() -> None:
    with pytest.raises(BadInput, match="RECORD: RECORD cannot be read"):
        read_record('"a"b,c\n')


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"  <HTML>", "web page"),
        (b"<?xml", "web page"),
        (b" " * 503 + b"<!doctype", "web page"),
        (b" " * 504 + b"<!doctype", "no wheel"),
        (b"PK\x03\x04", "damaged or truncated"),
        (b"PK\x03", "no wheel"),
        (b"P", "no wheel"),
        (b"", r"empty \(0 bytes\)"),
    ],
)
def test_why_a_file_is_no_wheel(data: bytes, word: str) -> None:
    with pytest.raises(BadInput, match=word):
        opened(data)
