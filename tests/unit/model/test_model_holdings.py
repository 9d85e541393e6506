"""What is kept and what was removed, counted in bytes."""

from __future__ import annotations

from rekindle.model.holdings import Cleaning, Holding, Holdings


def test_bytes_are_added_up() -> None:
    items = tuple(Holding(kind="logs", name="l", path="/l", bytes=size, age_seconds=0) for size in (3, 4))
    assert Cleaning(removed=items).freed_bytes == 7 and Cleaning().freed_bytes == 0
    assert Holdings(items=items).total_bytes == 7
