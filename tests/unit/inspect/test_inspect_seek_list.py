"""The list of architectures out of a deflated library: the same as by reading it whole, for a fraction of the bytes."""

from __future__ import annotations

import functools
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.inspect.declared import find_arch_list
from rekindle.inspect.seek_list import UNKNOWN, find_list, looks_like_code, whole_lists

LIST = b"sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120"


@functools.cache
def code(size: int, seed: int = 1) -> bytes:
    draw = random.Random(seed)
    pairs = (b"\x48\x8b", b"\x48\x89", b"\x48\x8d", b"\x0f\x1f", b"\xe8")
    return b"".join(draw.choice(pairs) + draw.randbytes(draw.randrange(1, 4)) for _ in range(size // 4))[:size]


@functools.cache
def words(size: int, seed: int = 2) -> bytes:
    draw = random.Random(seed)
    return b"\0".join(bytes(draw.choices(b"abcdefghijklmnopqrstuvwxyz_ ", k=20)) for _ in range(size // 21))


def library(text: bytes) -> bytes:
    return words(90_000, 5) + code(1_800_000) + words(200_000) + b"\0" + text + b"\0" + words(400_000, 7)


@functools.cache
def packed(data: bytes) -> bytes:
    deflater = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


def reader(stored: bytes, asked: list[tuple[int, int]]) -> Callable[[int, int], bytes]:
    def read(at: int, size: int) -> bytes:
        asked.append((at, size))
        return stored[at : at + size]

    return read


@pytest.mark.parametrize("shift", [0, 65_535])
def test_found_with_a_part_of_the_bytes(shift: int) -> None:
    data = library(LIST)
    stored = packed(data)
    asked: list[tuple[int, int]] = []
    found = find_list(reader(stored, asked), len(stored), shift)
    assert found == find_arch_list(data)
    assert [one.name for one in found or ()] == LIST.decode().split()
    blocks = {
        block for at, size in asked for block in range((at + shift) // 65_536, (at + shift + size - 1) // 65_536 + 1)
    }
    assert len(blocks) * 65_536 < len(stored) * 0.6


@pytest.mark.parametrize("text", [b"sm_90", b"sm_80 sm_90"])
def test_what_is_no_sure_list_is_left_to_the_whole_reading(text: bytes) -> None:
    stored = packed(library(text))
    assert find_list(reader(stored, []), len(stored), 0) is None


def test_a_small_or_damaged_library_is_left_to_the_whole_reading() -> None:
    stored = packed(library(LIST))
    asked: list[tuple[int, int]] = []
    assert find_list(reader(stored, asked), (1 << 20) - 1, 0) is None
    assert not asked, "nothing of it is read twice"
    find_list(reader(stored, asked), 1 << 20, 0)
    assert asked
    noise = random.Random(1).randbytes(len(stored))
    assert find_list(reader(noise, []), len(noise), 0) is None


def test_a_list_that_touches_what_is_not_known_does_not_count() -> None:
    gap = bytes([UNKNOWN])
    whole = b"\0" + LIST + b"\0"
    assert max(len(one) for one in whole_lists(b"x" + whole)) == 7
    assert whole_lists(gap + LIST[6:] + b"\0") == []
    assert whole_lists(whole[:20] + gap + whole[20:]) == []
    assert whole_lists(gap + b"..." + whole) == whole_lists(whole)


def test_code_and_text_are_told_apart() -> None:
    assert looks_like_code(code(40_000))
    assert not looks_like_code(words(40_000))
    assert not looks_like_code(b"")
    # add x1, x1, #8; ldr x0, [x1]; bl; b, off the grid by one byte
    arm = bytes.fromhex("21200091200040f90100009401000014") * 2000
    assert looks_like_code(b"\0" + arm)
    assert not looks_like_code(Path(__file__).read_bytes() * 4)


@pytest.mark.parametrize(("pairs", "is_code"), [(2, False), (3, True)])
def test_so_many_instructions_of_x86_are_code(pairs: int, is_code: bool) -> None:
    """More than one in two hundred bytes; single ones occur in any data."""
    assert looks_like_code((b"\x48\x8b" * pairs).ljust(400, b"a")) is is_code
    assert looks_like_code(b"\x48\x8b".ljust(40_000, b"a")) is False


@pytest.mark.parametrize(("words", "is_code"), [(64, False), (65, True)])
def test_so_many_words_of_arm_are_code(words: int, is_code: bool) -> None:
    assert looks_like_code(bytes.fromhex("21200091") * words) is is_code


@pytest.mark.parametrize("shift", [0, 1000])
def test_whole_blocks_are_asked_for_from_the_very_beginning(shift: int) -> None:
    """No code at all: then the constants are sought from the first byte on."""
    draw = random.Random(3)
    data = b"\0" + LIST + b"\0" + bytes(draw.choices(range(97, 123), k=2_000_000))
    stored = packed(data)
    asked: list[tuple[int, int]] = []
    assert find_list(reader(stored, asked), len(stored), shift) == find_arch_list(data)
    assert all(at == 0 or (at + shift) % 65_536 == 0 for at, size in asked if size == 65_536)
    assert (0, 65_536) in asked


@pytest.mark.parametrize(("of_arm", "is_code"), [(70, False), (71, True)])
def test_seven_words_of_ten_are_arms(of_arm: int, is_code: bool) -> None:
    words = [bytes.fromhex("21200091")] * of_arm + [b"\1\1\1\1"] * (100 - of_arm)
    assert looks_like_code(b"".join(words)) is is_code


# One of each kind that compilers write most, as an assembler encodes it.
ARM = {
    "adr x0, .": 0x10000000, "b .+8": 0x14000002, "b .-0x100000": 0x17FC0000, "cbz w0, .+8": 0x34000040,
    "cbnz w0, .+8": 0x35000040, "tbz w0, #0, .+8": 0x36000040, "tbnz w0, #0, .+8": 0x37000040,
    "ldrb w0, [x1]": 0x39400020, "mov w0, #1": 0x52800020, "b.eq .+8": 0x54000040, "stp d8, d9, [sp, #16]": 0x6D0127E8,
    "adrp x0, 0": 0x90000000, "add x0, x1, #8": 0x91002020, "bl .+8": 0x94000002, "bl .-0x100000": 0x97FC0000,
    "ldp x29, x30, [sp], #16": 0xA8C17BFD, "stp x29, x30, [sp, #-16]!": 0xA9BF7BFD, "mov x0, x1": 0xAA0103E0,
    "adrp x0, 1": 0xB0000000, "cbz x0, .+8": 0xB4000040, "cbnz x0, .+8": 0xB5000040, "ldr w0, [x1]": 0xB9400020,
    "adrp x0, 2": 0xD0000000, "sub x0, x1, #16": 0xD1004020, "mov x0, #1": 0xD2800020, "ret": 0xD65F03C0,
    "cmp x0, x1": 0xEB01001F, "adrp x0, 3": 0xF0000000, "cmp x0, #1": 0xF100041F, "ldur x0, [x1, #-8]": 0xF85F8020,
    "ldr x0, [x1]": 0xF9400020,
}  # fmt: skip


@pytest.mark.parametrize("text", ARM)
def test_what_compilers_write_most_for_arm_is_code(text: str) -> None:
    assert looks_like_code(ARM[text].to_bytes(4, "little") * 100)


def test_so_much_is_read_behind_the_code_and_no_more() -> None:
    """Two blocks at a time, up to 25: constants of libtorch_python take less."""
    draw = random.Random(4)
    stored = packed(bytes(draw.choices(range(97, 123), k=4_500_000)))
    asked: list[tuple[int, int]] = []
    assert find_list(reader(stored, asked), len(stored), 0) is None
    assert [size for _, size in asked if size != 65_536] == [131_072] * 12
    assert max(at + size for at, size in asked if size == 131_072) == 25 * 65_536
