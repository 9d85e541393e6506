"""A build on a farm: its sccache for as long as the build runs, how many jobs the farm takes now, who compiled what,
and whether what came back is what this machine's compiler makes.

Nothing a farm does can fail a build: what does not compile there is compiled here, and where no worker is left, all of
it. One object in N is compiled here as well. A worker whose object differs is written down (``distrusted.json`` in the
farm's folder), the farm is left alone from that moment, and all that this worker made is made again here; where it
cannot be told who made it, all that came from the farm.
"""

import contextlib
import dataclasses
import datetime
import importlib.resources
import shlex
import tempfile
import threading
import tomllib
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rekindle.build.governor import Governor
from rekindle.build.history import ObjectCosts, kind_of
from rekindle.build.launchers import Launcher, farm_jobs, launcher_of, settings_for
from rekindle.errors import BadInput
from rekindle.formats.ninja import file_name, latest, read_ninja_log
from rekindle.host.files import text_at, write_atomically
from rekindle.host.protocol import Host
from rekindle.model import farm as model
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import encode, load_kept, shared_fields
from rekindle.model.spoken import GIB
from rekindle.model.toml import render_table
from rekindle.toolkits.sccache import SccacheClient, farm_at, find_sccache, load_farm, read_compilations, run_client

LOOK_SECONDS = 5.0
# So many came back undone and none was compiled: the farm refuses us (a wrong token), or cannot run our compiler.
HOPELESS = 20
# Of a worker's memory, what one compiler may take: its system and its other slots need some, too.
_WORKER_SHARE = 0.75


