"""One build on a farm against one machine: makespan, who compiled, bytes over the wire, and whether bytes are the same.

    python benchmarks/farm_makespan.py --compile-commands FILE [--only TEXT]... [--files N] [--workers 1,2,4]
                                       [--share 0.25] [--daemons-apart] [--rounds 1] [--seconds 660] [--out FILE]
                                       [--learn FILE | --learnt FILE]

Files and flags are those of a configured torch (its ``compile_commands.json``), or generated. ``sccache``,
``sccache-dist`` and ``bwrap`` are on PATH. Everything is a real process on this machine, and every *machine* (the
builder, which is also the one without a farm, and each worker) is a control group that gets the same ``--share`` of a
core: so five machines fit on two cores, and none takes what another has. As many jobs run as ``build --farm`` would
start, behind the script that it puts before compilers, the longest file first. With ``--share 4`` a machine has four
cores, and compiles four files at once.

Many files on one core take long. ``--learn FILE`` compiles every file on a core of its own, half as many at once as
the machine has cores (with all of them busy each takes longer), and keeps the seconds. With ``--learnt FILE`` a machine
of one core without a farm is not run again: its seconds are those of the files, added. Several of these may then run at
once, each in a network namespace of its own (``unshare --net``), while they have no more cores than the machine.

A worker's share is for all it does. Where ``sccache-dist`` is no program for this processor and runs in an emulator,
``--daemons-apart`` counts what it starts (sandbox and compiler) and not itself; its own seconds are then told.

Before it is timed, every worker has compiled something, so has the toolchain. The loopback interface counts the bytes:
builder, scheduler and workers talk over nothing else. ``load`` is what others did meanwhile, as a part of the machine:
where it is not small the figures mean little. Stops when its seconds are over, with what it has.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import queue
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farm_files import Unit, generated_units, torch_units
from rekindle.build.farm import render_scripts
from rekindle.model.farm import FarmStatus

TOKEN = "a token for loopback alone"


class Seat:
    """A machine: a control group with a share of a core, which it gets before everybody else on the real machine.
    Version 2, or 1 where the controllers are mounted apart."""

    def __init__(self, name: str, share: float) -> None:
        root = Path("/sys/fs/cgroup")
        name = f"rekindle-{os.getpid()}-{name}"
        period = 100_000
        quota = int(period * share)
        if (root / "cgroup.controllers").exists():
            with contextlib.suppress(OSError):
                (root / "cgroup.subtree_control").write_text("+cpu")
            self.folders = [root / name]
            limits = {"cpu.max": f"{quota} {period}", "cpu.weight": "10000"}
        else:
            self.folders = [root / "cpu" / name, root / "cpuacct" / name]
            limits = {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota), "cpu.shares": "100000"}
        for folder in self.folders:
            folder.mkdir()
        for file, text in limits.items():
            (self.folders[0] / file).write_text(text)

    @property
    def prefix(self) -> list[str]:
        """Before a command that belongs to this machine."""
        enter = "".join(f"echo $$ >{folder}/cgroup.procs; " for folder in self.folders)
        return ["/bin/sh", "-c", f'{enter}exec "$@"', "sh"]

    @property
    def used(self) -> float:
        """Seconds of a core that it took so far."""
        for folder in self.folders:
            if (folder / "cpuacct.usage").exists():
                return int((folder / "cpuacct.usage").read_text()) / 1e9
        return int((self.folders[0] / "cpu.stat").read_text().split()[1]) / 1e6

    def close(self) -> None:
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


@dataclass
class Bench:
    """What is measured with, and what was measured so far; written after every row."""

    scratch: Path
    share: float
    daemons_apart: bool
    office: Seat
    out: Path | None
    deadline: float
    learnt: bool
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def cores(self) -> int:
        """Of each machine: what it compiles at once, and its slots as a worker."""
        return max(1, int(self.share))

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
            machine = {"cores": os.cpu_count(), "machine": os.uname().machine, "share": self.share}
            self.out.write_text(json.dumps({**machine, "rows": self.rows, "notes": self.notes}, indent=1) + "\n")


def seconds_of(pid: int) -> float:
    """Of a core, that a process took itself; its children are not counted."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_used() -> float:
    """Seconds of a core that everybody on this machine took."""
    words = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(words[:3]) + sum(words[5:7])) / os.sysconf("SC_CLK_TCK")


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compile_all(
    units: Sequence[Unit], jobs: int, prefix: list[str], env: dict[str, str], out: Path, *, learn: bool = False
) -> tuple[float, int]:
    """Seconds for all of them, the longest first, and how many have the bytes of the compiler alone."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)

    def compile_unit(unit: Unit) -> bool:
        # Under one name each time: nvcc and debuggers' notes may tell where an object lay.
        begun, place = time.monotonic(), out / f"{unit.name}.o"
        command = [*prefix, *unit.argv, "-o", str(place)]
        done = subprocess.run(command, cwd=unit.folder, env=env, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{unit.name}: {done.stderr.decode(errors='replace')[-2000:]}")
        if learn:
            unit.seconds, unit.digest = time.monotonic() - begun, digest_of(place)
        return digest_of(place) == unit.digest

    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        same = sum(pool.map(compile_unit, sorted(units, key=lambda unit: -unit.seconds)))
    return time.monotonic() - begun, same


def wire_bytes() -> int:
    lines = dict(line.partition(":")[::2] for line in Path("/proc/net/dev").read_text().splitlines())
    return next(int(numbers.split()[0]) for name, numbers in lines.items() if name.strip() == "lo")


class LoopbackFarm:
    """A scheduler, and workers that join one after another, each with its seat."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.folder = bench, Path(tempfile.mkdtemp(dir=bench.scratch))
        self.port = 21000 + os.getpid() % 20000
        self.started: list[subprocess.Popen[bytes]] = []
        self.seats: list[Seat] = []
        conf = f'public_addr = "127.0.0.1:{self.port}"\n[client_auth]\ntype = "token"\ntoken = "{TOKEN}"\n'
        conf += f'[server_auth]\ntype = "token"\ntoken = "{TOKEN}"\n'
        self._start("scheduler", conf, bench.office.prefix)
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
            argv = [*prefix, "sccache-dist", kind, "--config", str(file)]
            self.started.append(
                subprocess.Popen(argv, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            )

    def add_worker(self) -> None:
        """One with a slot for each core: sccache counts those that it may use, and a share of one is counted as one."""
        seat = Seat(f"worker{len(self.seats)}", self.bench.share)
        self.seats.append(seat)
        place = self.folder / f"worker{len(self.seats)}"
        place.mkdir()
        sandbox, prefix = shutil.which("bwrap"), seat.prefix
        if self.bench.daemons_apart:
            every = f"0-{(os.cpu_count() or 1) - 1}"
            script = place / "bwrap"
            script.write_text(f'#!/bin/sh\nexec {shlex.join(seat.prefix)} taskset -c {every} {sandbox} "$@"\n')
            script.chmod(0o755)
            # One slot for each worker: sccache counts the cores that it may run on.
            sandbox, prefix = str(script), [*self.bench.office.prefix, "taskset", "-c", "0"]
        conf = (
            f'cache_dir = "{place}/toolchains"\npublic_addr = "127.0.0.1:{self.port + len(self.seats)}"\n'
            f'scheduler_url = "http://127.0.0.1:{self.port}"\n[builder]\ntype = "overlay"\n'
            f'build_dir = "{place}/build"\nbwrap_path = "{sandbox}"\n'
            f'[scheduler_auth]\ntype = "token"\ntoken = "{TOKEN}"\n'
        )
        self._start("server", conf, prefix)

    def daemons_used(self) -> float:
        return sum(seconds_of(process.pid) for process in self.started)

    def end(self) -> None:
        for process in reversed(self.started):
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        time.sleep(0.5)
        for seat in self.seats:
            seat.close()

    def said(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-600:] for path in sorted(self.folder.glob("*.log")))


