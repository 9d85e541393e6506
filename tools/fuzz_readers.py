#!/usr/bin/env python3
"""Coverage-guided fuzzing of the readers of strangers' bytes, by mutation, with no tool but Python.

    python tools/fuzz_readers.py [--seconds 60] [--seed 1] [--reader elf]

An input that reaches a line no earlier one did is kept and mutated further. A reader may only return or raise a
RekindleError; anything else, a run over two seconds or over 200 MB of new memory is reported with its input.
"""

from __future__ import annotations

import argparse
import functools
import random
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz_targets import targets

SLOW_SECONDS, MUCH_MB = 2.0, 200
NUMBERS = (0, 1, 7, 8, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)


def mutate(draw: random.Random, data: bytes, others: list[bytes]) -> bytes:
    out = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        if not out:
            return bytes(out)
        at, kind = draw.randrange(len(out)), draw.randrange(8)
        if kind == 0:
            out[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            out[at] = draw.randrange(256)
        elif kind in (2, 3):
            size = draw.choice((2, 4, 8))
            number = draw.choice((*NUMBERS, len(out), draw.randrange(len(out))))
            out[at : at + size] = (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        elif kind == 4:
            del out[at : at + draw.randrange(1, 64)]
        elif kind == 5:
            piece = draw.choice(others)
            start = draw.randrange(len(piece) or 1)
            out[at:at] = piece[start : start + draw.randrange(1, 64)]
        elif kind == 6:
            out = out[:at]
        else:
            end = min(len(out), at + draw.randrange(1, 32))
            out[at:end] = out[at:end][::-1]
    return bytes(out)


class Coverage:
    """Lines of our own readers that a run touches."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()
        self._now: set[tuple[str, int]] = set()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if "rekindle/formats" not in name and "rekindle/inspect" not in name:
            return None
        if event == "line":
            self._now.add((name, frame.f_lineno))
        return self._trace

    def run(self, call: Callable[[], object]) -> int:
        """How many lines were new."""
        self._now = set()
        sys.settrace(self._trace)
        try:
            call()
        finally:
            sys.settrace(None)
            new = len(self._now - self.lines)
            self.lines |= self._now
        return new


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader")
    parser.add_argument("--start-from", action="append", default=[], metavar="FILE", help="a real library to mutate")
    args = parser.parse_args()
    from rekindle.errors import RekindleError

    chosen = {name: row for name, row in targets().items() if args.reader in (None, name)}
    for path in args.start_from:
        chosen["library"][1].append(Path(path).read_bytes())
    draw, bad = random.Random(args.seed), 0
    for name, (reader, seeds) in chosen.items():
        coverage, corpus, runs, refused = Coverage(), list(seeds), 0, 0
        end = time.monotonic() + args.seconds / len(chosen)
        while time.monotonic() < end:
            data = draw.choice(corpus) if runs < len(seeds) else mutate(draw, draw.choice(corpus), corpus)
            before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
            lines = len(coverage.lines)
            try:
                coverage.run(functools.partial(reader, data))
            except RekindleError:
                refused += 1
            except Exception:  # noqa: BLE001 (the very thing we look for)
                bad += 1
                print(f"{name}: {traceback.format_exc()}\n  input {data.hex()[:2000]}")
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            if time.process_time() - start > SLOW_SECONDS or grown > MUCH_MB:
                bad += 1
                print(f"{name}: {time.process_time() - start:.1f} s, {grown:.0f} MB more\n  input {data.hex()[:2000]}")
            if len(coverage.lines) > lines:
                corpus.append(data)
            runs += 1
        print(
            f"{name:<8} {runs:7} runs, {refused:7} refused, {len(corpus):4} kept, {len(coverage.lines):5} lines reached"
        )
    print(f"faults: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
