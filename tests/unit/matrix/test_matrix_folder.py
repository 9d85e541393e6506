"""A cell's directory: truth that survives kills, strangers' copies and garbage; one owner at a time."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from matrix_mini import cell

from rekindle.errors import BadInput, WorkspaceBusy
from rekindle.matrix.engine import Ending
from rekindle.matrix.ledger import (
    DEAD_AFTER_SECONDS,
    HEARTBEAT_SECONDS,
    CellFolder,
    Decision,
    DirectoryLedger,
    Owner,
    begin_attempt,
    end_attempt,
    fail_attempt,
    hold_cell,
    is_done,
    is_held,
    read_owner,
)
from rekindle.model.document import encode
from rekindle.model.matrix import CellState, Defaults, Stage

CELL = cell(1)


@pytest.fixture
def folder(tmp_path: Path) -> CellFolder:
    made = CellFolder(tmp_path, CELL.id)
    made.freeze(CELL)
    return made


def test_a_state_comes_back(folder: CellFolder) -> None:
    state = fail_attempt(begin_attempt(CellState(id=CELL.id), jobs=3), "compile", "no")
    folder.save(state)
    assert folder.state() == state
    assert folder.cell() == CELL


@pytest.mark.parametrize("garbage", [b"", b"{", b"\xff\x00", b'{"schema": 1, "id": "other"}'])
def test_garbage_is_a_cell_nobody_touched(folder: CellFolder, garbage: bytes) -> None:
    folder.state_file.write_bytes(garbage)
    assert folder.state() == CellState(id=CELL.id)


def test_a_cell_from_elsewhere_is_refused(folder: CellFolder, tmp_path: Path) -> None:
    other = CellFolder(tmp_path, f"{2:016x}")
    other.place.mkdir(parents=True)
    (other.place / "cell.json").write_bytes(encode(CELL))
    with pytest.raises(BadInput, match="copied from elsewhere"):
        other.cell()


@pytest.mark.parametrize("name", ["../../x", "", "ABCDEF0123456789", "0" * 15, "0" * 17])
def test_only_ids_are_ids(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput):
        CellFolder(tmp_path, name)


def test_one_owner_at_a_time(folder: CellFolder) -> None:
    with hold_cell(folder) as before:
        assert before is None
        assert is_held(folder)
        owner = read_owner(folder)
        assert owner is not None
        assert owner.pid == os.getpid()
        with pytest.raises(WorkspaceBusy), hold_cell(folder):
            pass
    assert not is_held(folder)
    assert read_owner(folder) is None


HOLD = "import sys,time;from pathlib import Path;from rekindle.matrix.ledger import CellFolder as F;\
from rekindle.matrix.ledger import hold_cell;\
c=hold_cell(F(Path(sys.argv[1]),sys.argv[2]));c.__enter__();print('held',flush=True);time.sleep(60)"


def test_a_killed_owner_is_noticed_and_taken_over(folder: CellFolder) -> None:
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(folder.root), folder.id], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"held"
        assert is_held(folder)
        with pytest.raises(WorkspaceBusy, match=str(child.pid)), hold_cell(folder):
            pass
    finally:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()
    assert not is_held(folder)
    with hold_cell(folder) as before:
        assert before is not None
        assert before.pid == child.pid


@pytest.mark.parametrize(
    ("age", "held"), [(0.0, True), (DEAD_AFTER_SECONDS - 1, True), (DEAD_AFTER_SECONDS, False), (61.0, False)]
)
def test_an_owner_on_another_machine_lives_while_its_heart_beats(folder: CellFolder, age: float, held: bool) -> None:
    folder.owner_file.write_bytes(encode(Owner(host="elsewhere", pid=1, since=0.0)))
    (folder.place / ".lock").touch()
    os.utime(folder.owner_file, (1e9, 1e9))
    now = 1e9 + age
    assert is_held(folder, clock=lambda: now) is held
    if held:
        with pytest.raises(WorkspaceBusy), hold_cell(folder, clock=lambda: now):
            pass
    else:
        with hold_cell(folder, clock=lambda: now) as before:
            assert before is not None
            assert before.host == "elsewhere"


def test_a_heart_may_miss_a_few_beats_and_a_minute_of_silence_is_death() -> None:
    assert 5 * HEARTBEAT_SECONDS < DEAD_AFTER_SECONDS == 60 and HEARTBEAT_SECONDS <= 10


def test_nobody_holds_a_cell_whose_lock_or_owner_is_gone(folder: CellFolder) -> None:
    assert is_held(folder) is False
    (folder.place / ".lock").touch()
    assert is_held(folder) is False
    folder.owner_file.write_bytes(encode(Owner(host=platform.node(), pid=os.getpid(), since=0.0)))
    assert is_held(folder) is False, "on this machine the lock alone says so"


def test_an_owner_whose_file_was_removed_ends_in_peace(folder: CellFolder) -> None:
    with hold_cell(folder):
        folder.owner_file.unlink()
        assert is_held(folder)
    assert not is_held(folder)


def test_an_attempt_that_never_ended_was_lost() -> None:
    twice = begin_attempt(begin_attempt(CellState(id=CELL.id), jobs=None), jobs=None)
    assert [attempt.failure for attempt in twice.attempts] == ["lost", None]
    assert [attempt.number for attempt in twice.attempts] == [1, 2]
    done = end_attempt(twice)
    assert done.attempts[-1].ended is not None


def ledger(root: Path, **more: object) -> DirectoryLedger:
    return DirectoryLedger(root=root, defaults=Defaults(**more), cores=8)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("why", "stage", "failure"),
    [("lost", "failed", "lost"), ("hang", "failed", "hang"), ("cancelled", "cancelled", None)],
)
def test_what_a_cell_could_not_write_is_written_for_it(
    folder: CellFolder, why: str, stage: str, failure: str | None
) -> None:
    folder.save(begin_attempt(CellState(id=CELL.id), jobs=None))
    ledger(folder.root).ended(CELL, Ending(cell=CELL.id, code=1, seconds=1.0, why=why))
    state = folder.state()
    assert (state.stage, state.failure) == (stage, failure)


def test_a_finished_cell_is_not_overwritten(folder: CellFolder) -> None:
    state = msgspec.structs.replace(end_attempt(begin_attempt(CellState(id=CELL.id), jobs=None)), stage="proven")
    folder.save(state)
    ledger(folder.root).ended(CELL, Ending(cell=CELL.id, code=1, seconds=1.0, why="lost"))
    assert folder.state() == state


def test_a_changed_wheel_is_built_again(folder: CellFolder) -> None:
    from rekindle.host.files import sha256_of

    wheel = folder.wheels / "a.whl"
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"one")
    state = msgspec.structs.replace(
        end_attempt(begin_attempt(CellState(id=CELL.id), jobs=None)),
        stage="built",
        wheel=str(wheel),
        wheel_sha256=sha256_of(wheel),
    )
    folder.save(state)
    assert is_done(CELL, state) is True
    assert is_done(CELL, msgspec.structs.replace(state, stage="failed")) is False
    assert not ledger(folder.root).decide(CELL, fresh_run=True).build
    wheel.write_bytes(b"two")
    assert is_done(CELL, state) is False
    assert ledger(folder.root).decide(CELL, fresh_run=True).build
    wheel.unlink()
    assert is_done(CELL, state) is False
    assert is_done(CELL, CellState(id=CELL.id, stage="built")) is False


@pytest.mark.parametrize("stage", typing.get_args(Stage))
def test_a_cell_is_done_when_its_directory_says_it_is_built(folder: CellFolder, stage: Stage) -> None:
    book = ledger(folder.root)
    assert book.done(CELL) is False, "nobody touched it"
    folder.save(CellState(id=CELL.id, stage=stage))
    assert book.done(CELL) is (stage in ("built", "proven"))


def test_a_cell_is_held_while_somebody_works_on_it(folder: CellFolder) -> None:
    book = ledger(folder.root)
    with hold_cell(folder):
        assert book.held(CELL) is True
    assert book.held(CELL) is False


def test_the_command_has_fewer_jobs_after_memory_ran_out(folder: CellFolder) -> None:
    folder.save(fail_attempt(begin_attempt(CellState(id=CELL.id), jobs=None), "memory", "m"))
    book = ledger(folder.root, memory="2G", launcher="ccache")
    decision = book.decide(CELL, fresh_run=False)
    argv = book.task(CELL, "w", decision).argv
    assert argv[argv.index("--jobs") + 1] == "4"
    assert argv[argv.index("--memory") + 1] == "2G"
    assert argv[argv.index("--launcher") + 1] == "ccache"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, []),
        ({"farm": ""}, ["--farm"]),
        ({"farm": "a:9"}, ["--farm=a:9"]),
        ({"farm_check": 0}, ["--farm-check=0"]),
        ({"force": frozenset({CELL.id})}, ["--force"]),
        ({"force": frozenset({"another"})}, []),
    ],
)
def test_the_command_says_only_what_the_matrix_says(
    folder: CellFolder, settings: dict[str, Any], words: list[str]
) -> None:
    folder.cancel_file.parent.mkdir(parents=True, exist_ok=True)
    folder.cancel_file.touch()
    book = DirectoryLedger(root=folder.root, defaults=Defaults(jobs=6, hang_minutes=2), cores=8, **settings)
    task = book.task(CELL, "w", book.decide(CELL, fresh_run=True))
    assert task.argv[1:] == (
        *("-m", "rekindle", "matrix", "cell", CELL.id, "--root", str(folder.root), "--trust", "--jobs", "6"),
        *words,
    )
    assert (task.worker, task.env, task.hang_seconds) == ("w", {}, 120)
    assert not folder.cancel_file.exists(), "a cell that is started again is not cancelled"


def test_a_cache_and_a_time_line_are_told_where_they_are_wished(folder: CellFolder) -> None:
    book = DirectoryLedger(root=folder.root, defaults=Defaults(cache="/cache"), cores=8, traces=True)
    task = book.task(CELL, "w", Decision(True, "because"))
    assert task.argv[-1] == f"--trace={folder.trace}" and "--jobs" not in task.argv
    assert task.env == {"CCACHE_DIR": "/cache", "SCCACHE_DIR": "/cache"}


@pytest.mark.parametrize(("jobs", "divisor", "given"), [(6, 2, "3"), (None, 2, "4"), (2, 16, "1")])
def test_jobs_are_cut_from_those_given_or_from_the_cores(
    folder: CellFolder, jobs: int | None, divisor: int, given: str
) -> None:
    task = ledger(folder.root, jobs=jobs).task(CELL, "w", Decision(True, "because", divisor))
    assert task.argv[task.argv.index("--jobs") + 1] == given


def test_a_stale_time_stamp_does_not_hide_a_live_owner_here(folder: CellFolder) -> None:
    with hold_cell(folder):
        old = time.time() - 10 * DEAD_AFTER_SECONDS
        os.utime(folder.owner_file, (old, old))
        assert is_held(folder)


def test_a_task_that_comes_twice_builds_nothing_the_second_time(tmp_path: Path) -> None:
    from rekindle.api import matrix_cell
    from rekindle.host.files import sha256_of

    folder = CellFolder(tmp_path, CELL.id)
    folder.freeze(CELL)
    wheel = folder.wheels / "a.whl"
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(b"one")
    done = msgspec.structs.replace(
        end_attempt(begin_attempt(CellState(id=CELL.id), jobs=None)),
        stage="proven",
        wheel=str(wheel),
        wheel_sha256=sha256_of(wheel),
    )
    folder.save(done)
    assert matrix_cell(tmp_path, CELL.id) == done
    assert folder.state() == done
