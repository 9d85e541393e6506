"""What pip printed, and what of it says why."""

from __future__ import annotations

from rekindle.host.pip_errors import telling_lines


def test_marked_errors_stand_for_all_without_the_mark() -> None:
    said = "Looking in indexes: x\r\nERROR: Could not find a version\r\n  ERROR: No matching distribution\nnotice\n"
    assert telling_lines(said) == ["Could not find a version", "No matching distribution"]


def test_without_a_mark_all_that_was_said_counts() -> None:
    assert telling_lines("\n  one\n\n two \n") == ["one", "two"]
    assert telling_lines(" \n\n") == []
