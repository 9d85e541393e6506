"""Breaks a farm of real processes, again and again, and checks that every compilation ends with the same bytes.

    tools/farm_faults.py [ROUNDS] [FAULT …]        ten rounds of each fault, unless told otherwise

A scheduler, workers and builders on this machine, each set up as a person would do it (rekindle farm up, join). One
worker lives in a network namespace of its own, where root may make one. In each round several C++ files, new ones, are
compiled through the launcher of ``build --farm``; in the middle something breaks. All of them must succeed, and each
object must be the one that the compiler makes without any farm.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rekindle import api
from rekindle.build.farm import render_scripts
from rekindle.farm import checks
from rekindle.farm.folder import load_secrets
from rekindle.farm.scheduler import scheduler_daemon
from rekindle.farm.worker import place_of
from rekindle.host.live import LiveHost
from rekindle.model.farm import FarmCounts, FarmFolder
from rekindle.model.toml import render_table
from rekindle.toolkits.sccache import find_sccache, run_client

PREPARED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci" / "farm" / "bin"
COMPILER = "/usr/bin/g++"
FLAGS = ("-O2", "-fno-exceptions")
FILES = 5


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def can_farm() -> str | None:
    """Why no farm can be here; None where it can."""
    os.environ["PATH"] = (
        f"{PREPARED}:{os.environ['PATH']}" if str(PREPARED) not in os.environ["PATH"] else os.environ["PATH"]
    )
    if sys.platform != "linux":
        return "workers run on Linux"
    lacking = [name for name in ("sccache-dist", "bwrap", "unshare") if not shutil.which(name)]
    if lacking or not Path(COMPILER).exists():
        return f"needs {', '.join(lacking) or COMPILER}"
    if subprocess.run(["sccache-dist", "--version"], capture_output=True, check=False).returncode:
        return "sccache-dist does not run here"
    trial = checks._check_sandbox(LiveHost(), Path(tempfile.gettempdir()))
    return None if trial.status == "ok" else f"no sandbox here: {trial.found}"


def pack_compiler(archive: Path, *, broken: bool = False) -> None:
    """A small toolchain: the compiler with what it runs and loads, and nothing else; ``broken`` lacks the loader."""
    ask = [
        subprocess.run([COMPILER, f"-print-prog-name={name}"], capture_output=True, text=True, check=True)
        for name in ("cc1plus", "as")
    ]
    programs = [COMPILER, *(shutil.which(said.stdout.strip()) or "" for said in ask)]
    files = set(programs)
    for program in programs:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        files |= {word for word in said.split() if word.startswith("/")}
    if broken:
        files = {file for file in files if "/ld-linux" not in file}
    with tarfile.open(archive, "w:gz", compresslevel=1, dereference=True) as tar:
        for file in sorted(files):
            tar.add(file)


@dataclass
class Round:
    """What one round came to."""

    fault: str
    good: int = 0
    wrong: list[str] = field(default_factory=list)
    remote: int = 0
    seconds: float = 0.0


class RealFarm:
    """A scheduler and as many workers as asked; the second lives behind a link that can be cut."""

    def __init__(self, folder: Path, *, workers: int = 2, link: bool = True) -> None:
        self.root, self.random, self.files = folder, random.Random(20261118), FILES
        self.folder = FarmFolder(folder / "farm")
        self.namespace = f"rkfarm{os.getpid()}" if link and os.geteuid() == 0 and shutil.which("ip") else ""
        self.inside, self.host = f"10.213.{os.getpid() % 250}.2", "127.0.0.1"
        if self.namespace:
            self.host = self.inside[:-1] + "1"
            self._make_link()
        self.workers: list[tuple[Path, str]] = []
        self.listen = f"{self.host}:{free_port()}"
        api.farm_up(farm=self.folder.root, listen=self.listen)
        for number in range(workers):
            self.join(inside=number == 1)
        self.archive, self.broken = folder / "toolchain.tar.gz", folder / "broken.tar.gz"
        pack_compiler(self.archive)

    def _make_link(self) -> None:
        end = f"{self.namespace[-8:]}a"
        for words in (
            f"ip netns add {self.namespace}",
            f"ip link add {end} type veth peer name inner netns {self.namespace}",
            f"ip address add {self.host}/24 dev {end}",
            f"ip link set {end} up",
            f"ip -n {self.namespace} address add {self.inside}/24 dev inner",
            f"ip -n {self.namespace} link set lo up",
        ):
            subprocess.run(words.split(), check=True)
        self.set_link(True)

    def set_link(self, up: bool) -> None:
        """Cut the second worker off, or let it be reached again."""
        subprocess.run(["ip", "-n", self.namespace, "link", "set", "inner", "up" if up else "down"], check=True)

    def join(self, *, inside: bool = False, scratch: Path | None = None) -> int:
        """One more worker, in a folder of its own as on a machine of its own; which one."""
        address = f"{self.inside if inside and self.namespace else self.host}:{free_port()}"
        self.workers.append((self.root / f"worker{len(self.workers)}", address))
        self.start_worker(len(self.workers) - 1, scratch)
        return len(self.workers) - 1

    def start_worker(self, number: int, scratch: Path | None = None) -> None:
        """Start a worker, or start it again."""
        place, address = self.workers[number]
        line = api.farm_up(farm=self.folder.root, invite=[address]).invitations[0].line
        words = [sys.executable, "-m", "rekindle", "farm", "join", "--json", "--farm", str(place)]
        words += ["--scratch", str(scratch)] if scratch else []
        if address.startswith(self.inside) and self.namespace:
            words = ["ip", "netns", "exec", self.namespace, *words]
        done = subprocess.run(words, input=line, capture_output=True, text=True, check=False)
        state = json.loads(done.stdout)["state"] if done.stdout else done.stderr
        assert state in ("joined", "running"), done.stdout + done.stderr

    def worker_pid(self, number: int) -> int | None:
        """The process of a worker."""
        place, address = self.workers[number]
        return place_of(FarmFolder(place), address).daemon.find()

    def kill(self, pid: int | None) -> None:
        """With all its compilers, and without a word."""
        assert pid is not None
        os.killpg(pid, signal.SIGKILL)

    @contextlib.contextmanager
    def builder(
        self, result: Round, *, token: str | None = None, archive: Path | None = None
    ) -> Iterator[Callable[[str, Path], int]]:
        """Somebody who builds: a function that compiles a file through the farm; what workers did is counted."""
        folder = Path(tempfile.mkdtemp(dir=self.root))
        hidden = load_secrets(self.folder)
        assert hidden is not None
        toolchain = {
            "type": "path_override",
            "compiler_executable": COMPILER,
            "archive": str(archive or self.archive),
            "archive_compiler_executable": COMPILER,
        }
        dist = {
            "scheduler_url": f"http://{self.listen}",
            "auth": {"type": "token", "token": token or hidden.client_token},
            "toolchains": [toolchain],
            "cache_dir": str(folder / "dist"),
        }
        cache = {"disk": {"dir": str(folder / "cache")}}
        conf = folder / "client.conf"
        conf.touch(mode=0o600)
        conf.write_text(render_table({"cache": cache, "dist": dist}))
        host = LiveHost()
        tool = find_sccache(host)
        launcher = folder / "launch"
        launcher.write_text(render_scripts(tool.path, 0)["launch"])
        launcher.chmod(0o755)
        with run_client(host, tool, conf, folder / "sccache.log") as client:
            env = {**os.environ, **client.env, "REKINDLE_FARM_BUILD": str(folder)}

            def compile_file(source: str, out: Path) -> int:
                words = [str(launcher), COMPILER, *FLAGS, "-c", source, "-o", str(out)]
                done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, cwd=out.parent)
                return done.returncode

            yield compile_file
            result.remote += (client.counts(host) or FarmCounts()).elsewhere

    def new_sources(self, folder: Path) -> list[str]:
        """C++ files that nobody has compiled yet, each a second or so of work."""
        names = []
        for number in range(self.files):
            salt = self.random.randrange(1 << 30)
            body = "".join(
                f"template <int N> struct T{i} {{ static int f(int x) {{ int s = {salt + i}; "
                f"for (int k = 0; k < x; ++k) s = s * (N + k) ^ (s >> {i % 13 + 1}); return s; }} }};\n"
                f"int g{i}(int x) {{ return T{i}<{i}>::f(x) + T{i}<{i + 1}>::f(x + 1); }}\n"
                for i in range(40)
            )
            (folder / f"unit{number}.cpp").write_text(body)
            names.append(f"unit{number}.cpp")
        return names

    def compile_all(self, result: Round, breaking: Callable[[], None] | None = None, **builder: object) -> None:
        """One round's files, two at a time; ``breaking`` happens in the middle."""
        began = time.monotonic()
        folder = Path(tempfile.mkdtemp(dir=self.root))
        sources = self.new_sources(folder)
        wanted = {}
        for source in sources:
            subprocess.run([COMPILER, *FLAGS, "-c", source, "-o", "wanted.o"], cwd=folder, check=True)
            wanted[source] = (folder / "wanted.o").read_bytes()
        with self.builder(result, **builder) as compile_file, ThreadPoolExecutor(max_workers=2) as pool:  # type: ignore[arg-type]
            jobs = {source: pool.submit(compile_file, source, folder / f"{source}.o") for source in sources}
            if breaking:
                time.sleep(self.random.uniform(0.3, 3.0))
                breaking()
            for source, job in jobs.items():
                made = folder / f"{source}.o"
                if job.result() == 0 and made.is_file() and made.read_bytes() == wanted[source]:
                    result.good += 1
                else:
                    result.wrong.append(f"{source}: exit code {job.result()}")
        result.seconds += time.monotonic() - began
        shutil.rmtree(folder)

    def close(self) -> None:
        """End everything."""
        for place, _ in self.workers:
            api.farm_down(farm=place)
        api.farm_down(farm=self.folder.root)
        if self.namespace:
            subprocess.run(["ip", "netns", "del", self.namespace], check=False)


