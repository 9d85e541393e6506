"""Elastic jobs against bare Ninja: (a) overhead with memory to spare, (b) under a limit that kills, (e) the budget.

    python benchmarks/build_elastic.py [--real] [--quick] [--rounds N]

With ``--real`` the compiler works; without, a stand-in that takes memory and time but no CPU (see build_project).
Every figure of one line comes from one run on one machine, alternating, the same objects each time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from build_project import MIB, Run, can_limit, like_torch, make_project, make_stand_in, memory_group, peak_of, run
from rekindle.model.document import encode
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree

# For the stand-ins, whose sizes are given; with real compilers both follow from the largest one's measured peak.
LIMIT = 900 * MIB
BUDGET = 800 * MIB
# Two giants at once do not fit, a giant beside a small one does.
LIMIT_IN_GIANTS = 1.6


class Bench:
    def __init__(self, folder: Path, *, real: bool, quick: bool) -> None:
        self.root = folder / "tree"
        self.workspace = folder / "ws"
        self.jobs = len(os.sched_getaffinity(0)) if real else 4
        if real:
            small, giants = (20, 4) if quick else (40, 6)
            make_project(self.root, small=small, giants=giants, small_entries=400_000, giant_entries=1_700_000)
        else:
            make_stand_in(self.root, like_torch(24 if quick else 60))
        self.limit, self.budget = LIMIT, BUDGET
        recipe = BuildRecipe(source="generated", env={"CMAKE_BUILD_TYPE": "Debug"})
        plan = Plan(answer="build", project="spark", variant="cpu", build=recipe)
        tree = SourceTree(project="spark", version="1.0", root=str(self.root))
        (folder / "plan.json").write_bytes(encode(plan))
        (self.root / "source.json").write_bytes(encode(tree))
        self.argv = [
            sys.executable, "-m", "rekindle", "build", "--plan", str(folder / "plan.json"), "--source", str(self.root),
            "--workspace", str(self.workspace), "--python", sys.executable, "--target", "bench",
            "--trust", "--json", "-q",
        ]  # fmt: skip

    def measure_giant(self) -> None:
        """Limit and budget from what the compiler takes for the largest file here."""
        giant = max(self.root.glob("src/*.cpp"), key=lambda path: path.stat().st_size)
        peak = peak_of(["c++", "-g", "-c", str(giant), "-o", os.devnull])
        small = peak_of(["c++", "-g", "-c", str(min(self.root.glob("src/*small.cpp"))), "-o", os.devnull])
        self.limit = int(peak * LIMIT_IN_GIANTS)
        self.budget = self.limit
        print(f"one giant takes {peak / MIB:.0f} MiB, a small file {small / MIB:.0f} MiB")

    def fresh(self, *, learnt: bool) -> None:
        """Configured, nothing compiled; with or without what earlier builds taught."""
        for made in (*self.root.glob("build/**/*.cpp.o"), *self.root.glob("build/*.a")):
            Path(made).unlink(missing_ok=True)
        if not learnt:
            shutil.rmtree(self.workspace / "cache", ignore_errors=True)

    def ours(self, *more: str, group: Path | None = None) -> tuple[Run, dict]:
        done = run([*self.argv, *more], group=group)
        text = done.out[done.out.find("{") :] if "{" in done.out else "{}"
        try:
            answer = json.loads(text)
        except ValueError:
            answer = {}
        result = (answer.get("results") or [{}])[0]
        seconds = next((p["seconds"] for p in result.get("phases", []) if p["name"] == "compile"), done.seconds)
        return Run(seconds=seconds, code=done.code, out=done.out), result

    def bare(self, jobs: int, group: Path | None = None) -> Run:
        return run(["ninja", "-C", str(self.root / "build"), f"-j{jobs}", "bench"], group=group)


def overhead(bench: Bench, rounds: int) -> None:
    print(f"(a) overhead over bare Ninja, memory to spare, -j{bench.jobs}")
    ours, bare = [], []
    for _ in range(rounds):
        bench.fresh(learnt=True)
        bare.append(bench.bare(bench.jobs).seconds)
        bench.fresh(learnt=True)
        done, _ = bench.ours("--jobs", str(bench.jobs))
        assert done.ok, done.out[-2000:]
        ours.append(done.seconds)
    total = statistics.median(ours) / statistics.median(bare)
    print(f"    bare {statistics.median(bare):.1f} s   ours {statistics.median(ours):.1f} s   ratio {total:.3f}")
    print(f"    rounds, bare: {[round(s, 1) for s in bare]}  ours: {[round(s, 1) for s in ours]}")


def governor_cost(seconds: float = 10.0) -> None:
    """What one look at the build costs, whatever else the machine does."""
    import time

    from rekindle.build.governor import Governor
    from rekindle.build.history import History, ObjectCosts

    governor = Governor(None, ObjectCosts(History()), max_jobs=2)
    child = subprocess.Popen(["sleep", str(seconds)])
    begun, count = time.process_time(), 40
    for _ in range(count):
        governor.tick(os.getpid())
    each = (time.process_time() - begun) / count
    child.kill()
    processes = sum(1 for name in Path("/proc").iterdir() if name.name.isdigit())
    print(f"    one look: {each * 1000:.2f} ms of CPU with {processes} processes on the machine;"
          f" four a second are {each * 4 * 100:.2f} % of one core")  # fmt: skip


def under_limit(bench: Bench) -> None:
    print(f"(b) under a real control-group limit of {bench.limit // MIB} MiB")
    if not can_limit():
        print("    skipped: no right to make control groups here")
        return
    cores = bench.jobs
    fixed = None
    for jobs in range(cores, 0, -1):
        bench.fresh(learnt=True)
        with memory_group(bench.limit) as group:
            done = bench.bare(jobs, group)
        print(f"    ninja -j{jobs}: {'finished' if done.ok else 'KILLED'} after {done.seconds:.1f} s")
        if done.ok:
            fixed = done.seconds
            break
    for learnt in (False, True):
        bench.fresh(learnt=learnt)
        with memory_group(bench.limit) as group:
            done, result = bench.ours("--jobs", str(cores), group=group)
        name = "ours, learnt   " if learnt else "ours, first run"
        word = "finished" if done.ok else "FAILED"
        ratio = f", {fixed / done.seconds:.2f} times as fast as the largest fixed -j that survives" if fixed else ""
        print(f"    {name}: {word} after {done.seconds:.1f} s{ratio};"
              f" paused {result.get('paused')}, retried {len(result.get('retried', []))}")  # fmt: skip
        if not done.ok:
            print(done.out[-1500:])


def budget(bench: Bench) -> None:
    print(f"(e) --memory {bench.budget // MIB}M")
    for learnt in (False, True):
        bench.fresh(learnt=learnt)
        done, result = bench.ours("--jobs", str(bench.jobs), "--memory", f"{bench.budget // MIB}M")
        assert done.ok, done.out[-2000:]
        peak = result["peak_memory_bytes"]
        share = f"peak {peak / MIB:.0f} MiB of {bench.budget // MIB} MiB ({100 * peak / bench.budget:.0f} %)"
        name = "learnt   " if learnt else "first run"
        print(f"    {name}: {share}, {done.seconds:.1f} s, paused {result['paused']} times")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", action="store_true", help="real compilers; for a machine that is otherwise idle")
    parser.add_argument("--quick", action="store_true", help="a third of the files")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("a", "b", "e"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as name:
        bench = Bench(Path(name), real=args.real, quick=args.quick)
        # Once for the environment and the configuration, which are not measured.
        first, _ = bench.ours("--jobs", str(bench.jobs))
        assert first.ok, first.out[-3000:]
        if args.real:
            bench.measure_giant()
        if args.only in (None, "a"):
            overhead(bench, args.rounds)
            governor_cost()
        if args.only in (None, "b"):
            under_limit(bench)
        if args.only in (None, "e"):
            budget(bench)


if __name__ == "__main__":
    main()
