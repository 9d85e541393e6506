"""The sample logs: ``tests/logs/<cause>.txt`` holds short samples, ``tests/logs/long/<cause>.<name>.log`` whole logs.

A short sample begins with a line ``=== NAME URL [doubtful]``; doubtful ones could not be confirmed in their thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

LOGS = Path(__file__).parent / "logs"
_HEAD = re.compile(r"^=== (\S+) (\S+)( doubtful)?$", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    cause: str
    name: str
    url: str
    text: str
    doubtful: bool = False
    long: bool = False


def load_samples() -> list[Sample]:
    samples = []
    for path in sorted(LOGS.glob("*.txt")):
        pieces = _HEAD.split(path.read_text(encoding="utf-8"))
        for name, url, doubtful, text in zip(*[iter(pieces[1:])] * 4, strict=True):
            samples.append(Sample(path.stem, name, url, text.strip("\n"), bool(doubtful)))
    return samples


def load_long() -> list[Sample]:
    short = {sample.name: sample for sample in load_samples()}
    samples = []
    for path in sorted((LOGS / "long").glob("*.log")):
        cause, name = path.stem.rsplit(".", 1)
        known = short.get(name)
        text = path.read_text(encoding="utf-8")
        samples.append(Sample(cause, name, known.url if known else "", text, bool(known and known.doubtful), True))
    return samples
