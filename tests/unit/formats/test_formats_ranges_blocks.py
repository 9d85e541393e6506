"""Which blocks of a remote file are asked for, and what comes of them: a server in memory that notes every request."""

from __future__ import annotations

import io
import re

import pytest

from rekindle.errors import BadInput
from rekindle.formats import ranges
from rekindle.formats.ranges import NoRanges, RangeFile, Unreachable, read_page

BLOCK = 65536
DATA = bytes(n * n % 251 for n in range(7 * BLOCK + 100))


class Server:
    def __init__(self, data: bytes, short: int = 0, status: int = 206) -> None:
        self.data, self.short, self.status = data, short, status
        self.asked: list[str] = []

    def __call__(
        self, url: str, headers: dict[str, str], context: object, timeout: float
    ) -> tuple[int, object, object]:
        self.asked.append(headers.get("Range", ""))
        match = re.fullmatch(r"bytes=(\d*)-(\d+)", headers["Range"])
        assert match is not None
        size = len(self.data)
        low = int(match[1]) if match[1] else max(0, size - int(match[2]))
        high = min(int(match[2]) + 1, size) if match[1] else size
        piece = self.data[low:high]
        if self.short:
            self.short -= 1
            piece = piece[:-1]
        return self.status, {"Content-Range": f" bytes {low}-{high - 1}/{size} "}, io.BytesIO(piece)


def served(monkeypatch: pytest.MonkeyPatch, server: Server) -> tuple[RangeFile, Server, list[float]]:
    waited: list[float] = []
    monkeypatch.setattr(ranges, "request", server)
    monkeypatch.setattr("rekindle.formats.ranges.time.sleep", waited.append)
    return RangeFile("http://x/demo"), server, waited


def test_the_tail_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    file, server, _ = served(monkeypatch, Server(DATA))
    assert (file.length, file.requests, file.fetched) == (len(DATA), 1, BLOCK)
    assert file.read_at(len(DATA) - BLOCK, BLOCK) == DATA[-BLOCK:]
    assert file.read_at(len(DATA) - 5, 99) == DATA[-5:]
    assert file.read_at(len(DATA) - 9, 3) == DATA[-9:-6]
    assert file.read_at(len(DATA), 5) == file.read_at(len(DATA) + 5, 5) == file.read_at(0, 0) == b""
    assert server.asked == ["bytes=-65536"]
    assert file.read_at(len(DATA) - BLOCK - 1, 2) == DATA[-BLOCK - 1 : -BLOCK + 1]
    assert server.asked[1:] == [f"bytes={6 * BLOCK}-{7 * BLOCK - 1}"]


def test_whole_blocks_in_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    file, server, _ = served(monkeypatch, Server(DATA))
    assert file.read_at(BLOCK, BLOCK) == DATA[BLOCK : 2 * BLOCK]
    assert server.asked[1:] == ["bytes=65536-131071"]
    assert file.read_at(BLOCK - 1, BLOCK + 2) == DATA[BLOCK - 1 : 2 * BLOCK + 1]
    assert server.asked[2:] == ["bytes=0-196607"]
    assert file.read_at(10, 3 * BLOCK - 10) == DATA[10 : 3 * BLOCK]
    assert len(server.asked) == 3
    assert file.read_at(6 * BLOCK - 1, len(DATA)) == DATA[6 * BLOCK - 1 :]
    assert server.asked[3:] == [f"bytes={5 * BLOCK}-{len(DATA) - 1}"]
    assert (file.requests, file.fetched) == (4, BLOCK + BLOCK + 3 * BLOCK + 2 * BLOCK + 100)


def test_who_reads_on_gets_more_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ranges.MOST_AHEAD == 64
    data = bytes(n * n % 251 for n in range(200 * BLOCK))
    file, server, _ = served(monkeypatch, Server(data))
    for number in range(199):
        assert file.read_at(number * BLOCK, 4) == data[number * BLOCK :][:4]
    spans = [[int(end) for end in span[6:].split("-")] for span in server.asked[1:]]
    assert [(last + 1 - first) // BLOCK for first, last in spans] == [1, 4, 16, 64, 64, 51]
    assert spans[-1][1] == len(data) - 1  # never past the end
    other, server, _ = served(monkeypatch, Server(data))
    for number in (0, 10, 5, 100, 50):
        assert other.read_at(number * BLOCK, 4) == data[number * BLOCK :][:4]
    assert other.fetched == 6 * BLOCK  # a jump is no reason for more than was asked for


def test_only_so_many_blocks_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (ranges.KEEP_BLOCKS, ranges.TRIES, ranges.MAX_PAGE) == (256, 4, 64 * 1024 * 1024)
    monkeypatch.setattr(ranges, "KEEP_BLOCKS", 2)
    monkeypatch.setattr(ranges, "MOST_AHEAD", 1)
    file, server, _ = served(monkeypatch, Server(DATA))
    for number in (0, 1, 0, 1, 2, 1, 0):
        assert file.read_at(number * BLOCK, 4) == DATA[number * BLOCK :][:4]
    assert [int(span[6:].split("-")[0]) // BLOCK for span in server.asked[1:]] == [0, 1, 2, 0]
    assert file.read_at(0, 5 * BLOCK) == DATA[: 5 * BLOCK]


@pytest.mark.parametrize(("short", "waits"), [(1, [0.5]), (3, [0.5, 1, 2])])
def test_answers_that_break_off_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, short: int, waits: list[float]
) -> None:
    file, _, waited = served(monkeypatch, Server(DATA, short))
    assert file.read_at(len(DATA) - 3, 3) == DATA[-3:]
    assert waited == waits
    assert file.requests == short + 1
    assert file.fetched == (short + 1) * BLOCK - short


def test_four_broken_answers_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreachable, match="breaks off"):
        served(monkeypatch, Server(DATA, 4))
    with pytest.raises(NoRanges):
        served(monkeypatch, Server(DATA, status=200))


def test_a_stream_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    file, _, _ = served(monkeypatch, Server(DATA))
    with file.stream() as stream:
        assert stream.seekable()
        assert stream.readable()
        assert stream.seek(-10, io.SEEK_END) == len(DATA) - 10
        assert stream.read() == DATA[-10:]
        assert stream.read(1) == b""
        assert stream.seek(100) == stream.tell() == 100
        assert stream.read(50) == DATA[100:150]
        assert stream.seek(5, io.SEEK_CUR) == 155
        assert stream.read(3) == DATA[155:158]
    raw = ranges.RangeStream(file)
    assert raw.seek(7) == 7
    assert raw.seek(3, io.SEEK_CUR) == raw.tell() == 10
    assert raw.seek(-99, io.SEEK_CUR) == 0
    assert raw.read(4) == DATA[:4]
    assert raw.tell() == 4


def test_a_page_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "MAX_PAGE", 3 << 20)
    for size in (3 << 20, (3 << 20) + 1):
        monkeypatch.setattr(ranges, "request", lambda *_, n=size: (200, {}, io.BytesIO(b"x" * n)))
        if size == 3 << 20:
            assert len(read_page("http://x/")) == size
        else:
            with pytest.raises(BadInput, match="larger than 3 MiB"):
                read_page("http://x/")
