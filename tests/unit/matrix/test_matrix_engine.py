"""Commands that hang, are cancelled or killed; the loop over an engine that does as told; scripts for Slurm."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from matrix_mini import cell

from rekindle.errors import StageFailed
from rekindle.matrix.engine import Ending, Hang, HangWatch, LocalEngine, Task, carry_out
from rekindle.matrix.ledger import Decision
from rekindle.matrix.run import Loop, slurm_script
from rekindle.model.matrix import BUSY_CODE, Cell, Worker

HERE = Worker(name="here", system="linux-x86_64", slots=2)


KILLED = pytest.mark.skipif(os.name == "nt", reason="Windows has no exit code for what was killed")


def task(tmp_path: Path, code: str, **more: object) -> Task:
    argv = (sys.executable, "-c", code)
    values: dict[str, object] = {"cell": "c", "worker": "here", "env": dict(os.environ), **more}
    return Task(argv=argv, log=str(tmp_path / "log"), **values)  # type: ignore[arg-type]


def test_a_command_ends_with_its_code_and_its_log(tmp_path: Path) -> None:
    ending = carry_out(task(tmp_path, "print('hello'); raise SystemExit(7)"))
    assert (ending.code, ending.why) == (7, "")
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_silent_idle_command_hangs(tmp_path: Path) -> None:
    ending = carry_out(task(tmp_path, "import time; time.sleep(60)", hang_seconds=1.0))
    assert ending.why == "hang"


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
    except Hang:
        assert hangs
    else:
        assert not hangs


def test_a_line_is_a_sign_of_life() -> None:
    now = [0.0]
    watch = HangWatch(100.0, clock=lambda: now[0])
    for _ in range(12):
        now[0] += 20.0
        watch.heard()
        watch.look(lambda: 0.0)
    now[0] += 101.0
    with pytest.raises(Hang):
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

    def decide(self, cell: Cell, *, fresh_run: bool) -> Decision:
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


def test_no_able_worker_is_said_after_the_wait(tmp_path: Path) -> None:
    book = Book(tmp_path, {"cell-1": [GOOD]})
    with pytest.raises(StageFailed, match="windows-x86_64"):
        loop([cell(1, system="windows-x86_64")], book, wait=0.5).run()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_slurm_script_runs_each_tree_in_order(tmp_path: Path) -> None:
    cells = [cell(1, tree=7), cell(2, tree=7), cell(3, memory_gib=10.0)]
    made = slurm_script(cells, str(tmp_path / "a b"), cores=4)
    assert "#SBATCH --array=0-1" in made.text
    assert "#SBATCH --mem=15G" in made.text
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
