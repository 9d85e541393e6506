"""The engine from bytes to diagnosis: encodings, framing, block borders, and silence where nothing is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import BadInput

WARNING = (
    "NVIDIA GeForce RTX 5080 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
    "The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.\n"
)


def ids(source: object) -> list[str]:
    return [match.id for match in api.explain(source).matches]  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_every_encoding_of_a_shell_is_read(encoding: str) -> None:
    assert ids(WARNING.replace("\n", "\r\n").encode(encoding))[0] == "sm120-not-compatible"


def test_values_are_filled_in() -> None:
    match = api.explain(WARNING).matches[0]
    assert "sm_120" in match.cause and "NVIDIA GeForce RTX 5080" in match.cause
    assert match.line == 1 and "not compatible" in match.evidence


def test_colours_do_not_hide_a_message() -> None:
    assert ids(WARNING.replace("CUDA capability", "\x1b[01;31m\x1b[KCUDA\x1b[m\x1b[K capability"))


@pytest.mark.parametrize("size", [1, 7, 100])
def test_chunks_may_be_cut_anywhere(size: int) -> None:
    raw = ("noise\n" * 50 + WARNING).encode("utf-16")
    match = api.explain(raw[i : i + size] for i in range(0, len(raw), size)).matches[0]
    assert match.id == "sm120-not-compatible" and match.line == 51


@pytest.mark.parametrize("distance", [0, 1 << 20, (1 << 20) - 40, (1 << 20) - 16 * 1024 - 40, 3 << 20])
def test_messages_across_block_borders_are_found_once_with_their_line(distance: int) -> None:
    filler = (b"x" * 63 + b"\n") * (distance // 64) + b"y" * (distance % 64) + b"\n"
    match = api.explain(filler + WARNING.encode()).matches[0]
    assert match.line == filler.count(b"\n") + 1


def test_a_line_without_end_is_bounded() -> None:
    assert ids(b"z" * 5_000_000 + b" " + WARNING.replace("\n", " ").encode())


@pytest.mark.parametrize("text", ["", "\n", "all went well\n" * 1000, "\xff\xfe"])
def test_unknown_input_yields_nothing(text: str) -> None:
    assert ids(text) == []


@pytest.mark.parametrize("raw", [b"\x7fELF" + bytes(300), b"PK\x03\x04" + bytes(300), bytes(5000)])
def test_binary_files_are_refused_with_a_hint(raw: bytes) -> None:
    with pytest.raises(BadInput):
        api.explain(raw)


def test_a_log_of_nothing_but_errors_stays_bounded() -> None:
    from rekindle.explain.engine import _watcher

    line = b"nvcc fatal   : Unsupported gpu architecture 'compute_120'\n"
    reading = _watcher().read(line * 20_000 for _ in range(3))
    seen = reading.rules["unsupported-gpu-architecture-new"]
    assert len(seen.all) < 20 and seen.last is not None and seen.last.line > 50_000
    assert reading.lines == 60_000


def test_very_long_words_do_not_stall_the_patterns() -> None:
    word = "a" * 3000
    text = f"{word} with CUDA capability sm_120 {word}: cannot enable executable stack {word}.so: undefined symbol: _Z"
    assert api.explain("\n".join([text] * 50)).schema == 1


def test_a_file_that_grows_while_it_is_read_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    log = tmp_path / "growing.log"
    log.write_text(WARNING)
    with log.open("a") as writer:
        diagnosis = api.explain(log)
        writer.write("more\n")
    assert diagnosis.matches[0].id == "sm120-not-compatible"