@contextlib.contextmanager
def builder(farm: LoopbackFarm, seat: Seat) -> Iterator[tuple[dict[str, str], list[str]]]:
    """sccache's server of who builds, in its seat, with an empty cache; the environment that leads to it, and what
    stands before a compiler."""
    folder = Path(tempfile.mkdtemp(dir=farm.bench.scratch))
    (farm.folder / "client").mkdir(exist_ok=True)
    conf, script = folder / "client.conf", folder / "launch"
    conf.write_text(
        f'[dist]\nscheduler_url = "http://127.0.0.1:{farm.port}"\ncache_dir = "{farm.folder}/client"\n'
        f'[dist.auth]\ntype = "token"\ntoken = "{TOKEN}"\n[cache.disk]\ndir = "{folder}/cache"\n'
    )
    script.write_text(render_scripts(shutil.which("sccache") or "sccache", 0)["launch"])
    env = {
        **os.environ,
        "SCCACHE_CONF": str(conf),
        "SCCACHE_SERVER_UDS": str(folder / "s"),
        "SCCACHE_IDLE_TIMEOUT": "0",
        "REKINDLE_FARM_BUILD": str(folder),
    }
    with (farm.folder / "builder.log").open("wb") as log:
        own = {**env, "SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1", "SCCACHE_LOG": "info"}
        server = subprocess.Popen([*seat.prefix, "sccache"], env=own, stdout=log, stderr=log, start_new_session=True)
    try:
        while not (folder / "s").exists() and server.poll() is None:
            time.sleep(0.05)
        yield env, [*seat.prefix, "/bin/sh", str(script)]
        if (folder / "failed").exists():
            farm.bench.note(f"failed on the farm, compiled here: {(folder / 'failed').read_text()[:500]}")
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def ask(env: dict[str, str], *words: str) -> Any:
    said = subprocess.run(["sccache", *words], env=env, capture_output=True, check=False)
    return json.loads(said.stdout) if said.returncode == 0 else {}


