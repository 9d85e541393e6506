"""How long an answer may take, and how much of it is read: with a clock that stands still until an answer moves it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest

from rekindle.errors import BadInput
from rekindle.formats import ranges
from rekindle.formats.ranges import RangeFile, Unreachable, read_page, read_pieces, read_whole

BLOCK = 65536


class Body(io.BytesIO):
    """Each piece takes so many seconds; ``asked`` are the sizes of what was read."""

    def __init__(self, content: bytes, *seconds: float, **fields: Any) -> None:
        super().__init__(content)
        self.seconds, self.asked = list(seconds), list[int]()
        self.__dict__.update(fields)

    def read1(self, size: int | None = -1, /) -> bytes:
        self.asked.append(size or 0)
        if self.seconds:
            Body.now += self.seconds.pop(0)
        return super().read1(self.piece)

    now, piece = 0.0, BLOCK


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    Body.now = 1000.0
    monkeypatch.setattr("rekindle.formats.ranges.time.monotonic", lambda: Body.now)
    monkeypatch.setattr("rekindle.formats.ranges.time.sleep", lambda _: None)
    yield


def test_pieces_come_as_they_are_read() -> None:
    body = Body(b"x" * (BLOCK + 9))
    assert [len(piece) for piece in read_pieces(body, "u")] == [BLOCK, 9]
    assert body.asked == [BLOCK] * 3


@pytest.mark.parametrize(("expected", "most"), [(0, 120.0), (16_384, 121.0), (1 << 20, 184.0), (1 << 30, 65_656.0)])
def test_two_minutes_and_a_second_for_each_16_kib(expected: int, most: float) -> None:
    content = b"x" * (BLOCK + 1)
    assert len(b"".join(read_pieces(Body(content, most, 0.0, 99.0), "u", expected))) == len(content)
    assert len(b"".join(read_pieces(Body(content, most / 2, most / 2), "u", expected))) == len(content)
    with pytest.raises(Unreachable, match=rf"^u is too slow: its answer was not whole after {most:.0f} s$"):
        list(read_pieces(Body(content, most, 0.25), "u", expected))


def test_a_page_gets_two_minutes() -> None:
    assert read_whole(Body(b"page", 120.0), "u") == b"page"
    with pytest.raises(Unreachable, match="not whole after 120 s"):
        read_whole(Body(b"page", 120.5), "u")


@pytest.mark.parametrize(("length", "whole"), [(None, True), (0, True), (1, False), (500, False)])
def test_an_answer_whose_end_is_missing(length: int | None, whole: bool) -> None:
    """``length`` is what the library still waits for."""
    body = Body(b"content", length=length)
    if whole:
        assert read_whole(body, "u") == b"content"
    else:
        with pytest.raises(Unreachable, match=r"^u breaks off in the middle of an answer$"):
            read_whole(body, "u")


def test_what_can_only_be_read_is_read() -> None:
    class Plain:
        content = [b"a", b"bc", b""]

        def read(self, size: int) -> bytes:
            assert size == BLOCK
            return self.content.pop(0)

    assert list(read_pieces(Plain(), "u")) == [b"a", b"bc"]


@pytest.mark.parametrize(("size", "most"), [(0, 0), (5, 5), (1 << 20, 1 << 20), (3 << 20, None)])
def test_a_page_may_be_as_large_as_it_may(size: int, most: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "MAX_PAGE", 3 << 20)
    assert len(read_whole(Body(b"x" * size), "u", most)) == size
    limit = (3 << 20 if most is None else most) >> 20
    with pytest.raises(BadInput, match=f"^u is larger than {limit} MiB$"):
        read_whole(Body(b"x" * (size + 1)), "u", most)


def test_a_page_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    body = Body(b"page")
    monkeypatch.setattr(ranges, "request", lambda *_: (200, {}, body))
    assert read_page("u", most=4) == b"page" and body.closed
    body = Body(b"page")
    with pytest.raises(BadInput, match="larger than 0 MiB"):
        read_page("u", most=3)
    assert body.closed


@pytest.mark.parametrize(("seconds", "requests"), [(124.0, 1), (125.0, 2)])
def test_a_slow_part_is_asked_for_again(seconds: float, requests: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part gets its time by its size, here four seconds more; what came of it in vain is not counted."""
    bodies = [Body(b"x" * BLOCK, seconds, piece=BLOCK // 2), Body(b"x" * BLOCK)]
    headers = {"Content-Range": f"bytes 0-{BLOCK - 1}/{BLOCK}"}
    asked: list[Body] = []

    def answer(*_: object) -> tuple[int, dict[str, str], Body]:
        asked.append(bodies[len(asked)])
        return 206, headers, asked[-1]

    monkeypatch.setattr(ranges, "request", answer)
    file = RangeFile("u")
    assert (file.requests, file.fetched, file.length) == (requests, BLOCK, BLOCK)
    assert all(body.closed for body in asked)


def test_more_than_was_asked_for_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    body = Body(b"abcd" + b"x" * (4 * BLOCK))
    monkeypatch.setattr(ranges, "request", lambda *_: (206, {"Content-Range": "bytes 0-3/4"}, body))
    file = RangeFile("u")
    assert file.read_at(0, 9) == b"abcd" and file.fetched == 4 and body.asked == [BLOCK]