def none(farm: RealFarm) -> Round:
    """Nothing breaks: the farm compiles."""
    result = Round("none")
    farm.compile_all(result)
    return result


def worker_killed(farm: RealFarm) -> Round:
    """A worker is killed in the middle, and comes back."""
    result = Round("worker killed")
    farm.compile_all(result, lambda: farm.kill(farm.worker_pid(0)))
    farm.start_worker(0)
    return result


def scheduler_killed(farm: RealFarm) -> Round:
    """The scheduler is killed in the middle, and comes back."""
    result = Round("scheduler killed and back")

    def kill_and_raise() -> None:
        farm.kill(scheduler_daemon(farm.folder).find())
        time.sleep(1.0)
        api.farm_up(farm=farm.folder.root)

    farm.compile_all(result, kill_and_raise)
    deadline = time.monotonic() + 60
    while api.farm_status(farm=farm.folder.root).status.servers < len(farm.workers) and time.monotonic() < deadline:
        time.sleep(1.0)
    return result


def link_cut(farm: RealFarm) -> Round:
    """The link to a worker is cut in the middle, for six seconds."""
    result = Round("link cut")

    def cut() -> None:
        farm.set_link(False)
        time.sleep(6.0)
        farm.set_link(True)

    farm.compile_all(result, cut)
    return result


