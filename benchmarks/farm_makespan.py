"""One build on a farm against one machine: makespan, who compiled, bytes over the wire, and whether bytes are the same.

    python benchmarks/farm_makespan.py --tools DIR [--torch DIR] [--seconds N] [--small] [--out FILE]

``--tools`` holds sccache, sccache-dist and bwrap. ``--torch`` is a folder with torch's sources (``src``) and the
headers that its build generates (``include``): then the files are c10's and the CPU kernels'; without it generated.
Workers are real servers of sccache's on this machine, each bound to cores of its own; the builder is bound, too:

- workers of one core each (1, 2, 4) against one core; the builder's core preprocesses, and takes what no worker does;
- four workers of four cores each against four cores, where there are sixteen; the builder is one of the four;
- .cu files, where there is an nvcc: four workers of one core against one.

Before it is timed, every worker has compiled something, so has its toolchain; how long that took is told apart. The
loopback interface counts the bytes: builder, scheduler and workers talk over nothing else. Only needs Python; stops
when its seconds are over, with what it has.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOKEN = "a token for loopback alone"
# In place of bubblewrap where a kernel lets nobody make a user namespace: the same root, without its walls.
SHIM = """#!{python}
import os, sys
words, root, folder, env = sys.argv[1:], "/", "/", {{}}
while words and words[0] != "--":
    if words[0] == "--bind": root = words[1]; words = words[3:]
    elif words[0] == "--chdir": folder = words[1]; words = words[2:]
    elif words[0] == "--setenv": env[words[1]] = words[2]; words = words[3:]
    elif words[0] in ("--cap-drop", "--proc", "--dev"): words = words[2:]
    else: words = words[1:]
os.chroot(root); os.chdir(folder); os.execve(words[1], words[1:], env)
"""
HEAVY = """#include <algorithm>
#include <map>
#include <string>
#include <vector>
template <int N> struct Deep {{ static std::map<std::string, std::vector<int>> go(int x) {{
  auto found = Deep<N - 1>::go(x + N); found[std::to_string(N + {n})].push_back(x);
  std::sort(found.begin()->second.begin(), found.begin()->second.end()); return found; }} }};