def counts(env: dict[str, str]) -> dict[str, Any]:
    return dict(ask(env, "--show-stats", "--stats-format=json")["stats"])


def warm(farm: LoopbackFarm, env: dict[str, str], prefix: list[str], unit: Unit) -> float | None:
    """Seconds until every worker has compiled such a file, so has its toolchains; None where they do not."""
    bench, begun = farm.bench, time.monotonic()
    patience = begun + min(240.0, bench.left)
    while time.monotonic() < patience:
        if any(process.poll() is not None for process in farm.started):
            return None
        status = ask(env, "--dist-status").get("SchedulerStatus", [None, {}])[1]
        if status.get("num_servers") == len(farm.seats):
            break
        time.sleep(0.2)
    out = farm.folder / "warm"
    out.mkdir(exist_ok=True)
    # Of one nvcc only the parts that compile are sent: device code, PTX, cubin and the host's part.
    parts = 4 if unit.argv[-1].endswith(".cu") else 1
    number = 0
    while time.monotonic() < patience:
        done = counts(env)["dist_compiles"]
        if len(done) == len(farm.seats) and min(done.values()) >= parts:
            return time.monotonic() - begun

        def compile_nothing(each: int) -> None:
            source = out / f"warm{each}{Path(unit.argv[-1]).suffix}"
            source.write_text(f"int warm_{each};\n" + (f"__global__ void k{each}() {{}}\n" if parts > 1 else ""))
            argv = [*prefix, *unit.argv[:-1], str(source), "-o", str(out / f"{each}.o")]
            subprocess.run(argv, cwd=unit.folder, env=env, capture_output=True, check=False)

        with concurrent.futures.ThreadPoolExecutor(2 * len(farm.seats)) as pool:
            list(pool.map(compile_nothing, range(number, number + 2 * len(farm.seats))))
        number += 2 * len(farm.seats)
    return None


def compare(bench: Bench, title: str, units: Sequence[Unit], counted: Sequence[int]) -> None:
    """One machine first, then the farm with so many workers as ``counted`` says, one after another."""
    out, home = bench.scratch / "objects", Seat("home", bench.share)
    farm: LoopbackFarm | None = None
    try:
        first = not units[0].digest
        others, at = machine_used(), home.used
        if bench.learnt and bench.cores == 1:
            alone, same = sum(unit.seconds for unit in units), len(units)
        else:
            alone, same = compile_all(units, bench.cores, home.prefix, dict(os.environ), out, learn=first)
        used_alone = home.used - at
        busy = (machine_used() - others - used_alone) / alone / (os.cpu_count() or 1)
        # The first time nobody knew which one is long; with one job at a time the order is of no matter.
        bench.row(
            case=title,
            workers=0,
            files=len(units),
            seconds=round(alone, 1),
            same=same,
            builder_busy=round(used_alone / alone / bench.share, 2),
            load=round(busy, 2),
        )
        farm = LoopbackFarm(bench)
        for number in counted:
            while len(farm.seats) < number:
                farm.add_worker()
            if bench.left < 1.1 * alone / number + 30:
                bench.note(f"{title}: no time for {number} workers")
                return
            with builder(farm, home) as (env, prefix):
                warming = warm(farm, env, prefix, units[0])
                if warming is None:
                    bench.note(f"{title}: {number} workers do not compile: {farm.said()[-1500:]}")
                    return
                before, wire, daemons = counts(env), wire_bytes(), farm.daemons_used()
                seats = [home, *farm.seats]
                at_seats, others = [seat.used for seat in seats], machine_used()
                # As build --farm has it.
                jobs = FarmStatus(servers=number, slots=number * bench.cores).room + bench.cores
                took, same = compile_all(units, jobs, prefix, env, out)
                wired, after = wire_bytes() - wire, counts(env)
                used = [seat.used - at for seat, at in zip(seats, at_seats, strict=True)]
                own = farm.daemons_used() - daemons
                busy = (machine_used() - others - sum(used) - own * bench.daemons_apart) / took / (os.cpu_count() or 1)
            there = sum(after["dist_compiles"].values()) - sum(before["dist_compiles"].values())
            compiled = after["compilations"] - before["compilations"]
            bench.row(
                case=title,
                workers=number,
                files=len(units),
                seconds=round(took, 1),
                speedup=round(alone / took, 2),
                there=there,
                here=compiled - there,
                wire_kib_per_file=round(wired / len(units) / 1024),
                same=same,
                builder_busy=round(used[0] / took / bench.share, 2),
                workers_busy=round(sum(used[1:]) / number / took / bench.share, 2),
                daemons_s_per_file=round(own / len(units), 2),
                warming=round(warming, 1),
                load=round(max(0.0, busy), 2),
            )
    except RuntimeError as error:
        bench.note(f"{title}: {error}")
    finally:
        if farm is not None:
            farm.end()
        home.close()