def disk_full(farm: RealFarm) -> Round:
    """A worker's disk is full from the middle on."""
    result = Round("disk full")
    place = farm.root / "small"
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2200m", "small", str(place)], check=True)
    try:
        number = farm.join(scratch=place)

        def fill() -> None:
            with contextlib.suppress(OSError), (place / "filler").open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(place).free)

        farm.compile_all(result, fill)
        api.farm_down(farm=farm.workers[number][0])
        farm.workers.pop()
    finally:
        time.sleep(0.5)
        subprocess.run(["umount", "-l", str(place)], check=True)
    return result


def two_builders(farm: RealFarm) -> Round:
    """Two build at once."""
    result = Round("two builders at once")
    other = Round("other")
    beside = threading.Thread(target=farm.compile_all, args=(other,))
    beside.start()
    time.sleep(0.2)
    farm.compile_all(result)
    beside.join()
    result.good += other.good
    result.wrong += other.wrong
    result.remote += other.remote
    return result


def wrong_token(farm: RealFarm) -> Round:
    """Somebody builds with a token that is not the farm's; a worker comes with a forged one."""
    result = Round("wrong token")
    farm.compile_all(result, token="not-the-token-of-this-farm")
    return result


def toolchain_broken(farm: RealFarm) -> Round:
    """The toolchain cannot run on the workers."""
    result = Round("toolchain that cannot run")
    if not farm.broken.exists():
        pack_compiler(farm.broken, broken=True)
    farm.compile_all(result, archive=farm.broken)
    return result


FAULTS: Mapping[str, Callable[[RealFarm], Round]] = {
    function.__name__: function
    for function in (
        none,
        worker_killed,
        scheduler_killed,
        link_cut,
        disk_full,
        two_builders,
        wrong_token,
        toolchain_broken,
    )
}


def tell(number: int, result: Round) -> Round:
    """The round, printed."""
    counts = f"{result.good} good, {result.remote} remote, {result.seconds:.0f} s"
    print(f"  {result.fault} {number + 1}: {counts} {result.wrong or ''}", flush=True)
    return result


def summary(results: list[Round]) -> str:
    """All rounds of a fault as a row of a table: rounds, objects the same, objects lost, remote, seconds (median)."""
    good, wrong = sum(result.good for result in results), sum(len(result.wrong) for result in results)
    middle = sorted(result.seconds for result in results)[len(results) // 2]
    remote = sum(result.remote for result in results)
    return f"| {results[0].fault} | {len(results)} | {good} | {wrong} | {remote} | {middle:.0f} |"


def main(words: list[str]) -> int:
    """Rounds of each fault, with a line for each; 1 where anything was lost."""
    if reason := can_farm():
        print(f"no farm here: {reason}")
        return 2
    rounds = int(words[0]) if words and words[0].isdigit() else 10
    chosen = [name for name in words if name in FAULTS] or list(FAULTS)
    lost = 0
    with tempfile.TemporaryDirectory(prefix="farm-faults-") as folder:
        farm = RealFarm(Path(folder))
        try:
            for name in chosen:
                if name == "link_cut" and not farm.namespace:
                    print("link cut: needs root and ip")
                    continue
                results = [tell(number, FAULTS[name](farm)) for number in range(rounds)]
                lost += sum(len(result.wrong) for result in results)
                print(summary(results), flush=True)
        finally:
            farm.close()
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
