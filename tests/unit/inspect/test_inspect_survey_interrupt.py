"""Reading several libraries at once: in order, errors handed on, and over at once when it is interrupted."""

from __future__ import annotations

import threading

import pytest

from rekindle.inspect import survey


def test_results_come_in_order_and_errors_are_handed_on() -> None:
    ran: list[str] = []
    assert list(survey._in_turn(lambda name: name, ["a", "b", "c"], lambda: ran.append("beside"))) == ["a", "b", "c"]  # type: ignore[arg-type, return-value]
    assert ran == ["beside"]
    with pytest.raises(ZeroDivisionError):
        list(survey._in_turn(lambda name: 1 // 0, ["a", "b"], None))  # type: ignore[arg-type, return-value]


def test_an_interrupt_waits_for_no_library_and_begins_none() -> None:
    begun: list[str] = []
    go_on = threading.Event()

    def read(name: str) -> None:
        begun.append(name)
        if name != "first":
            go_on.wait(60)

    reading = survey._in_turn(read, ["first", "slow", "slower", "later"], None)
    next(reading)
    closer = threading.Thread(target=reading.close)  # what a KeyboardInterrupt in the consumer does
    closer.start()
    closer.join(30)
    ended = not closer.is_alive()
    go_on.set()
    assert ended
    assert "later" not in begun
