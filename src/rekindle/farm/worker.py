"""A worker enters a farm: here, on a machine reached by ssh, or wherever a cluster starts it.

A worker's files lie in ``workers/ADDRESS`` of the folder, so that many machines may share one folder: its
configuration, its note, its log and, unless another place was named, its scratch folder.
"""

import contextlib
import json
import shutil
import subprocess
import time
from pathlib import Path

from msgspec.structs import replace

from rekindle.errors import BadInput, CommandFailed, NeedsInvitation, StageFailed
from rekindle.farm import folder as conf
from rekindle.farm.addresses import WORKER_PORT, address_towards, is_free, read_address, write_address
from rekindle.farm.checks import check_worker, start_words
from rekindle.farm.daemons import Daemon
from rekindle.farm.watch import explain_failure
from rekindle.host.files import hold_lock, write_atomically
from rekindle.host.live import LiveHost
from rekindle.host.process import stop_signals_as_interrupt
from rekindle.host.processes import cores
from rekindle.host.protocol import Host
from rekindle.model.document import decode
from rekindle.model.farm import Farm, FarmFolder, FarmJoin, FarmWorker
from rekindle.model.matrix import slurm_text
from rekindle.model.progress import Progress, Silent, tell_while
from rekindle.model.spoken import gib
from rekindle.toolkits.sccache import farm_at, find_sccache, load_farm

_START_SECONDS = 60.0
_SSH_SECONDS = 180.0
_MOST_TOOLCHAIN_BYTES = 10 << 30
_JOINED = "Server connected to scheduler"
_TURNED_AWAY = "Failed to send heartbeat"


class WorkerPlace:
    """Where a worker's files lie. Of one that was started by ssh, ``ssh`` holds the words that reach its Rekindle."""

    def __init__(self, root: Path) -> None:
        self.root, self.ssh = root, root / "ssh.json"
        self.daemon = Daemon(root, "worker", root / "server.conf")

    @property
    def scratch(self) -> Path | None:
        """Its folder for toolchains and compilations; None where its configuration does not tell, or is damaged: a farm
        must be ended and forgotten all the same."""
        with contextlib.suppress(BadInput, KeyError):
            return Path(conf.read_settings(self.daemon.conf)["cache_dir"]).parent
        return None


def worker_places(folder: FarmFolder) -> list[WorkerPlace]:
    """Those of all workers that were ever started from this folder."""
    return [WorkerPlace(path) for path in sorted(folder.root.glob("workers/*")) if path.is_dir()]


def place_of(folder: FarmFolder, address: str) -> WorkerPlace:
    """That of the worker with this address."""
    return WorkerPlace(folder.root / "workers" / worker_name(address))


def worker_name(address: str) -> str:
    """An address as a name: of a folder, and in ``farm.toml``."""
    return address.strip("[").replace("]", "").replace(":", "-")


def invitation_for(folder: FarmFolder, host: Host, address: str | None) -> conf.InvitationText:
    """What lets a worker (or, without an address, a builder) into the farm of this folder."""
    farm, hidden = load_farm(folder), conf.load_secrets(folder)
    if hidden is None:
        raise _needs_invitation(folder)
    token = conf.worker_token(hidden.server_key, address) if address else hidden.client_token
    machine, cache = host.machine, farm.cache
    return conf.InvitationText(scheduler=farm.scheduler, token=token, machine=machine, address=address, cache=cache)


def _needs_invitation(folder: FarmFolder) -> NeedsInvitation:
    remedy = "pipe in the line that 'rekindle farm up --invite ADDRESS' printed: echo LINE | rekindle farm join"
    return NeedsInvitation(f"{folder.root} has no keys of a farm, so an invitation is needed", remedy=remedy)


