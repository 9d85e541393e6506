"""Commands that hang, are cancelled or killed; the loop over an engine that does as told; scripts for Slurm."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from matrix_mini import cell

from rekindle.errors import StageFailed
from rekindle.matrix import engine
from rekindle.matrix.engine import Ending, HangWatch, LocalEngine, Stopped, Task, carry_out, run_task
from rekindle.matrix.ledger import Decision
from rekindle.matrix.run import Loop, slurm_script
from rekindle.model.matrix import BUSY_CODE, Cell, Defaults, Worker

HERE = Worker(name="here", system="linux-x86_64", slots=2)


KILLED = pytest.mark.skipif(os.name == "nt", reason="Windows has no exit code for what was killed")


def task(tmp_path: Path, code: str, **more: object) -> Task:
    argv = (sys.executable, "-c", code)
    values: dict[str, object] = {"cell": "c", "worker": "here", "env": dict(os.environ), **more}
    return Task(argv=argv, log=str(tmp_path / "log"), **values)  # type: ignore[arg-type]


def test_a_command_ends_with_its_code_and_its_log(tmp_path: Path) -> None:
    begun = time.monotonic()
    ending = carry_out(task(tmp_path, "print('hello'); raise SystemExit(7)"))
    assert (ending.code, ending.why) == (7, "")
    assert 0 < ending.seconds <= time.monotonic() - begun
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_silent_idle_command_hangs(tmp_path: Path) -> None:
    ending = carry_out(task(tmp_path, "import time; time.sleep(60)", hang_seconds=1.0))
    assert ending.why == "hang"


def test_a_task_may_be_as_silent_as_a_table_that_does_not_say() -> None:
    assert Task(cell="c", argv=(), worker="w").hang_seconds == 60 * Defaults().hang_minutes


def test_a_cancelled_command_stops_with_its_children(tmp_path: Path) -> None:
    code = (
        "import subprocess,sys;p=subprocess.Popen([sys.executable,'-c','import time;time.sleep(60)']);"
        "print(p.pid,flush=True);p.wait()"
    )
    begun = time.monotonic()
    ending = carry_out(task(tmp_path, code), stop=lambda: (tmp_path / "log").stat().st_size > 0)
    assert ending.why == "cancelled"
    assert time.monotonic() - begun < 30
    child = int((tmp_path / "log").read_text().split()[0])
    assert not psutil.pid_exists(child)


@KILLED
def test_a_killed_command_was_lost(tmp_path: Path) -> None:
    ending = carry_out(task(tmp_path, "import os,signal; os.kill(os.getpid(), signal.SIGKILL)"))
    assert ending.why == "lost"


@pytest.mark.parametrize(
    ("code", "lost"), [(137, True), (143, True), (255, True), (1, False), (3, False), (144, False)]
)
def test_codes_of_what_was_killed_mean_that_it_was_lost(tmp_path: Path, code: int, lost: bool) -> None:
    ending = carry_out(task(tmp_path, f"import os; os._exit({code})"))
    assert (ending.code, ending.why) == (code, "lost" if lost else "")


def test_work_before_the_first_look_is_a_sign_of_life() -> None:
    now = [0.0]
    watch = HangWatch(100.0, clock=lambda: now[0])
    for now[0] in (99.0, 198.0):
        watch.look(lambda: 1.5)
    now[0] = 199.0
    watch.look(lambda: pytest.fail("asked only a few times per limit"))
    now[0] = 218.0
    with pytest.raises(Stopped):
        watch.look(lambda: 1.5)


@pytest.mark.parametrize(("spent", "hangs"), [(0.0, True), (0.05, True), (2.0, False)])
def test_processor_time_is_a_sign_of_life(spent: float, hangs: bool) -> None:
    now = [0.0]
    watch = HangWatch(100.0, clock=lambda: now[0])
    used = 0.0
    try:
        for _ in range(12):
            now[0] += 20.0
            used += spent
            watch.look(lambda: used)
    except Stopped:
        assert hangs
    else:
        assert not hangs


def test_processes_are_looked_at_five_times_per_limit() -> None:
    now, looks = [0.0], [0]
    watch = HangWatch(100.0, clock=lambda: now[0])

    def spent() -> float:
        looks[0] += 1
        return 2.0 * now[0]

    counted = []
    for now[0] in (19.9, 20.0, 39.9, 40.0, 41.0):
        watch.look(spent)
        counted += looks
    assert counted == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(("spent", "hangs"), [(5.0, True), (5.1, False)])
def test_half_a_percent_of_the_time_is_what_merely_polls(spent: float, hangs: bool) -> None:
    now = [0.0]
    watch = HangWatch(1000.0, clock=lambda: now[0])
    now[0] = 999.0
    watch.look(lambda: spent)
    now[0] = 1200.0
    if hangs:
        with pytest.raises(Stopped):
            watch.look(lambda: spent)
    else:
        watch.look(lambda: spent)


def test_silence_as_long_as_the_limit_is_a_hang() -> None:
    now = [0.0]
    watch = HangWatch(100.0, clock=lambda: now[0])
    now[0] = 100.0
    with pytest.raises(Stopped):
        watch.look(lambda: 0.0)


def test_processor_time_is_that_of_what_still_lives() -> None:
    gone: Any = SimpleNamespace(descendants=list)
    assert engine.processor_seconds(gone) == 0.0
    ours: Any = SimpleNamespace(descendants=lambda: [os.getpid(), 2**22 + 1])
    assert engine.processor_seconds(ours) > 0.0


def test_waiting_for_a_disk_is_no_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """User and system time, its own and its children's; what Linux tells besides is idleness."""
    monkeypatch.setattr(psutil, "Process", lambda _: SimpleNamespace(cpu_times=lambda: (1.0, 2.0, 4.0, 8.0, 1e6)))
    two: Any = SimpleNamespace(descendants=lambda: [1, 2])
    assert engine.processor_seconds(two) == 30.0


