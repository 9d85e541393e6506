"""How long the doctor takes, side by side with ``python -m torch.utils.collect_env``; and when everything hangs.

    python benchmarks/doctor.py --torch-python PATH [--runs 7] [--hang]

The other needs a Python with torch. Both are run in turn, so that the machine's load falls on both alike;
wall is what one waits, cpu is what it cost (children included). With ``--hang`` every tool the doctor asks is
replaced by one that never answers, and so is each Python on PATH.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOOLS = (
    "git cmake ninja ccache sccache distcc icecc patchelf conda uv ld lld mold make gcc g++ clang clang++ nvidia-smi "
    "rocminfo nvcc hipcc getconf ldd dpkg-query rpm python python3"
)


def measure(argv: list[str], env: dict[str, str] | None = None) -> tuple[float, float, int]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, done.returncode


def report(name: str, samples: list[tuple[float, float, int]]) -> float:
    walls, cpus = [wall for wall, _, _ in samples], [cpu for _, cpu, _ in samples]
    codes = sorted({code for _, _, code in samples})
    print(
        f"{name:<44} wall {statistics.median(walls):6.2f} s (best {min(walls):5.2f})"
        f"   cpu {statistics.median(cpus):5.2f} s   exit {codes}   {len(samples)} runs"
    )
    return statistics.median(walls)


def hanging_tools(place: Path) -> None:
    for name in TOOLS.split():
        path = place / name
        path.write_text("#!/bin/sh\nsleep 600 & sleep 600\n")
        path.chmod(0o755)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", metavar="PATH", help="a Python that has torch, for the comparison")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--hang", action="store_true", help="also: every tool hangs")
    args = parser.parse_args()
    ours = [sys.executable, "-m", "rekindle", "doctor"]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    measure(ours)  # once for the file cache
    mine, theirs, tried = [], [], []
    for _ in range(args.runs):
        mine.append(measure(ours))
        if args.torch_python:
            theirs.append(measure([args.torch_python, "-m", "torch.utils.collect_env"]))
            path = f"{Path(args.torch_python).parent}{os.pathsep}{os.environ['PATH']}"
            tried.append(measure(ours, env={**os.environ, "PATH": path}))
    median = report("rekindle doctor", mine)
    if theirs:
        report("rekindle doctor, that torch found and loaded", tried)
        other = report("python -m torch.utils.collect_env", theirs)
        print(f"collect_env takes {other / median:.1f} times as long")
    if args.hang:
        with tempfile.TemporaryDirectory() as place:
            hanging_tools(Path(place))
            env = {**os.environ, "PATH": f"{place}{os.pathsep}{os.environ['PATH']}"}
            report("rekindle doctor, every tool hangs", [measure(ours, env=env)])


if __name__ == "__main__":
    main()