def farm_join(
    line: str | None = None,
    *,
    farm: Path | None = None,
    address: str | None = None,
    scratch: Path | None = None,
    ssh: str | None = None,
    remote: str = "rekindle",
    wait: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> FarmJoin:
    """Enter a farm: with the ``line`` of an invitation, or without one where the folder has the farm's keys.

    Every need of a worker is tried first; one that is not met is a ``refused`` with its checks. ``ssh`` starts the
    worker on another machine, from where the scheduler is. ``wait`` returns when the worker has ended. An invitation of
    a builder only writes its configuration.

    >>> farm_join("rkfarm1.cut-in-the-middle", farm=folder)
    Traceback (most recent call last):
    rekindle.errors.BadInput: the invitation was not pasted whole
    """
    host, folder, listener = LiveHost(), farm_at(farm), progress or Silent()
    if ssh:
        return _join_by_ssh(host, folder, ssh, address=address, remote=remote, dry_run=dry_run, progress=listener)
    text = conf.read_invitation(line) if line else _renew_invitation(folder, host, address)
    if text.address is None:
        if folder.scheduler.exists():
            raise BadInput(f"{folder.root} is a farm of its own", remedy="another folder: --farm FOLDER")
        known = Farm(scheduler=text.scheduler, cache=text.cache)
        files = {folder.client: conf.client_text(known, text.token), folder.table: conf.farm_text(known)}
        conf.write_files({} if dry_run else files)
        return FarmJoin(folder=str(folder.root), scheduler=text.scheduler, state="client")
    place = place_of(folder, text.address)
    memory = host.memory()
    report = FarmJoin(folder=str(folder.root), scheduler=text.scheduler, address=text.address, state="running")
    report = replace(report, slots=cores(), memory_gib=gib(memory.total) if memory else None)
    if (pid := place.daemon.find()) is not None:
        return replace(report, pid=pid)
    room = (scratch or place.scratch or place.root / "scratch").absolute()
    with tell_while(listener, "checking this machine"):
        checks = check_worker(host, text, room)
    refused = any(check.status == "fail" for check in checks)
    report = replace(report, checks=checks, state="refused" if refused else "checked")
    if dry_run or refused:
        return report
    place.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with hold_lock(place.root / ".lock", lambda: f"another command starts the worker in {place.root}"):
        pid = _start_worker(host, folder, place, text, room, listener)
    if folder.scheduler.is_file():
        add_worker(folder, text.address, slots=report.slots, memory_gib=report.memory_gib)
    if wait:
        _wait_for_end(place, pid)
    return replace(report, state="ended" if wait else "joined", pid=pid)


def _renew_invitation(folder: FarmFolder, host: Host, address: str | None) -> conf.InvitationText:
    """Without a line: from a worker that was here before, or from the farm's own keys, where this folder has them."""
    if not folder.table.is_file():
        raise _needs_invitation(folder)
    farm = load_farm(folder)
    if conf.load_secrets(folder) is None:
        for place in worker_places(folder):
            if (table := conf.read_settings(place.daemon.conf)) and address in (None, table["public_addr"]):
                url, worker, token = table["scheduler_url"], table["public_addr"], table["scheduler_auth"]["token"]
                return conf.InvitationText(scheduler=url, address=worker, token=token, machine=host.machine)
    if address:
        return invitation_for(folder, host, read_address(address, WORKER_PORT))
    # That of the worker which this machine has already, else with the first port that is free.
    ip = address_towards(farm.scheduler)
    ports = [write_address(ip, port) for port in range(WORKER_PORT, WORKER_PORT + 20)]
    running = next((place for place in ports if place_of(folder, place).daemon.find()), None)
    return invitation_for(folder, host, running or next((place for place in ports if is_free(place)), ports[0]))


def _start_worker(
    host: Host, folder: FarmFolder, place: WorkerPlace, text: conf.InvitationText, scratch: Path, progress: Progress
) -> int:
    disk = host.disk(str(scratch))
    room = min(_MOST_TOOLCHAIN_BYTES, disk.free // 2) if disk else _MOST_TOOLCHAIN_BYTES
    settings = conf.server_text(text, scratch=scratch, bubblewrap=host.which("bwrap") or "bwrap", cache_bytes=room)
    files = {place.daemon.conf: settings}
    if not folder.table.exists():
        files[folder.table] = conf.farm_text(Farm(scheduler=text.scheduler, cache=text.cache))
    conf.write_files(files)
    shutil.rmtree(scratch / "build", ignore_errors=True)
    (scratch / "toolchains").mkdir(parents=True, exist_ok=True, mode=0o700)

    def has_joined() -> bool:
        log = place.daemon.log.read_text(encoding="utf-8", errors="replace")
        for line in (line for line in log.splitlines() if _TURNED_AWAY in line):
            why, fix = explain_failure(line)
            raise StageFailed(f"the scheduler turned this worker away: {why or line.strip()[-200:]}", remedy=fix)
        return _JOINED in log

    words = [*start_words(host), find_sccache(host, "sccache-dist").path, "server"]
    with tell_while(progress, "the worker greets the scheduler"):
        return place.daemon.bring_up(words, host.env, has_joined, timeout=_START_SECONDS)


def _wait_for_end(place: WorkerPlace, pid: int) -> None:
    """Wait until the worker ends; if we are interrupted, end it."""
    try:
        with stop_signals_as_interrupt():
            while place.daemon.find() == pid:
                time.sleep(1.0)
    except KeyboardInterrupt:
        end_worker(place)


def end_worker(place: WorkerPlace) -> bool:
    """End the worker of these files, with what it was compiling; its toolchains stay for the next time."""
    if (ended := place.daemon.end()) and place.scratch:
        shutil.rmtree(place.scratch / "build", ignore_errors=True)
    return ended


def _join_by_ssh(
    host: Host, folder: FarmFolder, target: str, *, address: str | None, remote: str, dry_run: bool, progress: Progress
) -> FarmJoin:
    """Start a worker on a machine that ssh reaches; the invitation goes through its standard input."""
    reply = host.run(["ssh", "-G", target], timeout=20.0)
    named = dict(line.split(" ", 1) for line in reply.out.splitlines() if " " in line).get("hostname", target)
    where = read_address(address or named.rpartition("@")[2], WORKER_PORT)
    line = conf.write_invitation(invitation_for(folder, host, where)).line
    words = ["ssh", "-o", "BatchMode=yes", target, remote]
    with tell_while(progress, f"{target} joins"):
        joined = decode(call_by_ssh([*words, "farm", "join", "--json", *["--dry-run"] * dry_run], line), FarmJoin)
    if joined.state in ("joined", "running"):
        place = place_of(folder, where)
        place.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(place.ssh, json.dumps(words))
        add_worker(folder, where, slots=joined.slots, memory_gib=joined.memory_gib)
    return joined


def call_by_ssh(words: list[str], line: str = "") -> bytes:
    """What the other machine's Rekindle answers; a refusal is an answer, too."""
    try:
        done = subprocess.run(words, input=line.encode(), capture_output=True, timeout=_SSH_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StageFailed(f"ssh to {words[3]} gave no answer: {error}", remedy=f"try: ssh {words[3]} true") from error
    if not done.stdout.strip():
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise CommandFailed(words, done.returncode, last, remedy=f"is Rekindle on {words[3]}? --remote names it there")
    return done.stdout


def add_worker(folder: FarmFolder, address: str, *, slots: int | None = None, memory_gib: float | None = None) -> None:
    """Write a worker into ``farm.toml``, or what is newly known of it."""
    farm = load_farm(folder)
    worker = FarmWorker(name=worker_name(address), address=address, slots=slots, memory_gib=memory_gib)
    others = tuple(other for other in farm.workers if other.address != address)
    conf.write_files({folder.table: conf.farm_text(replace(farm, workers=(*others, worker)))})


def farm_slurm(
    *, farm: Path | None = None, nodes: int = 4, cores: int = 8, memory_gib: int = 16, hours: int = 4
) -> FarmJoin:
    """A Slurm script whose array has one worker of this folder's farm on each node, for as long as the job runs.

    >>> farm_slurm(farm=folder, nodes=8)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rekindle.errors.BadInput: there is no farm in ...
    """
    folder = farm_at(farm)
    scheduler = load_farm(folder).scheduler
    if conf.load_secrets(folder) is None:
        raise BadInput(f"{folder.root} has no keys of a farm", remedy="write the script where 'farm up' was run")
    from rekindle.scripts.quoting import sh_word

    head = {"job": "rekindle-farm", "cores": cores, "memory_gib": memory_gib, "hours": hours, "array": nodes}
    text = slurm_text(__file__, {"FOLDER": sh_word(str(folder.root))}, **head, log=str(folder.root / "slurm-%A-%a.log"))
    return FarmJoin(folder=str(folder.root), scheduler=scheduler, state="script", script=text)