def test_a_line_is_a_sign_of_life() -> None:
    now = [0.0]
    watch = HangWatch(100.0, clock=lambda: now[0])
    for _ in range(12):
        now[0] += 20.0
        watch.heard()
        watch.look(lambda: 0.0)
    now[0] += 99.9
    watch.look(lambda: 0.0)
    now[0] += 20.1
    with pytest.raises(Stopped):
        watch.look(lambda: 0.0)


class Book:
    """A ledger whose cells run small scripts: exit codes by cell, in order."""

    def __init__(self, tmp_path: Path, codes: dict[str, list[str]], *, held: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        self.place = tmp_path
        self.codes = codes
        self.finished: set[str] = set()
        self.lost: list[str] = []
        self.tries: dict[str, int] = {}
        self._held = set(held)
        self.asked_held = 0
        self.fresh: list[bool] = []

    def decide(self, cell: Cell, *, fresh_run: bool) -> Decision:
        self.fresh.append(fresh_run)
        return Decision(cell.id not in self.finished and len(self.codes[cell.name]) > 0, "because")

    def done(self, cell: Cell) -> bool:
        log = self.place / cell.name
        if log.is_file() and "good" in log.read_text():
            self.finished.add(cell.id)
        return cell.id in self.finished

    def held(self, cell: Cell) -> bool:
        if cell.name not in self._held:
            return False
        self.asked_held += 1
        if self.asked_held > 2:
            self._held.discard(cell.name)
            (self.place / cell.name).write_text("good")
        return cell.name in self._held

    def ended(self, cell: Cell, ending: Ending) -> None:
        self.lost.append(cell.name)

    def task(self, cell: Cell, worker: str, decision: Decision) -> Task:
        self.tries[cell.name] = self.tries.get(cell.name, 0) + 1
        code = self.codes[cell.name].pop(0)
        return Task(cell=cell.id, argv=(sys.executable, "-c", code), worker=worker, log=str(self.place / cell.name))


def loop(cells: list[Cell], book: Book, *, wait: float = 1.0, worker: Worker = HERE) -> Loop:
    return Loop(cells, book, LocalEngine(worker, env={}), time.monotonic, wait_seconds=wait)


GOOD, BAD, DIE = "print('good')", "raise SystemExit(1)", "import os; os.kill(os.getpid(), 9)"


def test_every_cell_is_built_once(tmp_path: Path) -> None:
    cells = [cell(n) for n in range(4)]
    book = Book(tmp_path, {each.name: [GOOD] for each in cells})
    tally = loop(cells, book).run()
    assert len(book.finished) == 4
    assert (tally.started, tally.retried, tally.adopted) == (4, 0, 0)


@KILLED
def test_what_failed_is_tried_again_as_the_ledger_says(tmp_path: Path) -> None:
    cells = [cell(1), cell(2)]
    book = Book(tmp_path, {"cell-1": [BAD, DIE, GOOD], "cell-2": [BAD]})
    tally = loop(cells, book).run()
    assert book.tries == {"cell-1": 3, "cell-2": 1}
    assert book.lost == ["cell-1"]
    assert tally.retried == 2
    assert len(book.finished) == 1
    assert book.fresh == [True, True, False, False, False], "only the first look of each is that of a new run"


def test_a_cell_that_runs_elsewhere_is_waited_for_not_started(tmp_path: Path) -> None:
    book = Book(tmp_path, {"cell-1": [BAD]}, held={"cell-1"})
    tally = loop([cell(1)], book).run()
    assert (tally.started, tally.adopted) == (0, 1)
    assert book.finished


def test_a_busy_cell_is_adopted(tmp_path: Path) -> None:
    book = Book(tmp_path, {"cell-1": [f"raise SystemExit({BUSY_CODE})", GOOD]})
    tally = loop([cell(1)], book).run()
    assert tally.adopted == 1
    assert book.finished


def test_what_depends_on_a_failure_is_left_and_the_run_ends(tmp_path: Path) -> None:
    needy = cell(2, after=(f"{1:016x}",))
    book = Book(tmp_path, {"cell-1": [BAD], "cell-2": [GOOD]})
    loop([cell(1), needy], book).run()
    assert book.tries == {"cell-1": 1}


def test_what_was_done_before_serves_what_depends_on_it(tmp_path: Path) -> None:
    book = Book(tmp_path, {"cell-1": [], "cell-2": [GOOD]})
    book.finished = {f"{1:016x}"}
    loop([cell(1), cell(2, after=(f"{1:016x}",))], book).run()
    assert book.tries == {"cell-2": 1}
    failed = Book(tmp_path / "none", {"cell-3": [], "cell-4": [GOOD]})
    loop([cell(3), cell(4, after=(f"{3:016x}",))], failed).run()
    assert failed.tries == {}, "what it needs was neither done nor built"


def test_no_able_worker_is_said_after_the_wait(tmp_path: Path) -> None:
    book = Book(tmp_path, {"cell-1": [GOOD]})
    with pytest.raises(StageFailed, match="windows-x86_64"):
        loop([cell(1, system="windows-x86_64")], book, wait=0.5).run()
    waiting = Book(tmp_path, {"cell-1": [GOOD], "cell-2": [GOOD]})
    needed = [cell(1, after=(f"{2:016x}",)), cell(2, system="windows-x86_64")]
    with pytest.raises(StageFailed, match="for example cell-2"):
        loop(needed, waiting, wait=0.5).run()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_slurm_script_runs_each_tree_in_order(tmp_path: Path) -> None:
    cells = [cell(1, tree=7), cell(2, tree=7), cell(3, memory_gib=10.0)]
    made = slurm_script(cells, str(tmp_path / "a b"), cores=4)
    assert "#SBATCH --array=0-1" in made.text
    assert "#SBATCH --mem=15G" in made.text
    assert "#SBATCH --open-mode=append" in made.text, "a task that is queued again keeps its log"
    script = tmp_path / "s.sh"
    script.write_text(made.text)
    fake = tmp_path / "bin" / "rekindle"
    fake.parent.mkdir()
    fake.write_text('#!/bin/bash\necho "$@" >> "$CALLS"\n[ "$3" != 0000000000000001 ]\n')
    fake.chmod(0o755)
    # On nodes where no PATH knows Rekindle, the one that wrote the script is called.
    assert f"call=({shlex.quote(sys.executable)} -m rekindle)" in made.text
    env = {"PATH": os.environ["PATH"], "REKINDLE": str(fake), "CALLS": str(tmp_path / "calls")}
    codes = []
    for number in ("0", "1"):
        here = {**env, "SLURM_ARRAY_TASK_ID": number, "SLURM_CPUS_PER_TASK": "4"}
        codes.append(subprocess.run(["bash", str(script)], env=here, timeout=60).returncode)
    root = tmp_path / "a b"
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"matrix cell {n:016x} --root {root} --trust --jobs 4" for n in (1, 2, 3)
    ]
    assert codes == [1, 0]


