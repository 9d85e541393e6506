"""The logs of sccache-dist 0.16.0: who compiled what, who was lost, and what lines mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.farm.watch import SeenFarm, explain_failure, read_log, read_scheduler_log, read_worker_log

A, B = "10.0.0.1:10501", "10.0.0.2:10501"


def line(text: str, level: str = "INFO ", when: str = "2026-11-18T01:54:04Z") -> str:
    return f"[{when} {level} sccache_dist] {text}\n"


def job(number: int, worker: str, *states: str) -> list[str]:
    created = line(f"Job {number} created and will be assigned to server ServerId({worker})")
    assigned = line(f"Job {number} successfully assigned and saved with state Pending")
    return [created, assigned, *(line(f"Job {number} updated state to {state}") for state in states)]


def read(*lines: str) -> SeenFarm:
    seen = SeenFarm()
    read_scheduler_log(lines, seen)
    return seen


def test_each_worker_has_what_it_compiled() -> None:
    seen = read(
        line(f"Registered new server ServerId({A})"),
        line(f"Registered new server ServerId({B})"),
        *job(0, A, "Ready", "Started", "Complete"),
        *job(1, B, "Ready", "Started"),
        *job(2, A, "Started", "Complete"),
        *job(3, B),
    )
    assert (seen.workers[A].compiled, len(seen.workers[A].jobs), seen.workers[A].lost) == (2, 0, 0)
    assert (seen.workers[B].compiled, len(seen.workers[B].jobs), seen.workers[B].here) == (0, 2, True)
    assert not seen.failures


def test_a_dead_worker_loses_what_it_had() -> None:
    dead = line(f"Server {A} appears to be dead, pruning it in the scheduler", "WARN ", "2026-11-18T02:00:00Z")
    gone = line("Non-terminated job 1 was cleaned up in server pruning", "WARN ")
    seen = read(line(f"Registered new server ServerId({A})"), *job(1, A, "Started"), dead, gone)
    assert (seen.workers[A].lost, seen.workers[A].here, len(seen.workers[A].jobs)) == (1, False, 0)
    failures = {failure.where: failure for failure in seen.failures.values()}
    assert failures[A].when == "2026-11-18T02:00:00Z"
    assert "90 seconds" in (failures[A].why or "") and "lost with its worker" in (failures["scheduler"].why or "")
    back = read(
        line(f"Registered new server ServerId({A})"), *job(1, A), dead, line(f"Registered new server ServerId({A})")
    )
    assert back.workers[A].here and back.workers[A].lost == 1


def test_one_that_registers_again_was_started_again() -> None:
    seen = read(line(f"Registered new server ServerId({A})"), *job(5, A), line(f"Registered new server ServerId({A})"))
    assert (seen.workers[A].lost, len(seen.workers[A].jobs)) == (1, 0)


def test_the_same_failure_is_counted() -> None:
    full = "Res {} error: run build failed: caused by: No space left on device (os error 28)"
    seen = SeenFarm()
    read_worker_log(
        (line(full.format(number), "WARN ", f"2026-11-18T02:00:0{number}Z") for number in range(3)), A, seen
    )
    (failure,) = seen.failures.values()
    assert (failure.count, failure.where, failure.when) == (3, A, "2026-11-18T02:00:02Z")
    assert failure.why == "the worker's disk is full" and failure.fix
    read_worker_log([line("something new 1", "ERROR"), line("something new 2", "ERROR"), line("fine")], A, seen)
    assert sorted(row.count for row in seen.failures.values()) == [2, 3]


def test_what_is_no_line_of_a_log_is_passed_over() -> None:
    seen = read("", "thread 'main' panicked at x\n", "[", "\x00" * 100, line("Job x created"), "[" * 1_000_000)
    assert not seen.workers and not seen.failures


def test_no_log_is_no_line(tmp_path: Path) -> None:
    assert list(read_log(tmp_path / "none")) == []
    (tmp_path / "log").write_bytes(b"one\xff\ntwo")
    assert list(read_log(tmp_path / "log")) == ["one\ufffd\n", "two"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('Bearer auth failed: ClientVisibleMsg("Fixed token mismatch")', "token"),
        (
            "Failed to send heartbeat to server: Error 401 (Headers={}): invalid_bearer_token_mismatched_address",
            "token",
        ),
        ("Failed to send heartbeat to server: error sending request for url", "did not reach the scheduler"),
        ("Res 3 error: assign job failed, job un-assigned from the server", "did not reach a worker"),
        ("Res 7 error: Failed to mount overlay FS: Invalid argument", "overlay"),
    ],
)
def test_lines_have_a_meaning(text: str, word: str) -> None:
    why, _ = explain_failure(text)
    assert why and word in why


def test_a_strange_line_has_none() -> None:
    assert explain_failure("the moon is full") == (None, None)


def test_when_a_worker_was_seen_last() -> None:
    """When it registered, was given something, or finished it; that it is dead is said long after."""
    lines = [
        line(f"Registered new server ServerId({A})", when="T1"),
        *job(1, A, "Complete"),
        line(f"Job 2 created and will be assigned to server ServerId({A})", when="T2"),
        line("Job 2 updated state to Complete", when="T3"),
        line("Job 2 updated state to Complete", when="T4"),
        line(f"Server {A} appears to be dead, pruning it in the scheduler", "WARN ", "T5"),
    ]
    seen = [read(*lines[:number]).workers[A] for number in (1, 5, 6, 7, 8)]
    assert [(worker.last, worker.compiled, worker.here) for worker in seen] == [
        ("T1", 0, True),
        ("T2", 1, True),
        ("T3", 2, True),
        ("T3", 2, True),
        ("T3", 2, False),
    ]


def test_a_worker_that_nobody_registered_is_there_while_it_is_given_work() -> None:
    seen = read(*job(1, A, "Started"), line(f"Server {B} appears to be dead", "WARN "))
    assert (seen.workers[A].here, seen.workers[B].here) == (True, False)
    assert (seen.workers[B].compiled, seen.workers[B].lost, seen.workers[B].last) == (0, 0, None)
    assert {where for where, _ in seen.failures} == {B}
    read_scheduler_log([line(f"Server {B} appears to be dead", "ERROR")], seen)
    assert {where for where, _ in seen.failures} == {B, "scheduler"}, "as an error it is the scheduler's own"


def test_only_warnings_and_errors_are_failures() -> None:
    seen = read(*(line(f"it is {level}", level) for level in ("INFO ", "DEBUG", "TRACE", "WARN ", "ERROR")))
    assert sorted(failure.what for failure in seen.failures.values()) == ["it is ERROR", "it is WARN"]
    read_worker_log([line("fine"), line("odd", "WARN "), line("bad", "ERROR")], A, seen)
    assert sorted(failure.what for failure in seen.failures.values() if failure.where == A) == ["bad", "odd"]


def test_a_long_line_is_cut_and_a_longer_one_no_line() -> None:
    seen = read(line("x" * 500, "ERROR"))
    assert [len(failure.what) for failure in seen.failures.values()] == [300]
    rest = 2000 - len(line("Registered new server ServerId()").rstrip())
    assert read(line(f"Registered new server ServerId({'x' * rest})")).workers
    assert not read(line(f"Registered new server ServerId({'x' * (rest + 1)})")).workers


def test_one_failure_of_two_workers_is_two() -> None:
    seen = SeenFarm()
    for where in (A, B, B):
        read_worker_log([line("No space left on device", "ERROR")], where, seen)
    assert sorted((failure.where, failure.count) for failure in seen.failures.values()) == [(A, 1), (B, 2)]
