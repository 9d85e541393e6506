"""Who may stay connected to the server: a crowd pushes out who waits, and who is too slow loses its place."""

from __future__ import annotations

import socket
from typing import cast

import pytest

from rekindle.index import server
from rekindle.index.server import ANSWER_SECONDS, HEAD_SECONDS, OpenConnections


class Line:
    """Stands for a connection; notes that it was hung up."""

    def __init__(self) -> None:
        self.up = True

    def shutdown(self, how: int) -> None:
        self.up = False


class Door:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, connections: int = 3, per_client: int = 2) -> None:
        self.now, self.open = 100.0, OpenConnections()
        monkeypatch.setattr("rekindle.index.server.time.monotonic", lambda: self.now)
        monkeypatch.setattr(server, "MAX_CONNECTIONS", connections)
        monkeypatch.setattr(server, "MAX_PER_CLIENT", per_client)

    def enter(self, client: str, *, served: bool = False) -> Line | None:
        line = Line()
        self.now += 1
        let_in = self.open.enter(plug(line), client)
        assert isinstance(let_in, bool)
        if not let_in:
            return None
        if served:
            self.open.answers(plug(line))
        return line


def plug(line: Line) -> socket.socket:
    return cast("socket.socket", line)


def test_a_full_house_lets_the_newest_in_for_the_one_that_waits_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(monkeypatch)
    lines = [door.enter(name) for name in "abcd"]
    assert [line and line.up for line in lines] == [False, True, True, True]


def test_whoever_is_being_served_is_not_pushed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(monkeypatch)
    first, second = door.enter("a", served=True), door.enter("b")
    assert door.enter("c", served=True) and door.enter("d", served=True)
    assert first and first.up and second and not second.up
    assert door.enter("e") is None, "all others are being served"
    door.open.awaits(plug(first))
    assert door.enter("e") and not first.up, "one that waits for its next request gives way"


def test_one_client_cannot_take_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(monkeypatch, connections=9)
    other, mine = door.enter("b"), [door.enter("a") for _ in range(3)]
    assert [line and line.up for line in mine] == [False, True, True] and other and other.up
    full = Door(monkeypatch, connections=9)
    assert full.enter("a", served=True) and full.enter("a", served=True)
    assert full.enter("a") is None and full.enter("b")


def test_whoever_left_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(monkeypatch, connections=1, per_client=1)
    first = door.enter("a", served=True)
    assert first and door.enter("b") is None
    door.open.leave(plug(first))
    assert door.enter("b") and first.up


def test_a_head_that_does_not_come_and_an_answer_that_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(monkeypatch)
    waiting, served = door.enter("a"), door.enter("b")
    assert waiting and served
    size = server.SLOWEST_BYTES_PER_SECOND * 30
    door.open.answers(plug(served), size)
    began = door.now
    door.now = began - 1 + HEAD_SECONDS
    door.open.sweep()
    assert waiting.up, "until the very second"
    door.now += 0.1
    door.open.sweep()
    assert not waiting.up and served.up
    door.now = began + ANSWER_SECONDS + 30
    door.open.sweep()
    assert served.up
    door.now += 0.1
    door.open.sweep()
    assert not served.up


def test_an_answer_without_a_body_gets_no_time_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(monkeypatch)
    monkeypatch.setattr(server, "SLOWEST_BYTES_PER_SECOND", 1)
    short, long = door.enter("a", served=True), door.enter("b")
    assert short and long
    door.open.answers(plug(long), 1)
    began = door.now - 1
    for seconds, up in ((0, (True, True)), (0.5, (False, True)), (2, (False, True)), (2.5, (False, False))):
        door.now = began + ANSWER_SECONDS + seconds
        door.open.sweep()
        assert (short.up, long.up) == up, seconds


def test_one_that_is_not_known_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been hung up while its thread still worked."""
    door, gone = Door(monkeypatch), Line()
    for call in (door.open.awaits, door.open.answers, door.open.leave):
        call(plug(gone))
    door.now += HEAD_SECONDS + ANSWER_SECONDS + 10
    door.open.sweep()
    assert gone.up


def test_a_line_that_is_broken_already_loses_its_place_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Line):
        def shutdown(self, how: int) -> None:
            raise OSError("not connected")

    door, broken = Door(monkeypatch, connections=1), Broken()
    assert door.open.enter(plug(broken), "a") is True and door.enter("b")


def test_the_limit_of_a_client_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door(monkeypatch, connections=4, per_client=2)
    others = [door.enter("b"), door.enter("c")]
    mine = [door.enter("a"), door.enter("a")]
    assert all(line and line.up for line in (*others, *mine)), "up to both limits nobody gives way"
    assert door.enter("a") and [line and line.up for line in mine] == [False, True]
    assert all(line and line.up for line in others)
