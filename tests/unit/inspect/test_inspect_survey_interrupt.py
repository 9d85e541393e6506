"""Reading several libraries at once: in order, errors handed on, and over at once when it is interrupted."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from rekindle.inspect import survey


def test_results_come_in_order_and_errors_are_handed_on() -> None:
    ran: list[str] = []
    same: Any = lambda name: name  # noqa: E731
    assert list(survey._read_in_order(same, ["a", "b", "c"], lambda: ran.append("beside"))) == ["a", "b", "c"]  # type: ignore[comparison-overlap]
    assert ran == ["beside"]
    broken: Any = lambda name: 1 // 0  # noqa: E731
    with pytest.raises(ZeroDivisionError):
        list(survey._read_in_order(broken, ["a", "b"], None))


def test_an_interrupt_waits_for_no_library_and_begins_none() -> None:
    begun: list[str] = []
    go_on = threading.Event()

    def read(name: str) -> None:
        begun.append(name)
        if name != "first":
            go_on.wait(60)

    reading: Any = survey._read_in_order(read, ["first", "slow", "slower", "later"], None)
    next(reading)
    closer = threading.Thread(target=reading.close)  # what a KeyboardInterrupt in the consumer does
    closer.start()
    closer.join(30)
    ended = not closer.is_alive()
    go_on.set()
    assert ended
    assert "later" not in begun
