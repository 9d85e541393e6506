"""What is waited for longer than a moment is told, and what is quick is not."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

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


class Steps(waiting.Silent):
    def __init__(self) -> None:
        self.told: list[object] = []

    def note(self, text: str) -> None:
        self.told.append(text)

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        self.told.append((done, total, detail))


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([True, True], []),
        ([False, True], ["asking"]),
        (
            [False, False, False, True],
            ["asking", (0, None, "asking: 7 s"), (0, None, "asking: 9 s")],
        ),
    ],
)
def test_what_lasts_is_told_again_with_its_time(
    answers: list[bool], told: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter((100.0, 107.2, 108.9))
    works: list[Callable[[Any], None]] = []

    def keep(work: Callable[[Any], None]) -> contextlib.AbstractContextManager[None]:
        works.append(work)
        return contextlib.nullcontext()

    monkeypatch.setattr(waiting, "run_meanwhile", keep)
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    steps = Steps()
    with waiting.tell_while(steps, "asking"):
        pass
    works[0](SimpleNamespace(wait=lambda timeout: answers.pop(0)))
    assert steps.told == told


def test_an_error_passes_through() -> None:
    with pytest.raises(ZeroDivisionError), waiting.tell_while(Heard(), "dividing"):
        _ = 1 / 0
