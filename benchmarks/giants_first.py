"""Does starting the longest files first shorten a build? The kernel files of a configured tree, compiled twice.

    python benchmarks/giants_first.py BUILD --sm 3.5 --jobs 16 [--out FILE] [--order plain|giants|both]

BUILD is a configured build tree with ``compile_commands.json`` and its generated headers. Each ``.cu`` file is compiled
to device code (``-cubin``, optimised as the tree has it) by the tree's own command with only the architecture changed:
once by plain Ninja in the tree's order, once as ``rekindle build`` does it (known giants first, memory governed), cold
both times, after every header was read once. Prints makespan, compiler CPU time, the largest sum of memory seen and
what failed; ``--out`` keeps these and every file's CPU seconds and GiB as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from compile_probe import kernels, probe_command
from rekindle.build.history import History, ObjectCosts
from rekindle.build.steps import giants_first
from rekindle.build.work import run_ninja
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.build_options import BuildOptions
from rekindle.model.progress import Silent

# Runs one compiler and notes what it took beside its output: CPU seconds, and GiB of its largest process.
MEASURE = """
import json, os, subprocess, sys
output, folder, command = sys.argv[1], sys.argv[2], sys.argv[3:]
child = subprocess.Popen(command, cwd=folder)
_, status, used = os.wait4(child.pid, 0)
code = os.waitstatus_to_exitcode(status)
with open(output + ".json", "w") as file:
    json.dump([code, round(used.ru_utime + used.ru_stime, 1), round(used.ru_maxrss / 2**20, 2)], file)
sys.exit(code)
"""


def write_ninja(folder: Path, build: Path, sm: Sm) -> list[str]:
    """``build.ninja`` with one statement per kernel file, in the tree's order; the names of the files."""
    measure = folder / "measure.py"
    measure.write_text(MEASURE, encoding="utf-8")
    rules, statements, names = [], [], []
    for number, (name, (where, words)) in enumerate(kernels(build).items()):
        output = f"k{number}/{Path(name).name}.o"
        (folder / f"k{number}").mkdir()
        command = probe_command(words, sm, "device", folder / output)
        line = shlex.join([sys.executable, "-IS", str(measure), str(folder / output), str(where), *command])
        rules.append(f"rule r{number}\n  command = {line.replace('$', '$$')}\n")
        statements.append(f"build {output}: r{number}\n")
        names.append(name)
    (folder / "build.ninja").write_text("".join([*rules, *statements]), encoding="utf-8")
    return names


class MemoryWatch(threading.Thread):
    """The largest sum of the resident memory of all processes below this one."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.5):
            self.most = max(self.most, resident_below(os.getpid()))

    def stop(self) -> float:
        """GiB."""
        self._over.set()
        self.join()
        return self.most / 2**30


def resident_below(root: int) -> int:
    """Bytes of all descendants of a process, by ``/proc``."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            pid = int(entry.name)
            parents[pid], sizes[pid] = int(fields[1]), int(fields[21]) * os.sysconf("SC_PAGE_SIZE")

    def is_below(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return sum(size for pid, size in sizes.items() if pid != root and is_below(pid))


def run_order(order: str, build: Path, sm: Sm, jobs: int) -> dict[str, Any]:
    """All kernel files once, in ``plain`` or ``giants`` order."""
    folder = Path(tempfile.mkdtemp(prefix=f"{order}-"))
    names = write_ninja(folder, build, sm)
    watch = MemoryWatch()
    watch.start()
    begun = time.monotonic()
    if order == "plain":
        subprocess.run(["ninja", "-k", "0", f"-j{jobs}"], cwd=folder, check=False, stdout=(folder / "said").open("wb"))
    else:
        print(f"giants: {giants_first(folder, ObjectCosts(History()))} statements moved", flush=True)
        run_ninja(folder, Workspace(folder / "workspace"), BuildOptions(jobs=jobs), Silent(), LiveHost())
    wall = time.monotonic() - begun
    gib = watch.stop()
    files: dict[str, Any] = {}
    for number, name in enumerate(names):
        account = folder / f"k{number}" / f"{Path(name).name}.o.json"
        files[name] = json.loads(account.read_text(encoding="utf-8")) if account.is_file() else [None, 0.0, 0.0]
    shutil.rmtree(folder)
    failed = sorted(name for name, (code, _, _) in files.items() if code)
    cpu: float = sum(noted[1] for noted in files.values())
    print(f"{order:7} {wall:6.0f} s wall {cpu:7.0f} s CPU {gib:5.1f} GiB  {len(failed)} failed", flush=True)
    return {"order": order, "wall": wall, "cpu": cpu, "gib": gib, "failed": failed, "files": files}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--sm", required=True, type=parse_sm)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--order", choices=("plain", "giants", "both"), default="both")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for path in options.build.parent.rglob("*.h"):
        path.read_bytes()
    results = []
    for order in ("plain", "giants") if options.order == "both" else (options.order,):
        results.append(run_order(order, options.build, options.sm, options.jobs))
        if options.out:
            options.out.write_text(json.dumps(results), encoding="utf-8")
    return any(result["failed"] for result in results)


if __name__ == "__main__":
    sys.exit(main())
