"""Kills a matrix at random moments, again and again, and checks that nothing is lost, doubled or left behind.

Each trial builds a light table of spark cells, kills one of: the worker that builds, its nanny, the scheduler, the
client, everything at once, or (locally) the client; runs the same command until it is done; and compares the wheels
with those of an untroubled run. Usage: tools/matrix_faults.py [TRIALS] [SEED]
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))

from matrix_cluster import (  # noqa: E402
    Cluster,
    cli,
    light_table,
    orphans,
    states,
    wheels_of,
)

VICTIMS = ("local client", "worker", "nanny", "scheduler", "client", "everything")


def kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def trial(place: Path, victim: str, rng: random.Random) -> tuple[dict[str, str], int, list[str]]:
    """The wheels, how many runs it took, and what was left behind."""
    table = light_table(place, prove="none", ops=1)
    cli("matrix", "plan", str(table))
    argv = [sys.executable, "-m", "rekindle", "matrix", "run", str(table)]
    with contextlib.ExitStack() as stack:
        cluster = None
        if victim != "local client":
            cluster = stack.enter_context(Cluster(workers=0))
            for _ in range(2):
                cluster.start_worker(nanny=victim == "nanny")
            argv += ["--engine", "dask", "--scheduler", cluster.address]
        run = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (cluster or Cluster(workers=0)).wait_for_build(table, 180.0)
        time.sleep(rng.uniform(0.0, 6.0))
        strike(victim, run, cluster, table)
        runs = 1
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(timeout=5 if victim in ("worker", "nanny") else 60)
        while not finished(table) and runs < 6:
            if run.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.wait(timeout=240)
                continue
            if cluster is not None:
                revive(cluster)
                argv[-1] = cluster.address
            runs += 1
            run = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(timeout=240)
        if run.poll() is None:
            run.wait(timeout=60)
    deadline = time.monotonic() + 15
    while orphans(place) and time.monotonic() < deadline:
        time.sleep(0.3)
    return wheels_of(table), runs, orphans(place)


def strike(victim: str, run: subprocess.Popen[bytes], cluster: Cluster | None, table: Path) -> None:
    if victim in ("client", "local client"):
        kill(run.pid)
    elif cluster is not None and victim in ("worker", "nanny"):
        with contextlib.suppress(LookupError):
            cluster.kill_busy_worker(table)
        cluster.start_worker()
    elif cluster is not None:
        if victim == "everything":
            kill(run.pid)
            for worker in cluster.workers:
                kill(worker.pid)
        if cluster.scheduler is not None:
            kill(cluster.scheduler.pid)


def revive(cluster: Cluster) -> None:
    """A scheduler and two workers, where they are gone."""
    if cluster.scheduler is None or cluster.scheduler.poll() is not None:
        for worker in cluster.workers:
            kill(worker.pid)
            worker.wait()
        cluster.workers.clear()
        cluster.start_scheduler()
    while sum(worker.poll() is None for worker in cluster.workers) < 2:
        cluster.start_worker()


def finished(table: Path) -> bool:
    found = states(table)
    return len(found) == 2 and all(state.get("stage") == "built" for state in found)


def doubled(table: Path) -> bool:
    """A cell that was built to its end more than once."""
    for state in states(table):
        attempts: Any = state.get("attempts", [])
        if sum(1 for a in attempts if a.get("ended") and not a.get("failure")) > 1:
            return True
    return False


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    base = Path(tempfile.mkdtemp(prefix="rekindle-faults-"))
    plain = light_table(base / "plain", prove="none", ops=1)
    cli("matrix", "plan", str(plain))
    cli("matrix", "run", str(plain))
    good = wheels_of(plain)
    tally: dict[str, list[int]] = {}
    bad = 0
    for number in range(count):
        victim = VICTIMS[number % len(VICTIMS)]
        place = base / f"t{number}"
        try:
            wheels, runs, left = trial(place, victim, rng)
            problems = [
                *(["other wheels"] if wheels != good else []),
                *([f"left behind: {left}"] if left else []),
                *(["built twice"] if doubled(place / "matrix.toml") else []),
            ]
        except (OSError, TimeoutError, subprocess.SubprocessError) as error:
            runs, problems = 0, [f"{type(error).__name__}: {error}"]
        row = tally.setdefault(victim, [0, 0, 0])
        row[0] += 1
        row[1] += not problems
        row[2] += runs
        bad += bool(problems)
        print(json.dumps({"trial": number, "killed": victim, "runs": runs, "problems": problems}), flush=True)
        if not problems:
            shutil.rmtree(place, ignore_errors=True)
    print(f"{'killed':<14}trials  good  runs needed")
    for victim, (trials, fine, runs) in tally.items():
        print(f"{victim:<14}{trials:>6}{fine:>6}{runs / max(1, trials):>13.1f}")
    if not bad:
        shutil.rmtree(base, ignore_errors=True)
    print(f"{count - bad} passed, {bad} failed")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
