"""The logs of sccache-dist 0.16.0: who compiled what, who was lost, and what lines mean."""

from __future__ import annotations

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


def test_no_log_is_no_line(tmp_path: object) -> None:
    from pathlib import Path

    assert list(read_log(Path(str(tmp_path)) / "none")) == []


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
