"""Bytes into lines: chunks, encodings, binaries, colours and overlong lines, each at its edge."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.explain import reading
from rekindle.explain.reading import open_log, plain_lines, read_chunks

MIB = 1 << 20


def plain(*chunks: bytes) -> bytes:
    return b"".join(plain_lines(chunks))


def test_a_file_is_read_by_the_megabyte() -> None:
    assert [len(chunk) for chunk in read_chunks(io.BytesIO(b"x" * (MIB + 1)))] == [MIB, 1]
    assert list(read_chunks(io.BytesIO(b""))) == []


def test_a_log_is_opened_or_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x\r\n")
    with open_log(tmp_path / "log") as file:
        assert file.read() == b"x\r\n"
    with pytest.raises(BadInput, match="is a directory"):
        open_log(tmp_path)
    with pytest.raises(BadInput, match="cannot read"):
        open_log(tmp_path / "none")


def test_four_kilobytes_are_enough_to_begin() -> None:
    def chunks(first: int) -> Iterator[bytes]:
        yield b"x" * first
        raise AssertionError("asked for more")

    assert next(iter(plain_lines(chunks(4096)))) == b"x" * 4096
    with pytest.raises(AssertionError, match="asked for more"):
        next(iter(plain_lines(chunks(4095))))


@pytest.mark.parametrize("chunks", [(), (b"",), (b"a",), (b"a", b"b"), (b"x" * 5000, b"y"), (b"x" * 4095, b"yz", b"z")])
def test_nothing_is_lost_and_nothing_twice(chunks: tuple[bytes, ...]) -> None:
    assert plain(*chunks) == b"".join(chunks)


def zeros(odd: int, even: int, half: int) -> bytes:
    """``half`` pairs of bytes with so many zeros on each side."""
    text = bytearray(b"ab" * half)
    for at in range(odd):
        text[2 * at + 1] = 0
    for at in range(even):
        text[2 * (half - 1 - at)] = 0
    return bytes(text)


@pytest.mark.parametrize(
    ("odd", "even", "half", "encoding"),
    [
        (71, 0, 100, "utf-16-le"),
        (70, 0, 100, "utf-8"),
        (100, 4, 100, "utf-16-le"),
        (100, 5, 100, "utf-8"),
        (0, 71, 100, "utf-16-be"),
        (0, 70, 100, "utf-8"),
        (4, 100, 100, "utf-16-be"),
        (5, 100, 100, "utf-8"),
        (50, 50, 100, "utf-8"),
        (80, 50, 100, "utf-8"),
        (50, 80, 100, "utf-8"),
        (4, 0, 4, "utf-16-le"),
        (0, 4, 4, "utf-16-be"),
        (3, 0, 3, "utf-8"),
        (0, 3, 3, "utf-8"),
        (0, 0, 100, "utf-8"),
    ],
)
def test_utf_16_without_a_mark(odd: int, even: int, half: int, encoding: str) -> None:
    assert reading._encoding_of(zeros(odd, even, half)) == (encoding, 0)


def test_only_the_first_four_kilobytes_tell_the_encoding() -> None:
    wide = "x".encode("utf-16-le")
    assert reading._encoding_of(wide * 2048 + b"y" * 90000)[0] == "utf-16-le"
    assert reading._encoding_of(b"y" * 4096 + wide * 90000)[0] == "utf-8"


@pytest.mark.parametrize(
    ("bom", "encoding"), [(b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")]
)
def test_a_byte_order_mark_is_believed_and_taken_off(bom: bytes, encoding: str) -> None:
    assert reading._encoding_of(bom + b"abcd") == (encoding, len(bom))
    assert plain(bom + "Fehler: größer\n".encode(encoding)) == "Fehler: größer\n".encode()
    assert plain(*(bytes([byte]) for byte in bom + "größer".encode(encoding))) == "größer".encode()


def test_half_a_character_at_the_end_is_not_lost_silently() -> None:
    assert plain(b"\xff\xfea\0b") == "a\ufffd".encode()


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"\x7fELF\0", "a Linux program or library"),
        (b"MZ\0", "a Windows program or library"),
        (b"PK\x03\x04\0", "a zip file or a wheel"),
        (b"MZ" + b"x" * 4093 + b"\0", "a Windows program or library"),
    ],
)
def test_a_program_is_no_log(head: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=f"this is {said}, not a log"):
        plain(head + b"x" * 5000)


@pytest.mark.parametrize("text", [b"MZ is how it begins", b"MZ" + b"x" * 4094 + b"\0", b"BZh and more"])
def test_a_beginning_alone_makes_no_program(text: bytes) -> None:
    assert plain(text) == text


def test_one_zero_byte_in_ten_is_too_much() -> None:
    assert plain(b"\0" * 10 + b"x" * 90) == b"\0" * 10 + b"x" * 90
    with pytest.raises(BadInput, match="binary data"):
        plain(b"\0" * 11 + b"x" * 89)
    with pytest.raises(BadInput, match="binary data"):
        plain(b"\0" * 410 + b"x" * 90000)
    assert plain(b"\0" * 409 + b"x" * 90000)
    assert plain(b"x" * 4096 + b"\0" * 9000)


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ((b"\x1b[31mred\x1b[0m",), b"red"),
        ((b"\x1b[3", b"1mred"), b"red"),
        ((b"a\x1b", b"[31mred"), b"ared"),
        ((b"a\x1b[31m", b"red"), b"ared"),
        ((b"a\x1b]0;title\x07b",), b"ab"),
        ((b"a\x1b[3", b"1", b"mb"), b"ab"),
        ((b"a\x1b[3",), b"a\x1b[3"),
        ((b"a\r\nb\rc",), b"a\nb\nc"),
        ((b"a\r", b"\nb"), b"a\nb"),
        ((b"a\r", b"b"), b"a\nb"),
        ((b"a\r",), b"a\n"),
        ((b"\r", b"\n"), b"\n"),
        ((b"ab\r", b"\ncd\r", b"\n"), b"ab\ncd\n"),
        ((b"\x1b[31ma\r\x1b[0m\nb",), b"a\nb"),
    ],
)
def test_colours_and_line_ends_cut_in_two(chunks: tuple[bytes, ...], text: bytes) -> None:
    big = b"x" * 5000  # past the first look, so that chunks stay apart
    assert plain(big, *chunks) == big + text


def test_a_sequence_waits_only_near_the_end_of_a_chunk() -> None:
    big = b"x" * 5000
    assert list(plain_lines([big, b"a\x1b[" + b"3" * 62, b"1mb"])) == [big, b"a", b"b"]
    assert list(plain_lines([big, b"a\x1b[" + b"3" * 63, b"1mb"])) == [big, b"a\x1b[" + b"3" * 63, b"1mb"]
    assert list(plain_lines([big, b"\x1b[3", b"1mb"])) == [big, b"b"]


def test_rare_sequences_far_behind_go_too() -> None:
    text = b"\x1b[31m" + b"x" * 40000 + b"\x1b[32my"
    assert plain(text) == b"x" * 40000 + b"y"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LINE_BYTES", 10)
    monkeypatch.setattr(reading, "LINE_TAIL_BYTES", 4)


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ([b"0123456789"], b"0123456789"),
        ([b"0123456789abcd"], b"0123456789abcd"),
        ([b"0123456789abcde"], b"0123456789bcde"),
        ([b"01234", b"56789", b"abcde"], b"0123456789bcde"),
        ([b"01234", b"56789", b"abcde", b"f"], b"0123456789cdef"),
        ([b"0123456789abcdefgh\nnext\n"], b"0123456789fgh\nnext\n"),
        ([b"01234567", b"89abcdefgh\nnext", b"56789012", b"\nlast"], b"0123456789fgh\nnext56789012\nlast"),
        ([b"ab\n01234", b"56789x"], b"ab\n0123456789x"),
        ([b"ab\n", b"0123456789"], b"ab\n0123456789"),
        ([b"ab\ncd", b"01234567\n01234567"], b"ab\ncd01234567\n01234567"),
        ([b"ab\ncd", b"012345678abcde\nx"], b"ab\ncd01234567cde\nx"),
        ([b"0123456789abcdefgh\n0123456789abcdefgh\n"], b"0123456789fgh\n0123456789fgh\n"),
        ([b"one\ntwo\nthree\nfour\n"], b"one\ntwo\nthree\nfour\n"),
        ([b"01234", b"\n0123", b"45678"], b"01234\n012345678"),
    ],
)
def test_overlong_lines_lose_their_middle(short: None, blocks: list[bytes], text: bytes) -> None:
    assert b"".join(reading._shorten_lines(blocks)) == text


def test_eight_megabytes_and_the_last_64_kib_of_a_line_are_kept() -> None:
    def kept(size: int) -> int:
        return sum(map(len, reading._shorten_lines(b"x" * MIB for _ in range(size // MIB))))

    assert kept(8 * MIB) == 8 * MIB
    assert kept(9 * MIB) == 8 * MIB + (64 << 10)
