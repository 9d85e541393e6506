"""Architecture list of a CUDA library: ours beside every cuobjdump that is given. CPU seconds and peak memory.

    python benchmarks/inspect_gpu.py LIBRARY [CUOBJDUMP ...]

Each contender runs in its own process, ours three times with the best kept; memory is the peak resident size
the system reports.
"""

from __future__ import annotations

import resource
import subprocess
import sys
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
        survey = survey_gpu((Pe if data[:2] == b'MZ' else Elf)(data, 'library'), 'library', names=False)
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


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    library, tools = sys.argv[1], sys.argv[2:]
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