class FarmWork:
    """A farm while a build uses it; looked at from a thread of its own, since a scheduler may take its time."""

    def __init__(
        self, host: Host, place: model.FarmFolder, farm: model.Farm, client: SccacheClient, folder: Path, log: Path
    ) -> None:
        self.host, self.place, self.farm, self.client, self.folder = host, place, farm, client, folder
        self._log = log
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.status = model.FarmStatus()
        self.counts = model.FarmCounts()
        self.servers = self.slots = self.redone = 0
        self.wrong: tuple[model.DistrustedWorker, ...] = ()
        self.governor: Governor | None = None
        self._news: deque[str] = deque()
        self._announced: set[str] = set()

    @property
    def jobs(self) -> int:
        """How many compilations may run at once now."""
        return farm_jobs(model.FarmStatus() if self.stopped else self.status)

    @property
    def stopped(self) -> bool:
        """Is the farm left alone, since it failed us?"""
        return (self.folder / "stop").exists()

    def look(self) -> None:
        """Ask once, take the jobs that there are, and say what has changed."""
        self.status = status = self.client.status(self.host)
        self.counts = counts = self.client.counts(self.host) or self.counts
        self.servers, self.slots = max(self.servers, status.servers), max(self.slots, status.slots)
        if self.governor is not None:
            self.governor.max_jobs = self.jobs
        if status.slots:
            self._announced.discard("none")
        else:
            why = f" ({status.why})" if status.why else ""
            self._say_once("none", f"the farm has no worker now{why}: compiling here until one comes")
        undone = max(counts.returned, len(self.lines("failed")))
        if undone >= HOPELESS and not counts.elsewhere and not self.stopped:
            (self.folder / "stop").touch()
            reason = next((line.partition("\t")[2] for line in self.lines("failed")), "") or "see its log"
            text = f"{undone} compilations came back undone and none was done ({reason}): the farm is left alone"
            self._say_once("hopeless", text)
        if self.lines("wrong"):
            self._say_once("wrong", "the farm returned other bytes than this machine's compiler: it is left alone")

    def _say_once(self, about: str, text: str) -> None:
        if about not in self._announced:
            self._announced.add(about)
            self._news.append(text)

    def news(self) -> Iterator[str]:
        """What there is to say since the last time."""
        while self._news:
            yield self._news.popleft()

    def lines(self, name: str) -> list[str]:
        """What the launcher noted: ``failed``, ``checked``, ``wrong`` or ``unsteady`` objects."""
        return text_at(self.folder / name).splitlines()

    def keep_home(self, learnt: ObjectCosts) -> None:
        """Giants stay here: what earlier builds saw take more memory than the smallest worker has. sccache's scheduler
        knows slots alone, so whichever worker is free would get them."""
        least = min((worker.memory_gib for worker in self.farm.workers if worker.memory_gib), default=None)
        giants = learnt.larger_than(int(least * GIB * _WORKER_SHARE)) if least else []
        if giants:
            (self.folder / "home").write_text("".join(f"{output}\n" for output in giants), encoding="utf-8")
            self._say_once("home", f"too large for a worker's memory, so compiled here: {len(giants)} of the objects")

    def start(self) -> None:
        """Look now, and from now on every few seconds."""
        self.look()
        self._thread.start()

    def end(self) -> None:
        """Look no more; what is counted now is final."""
        self._count()
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _count(self) -> None:
        if not self._done.is_set():
            self.counts = self.client.counts(self.host) or self.counts

    def _watch(self) -> None:
        while not self._done.wait(LOOK_SECONDS):
            self.look()

    def compilations(self) -> list[model.FarmCompilation]:
        """Everything that sccache was asked for, in the order it ended."""
        self._count()
        with contextlib.suppress(OSError), self._log.open(encoding="utf-8", errors="replace") as lines:
            return read_compilations(lines, self.counts)
        return []

    def suspects(self) -> tuple[list[model.DistrustedWorker], set[str] | None]:
        """Who returned wrong bytes, as far as can be told, and the names of all objects that must be made again; None:
        all there are."""
        if not (wrong := self.lines("wrong")):
            return [], set()
        jobs = self.compilations()
        date = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        workers: list[model.DistrustedWorker] = []
        for path in wrong:
            makers = {"the cache" if job.from_cache else job.where for job in jobs if job.object == file_name(path)}
            maker = makers.pop() if len(makers) == 1 else None
            workers.append(model.DistrustedWorker(address=maker or "unknown", object=path, date=date))
        liars = {worker.address for worker in workers}
        if liars & {"unknown", "the cache"}:
            return workers, {job.object for job in jobs if job.where != "" or job.from_cache} or None
        return workers, {job.object for job in jobs if job.where is None or job.where in liars}

    def distrust(self, workers: Sequence[model.DistrustedWorker]) -> None:
        """Write down who returned wrong bytes, for every later build."""
        before = load_kept(self.place.distrusted, model.DistrustedWorkers) or model.DistrustedWorkers()
        addresses = {worker.address for worker in before.workers}
        more = {worker.address: worker for worker in workers if worker.address not in addresses | {"unknown"}}
        if more:
            known = model.DistrustedWorkers(workers=(*before.workers, *more.values()))
            write_atomically(self.place.distrusted, encode(known))

    def use(self, compilers: Mapping[str, str]) -> model.FarmUse:
        """The farm's part of the build's result."""
        return model.FarmUse(
            **shared_fields(self, model.FarmUse),
            scheduler=self.farm.scheduler,
            rows=count_rows(self.compilations(), self.farm),
            failed=len(self.lines("failed")),
            checked=len(self.lines("checked")),
            unsteady=tuple(self.lines("unsteady")),
            compilers=dict(compilers),
        )


def count_rows(compilations: Sequence[model.FarmCompilation], farm: model.Farm) -> tuple[model.FarmRow, ...]:
    """By language and place, the most first. A language is told where it was compiled alone; else by the name."""
    objects: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for job in compilations:
        where = "cache" if job.from_cache else "unknown" if job.where is None else job.where or "here"
        by_name = "CUDA" if ".cu." in job.object else "C/C++" if job.object.endswith((".o", ".obj")) else "others"
        key = job.language or by_name, farm.name_of(where)
        objects[key] += 1
        failed[key] += job.result == "compile failed"
    return tuple(
        model.FarmRow(language=language, where=where, objects=count, failed=failed[language, where])
        for (language, where), count in sorted(objects.items(), key=lambda row: (-row[1], row[0]))
    )


