"""The roads through one function: is a call made on every one of them, or is it one of two that a test chooses? A
function that tests a flag and then calls one of two others chooses between copies, wherever the flag came from (zstd
hands it on as an argument). A call that no road avoids is made on every CPU."""

import bisect
import functools
from collections import defaultdict

import numpy as np

from rekindle.formats.arm64_scan import BRANCHES
from rekindle.formats.code_scan import BYTE, Bytes, Ints

MOST_INSTRUCTIONS = 20_000
# How many bytes may lie between the test and the call.
NEAR = 256
# What may stand before a branch, and the first bytes of branches.
_PREFIXES = (0xF2, 0xF3, 0x3E, 0x2E, 0x66, 0x67)
_LEADS = np.isin(BYTE, (*_PREFIXES, 0xC2, 0xC3, 0xE8, 0xE9, 0xEB, 0x0F, 0xFF, *range(0x70, 0x80)))


class Roads:
    """``at`` are the offsets of a function's instructions, ``branches`` what each branch is and where it goes."""

    def __init__(self, at: Ints, branches: dict[int, tuple[str, int]], start: int, end: int) -> None:
        self.start, self.end = start, end
        self._at, self._following = at, np.append(at[1:], end - start)
        self._kind = {offset: (kind, aim + start) for offset, (kind, aim) in branches.items()}
        self._branches = sorted(self._kind)

    @functools.cached_property
    def _next(self) -> dict[int, int]:
        return dict(zip(self._at.tolist(), self._following.tolist(), strict=True))

    def _inside(self, address: int) -> bool:
        return self.start < address < self.end

    def unavoidable(self, target: int) -> bool:
        """Does every road from the entrance to a return pass a call of ``target``?"""
        return self._always_passes(target, None)

    def passes(self, address: int) -> bool:
        """Does every road from the entrance to a return pass the instruction at this address?"""
        return self._always_passes(None, address - self.start)

    def _always_passes(self, target: int | None, place: int | None) -> bool:
        seen: set[int] = set()
        queue = [0]
        while queue:
            offset = queue.pop()
            while offset in self._next and offset not in seen:
                seen.add(offset)
                kind, aim = self._kind.get(offset, ("plain", 0))
                if offset == place or (kind in ("call", "jump", "test") and aim == target):
                    break
                if kind == "return" or (kind in ("jump", "test") and not self._inside(aim)):
                    return False
                if kind == "test":
                    queue.append(aim - self.start)
                offset = aim - self.start if kind == "jump" else self._next[offset]
        return True

    @functools.cached_property
    def rivals(self) -> dict[int, set[int]]:
        """For what is called after a test: what is called instead on the other side of it."""
        out: dict[int, set[int]] = defaultdict(set)
        for offset, aim in ((offset, aim) for offset, (kind, aim) in self._kind.items() if kind == "test"):
            straight = self._first_call(self._next[offset])
            other = aim if not self._inside(aim) else self._first_call(aim - self.start)
            if straight is not None and other is not None and straight != other:
                out[straight].add(other)
                out[other].add(straight)
        return out

    def _first_call(self, offset: int) -> int | None:
        """The first call on the straight road from here, before any further test."""
        for _ in range(4):
            place = bisect.bisect_left(self._branches, offset)
            near = self._branches[place : place + 1]
            kind, aim = self._kind[near[0]] if near and near[0] - offset <= NEAR else ("return", 0)
            if kind in ("return", "test"):
                return None
            if kind == "call" or not self._inside(aim):
                return aim
            offset = aim - self.start
        return None


def x86_roads(code: Bytes, at: Ints, start: int, end: int) -> Roads:
    """``code`` is the function's bytes with zeros behind, ``at`` the offsets of its instructions."""
    following = np.append(at[1:], end - start)
    may = _LEADS[code[at]]
    may[MOST_INSTRUCTIONS:] = False
    raw, places = code.tobytes(), zip(at[may].tolist(), following[may].tolist(), strict=True)
    branches = ((offset, _read_branch(raw, offset, behind)) for offset, behind in places)
    return Roads(at, {offset: branch for offset, branch in branches if branch is not None}, start, end)


def arm64_roads(code: Bytes, start: int, end: int) -> Roads:
    """The same for AArch64."""
    words = np.frombuffer(code[: (end - start) // 4 * 4].tobytes(), "<u4").astype(np.int64)
    branches: dict[int, tuple[str, int]] = {}
    for kind, mask, value, low, width in BRANCHES:
        at = np.flatnonzero((words[:MOST_INSTRUCTIONS] & mask) == value)
        sign = 1 << width >> 1
        step = ((words[at] >> low & ((1 << width) - 1)) ^ sign) - sign
        for place, far in zip(at.tolist(), step.tolist(), strict=True):
            branches[place * 4] = kind, (place + far) * 4
    return Roads(np.arange(len(words), dtype=np.int64) * 4, branches, start, end)


def _read_branch(raw: bytes, at: int, following: int) -> tuple[str, int] | None:
    """(call | jump | test | return, target offset) of a branch; None for other instructions."""
    place = at
    while place < following and raw[place] in _PREFIXES:
        place += 1
    head = raw[place]
    if head in (0xC3, 0xC2):
        return "return", following
    if head in (0xE8, 0xE9):
        return ("call" if head == 0xE8 else "jump"), following + _read_signed(raw, place + 1, 4)
    if head == 0xEB:
        return "jump", following + _read_signed(raw, place + 1, 1)
    if head & 0xF0 == 0x70:
        return "test", following + _read_signed(raw, place + 1, 1)
    if head == 0x0F and raw[place + 1] & 0xF0 == 0x80:
        return "test", following + _read_signed(raw, place + 2, 4)
    # A jump through memory or a register may go anywhere: it ends what can be followed.
    return ("return", following) if head == 0xFF and raw[place + 1] >> 3 & 7 == 4 else None


def _read_signed(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "little", signed=True)
