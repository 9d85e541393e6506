"""What is waited for longer than a moment is told, and what is quick is not."""

from __future__ import annotations

import threading
import time

import pytest

from rekindle.model import progress as waiting


class Heard(waiting.Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_only_what_takes_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    with waiting.tell_while(heard, "asking"):
        pass
    assert heard.notes == []
    monkeypatch.setattr(waiting, "_PATIENT_SECONDS", 0.0)
    with waiting.tell_while(heard, "asking"):
        deadline = time.monotonic() + 10
        while not heard.notes and time.monotonic() < deadline:
            time.sleep(0.01)
    assert heard.notes == ["asking"]


def test_what_goes_on_meanwhile_ends_with_it_and_keeps_no_program_from_ending() -> None:
    seen: list[bool] = []
    begun, told = threading.Event(), threading.Event()

    def work(done: threading.Event) -> None:
        seen.append(threading.current_thread().daemon)
        seen.append(done.is_set())
        begun.set()
        seen.append(done.wait(timeout=20))
        told.set()

    with waiting.run_meanwhile(work):
        assert begun.wait(timeout=20)
    assert told.is_set(), "it is waited for"
    assert seen == [True, False, True]


def test_an_error_passes_through() -> None:
    with pytest.raises(ZeroDivisionError), waiting.tell_while(Heard(), "dividing"):
        _ = 1 / 0