template <> struct Deep<0> {{ static std::map<std::string, std::vector<int>> go(int) {{ return {{}}; }} }};
int heavy_{n}(int x) {{ return Deep<{depth}>::go(x).size(); }}
"""
KERNEL = """#include <cub/cub.cuh>
template <typename T> void run(T* keys, T* out, int n, void* space, size_t bytes) {{
  cub::DeviceRadixSort::SortKeys(space, bytes, keys, out, n);
  cub::DeviceReduce::Sum(space, bytes, keys, out, n);
  cub::DeviceScan::InclusiveSum(space, bytes, keys, out, n);
}}
void kernel_{n}(void* k, void* o, int n, void* s, size_t b) {{
  run(static_cast<{kind}*>(k), static_cast<{kind}*>(o), n, s, b);
}}
"""
KINDS = ("float", "double", "int", "unsigned", "long long", "short", "unsigned char", "unsigned long long")


@dataclass
class Unit:
    """One object: its command without ``-o``; ``seconds`` and ``digest`` are from the compiler alone."""

    name: str
    argv: list[str]
    seconds: float = 0.0
    digest: str = ""


@dataclass
class Bench:
    """What is measured with, and what was found so far; written after every row."""

    tools: Path
    scratch: Path
    for_workers: Path
    out: Path | None
    deadline: float
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()

    def note(self, text: str) -> None:
        print(text, flush=True)
        self.notes.append(text)
        self.write()

    def row(self, **values: Any) -> None:
        self.rows.append(values)
        print("  ".join(f"{name} {value}" for name, value in values.items()), flush=True)
        self.write()

    def write(self) -> None:
        if self.out is not None:
            text = {"cores": os.cpu_count(), "machine": os.uname().machine, "rows": self.rows, "notes": self.notes}
            self.out.write_text(json.dumps(text, indent=1) + "\n")


def bound(cores: Sequence[int], argv: Sequence[str]) -> list[str]:
    return ["taskset", "-c", ",".join(map(str, cores)), *argv]


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compile_all(
    units: Sequence[Unit], jobs: int, prefix: list[str], env: dict[str, str], out: Path
) -> tuple[float, int]:
    """Seconds for all of them, the longest first, and how many have the bytes of the compiler alone."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)

    def one(unit: Unit) -> bool:
        # Under one name each time: nvcc and debuggers' notes may tell where an object lay.
        place = out / f"{unit.name}.o"
        done = subprocess.run([*prefix, *unit.argv, "-o", str(place)], env=env, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{unit.name}: {done.stderr.decode(errors='replace')[-2000:]}")
        return digest_of(place) == unit.digest

    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        same = sum(pool.map(one, sorted(units, key=lambda unit: -unit.seconds)))
    return time.monotonic() - begun, same


def measure(units: Sequence[Unit], cores: int, out: Path) -> list[Unit]:
    """Each once with the compiler alone: its seconds and its bytes. What does not compile here is left out."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)

    def one(unit: Unit) -> bool:
        begun, place = time.monotonic(), out / f"{unit.name}.o"
        done = subprocess.run([*unit.argv, "-o", str(place)], capture_output=True, check=False)
        if done.returncode == 0:
            unit.seconds, unit.digest = time.monotonic() - begun, digest_of(place)
        return done.returncode == 0

    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        return [unit for unit, good in zip(units, pool.map(one, units), strict=True) if good]


def some_of(units: Sequence[Unit], seconds: float, most: int = 200) -> list[Unit]:
    """As many as take so long together on one core, whatever their order; at least four."""
    chosen: list[Unit] = []
    for unit in units:
        if len(chosen) >= 4 and (sum(one.seconds for one in chosen) + unit.seconds > seconds or len(chosen) >= most):
            break
        chosen.append(unit)
    return chosen


def wire_bytes() -> int:
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    return 0


class LoopbackFarm:
    """A scheduler, and workers that join one after another, each bound to its cores."""

    def __init__(self, bench: Bench, bwrap: Path) -> None:
        self.bench, self.bwrap, self.folder = bench, bwrap, Path(tempfile.mkdtemp(dir=bench.for_workers))
        self.port = 21000 + os.getpid() % 20000
        self.started: list[subprocess.Popen[bytes]] = []
        self.workers = self.slots = 0
        conf = f'public_addr = "127.0.0.1:{self.port}"\n[client_auth]\ntype = "token"\ntoken = "{TOKEN}"\n'
        conf += f'[server_auth]\ntype = "token"\ntoken = "{TOKEN}"\n'
        self._start("scheduler", conf, [])
        # A builder that does not find it at once looks again only after half a minute.
        while bench.left > 0 and not self._answers():
            time.sleep(0.1)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=2):
            return True
        return False

    def _start(self, kind: str, conf: str, prefix: list[str]) -> None:
        number = len(self.started)
        file = self.folder / f"{number}.conf"
        file.write_text(conf)
        env = {**os.environ, "SCCACHE_NO_DAEMON": "1", "SCCACHE_LOG": "info"}
        with (self.folder / f"{number}.log").open("wb") as log:
            argv = [*prefix, str(self.bench.tools / "sccache-dist"), kind, "--config", str(file)]
            self.started.append(
                subprocess.Popen(argv, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            )

    def add_worker(self, cores: Sequence[int]) -> None:
        self.workers += 1
        self.slots += len(cores)
        place = self.folder / f"worker{self.workers}"
        place.mkdir()
        conf = (
            f'cache_dir = "{place}/toolchains"\npublic_addr = "127.0.0.1:{self.port + self.workers}"\n'
            f'scheduler_url = "http://127.0.0.1:{self.port}"\n[builder]\ntype = "overlay"\n'
            f'build_dir = "{place}/build"\nbwrap_path = "{self.bwrap}"\n'
            f'[scheduler_auth]\ntype = "token"\ntoken = "{TOKEN}"\n'
        )
        self._start("server", conf, bound(cores, []))

    def end(self) -> None:
        for process in reversed(self.started):
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def said(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-600:] for path in sorted(self.folder.glob("*.log")))


@contextlib.contextmanager
def builder(farm: LoopbackFarm, cores: Sequence[int]) -> Iterator[dict[str, str]]:
    """sccache's server of who builds, bound to its cores, with an empty cache; the environment that leads to it."""
    folder = Path(tempfile.mkdtemp(dir=farm.bench.scratch))
    (farm.folder / "client").mkdir(exist_ok=True)
    conf = folder / "client.conf"
    conf.write_text(
        f'[dist]\nscheduler_url = "http://127.0.0.1:{farm.port}"\ncache_dir = "{farm.folder}/client"\n'
        f'[dist.auth]\ntype = "token"\ntoken = "{TOKEN}"\n[cache.disk]\ndir = "{folder}/cache"\n'
    )
    env = {
        **os.environ,
        "SCCACHE_CONF": str(conf),
        "SCCACHE_SERVER_UDS": str(folder / "s"),
        "SCCACHE_IDLE_TIMEOUT": "0",
    }
    sccache = str(farm.bench.tools / "sccache")
    with (farm.folder / "builder.log").open("wb") as log:
        own = {**env, "SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1", "SCCACHE_LOG": "info"}
        server = subprocess.Popen(bound(cores, [sccache]), env=own, stdout=log, stderr=log, start_new_session=True)
    try:
        while not (folder / "s").exists() and server.poll() is None:
            time.sleep(0.05)
        yield env
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def asked(bench: Bench, env: dict[str, str], *words: str) -> Any:
    said = subprocess.run([str(bench.tools / "sccache"), *words], env=env, capture_output=True, check=False)
    return json.loads(said.stdout) if said.returncode == 0 else {}


def counts(bench: Bench, env: dict[str, str]) -> dict[str, Any]:
    return dict(asked(bench, env, "--show-stats", "--stats-format=json")["stats"])


def warm(farm: LoopbackFarm, env: dict[str, str], unit: Unit) -> float | None:
    """Seconds until every worker has compiled something; None where they do not."""
    bench, begun = farm.bench, time.monotonic()
    patience = begun + min(120.0, bench.left)
    while time.monotonic() < patience:
        if any(process.poll() is not None for process in farm.started):
            return None
        status = asked(bench, env, "--dist-status").get("SchedulerStatus", [None, {}])[1]
        if status.get("num_servers") == farm.workers:
            break
        time.sleep(0.2)
    source = farm.folder / "warm.cc"
    out = farm.folder / "warm"
    out.mkdir(exist_ok=True)
    number = 0
    while time.monotonic() < patience:
        if len(counts(bench, env)["dist_compiles"]) == farm.workers:
            return time.monotonic() - begun

        def one(each: int) -> None:
            own = source.with_name(f"warm{each}{Path(unit.argv[-1]).suffix}")
            own.write_text(f"int warm_{each};\n")
            argv = [*unit.argv[:-1], str(own), "-o", str(out / f"{each}.o")]
            subprocess.run([str(bench.tools / "sccache"), *argv], env=env, capture_output=True, check=False)

        with concurrent.futures.ThreadPoolExecutor(farm.slots) as pool:
            list(pool.map(one, range(number, number + farm.slots)))
        number += farm.slots
    return None


def compare(
    bench: Bench, bwrap: Path, title: str, units: Sequence[Unit], here: Sequence[int], groups: Sequence[Sequence[int]],
    counted: Sequence[int],
) -> None:  # fmt: skip
    """One machine first, then the farm with so many workers as ``counted`` says, one after another."""
    out, sum_s = bench.scratch / "objects", sum(unit.seconds for unit in units)
    alone, same = compile_all(units, len(here), bound(here, []), dict(os.environ), out)
    bench.row(case=title, workers=0, files=len(units), seconds=round(alone, 1), same=same)
    farm = LoopbackFarm(bench, bwrap)
    try:
        for number in counted:
            while farm.workers < number:
                farm.add_worker(groups[farm.workers])
            if bench.left < 1.3 * alone / min(number, 2) + 10:
                bench.note(f"{title}: no time for {number} workers ({sum_s:.0f} s of one core)")
                return
            with builder(farm, here) as env:
                warming = warm(farm, env, units[0])
                if warming is None:
                    bench.note(f"{title}: {number} workers do not compile: {farm.said()[-1500:]}")
                    return
                before, wire = counts(bench, env), wire_bytes()
                prefix = bound(here, [str(bench.tools / "sccache")])
                took, same = compile_all(units, farm.slots + len(here), prefix, env, out)
                wired, after = wire_bytes() - wire, counts(bench, env)
            there = sum(after["dist_compiles"].values()) - sum(before["dist_compiles"].values())
            compiled = after["compilations"] - before["compilations"]
            bench.row(
                case=title, workers=number, files=len(units), seconds=round(took, 1), speedup=round(alone / took, 2),
                there=there, here=compiled - there, wire_kib_per_file=round(wired / len(units) / 1024), same=same,
                warming=round(warming, 1),
            )  # fmt: skip
    except RuntimeError as error:
        bench.note(f"{title}: {error}")
    finally:
        farm.end()


def cpp_units(scratch: Path, torch: Path | None, small: bool) -> tuple[list[Unit], list[Unit]]:
    """Files for one core, and larger ones for four."""
    if torch is not None:
        src, include = torch / "src", torch / "include"
        flags = ["-std=c++20", "-O2", "-fPIC", "-w", "-DC10_BUILD_MAIN_LIB"]
        flags += ["-DCPU_CAPABILITY=DEFAULT", "-DCPU_CAPABILITY_DEFAULT"]
        flags += [f"-I{src}/aten/src", f"-I{src}", f"-I{include}", f"-I{include}/torch/csrc/api/include"]
        flags += [f"-ffile-prefix-map={torch}=.", "-c"]
        found = [sorted(src.glob(pattern)) for pattern in ("c10/core/**/*.cpp", "aten/src/ATen/native/cpu/*.cpp")]
        made = [[Unit(path.stem, ["g++", *flags, str(path)]) for path in paths] for paths in found]
        return made[0], made[1]
    made = []
    for depth, number in ((30, 4), (60, 4)) if small else ((250, 24), (500, 32)):
        units = []
        for n in range(number):
            path = scratch / f"heavy_{depth}_{n}.cc"
            path.write_text(HEAVY.format(n=n, depth=depth))
            units.append(Unit(path.stem, ["g++", "-O2", "-c", str(path)]))
        made.append(units)
    return made[0], made[1]


def cuda_units(scratch: Path, nvcc: str) -> list[Unit]:
    units = []
    for n, kind in enumerate(KINDS):
        path = scratch / f"kernel_{n}.cu"
        path.write_text(KERNEL.format(n=n, kind=kind))
        units.append(Unit(path.stem, [nvcc, "-O2", "-arch=sm_90", "-c", str(path)]))
    return units


def usable_bwrap(bench: Bench) -> Path:
    """The one with the tools, by the system's loader where its libraries lie beside it; else a root without walls."""
    own, system = bench.tools / "bwrap", shutil.which("bwrap")
    trial = "--cap-drop ALL --unshare-user --unshare-cgroup --unshare-ipc --unshare-pid --unshare-net --unshare-uts"
    places = [Path(system)] if system else []
    if own.exists():
        script = bench.scratch / "bwrap"
        loader = "/lib64/ld-linux-x86-64.so.2"
        script.write_text(f'#!/bin/sh\nexec {loader} --library-path "{bench.tools}" "{own}" "$@"\n')
        script.chmod(0o755)
        places += [own, script]
    for place in places:
        argv = [str(place), *trial.split(), "--bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "/bin/true"]
        done = subprocess.run(argv, capture_output=True, check=False)
        if done.returncode == 0:
            return place
        bench.note(f"{place}: {done.stderr.decode(errors='replace').strip()[:200]}")
    bench.note("no bubblewrap works here: workers compile in a root of their own, without a sandbox")
    shim = bench.scratch / "shim"
    shim.write_text(SHIM.format(python=sys.executable))
    shim.chmod(0o755)
    return shim


def whole_cores(cores: Sequence[int]) -> list[int]:
    """One logical core of each that the machine really has, where it tells."""
    found: dict[str, int] = {}
    for number in cores:
        place = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list")
        found.setdefault(place.read_text().strip() if place.exists() else str(number), number)
    return list(found.values())


def table(rows: Sequence[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [[str(row.get(name, "")) for name in names] for row in rows]
    return "\n".join(" | ".join(line) for line in [names, ["---"] * len(names), *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=Path, required=True, help="a folder with sccache, sccache-dist and bwrap")
    parser.add_argument("--torch", type=Path, help="a folder with torch's src and include")
    parser.add_argument("--seconds", type=float, default=600.0, help="when to stop (default: 600)")
    parser.add_argument("--nvcc", default="/usr/local/cuda/bin/nvcc")
    parser.add_argument("--small", action="store_true", help="a few small files, to try it")
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    args = parser.parse_args()
    # Overlays want a file system that is none itself. Sources must not lie in /dev: a worker's sandbox has its own.
    memory = Path("/dev/shm") if shutil.disk_usage("/dev/shm").free > 8 << 30 else None
    scratch, for_workers = (Path(tempfile.mkdtemp(prefix="farm-", dir=place)) for place in (None, memory))
    bench = Bench(args.tools.resolve(), scratch, for_workers, args.out, time.monotonic() + args.seconds)
    try:
        run(bench, args)
    finally:
        print(table(bench.rows))
        for place in (scratch, for_workers):
            shutil.rmtree(place, ignore_errors=True)


def run(bench: Bench, args: argparse.Namespace) -> None:
    cores = sorted(os.sched_getaffinity(0))
    bwrap = usable_bwrap(bench)
    first, large = cpp_units(bench.scratch, args.torch.resolve() if args.torch else None, args.small)
    units = measure(first if args.small else [*first[:24], *large[:28]], len(cores), bench.scratch / "alone")
    share = min(60.0, args.seconds / 8)
    bench.note(f"{len(units)} files compile, {sum(unit.seconds for unit in units):.0f} s of one core, busy")
    small = [unit for unit in units if unit.name in {one.name for one in first}]
    apart = whole_cores(cores)
    bench.note(f"{len(cores)} logical cores, {len(apart)} that share none: {apart}")
    workers = [apart[number % len(apart)] for number in range(1, 5)]
    what = "torch's c10" if args.torch else "generated C++"
    compare(
        bench, bwrap, f"{what}, one core each", some_of(small, share), apart[:1], [[one] for one in workers], (1, 2, 4)
    )
    if len(cores) >= 16 and not args.small:
        groups = [cores[number : number + 4] for number in range(0, 16, 4)]
        many = some_of([unit for unit in units if unit not in small], 4 * share)
        what = "torch's CPU kernels" if args.torch else "generated C++"
        compare(bench, bwrap, f"{what}, four cores each", many, cores[:4], groups, (4,))
    if Path(args.nvcc).exists() and bench.left > 30:
        kernels = measure(
            cuda_units(bench.scratch, args.nvcc)[: 2 if args.small else 8], len(cores), bench.scratch / "alone"
        )
        if kernels:
            chosen = some_of(kernels, min(share, (bench.left - 25) / 2))
            compare(
                bench,
                bwrap,
                "CUDA, one core each",
                chosen,
                apart[:1],
                [[one] for one in workers],
                (2 if args.small else 4,),
            )


if __name__ == "__main__":
    main()