def learn_alone(units: Sequence[Unit], out: Path, kept: Path) -> None:
    """Each file on a core of its own, others beside it; seconds and digests are kept as JSON."""
    free: queue.SimpleQueue[int] = queue.SimpleQueue()
    for core in range(max(1, (os.cpu_count() or 1) // 2)):
        free.put(core)
    begun = time.monotonic()

    def learn(unit: Unit) -> None:
        core = free.get()
        try:
            prefix = ["taskset", "-c", str(core)]
            compile_all([unit], 1, prefix, dict(os.environ), out / unit.name, learn=True)
        finally:
            free.put(core)

    with concurrent.futures.ThreadPoolExecutor(free.qsize()) as pool:
        list(pool.map(learn, units))
    kept.write_text(json.dumps({unit.name: [unit.seconds, unit.digest] for unit in units}, indent=1) + "\n")
    total = sum(unit.seconds for unit in units)
    print(f"{len(units)} files, {total:.1f} s one after another, {time.monotonic() - begun:.1f} s here", flush=True)


def table(rows: Sequence[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [[str(row.get(name, "")) for name in names] for row in rows]
    return "\n".join(" | ".join(line) for line in [names, ["---"] * len(names), *lines])


def median_rows(rows: Sequence[dict[str, Any]]) -> str:
    """Seconds by number of workers, over all rounds, and how many times as fast as without a farm."""
    by_workers: dict[int, list[float]] = {}
    for row in rows:
        by_workers.setdefault(row["workers"], []).append(row["seconds"])
    middle = {workers: statistics.median(seconds) for workers, seconds in by_workers.items()}
    return "\n".join(
        f"{workers} workers: {middle[workers]:.1f} s, {middle[0] / middle[workers]:.2f} x "
        f"(rounds: {', '.join(map(str, seconds))})"
        for workers, seconds in by_workers.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile-commands", type=Path, help="of a configured torch (default: generated files)")
    parser.add_argument(
        "--only", action="append", default=[], help="only files with this in their path; again for more"
    )
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--workers", default="1,2,4", help="how many, one after another (default: 1,2,4)")
    parser.add_argument(
        "--share", type=float, default=0.25, help="of a core, for each machine; 4: four cores (default: 0.25)"
    )
    parser.add_argument("--daemons-apart", action="store_true", help="sccache-dist runs in an emulator: not counted")
    parser.add_argument("--rounds", type=int, default=1, help="all of it so many times; the median counts")
    parser.add_argument("--seconds", type=float, default=660.0, help="when to stop (default: 660)")
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--learn", type=Path, help="compile every file alone, keep its seconds there, and stop")
    parser.add_argument("--learnt", type=Path, help="what --learn kept")
    args = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="farm-"))
    if args.compile_commands:
        units = torch_units(args.compile_commands, args.only, args.files)
    else:
        units = generated_units(scratch, args.files)
    if args.learn:
        learn_alone(units, scratch / "alone", args.learn)
        shutil.rmtree(scratch, ignore_errors=True)
        return
    if args.learnt:
        learnt = json.loads(args.learnt.read_text())
        for unit in units:
            unit.seconds, unit.digest = learnt[unit.name]
    # For what belongs to no machine: the scheduler, daemons that do not count, and this program.
    office = Seat("office", 1.0)
    for folder in office.folders:
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    until = time.monotonic() + args.seconds
    bench = Bench(scratch, args.share, args.daemons_apart, office, args.out, until, bool(args.learnt))
    try:
        title = ", ".join(args.only) or ("torch" if args.compile_commands else "generated")
        for _ in range(args.rounds):
            if bench.left > 30:
                compare(bench, title, units, [int(number) for number in args.workers.split(",")])
    finally:
        if bench.rows:
            print(table(bench.rows))
            print(median_rows(bench.rows))
        for folder in office.folders:
            (folder.parent / "cgroup.procs").write_text(str(os.getpid()))
        office.close()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
