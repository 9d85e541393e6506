"""What both scans share: who holds an address, pairs that match, numbers packed into one."""

from __future__ import annotations

import numpy as np

from rekindle.formats.code_scan import NOWHERE, Ints, Stretch, Variables, displacements, owners, pack, totals, unpack

STARTS, ENDS = np.array([10, 20, 30]), np.array([15, 30, 31])


def numbers(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_a_function_holds_what_lies_from_its_start_to_before_its_end() -> None:
    index, held = owners(numbers(9, 10, 14, 15, 19, 20, 29, 30, 31), STARTS, ENDS)
    assert held.tolist() == [False, True, True, False, False, True, True, True, False]
    assert index[held].tolist() == [0, 0, 1, 1, 2]


def pair_up(at: Ints, target: Ints, starts: Ints, ends: Ints, targets: Ints) -> Ints:
    none = np.zeros(0, np.int64)
    return Stretch(np.zeros(0, np.uint8), 0, starts, ends, none, none).pairs(at, target, targets)


def test_pairs_of_a_function_and_a_target() -> None:
    at, target = numbers(10, 11, 22, 22, 16, 9, 30, 12, 12), numbers(100, 100, 300, 200, 200, 200, 300, 99, 301)
    found = pair_up(at, target, STARTS, ENDS, numbers(100, 200, 300))
    assert found.tolist() == [[0, 100], [1, 200], [1, 300], [2, 300]], "each once; between functions and targets none"
    assert pair_up(numbers(10), numbers(150), STARTS, ENDS, numbers(100, 200)).tolist() == []
    assert pair_up(numbers(10, 10), numbers(7, 8), STARTS, ENDS, numbers(7)).tolist() == [[0, 7]]
    for starts, targets in ((STARTS, numbers()), (numbers(), numbers(7))):
        assert pair_up(numbers(10), numbers(7), starts, ENDS[: len(starts)], targets).shape == (0, 2)


def test_signed_numbers_of_four_bytes() -> None:
    code = np.frombuffer(bytes.fromhex("99 01020304 ffffffff 00000080 ffffff7f"), np.uint8)
    found = displacements(code, numbers(1, 5, 9, 13))
    assert found.tolist() == [0x04030201, -1, -(1 << 31), (1 << 31) - 1]
    assert displacements(code, numbers()).shape == (0,)


def test_touches_are_packed_and_unpacked() -> None:
    span = Variables(0x1000, 0x1000 + (1 << 32))
    rows = [(0, 0x1000, False), (0, 0x1000, True), (3, 0x1001, False), (9_000_000, 0xFFF + (1 << 32), True)]
    function, address = (numbers(*(row[n] for row in rows)) for n in (0, 1))  # 64 bits, on Windows too
    write = np.array([row[2] for row in rows])
    packed = pack(function, address, write, span)
    assert packed.tolist() == sorted(packed.tolist()) and len(packed) == 4
    assert list(zip(*(part.tolist() for part in unpack(packed, span)), strict=True)) == rows
    twice = pack(numbers(5, 5), numbers(0x1004, 0x1004), np.array([True, True]), span)
    assert len(twice) == 1
    assert (NOWHERE.low, NOWHERE.high) == (0, 0)


def test_uses_are_summed_by_function_and_class() -> None:
    owner, kind, where = numbers(1, 0, 1, 1, 0), numbers(5, 63, 5, 4, 63), numbers(900, 50, 700, 800, 40)
    assert totals(owner, kind, where).tolist() == [[0, 63, 40, 2], [1, 4, 800, 1], [1, 5, 700, 2]]
    assert totals(numbers(), numbers(), numbers()).shape == (0, 4)
