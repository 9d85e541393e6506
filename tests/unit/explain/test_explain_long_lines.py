"""Lines longer than any log's: the beginning and the end are read, the middle is passed over."""

from __future__ import annotations

import itertools

import pytest

from rekindle.explain import reading
from rekindle.explain.engine import diagnose
from rekindle.explain.reading import plain_lines

SMALL, TAIL = 1000, 50


@pytest.fixture(autouse=True)
def short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LINE_BYTES", SMALL)
    monkeypatch.setattr(reading, "LINE_TAIL_BYTES", TAIL)


def read(text: bytes, chunk: int) -> bytes:
    return b"".join(plain_lines(text[at : at + chunk] for at in range(0, len(text), chunk)))


@pytest.mark.parametrize("chunk", [7, 100, 999, 1000, 1001, 100_000])
@pytest.mark.parametrize("length", [0, 1, SMALL - 1, SMALL])
def test_lines_up_to_the_limit_are_untouched(length: int, chunk: int) -> None:
    text = b"first\n" + b"x" * length + b"\nlast\n" + b"y" * length
    assert read(text, chunk) == text


@pytest.mark.parametrize("chunk", [7, 100, 999, 1000, 1001, 100_000])
@pytest.mark.parametrize("more", [1, TAIL - 1, TAIL, TAIL + 1, 5 * SMALL])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nlast\n"])
def test_of_a_longer_line_the_beginning_and_the_end_stay(more: int, chunk: int, end: bytes) -> None:
    line = bytes(itertools.islice(itertools.cycle(b"abcdefghijk"), SMALL + more))
    text = b"first\n" + line + end
    if more <= TAIL - 1:
        assert read(text, chunk) == text
    else:
        said = read(text, chunk)
        assert said.startswith(b"first\n" + line[:SMALL]) and said.endswith((line[-(TAIL - 1) :] + end)[-TAIL:])
        assert said.count(b"\n") == text.count(b"\n")
        assert len(said) <= len(b"first\n") + SMALL + TAIL + len(end)


def test_what_stands_at_the_end_of_an_endless_line_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LINE_TAIL_BYTES", 200)
    words = b"error: fatal: No such file or directory " * 5000
    error = b"nvcc fatal   : Unsupported gpu architecture 'compute_120'"
    for log in (words + error, words + b"\n" + error + b"\n", error + b" " + words):
        found = diagnose(log[at : at + 4096] for at in range(0, len(log), 4096))
        assert found.matches[0].id == "unsupported-gpu-architecture-new"
