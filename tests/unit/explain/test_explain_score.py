"""The figures the diagnoses are judged by, on the collected cases: bare, in their own logs, and in generated long logs.

Run with ``-s`` to see them. The limits here are those the project promises for cases it has never seen.
"""

from __future__ import annotations

import zlib

import pytest

from longlogs import embed
from rekindle.explain.rule import load_rules
from samples import Sample, load_long, load_samples
from scoring import Score, load_cases, score, score_mentions

STAGES = {rule.id: rule.stage for rule in load_rules()}


def _bare(sample: Sample) -> bytes:
    return sample.text.encode()


def _embedded(sample: Sample, salt: int = 0) -> bytes:
    return embed(sample.text, STAGES[sample.cause], zlib.crc32(sample.name.encode()) + salt)


def _hold(result: Score) -> None:
    print(f"\n{result}")
    for miss in result.misses:
        print(f"   {miss}")
    assert result.total
    assert result.first >= 0.90 * result.total, result.misses
    assert result.three >= 0.97 * result.total, result.misses
    assert result.wrong_certain <= 0.02 * result.total, result.misses


def test_bare() -> None:
    _hold(score("bare", load_samples(), _bare))


def test_own_logs() -> None:
    _hold(score("own logs", load_long(), _bare))


@pytest.mark.parametrize("salt", [0, 1])
def test_embedded_in_long_logs(salt: int) -> None:
    half = load_samples()[salt::2]
    _hold(score(f"embedded, half {salt + 1}", half, lambda sample: _embedded(sample, salt)))


def test_what_answers_mention() -> None:
    result = score_mentions(load_cases())
    print(f"\n{result}")
    assert result.first >= 0.97 * result.total, result.misses
    assert result.wrong_certain <= 0.01 * result.total and result.silent <= 0.01 * result.total, result.misses
    assert result.unknown and result.unknown_certain == 0


def test_logs_written_from_what_programs_say() -> None:
    result = score_mentions(load_cases("written.jsonl"))
    print(f"\n{result}")
    assert result.first == result.total >= 150, result.misses
