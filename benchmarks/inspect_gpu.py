"""Architecture list of a CUDA library: ours beside every cuobjdump that is given. CPU seconds and peak memory.

    python benchmarks/inspect_gpu.py LIBRARY [CUOBJDUMP ...]
    python benchmarks/inspect_gpu.py --command [--runs 5] [--source DIR ...] LIBRARY [CUOBJDUMP ...]

Each contender runs in its own process, ours three times with the best kept; memory is the peak resident size
the system reports. ``--command`` measures whole commands, Python's start included, one after the other in turns, and
gives medians: ``rekindle inspect --no-cpu``, byte-compiled as pip leaves it, beside ``cuobjdump -lelf``. ``--source``
adds another tree's ``src``, to see before and after in one run.
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
from collections import Counter
from pathlib import Path

OURS = """
import json, sys, mmap, resource, time
from rekindle.formats.elf import Elf
from rekindle.formats.pe import Pe
from rekindle.inspect.gpu import survey_gpu
rounds = []
for _ in range(3):
    start, cpu = time.perf_counter(), time.process_time()
    with open(sys.argv[1], 'rb') as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        survey = survey_gpu((Pe if data[:2] == b'MZ' else Elf)(data, 'library'), 'library')
    rounds.append((time.process_time() - cpu, time.perf_counter() - start))
cpu, wall = min(rounds)
print(json.dumps({'entries': {t.name: n for t, n in survey.entries.items()},
                  'wall': wall, 'cpu': cpu,
                  'mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def ours(library: str) -> dict[str, object]:
    import json

    out = subprocess.run([sys.executable, "-c", OURS, library], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)


def theirs(tool: str, library: str) -> dict[str, object]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run([tool, "-all", "-lelf", library], capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    names = Counter(line.rsplit(".", 2)[-2] for line in done.stdout.splitlines() if line.endswith(".cubin"))
    said = (done.stderr or done.stdout).strip().splitlines()
    return {
        "entries": dict(names), "wall": wall,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "mb": after.ru_maxrss / 1024, "failed": said[-1] if done.returncode and said else None,
    }  # fmt: skip


def commands(library: str, tools: list[str], sources: list[str], runs: int) -> None:
    """Whole commands in turns: seconds of CPU and peak memory of each."""
    with tempfile.TemporaryDirectory() as compiled:
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        argv = [sys.executable, "-m", "rekindle", "inspect", "--no-cpu", "-q", library]
        rows: dict[str, tuple[list[str], dict[str, str]]] = {"python -c pass": ([sys.executable, "-c", "pass"], plain)}
        for place in ["", *sources]:
            own = plain | {"PYTHONPYCACHEPREFIX": str(Path(compiled) / str(len(rows)))}
            rows[f"rekindle {place}".strip()] = (argv, own | ({"PYTHONPATH": place} if place else {}))
        rows |= {Path(tool).name: ([tool, "-lelf", library], plain) for tool in tools}
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
        for turn in range(runs + 1):
            for name, (command, environment) in rows.items():
                used = spent(command, environment)
                if turn:  # the first fills caches: of files, and of compiled modules
                    taken[name].append(used)
    ours = statistics.median(cpu for cpu, _ in taken["rekindle"])
    print(f"{Path(library).name}: {Path(library).stat().st_size / 1e6:.0f} MB, medians of {runs}")
    for name, figures_ in taken.items():
        cpu, mb = (statistics.median(column) for column in zip(*figures_, strict=True))
        print(f"  {name:<40} {cpu:7.3f} s CPU {mb:6.0f} MB  x{cpu / ours:.1f}")


def spent(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("tools", nargs="*")
    parser.add_argument("--command", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--source", action="append", default=[])
    args = parser.parse_args()
    library, tools = args.library, args.tools
    if args.command:
        commands(library, tools, args.source, args.runs)
        return
    mine = ours(library)
    print(f"{Path(library).name}: {Path(library).stat().st_size / 1e6:.0f} MB")
    print(f"  {'rekindle':<17} {figures(mine)}  {mine['entries']}")
    for tool in tools:
        other = theirs(tool, library)
        ratio = float(str(other["cpu"])) / max(float(str(mine["cpu"])), 1e-6)
        print(f"  {Path(tool).name:<17} {figures(other)}  x{ratio:.0f} {other['failed'] or other['entries']}")


def figures(row: dict[str, object]) -> str:
    return f"{row['cpu']:8.3f} s CPU {row['wall']:8.3f} s wall {row['mb']:7.0f} MB"


if __name__ == "__main__":
    main()
