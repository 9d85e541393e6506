"""A farm's scheduler: set up and started, asked how it goes, ended; the same command again changes nothing."""

import contextlib
import json
import re
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import msgspec

from rekindle.errors import BadInput, RekindleError
from rekindle.farm import addresses
from rekindle.farm import folder as conf
from rekindle.farm.checks import ask_scheduler
from rekindle.farm.daemons import Daemon
from rekindle.farm.watch import SeenFarm, SeenWorker, read_log, read_scheduler_log, read_worker_log
from rekindle.farm.worker import call_by_ssh, end_worker, farm_join, invitation_for, worker_name, worker_places
from rekindle.host.files import hold_lock
from rekindle.host.live import LiveHost
from rekindle.model.document import shared_fields
from rekindle.model.farm import Farm, FarmDown, FarmFolder, FarmMachine, FarmReport, FarmUp, FarmWorker
from rekindle.model.progress import Progress, Silent, tell_while
from rekindle.toolkits.sccache import farm_at, find_sccache, load_farm

_START_SECONDS = 30.0


def scheduler_daemon(folder: FarmFolder) -> Daemon:
    """The scheduler that is started from this folder."""
    return Daemon(folder.root, "scheduler", folder.scheduler)


def farm_up(
    *,
    farm: Path | None = None,
    listen: str | None = None,
    url: str | None = None,
    cache: str | None = None,
    invite: Sequence[str] = (),
    client: bool = False,
    worker: bool = False,
    scratch: Path | None = None,
    private_network: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> FarmUp:
    """Start a farm's scheduler here (``listen``: at which address), and a worker beside it where ``worker`` says so.

    Each address in ``invite`` gets a line for ``farm_join`` there; ``client`` makes one for somebody who builds. The
    lines hold tokens. What is written and started already stays: the same call again only invites.

    >>> farm_up(farm=folder, listen="8.8.8.8")
    Traceback (most recent call last):
    rekindle.errors.BadInput: 8.8.8.8 is open to the world, and tokens would travel there in clear
    """
    host, folder, listener = LiveHost(), farm_at(farm), progress or Silent()
    saved = load_farm(folder) if folder.table.is_file() else None
    before = _listen_address(folder)
    address = addresses.read_address(listen or before or "127.0.0.1", addresses.SCHEDULER_PORT)
    reached = (url or (saved.scheduler if saved and address == before else f"http://{address}")).rstrip("/")
    known = saved is not None and reached == saved.scheduler
    notes = [None if known else addresses.judge_network(reached, private_network=private_network)]
    if cache:
        conf.cache_settings(cache)
    guests = [addresses.read_address(text, addresses.WORKER_PORT) for text in invite]
    notes.append(addresses.judge_reach(reached, guests))
    workers = {worker.address: worker for worker in saved.workers} if saved else {}
    workers |= {place: FarmWorker(name=worker_name(place), address=place) for place in guests if place not in workers}
    made = Farm(scheduler=reached, cache=cache or (saved.cache if saved else None), workers=tuple(workers.values()))
    daemon = scheduler_daemon(folder)
    if (pid := daemon.find()) and address != before:
        raise BadInput(f"the scheduler runs at {before}, not at {address}", remedy="rekindle farm down, then up again")
    if host.system != "linux":
        remedy = "docs/farm.md says how Windows takes part"
        raise BadInput("sccache-dist's scheduler runs on Linux alone", remedy=remedy)
    tool = find_sccache(host, "sccache-dist")
    plan = FarmUp(folder=str(folder.root), scheduler=reached, state="planned", notes=tuple(filter(None, notes)))
    if dry_run:
        files = conf.scheduler_files(folder, made, address)
        return msgspec.structs.replace(plan, written=tuple(path.name for path in files))
    folder.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with hold_lock(folder.root / ".lock", lambda: f"another command works on the farm in {folder.root}"):
        written = conf.write_files(conf.scheduler_files(folder, made, address))
        if pid is None:
            if not addresses.is_free(address):
                another = f"{address.rpartition(':')[0]}:{addresses.SCHEDULER_PORT + 1}"
                raise BadInput(f"{address} is taken by another program", remedy=f"another port: --listen {another}")
            with tell_while(listener, "the scheduler starts"):
                ready = lambda: ask_scheduler(f"http://{address}")[0].why is None  # noqa: E731
                started = daemon.bring_up([tool.path, "scheduler"], host.env, ready, timeout=_START_SECONDS)
    invited = [*guests, *[None] * client]
    invitations = tuple(conf.write_invitation(invitation_for(folder, host, place)) for place in invited)
    return msgspec.structs.replace(
        plan,
        state="running" if pid else "started",
        pid=pid or started,
        written=written,
        invitations=invitations,
        worker=farm_join(farm=folder.root, scratch=scratch, progress=listener) if worker else None,
    )


def _listen_address(folder: FarmFolder) -> str | None:
    return conf.read_settings(folder.scheduler).get("public_addr")


def farm_status(*, farm: Path | None = None) -> FarmReport:
    """The farm now: its machines, slots and load, what each compiled, and what failed with the reason.

    >>> farm_status(farm=folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rekindle.errors.BadInput: there is no farm in ...
    """
    folder = farm_at(farm)
    saved = load_farm(folder)
    listening, daemon, seen = _listen_address(folder), scheduler_daemon(folder), SeenFarm()
    status, _ = ask_scheduler(f"http://{listening}" if listening else saved.scheduler)
    read_scheduler_log(read_log(daemon.log), seen)
    names = {worker.address: worker for worker in saved.workers}
    for place in worker_places(folder):
        settings = conf.read_settings(place.daemon.conf)
        where = str(settings.get("public_addr", place.root.name))
        read_worker_log(read_log(place.daemon.log), where, seen)
        if settings and not listening:
            seen.workers.setdefault(where, SeenWorker(here=place.daemon.find() is not None))
    every = sorted({*names, *seen.workers})
    with ThreadPoolExecutor(max_workers=16) as pool:
        alive = dict(zip(every, pool.map(addresses.answers, every), strict=True))
    machines = tuple(_farm_machine(place, names.get(place), seen.workers.get(place), alive[place]) for place in every)
    # Without the password that may stand in its address.
    shown_cache = re.sub("(?s)://.*@", "://", saved.cache) if saved.cache else None
    return FarmReport(
        folder=str(folder.root),
        status=status,
        pid=daemon.find() if listening else None,
        cache=shown_cache,
        machines=machines,
        failures=tuple(sorted(seen.failures.values(), key=lambda failure: failure.when, reverse=True)),
    )


def _farm_machine(address: str, entry: FarmWorker | None, seen: SeenWorker | None, answers: bool) -> FarmMachine:
    known = {"name": entry.name, "slots": entry.slots} if entry else {"name": worker_name(address)}
    if seen is None:
        return FarmMachine(address=address, state="expected", **known)
    state: Literal["lost", "up", "silent"] = "lost" if not seen.here else "up" if answers else "silent"
    known |= shared_fields(seen, FarmMachine)
    return FarmMachine(address=address, state=state, running=len(seen.jobs), **known)


def farm_down(*, farm: Path | None = None, forget: bool = False, progress: Progress | None = None) -> FarmDown:
    """End what was started from this folder, and what was started by ssh; ``forget`` removes its files and with them
    every token. Twice is as good as once.

    >>> farm_down(farm=folder).ended
    ()
    """
    folder = farm_at(farm)
    ended, left = [], []
    with tell_while(progress or Silent(), "waiting for them to end"):
        for place in worker_places(folder):
            if end_worker(place):
                ended.append(f"worker {place.root.name}")
            elif place.ssh.is_file():
                words = json.loads(place.ssh.read_bytes())
                try:
                    stopped = json.loads(call_by_ssh([*words, "farm", "down", "--json"]))["ended"]
                    ended += [f"{server} on {words[3]}" for server in stopped]
                except (RekindleError, ValueError, KeyError) as error:
                    left.append(f"{place.root.name} on {words[3]}: {getattr(error, 'message', error)}")
        if scheduler_daemon(folder).end():
            ended.append("scheduler")
    if forget and not left:
        _remove_files(folder)
    return FarmDown(folder=str(folder.root), ended=tuple(ended), left=tuple(left), forgotten=forget and not left)


def _remove_files(folder: FarmFolder) -> None:
    """Remove what we wrote, by its names; whatever else lies in the folder stays, and the folder with it."""
    scratches = [place.scratch for place in worker_places(folder) if place.scratch]
    for path in (scratch / name for scratch in scratches for name in ("build", "toolchains")):
        shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(folder.root / "workers", ignore_errors=True)
    daemon = scheduler_daemon(folder)
    logs = (daemon.log, Path(f"{daemon.log}.before"), daemon.note, folder.root / ".lock")
    # The secrets go last: a farm that lost the rest is made whole again from them.
    for path in (*logs, folder.distrusted, folder.client, folder.table, folder.scheduler):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.root.rmdir()
