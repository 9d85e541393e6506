"""What ``rekindle build`` costs over plain Ninja on the same configured tree: CPU (user and system) and wall time.

    python benchmarks/build_overhead.py --plan plan.json --source ~/pytorch --workspace ws --target c10 [--rounds 3]
    python benchmarks/build_overhead.py --made [--rounds 3]      a generated project instead, for a look at the method

Side by side in one run, alternating who is first; the objects of the target are removed before each. CPU seconds are
those of the whole command with everything it started, so a busy machine disturbs them far less than wall time. ``own``
is what the process of Rekindle itself took (starting, asking, looking at the build four times a second), no compilers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from build_project import make_project
from rekindle.model.document import encode
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree


class Cost(NamedTuple):
    cpu: float
    wall: float
    own: float


def cost_of(argv: list[str]) -> Cost:
    """Run it to its end; it must succeed."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(argv, stdout=said, stderr=subprocess.STDOUT)
        own = 0.0
        ended = threading.Event()

        def watch() -> None:
            nonlocal own
            while not ended.wait(0.25):
                own = max(own, own_cpu(child.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, used = os.wait4(child.pid, 0)
        ended.set()
        watcher.join()
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            sys.exit(said.read().decode("utf-8", "replace")[-3000:])
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - begun, own)


def own_cpu(pid: int) -> float:
    """Of the process alone, without its children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def made_project(folder: Path) -> tuple[Path, Path]:
    root = folder / "tree"
    make_project(root, small=12, giants=0, small_entries=400_000, giant_entries=0)
    plan = Plan(
        answer="build",
        project="spark",
        variant="cpu",
        build=BuildRecipe(source="generated", env={"CMAKE_BUILD_TYPE": "Debug"}),
    )
    (folder / "plan.json").write_bytes(encode(plan))
    (root / "source.json").write_bytes(encode(SourceTree(project="spark", version="1.0", root=str(root))))
    return folder / "plan.json", root


def ninja_of(build: Path) -> str:
    """The one the tree was configured with: another version would throw its log away and build everything anew."""
    for line in (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("CMAKE_MAKE_PROGRAM:"):
            return line.partition("=")[2]
    return "ninja"


def compare(argv: list[str], build: Path, target: str, jobs: int, rounds: int) -> None:
    ninja = ninja_of(build)
    bare = [ninja, "-C", str(build), f"-j{jobs}", target]
    found: dict[str, list[Cost]] = {"ninja": [], "rekindle": []}
    for number in range(rounds):
        for name in ("ninja", "rekindle") if number % 2 == 0 else ("rekindle", "ninja"):
            subprocess.run([ninja, "-C", str(build), "-t", "clean", target], check=True, stdout=subprocess.DEVNULL)
            cost = cost_of(bare if name == "ninja" else argv)
            found[name].append(cost)
            print(f"  {name:<9} {cost.cpu:7.1f} s of CPU {cost.wall:7.1f} s waited {cost.own:6.2f} s own", flush=True)
    cpu, wall = ({name: statistics.median(getattr(one, what) for one in costs) for name, costs in found.items()}
                 for what in ("cpu", "wall"))  # fmt: skip
    own = statistics.median(one.own for one in found["rekindle"])
    print(f"CPU {cpu['rekindle'] / cpu['ninja']:.3f}, wall {wall['rekindle'] / wall['ninja']:.3f} times plain Ninja;"
          f" Rekindle's own process {100 * own / cpu['ninja']:.2f} % of the compilers' CPU")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--workspace", type=Path)
    parser.add_argument("--target", default="bench")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--made", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rekindle-bench-"))
    try:
        plan, source = made_project(folder) if args.made else (args.plan, args.source)
        if plan is None or source is None:
            parser.error("--plan and --source, or --made")
        argv = [
            sys.executable, "-m", "rekindle", "build", "--plan", str(plan), "--source", str(source),
            "--workspace", str(args.workspace or folder / "ws"), "--python", args.python, "--target", args.target,
            "--jobs", str(args.jobs), "--trust", "-q",
        ]  # fmt: skip
        cost_of(argv)  # once for the environment and configure, which are not measured
        compare(argv, source / "build", args.target, args.jobs, args.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