@contextlib.contextmanager
def opened_farm(
    host: Host, options: BuildOptions, settings: Mapping[str, str], root: Path, logs: Path
) -> Iterator[tuple[Launcher, FarmWork | None, str]]:
    """The farm that the options name, as a launcher, for as long as the block runs; and what there is to say first. One
    with a distrusted worker is not used: only its cache is, by compilers of this machine."""
    place = farm_at(options.farm or "")
    farm = load_farm(place)
    if not place.client.is_file():
        remedy = "rekindle farm join with the line that rekindle farm up printed"
        raise BadInput(f"{place.root} has no client.conf, so nobody can build with it", remedy=remedy)
    tool = find_sccache(host)
    own = {"SCCACHE_BASEDIRS": str(root)} if not host.env.get("SCCACHE_BASEDIRS") else {}
    own |= settings_for("sccache", settings)
    log = logs / "sccache.log"
    log.unlink(missing_ok=True)
    liars = load_kept(place.distrusted, model.DistrustedWorkers)
    with tempfile.TemporaryDirectory(prefix="rekindle-farm-") as scratch:
        folder = Path(scratch)
        conf = without_farm(place.client, folder) if liars and liars.workers else place.client
        with run_client(host, tool, conf, log, own) as client:
            if liars and liars.workers:
                names = ", ".join(f"{farm.name_of(worker.address)} ({worker.date})" for worker in liars.workers)
                first = f"the farm is not used: {names} returned other bytes than this machine's compiler. Take it out"
                yield launcher_of(client, own, None), None, f"{first} of the farm, then remove {place.distrusted}"
                return
            work = FarmWork(host, place, farm, client, folder, log)
            work.start()
            try:
                one_in = model.CHECKED_ONE_IN if options.farm_check is None else options.farm_check
                launcher = dataclasses.replace(
                    launcher_of(client, own, work.jobs),
                    private={**client.env, "REKINDLE_FARM_BUILD": scratch},
                    scripts=render_scripts(tool.path, one_in),
                )
                workers = f"{work.status.servers} workers with {work.status.slots} slots"
                yield launcher, work, f"the farm at {farm.scheduler}: {workers}" if work.status.slots else ""
            finally:
                work.end()


def remove_objects(ninja_tree: Path, names: set[str] | None) -> list[str]:
    """Objects of these file names (None: all) are gone afterwards, wherever in the tree they lay. Names that no object
    has are of nvcc's parts: then what nvcc made goes as well, all of it."""
    outputs = {output: file_name(output) for output in latest(read_ninja_log(ninja_tree / ".ninja_log"))}
    if names is None:
        gone = [path for path in outputs if path.endswith((".o", ".obj"))]
    else:
        parts = names - set(outputs.values())
        gone = [path for path, name in outputs.items() if name in names or (parts and kind_of(path) == "gpu")]
    for path in gone:
        (ninja_tree / path).unlink(missing_ok=True)
    return gone


@contextlib.contextmanager
def opened_cache(work: FarmWork) -> Iterator[tuple[SccacheClient, dict[str, str]]]:
    """The farm's cache without the farm, and the environment that compiles here and replaces what the cache holds."""
    tool = work.client.tool
    with tempfile.TemporaryDirectory(prefix="rekindle-farm-") as scratch:
        log, conf = Path(scratch) / "log", without_farm(work.place.client, Path(scratch))
        more = {name: value for name, value in work.client.env.items() if name == "SCCACHE_BASEDIRS"}
        with run_client(work.host, tool, conf, log, more) as client:
            yield client, {**client.env, "SCCACHE_RECACHE": "1", "REKINDLE_FARM_BUILD": scratch}


def render_scripts(sccache: str, one_in: int) -> dict[str, str]:
    """What stands before each compiler, by the name of the script. What nvcc makes is not compared: it is not the same
    twice (names of its temporary files are in it)."""
    text = importlib.resources.files(__package__).joinpath("farm_launch.sh").read_text(encoding="utf-8")
    filled = text.replace("@SCCACHE@", shlex.quote(sccache))
    return {"launch": filled.replace("@EVERY@", str(one_in)), "launch-gpu": filled.replace("@EVERY@", "0")}


def without_farm(configuration: Path, folder: Path) -> Path:
    """A copy of a client's configuration that knows the cache alone, in a folder that nobody else can enter."""
    table = tomllib.loads(configuration.read_text(encoding="utf-8"))
    copy = folder / "cache.conf"
    copy.touch(mode=0o600)
    copy.write_text(render_table({key: value for key, value in table.items() if key != "dist"}), encoding="utf-8")
    return copy
