"""The planner asked for the page: every question once and beside its like, on all cores, its answer in its own cell."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle import api
from rekindle.facts import load_facts
from rekindle.index.pages import grid
from rekindle.model.progress import Silent

paging: Any = importlib.import_module("rekindle.api.page")
GPUS = ("none", "sm_61")


class Listener(Silent):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, str]] = []
        self.steps: list[tuple[float, float | None, str]] = []

    def stage(self, name: str, detail: str = "") -> None:
        self.stages.append((name, detail))

    def step(self, done: float, total: float | None = None, detail: str = "") -> None:
        self.steps.append((done, total, detail))


def answer(ask: grid.Ask) -> grid.PageAnswer:
    """Another one for every question."""
    word = f'"{ask.gpu} {ask.place} {ask.cpu} {ask.python} {ask.driver}"'.encode()
    return grid.PageAnswer(fields=tuple(word for _ in grid.FIELDS), companions=b"null")


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[list[grid.Ask]]:
    """What the planner was asked, as it was asked together."""
    asked: list[list[grid.Ask]] = []

    def ask_planner(asks: Sequence[grid.Ask]) -> list[grid.PageAnswer]:
        asked.append(list(asks))
        return [answer(ask) for ask in asks]

    monkeypatch.setattr(paging, "ask_planner", ask_planner)
    return asked


def test_every_question_is_asked_once_beside_its_like_and_its_answer_is_its_own(
    groups: list[list[grid.Ask]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    listener = Listener()
    made = paging.plan_grid(GPUS, listener)
    every = [*grid.questions(GPUS), *grid.driver_questions(GPUS, load_facts())]
    asked = [ask for group in groups for ask in group]
    assert sorted(asked, key=repr) == sorted(every, key=repr)
    assert [{ask.gpu for ask in group} for group in groups] == [{"none"}, {"sm_61"}]
    for group in groups:
        alike = [(ask.place, ask.python, ask.driver) for ask in group]
        assert alike == sorted(alike)
    assert made == grid.fill(GPUS, ((ask, answer(ask)) for ask in every))
    assert listener.stages == [("plan", f"{len(every)} combinations of card, system, CPU, Python and driver")]
    assert listener.steps == [(len(groups[0]), len(every), "none"), (len(every), len(every), "sm_61")]


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no signal masks")
@pytest.mark.parametrize(("cores", "workers"), [(None, None), (1, None), (2, 2), (8, 8), (9, 8)])
def test_all_cores_help_and_no_more_than_eight(
    cores: int | None, workers: int | None, groups: list[list[grid.Ask]], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[int, Callable[[], None], bool]] = []
    closed: list[bool] = []

    def held_back() -> bool:
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])

    class Pool:
        def __init__(self, count: int, begin: Callable[[], None]) -> None:
            started.append((count, begin, held_back()))

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *_: object) -> None:
            closed.append(held_back())

        def imap(self, work: Callable[[Any], Any], things: Iterable[Any]) -> Iterator[Any]:
            assert not held_back(), "Ctrl-C reaches who waits for the answers"
            return map(work, things)

    def context(kind: str) -> SimpleNamespace:
        assert kind == "spawn"
        return SimpleNamespace(Pool=Pool)

    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(multiprocessing, "get_context", context)
    asks = [[ask] for ask in list(grid.questions(GPUS))[:3]]
    assert list(paging._ask_groups(asks)) == [(group, [answer(group[0])]) for group in asks]
    assert groups == asks and not held_back()
    assert started == ([] if workers is None else [(workers, paging._begin_worker, True)])
    assert len(closed) == len(started)


def test_a_worker_leaves_the_interrupt_to_who_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(signal, "signal", lambda *words: told.append(words))
    monkeypatch.setattr(gc, "disable", lambda: told.append("gc"))
    paging._begin_worker()
    assert told == [(signal.SIGINT, signal.SIG_IGN), "gc"]


def test_a_page_for_a_folder_is_its_index_and_names_the_house_it_is_outside_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bases: list[str] = []

    def render(facts: object, planned: object, rows: object, *, base: str) -> tuple[str, int]:
        bases.append(base)
        return "<html>", 1

    heard: list[object] = []

    def plan_grid(gpus: object, progress: object) -> SimpleNamespace:
        heard.append(progress)
        return SimpleNamespace(answers=())

    monkeypatch.setattr(paging, "plan_grid", plan_grid)
    monkeypatch.setattr(paging, "render_page", render)
    monkeypatch.setattr(paging, "load_wheels", lambda root: ("one",))
    (tmp_path / "www").mkdir()
    listener = Listener()
    made = api.index_page(root=str(tmp_path / "house"), out=str(tmp_path / "www"), progress=listener)
    assert made.path == str(tmp_path / "www" / "index.html") and Path(made.path).is_file() and made.wheels == 1
    api.index_page(root="https://x.example/house", out=str(tmp_path / "a.html"))
    api.index_page(root=str(tmp_path), out=None)
    assert bases == [(tmp_path / "house").as_uri() + "/", "https://x.example/house/", ""]
    assert heard[0] is listener and isinstance(heard[1], Silent)
