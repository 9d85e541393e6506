"""A project for build benchmarks: many small files and a few giants. Also a real memory control group.

Two kinds. ``real``: the compiler itself on tables of numbers (gcc 12 takes about 280 bytes and 5 µs of CPU per
entry, so size and time are known). ``stand-in``: a program that takes as much memory for as long as it is told and
hardly any CPU; for machines that are busy with other things, where compilers' times say nothing.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20

SETUP = """import os, subprocess, sys, sysconfig
root = os.path.dirname(os.path.abspath(__file__))
build = os.path.join(root, "build")
if os.environ.get("CMAKE_ONLY"):
    flags = ["-D%s=%s" % i for i in sorted(os.environ.items()) if i[0].startswith(("USE_", "BUILD_", "CMAKE_"))
             and i[0] not in ("CMAKE_GENERATOR", "CMAKE_ONLY", "CMAKE_BUILD_PARALLEL_LEVEL")]
    sys.exit(subprocess.call(["cmake", "-GNinja", "-S", root, "-B", build, *flags]))
sys.exit("only targets are built here")
"""
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(bench CXX)
file(GLOB sources ${CMAKE_SOURCE_DIR}/src/*.cpp)
add_library(bench STATIC ${sources})
"""


STAND_IN = r"""#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* stand_in -o OUTPUT MIB TENTHS: grow for the first 60 % of the time, keep it to the end, write OUTPUT. */
int main(int argc, char **argv) {
  long mib = atol(argv[3]), tenths = atol(argv[4]), have = 0;
  char **held = malloc(sizeof(char *) * (mib + 1));
  for (long t = 0; t < tenths; t++) {
    long want = t * 10 >= tenths * 6 ? mib : mib * (t + 1) * 10 / (tenths * 6 + 10);
    for (; have < want && have < mib; have++) { held[have] = malloc(1 << 20); memset(held[have], 1, 1 << 20); }
    usleep(100000);
  }
  FILE *out = fopen(argv[2], "w");
  return !out || fputs("made", out) < 0 || fclose(out);
}
"""
STAND_IN_CMAKE = """cmake_minimum_required(VERSION 3.16)
project(bench C)
add_executable(stand_in stand_in.c)
file(STRINGS ${CMAKE_SOURCE_DIR}/jobs.txt jobs)
foreach(job IN LISTS jobs)
  string(REPLACE " " ";" job "${job}")
  list(GET job 0 name)
  list(GET job 1 mib)
  list(GET job 2 tenths)
  add_custom_command(OUTPUT ${name}.cpp.o COMMAND stand_in -o ${name}.cpp.o ${mib} ${tenths} DEPENDS stand_in)
  list(APPEND objects ${name}.cpp.o)
endforeach()
add_custom_target(bench DEPENDS ${objects})
"""


def make_stand_in(root: Path, jobs: list[tuple[int, int]]) -> None:
    """``jobs``: (MiB, tenths of a second) each."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "bench").mkdir(exist_ok=True)
    (root / "bench/__init__.py").write_text("")
    (root / "version.txt").write_text("1.0\n")
    (root / "setup.py").write_text(SETUP)
    (root / "CMakeLists.txt").write_text(STAND_IN_CMAKE)
    (root / "stand_in.c").write_text(STAND_IN)
    lines = [f"f{number:03} {mib} {tenths}" for number, (mib, tenths) in enumerate(jobs)]
    (root / "jobs.txt").write_text("\n".join(lines) + "\n")


def like_torch(count: int) -> list[tuple[int, int]]:
    """Sizes as measured on PyTorch 1.13.1 (median 0.48, 95 % below 0.97, most 2.0 GiB), a quarter of them, with
    the giants side by side as its generated files are."""
    jobs = [(80 + 14 * (number * 5 % 9), 6 + number * 7 % 11) for number in range(count)]
    for at in (count // 4, count // 4 + 1, count // 4 + 2, count // 2, count // 2 + 1, 3 * count // 4):
        jobs[at] = (500, 25)
    return jobs


def make_project(root: Path, *, small: int, giants: int, small_entries: int, giant_entries: int) -> None:
    """Giants come in pairs, spread among the small ones: real trees have theirs side by side (Register*, Trace*)."""
    (root / "src").mkdir(parents=True, exist_ok=True)
    (root / "bench").mkdir(exist_ok=True)
    (root / "bench/__init__.py").write_text("")
    (root / "version.txt").write_text("1.0\n")
    (root / "setup.py").write_text(SETUP)
    (root / "CMakeLists.txt").write_text(CMAKE)
    every = (small + giants) // max(1, giants // 2)
    for number in range(small + giants):
        giant = giants and number % every in (every // 2, every // 2 + 1) and number // every < giants // 2
        entries = giant_entries if giant else small_entries
        rows = ",\n".join(f"{number}.{entry}e-3" for entry in range(entries))
        name = root / "src" / f"f{number:03}_{'giant' if giant else 'small'}.cpp"
        name.write_text(f"extern const double table{number}[];\nconst double table{number}[] = {{\n{rows}}};\n")


@dataclass(frozen=True, kw_only=True)
class Run:
    seconds: float
    code: int
    out: str

    @property
    def ok(self) -> bool:
        return self.code == 0


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """A control group (version 1 or 2) with a real limit; needs root. The path's ``cgroup.procs`` takes processes."""
    v1 = Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists()
    base = Path("/sys/fs/cgroup/memory") if v1 else Path("/sys/fs/cgroup")
    group = base / f"rekindle-bench-{os.getpid()}"
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if v1 else "memory.max")).write_text(str(limit))
        with contextlib.suppress(OSError):
            (group / ("memory.memsw.limit_in_bytes" if v1 else "memory.swap.max")).write_text(str(limit if v1 else 0))
        yield group
    finally:
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def run(
    argv: list[str], *, group: Path | None = None, cwd: Path | None = None, env: dict[str, str] | None = None
) -> Run:
    """Run a command, inside ``group`` where given: a small Python puts itself there and becomes the command."""
    if group is not None:
        enter = "import os,sys; open(sys.argv[1],'w').write(str(os.getpid())); os.execvp(sys.argv[2], sys.argv[2:])"
        argv = [sys.executable, "-c", enter, str(group / "cgroup.procs"), *argv]
    begun = time.monotonic()
    done = subprocess.run(
        argv, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    return Run(seconds=time.monotonic() - begun, code=done.returncode, out=done.stdout)


def peak_of(argv: list[str]) -> int:
    """The most memory any process of a command took, in bytes."""
    code = "import resource,subprocess,sys; subprocess.run(sys.argv[1:], check=True);" \
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


def can_limit() -> bool:
    try:
        with memory_group(64 * MIB):
            return True
    except OSError:
        return False