def test_a_task_that_runs_out_of_time_asks_to_be_queued_again(tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    script.write_text(slurm_script([cell(1)], str(tmp_path), cores=1).text)
    fakes = tmp_path / "bin"
    fakes.mkdir()
    (fakes / "rekindle").write_text('#!/bin/bash\ntrap "exit 3" TERM\ntouch "$CALLS.up"\nsleep 60 & wait\n')
    (fakes / "scontrol").write_text('#!/bin/bash\necho "$@" > "$CALLS"\n')
    for file in fakes.iterdir():
        file.chmod(0o755)
    calls = tmp_path / "calls"
    env = {"PATH": f"{fakes}:{os.environ['PATH']}", "REKINDLE": str(fakes / "rekindle"), "CALLS": str(calls)}
    env |= {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_JOB_ID": "77", "SLURM_CPUS_PER_TASK": "1"}
    with subprocess.Popen(["bash", str(script)], env=env) as task:
        deadline = time.monotonic() + 30
        while not Path(f"{calls}.up").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        task.terminate()
        assert task.wait(timeout=30) == 3
    assert calls.read_text() == "requeue 77_0\n"


def test_a_log_s_folder_is_made_and_may_be_there(tmp_path: Path) -> None:
    log = tmp_path / "cells/one/cell.log"
    for count in (1, 2):
        carry_out(replace(task(tmp_path, "print('hello')"), log=str(log)))
        assert log.read_text() == "hello\n" * count, "a second try goes on in the same log"


def test_a_log_ends_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine.MAX_LOG_BYTES == 64 << 20
    for limit, kept in ((10, 2), (12, 2), (13, 3)):
        monkeypatch.setattr(engine, "MAX_LOG_BYTES", limit)
        told = replace(task(tmp_path, "print('12345'); print('67890'); print('more')"), log=str(tmp_path / f"{limit}"))
        carry_out(told)
        assert (tmp_path / f"{limit}").read_text().split() == ["12345", "67890", "more"][:kept]


def test_what_hung_failed_and_what_was_cancelled_was_interrupted(tmp_path: Path) -> None:
    sleeping = "import time; time.sleep(60)"
    assert carry_out(task(tmp_path, sleeping, hang_seconds=0.5)).code == 1
    assert carry_out(task(tmp_path, sleeping), stop=lambda: True).code == 3


def test_this_machine_waits_as_long_as_it_is_told_where_nothing_runs() -> None:
    here = LocalEngine(HERE, env={})
    begun = time.monotonic()
    assert here.wait(0.2) == []
    assert time.monotonic() - begun >= 0.2
    here.close()


def test_a_command_that_cannot_start_was_lost(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    here = LocalEngine(HERE, env={"GREETING": "good"})
    here.submit(replace(task(tmp_path, GOOD), log=str(tmp_path / "file" / "log")))
    (ending,) = here.wait(20.0)
    assert (ending.code, ending.seconds) == (1, 0.0) and ending.why.startswith("lost: ")
    here.submit(task(tmp_path, "import os; print(os.environ['GREETING'])"))
    assert [each.code for each in here.wait(20.0)] == [0]
    here.close()
    assert (tmp_path / "log").read_text() == "good\n"


def test_the_governor_looks_at_this_process_until_the_end() -> None:
    looked: list[int] = []
    before = set(threading.enumerate())
    here = LocalEngine(HERE, env={}, tick=lambda pid: looked.append(pid) or 0.01)  # type: ignore[func-returns-value]
    deadline = time.monotonic() + 20
    while len(looked) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(thread.daemon for thread in set(threading.enumerate()) - before), "it keeps no run from ending"
    here.close()
    assert looked[:3] == [os.getpid()] * 3


def test_the_governor_comes_back_when_it_said_or_by_itself_before_a_second_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert 0 < engine.LOOK_SECONDS < 1
    monkeypatch.setattr(engine, "LOOK_SECONDS", 0.001)
    asks: list[float | None] = [None, None, 0.001, 0.001]
    asked = threading.Event()

    def tick(_: int) -> float | None:
        wait = asks.pop(0) if asks else None
        if wait is not None:
            monkeypatch.setattr(engine, "LOOK_SECONDS", 3600.0)  # from here on its own wish counts
        if not asks:
            asked.set()
        return wait

    here = LocalEngine(HERE, env={}, tick=tick)
    assert asked.wait(20.0)
    here.close()


def test_one_cancelled_cell_stops_alone_and_the_end_stops_the_others(tmp_path: Path) -> None:
    here = LocalEngine(HERE, env={}, cancelled=lambda cell: cell == "one")
    begun = time.monotonic()
    for name in ("one", "two"):
        waits = task(tmp_path, "print('here', flush=True); import time; time.sleep(60)", cell=name)
        here.submit(replace(waits, log=str(tmp_path / name)))
    (first,) = here.wait(30.0)
    assert (first.cell, first.code, first.why) == ("one", 3, "cancelled")
    here.close()
    (second,) = here.wait(0.0)
    assert (second.cell, second.code, second.why) == ("two", 3, "cancelled")
    assert time.monotonic() - begun < 55, "neither slept to its end"


def test_a_worker_runs_its_own_python_and_watches_for_the_cancel_file(tmp_path: Path) -> None:
    told = replace(task(tmp_path, "import sys; print(sys.executable)"), env={})
    ending = run_task(replace(told, argv=("/elsewhere/python", *told.argv[1:])), str(tmp_path / "cancel"))
    assert ending.code == 0 and (tmp_path / "log").read_text().strip() == sys.executable
    (tmp_path / "cancel").touch()
    assert run_task(replace(told, argv=("x", "-c", "import time; time.sleep(60)")), str(tmp_path / "cancel")).code == 3
