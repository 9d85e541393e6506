"""Compiler caches and farms, set up as compiler *launchers*: CMake puts them before each compile command.

Never as a wrapper that pretends to be the compiler: configure would then test the wrapper (a wrapped nvcc once
gave a torch without CUDA and no error). Caches also launch nvcc and hipcc; farms cannot, so they do not.
"""

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rekindle.errors import MissingTool
from rekindle.formats.ninja import MAX_BYTES
from rekindle.host.files import write_if_changed
from rekindle.host.processes import cores
from rekindle.host.protocol import Host
from rekindle.host.text import text_of
from rekindle.model.build_options import BuildOptions
from rekindle.model.farm import FarmStatus
from rekindle.toolkits.programs import probe_program
from rekindle.toolkits.sccache import SccacheClient, can_farm, read_counts, run_client

CACHES = ("ccache", "sccache")
_MASQUERADE = ("ccache", "sccache", "distcc", "icecc")
_LANGUAGES = {".c": "C", ".cc": "C++", ".cpp": "C++", ".cxx": "C++", ".cu": "CUDA", ".hip": "HIP", ".s": "assembler"}
# What ccache must not hash when precompiled headers are used (ccache manual, "Precompiled headers").
_PCH_SLOPPINESS = "pch_defines,time_macros,include_file_mtime,include_file_ctime"


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """``env`` joins the build's environment; ``private`` that of its processes alone, since it is another each time;
    ``jobs`` is how many a farm takes at once, where it says so. ``client`` is the sccache that works for us alone;
    ``scripts`` stand before the compilers instead of the launcher itself, by their names."""

    name: str
    path: str
    env: dict[str, str] = field(default_factory=dict)
    private: Mapping[str, str] = field(default_factory=dict)
    jobs: int | None = None
    before: dict[str, tuple[int, int]] = field(default_factory=dict)
    client: SccacheClient | None = None
    scripts: Mapping[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def opened_launcher(
    host: Host, options: BuildOptions, settings: Mapping[str, str], root: Path, logs: Path
) -> Iterator[Launcher | None]:
    """The launcher that the options name, for as long as the block runs; None where they name none. An sccache of our
    time gets a server of its own: what it compiles here is then the governor's to see, and its counts are of this build
    alone."""
    path = host.which("sccache") if options.launcher == "sccache" else None
    tool = probe_program(host, "sccache", path) if path else None
    if tool is None or not can_farm(tool):
        yield find_launcher(host, options.launcher, settings, root, logs) if options.launcher else None
        return
    own = settings_for("sccache", settings)
    with run_client(host, tool, None, logs / "sccache.log", own) as client:
        status = client.status(host)
        yield launcher_of(client, own, farm_jobs(status) if status.slots else None)


def farm_jobs(status: FarmStatus) -> int:
    """How many may run at once with a farm: what fills its workers' room, and what runs here meanwhile. What finds no
    room is compiled here; one core less than there are, since sccache starts no more processes here than cores, and one
    must be left to preprocess for the workers."""
    return status.room + max(1, cores() - 1) if status.slots else cores()


def launcher_of(client: SccacheClient, own: Mapping[str, str], jobs: int | None) -> Launcher:
    """A running sccache as a launcher; ``own`` are its settings by the plan, ``jobs`` what its farm takes."""
    path = client.tool.path
    env = before_each_compiler("sccache", path) | dict(own)
    return Launcher(name="sccache", path=path, env=env, private=client.env, jobs=jobs, client=client)


def find_launcher(host: Host, name: str, settings: Mapping[str, str], root: Path, logs: Path) -> Launcher:
    """``root`` is the source tree; ``logs`` a folder of the workspace, for a launcher that only writes a log."""
    if not (path := host.which(name)):
        raise MissingTool(f"{name} is not on this machine", remedy=f"install {name}, or build without --launcher")
    env, jobs = before_each_compiler(name, path), None
    # distcc's own settings reach it with the plan's environment alone.
    own = {} if name == "distcc" else settings_for(name, settings)
    if name == "ccache":
        env |= {"CCACHE_BASEDIR": str(root), "CCACHE_COMPILERCHECK": "content"}
        # One entry for each compilation of this build; its counters know no languages.
        env["CCACHE_STATSLOG"] = str(logs / "ccache-stats.log")
        if settings.get("USE_PRECOMPILED_HEADERS", "0").upper() in ("1", "ON"):
            env |= {"CCACHE_DEPEND": "1", "CCACHE_SLOPPINESS": _PCH_SLOPPINESS}
    elif name == "sccache":
        # Its server must not be a child of the build, or it dies with the build and takes its statistics along.
        host.run([path, "--start-server"], timeout=20.0, env=env | own)
    elif name == "distcc":
        reply = host.run([path, "-j"], timeout=10.0)
        jobs = int(reply.out) if reply.ok and reply.out.strip().isdigit() else None
        if not (host.env.get("DISTCC_HOSTS") or jobs):
            raise MissingTool("distcc knows no hosts", remedy="set DISTCC_HOSTS, for example 'localhost/2 big-box/16'")
    elif name == "icecc":
        # It counts nothing itself; at this level it writes a line for each job that it sends out.
        env |= {"ICECC_DEBUG": "info", "ICECC_LOGFILE": str(logs / "icecc.log")}
    launcher = Launcher(name=name, path=path, env=env | own, jobs=jobs)
    return replace(launcher, before=_launcher_counts(host, launcher))


def settings_for(name: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The plan's settings that are this launcher's own."""
    return {key: value for key, value in settings.items() if key.startswith(f"{name.upper()}_")}


def before_each_compiler(name: str, program: str) -> dict[str, str]:
    """The settings that put ``program`` before each compile command; a cache also takes nvcc and hipcc, a farm not."""
    languages = ("C", "CXX", "CUDA", "HIP") if name in CACHES else ("C", "CXX")
    # PyTorch would add a ccache of its own in front.
    return {f"CMAKE_{language}_COMPILER_LAUNCHER": program for language in languages} | {"USE_CCACHE": "0"}


def behind_one_name(env: Mapping[str, str], folder: Path, scripts: Mapping[str, str] | None = None) -> dict[str, str]:
    """The same settings through scripts of one name each, with or without a launcher. Ninja compiles again what has
    another command. With the launcher itself in the command, a cache that is switched on in the middle of a build would
    start it over; so commands name a script, and only the script changes."""
    if os.name == "nt":
        return dict(env)
    folder.mkdir(parents=True, exist_ok=True)
    settings = dict(env)
    for language in ("C", "CXX", "CUDA", "HIP"):
        name = f"CMAKE_{language}_COMPILER_LAUNCHER"
        script = folder / ("launch-gpu" if language in ("CUDA", "HIP") else "launch")
        text = f'#!/bin/sh\nexec {shlex.quote(env[name])} "$@"\n' if name in env else '#!/bin/sh\nexec "$@"\n'
        text = (scripts or {}).get(script.name, text)
        write_if_changed(script, text)
        script.chmod(0o755)
        settings[name] = str(script)
    return settings


def count_from_here(host: Host, launcher: Launcher) -> Launcher:
    """The same launcher without what CMake compiled to try the compilers: in a folder of another name each time,
    which newer caches hash, so that a build whose every file is known would still show misses."""
    if log := launcher.env.get("CCACHE_STATSLOG"):
        with contextlib.suppress(OSError):
            Path(log).unlink()
    return replace(launcher, before=_launcher_counts(host, launcher))


def statistics(host: Host, launcher: Launcher) -> dict[str, str]:
    """What the cache did during this build, in words; empty where it does not count."""
    if not (after := _launcher_counts(host, launcher)):
        return {"launcher": launcher.name}
    begun = {language: launcher.before.get(language, (0, 0)) for language in after}
    counts = {name: (good - begun[name][0], every - begun[name][1]) for name, (good, every) in after.items()}
    if launcher.name == "icecc":
        sent, _ = counts[""]
        return {"launcher": launcher.name, "compiled elsewhere": str(sent)}
    if launcher.name == "ccache":
        # Its log is of this build alone; its counters are those of the cache the shell names, which may be another.
        counts = _ccache_languages(host, launcher) or counts
    hits, total = (sum(column) for column in zip(*counts.values(), strict=True))
    rate = f"{100 * hits / total:.0f} %" if total else "no compilations"
    figures = {"launcher": launcher.name, "hits": str(hits), "misses": str(total - hits), "hit rate": rate}
    rows = sorted((name, of) for name, of in counts.items() if name and of[1])
    return figures | {f"hits, {name}": f"{good} of {every}" for name, (good, every) in rows}


def _ccache_languages(host: Host, launcher: Launcher) -> dict[str, tuple[int, int]]:
    """Hits and compilations by language, from ccache's log: a line with the file, then what became of it."""
    counts: dict[str, tuple[int, int]] = {}
    language = None
    for line in text_of(host.read(launcher.env.get("CCACHE_STATSLOG", ""), limit=MAX_BYTES)).splitlines():
        if line.startswith("# "):
            language = _LANGUAGES.get(os.path.splitext(line)[1].lower(), "others")  # noqa: PTH122
        elif language and line in ("direct_cache_hit", "preprocessed_cache_hit", "cache_miss"):
            good, every = counts.get(language, (0, 0))
            counts[language] = (good + (line != "cache_miss"), every + 1)
    return counts


def _launcher_counts(host: Host, launcher: Launcher) -> dict[str, tuple[int, int]]:
    """Hits and compilations since ever, by language ("": not told apart); of icecc, what it sent out."""
    env = {**launcher.env, **launcher.private}
    if launcher.name == "ccache":
        reply = host.run([launcher.path, "--print-stats"], timeout=20.0, env=env)
        lines = dict(line.split("\t", 1) for line in reply.out.splitlines() if "\t" in line) if reply.ok else {}
        hits = sum(int(lines.get(key, 0)) for key in ("direct_cache_hit", "preprocessed_cache_hit"))
        return {"": (hits, hits + int(lines.get("cache_miss", 0)))} if lines else {}
    if launcher.name == "sccache":
        reply = host.run([launcher.path, "--show-stats", "--stats-format=json"], timeout=20.0, env=env)
        if (counts := read_counts(reply.out)) is not None:
            rows = {name: (each.cached, each.cached + each.compiled) for name, each in counts.languages.items()}
            return {"": (0, 0), **rows}
    if launcher.name == "icecc":
        sent = (host.read(env["ICECC_LOGFILE"], limit=MAX_BYTES) or b"").count(b"</send compile_file")
        return {"": (sent, sent)}
    return {}


def without_masquerades(path: str) -> tuple[str, list[str]]:
    """PATH without folders whose ``gcc`` or ``c++`` is really a cache in disguise, and those folders."""

    def is_disguised(folder: str) -> bool:
        drivers = (os.path.join(folder, name) for name in ("c++", "g++", "gcc", "cc"))  # noqa: PTH118
        return bool(folder) and any(Path(os.path.realpath(driver)).name in _MASQUERADE for driver in drivers)

    folders = path.split(os.pathsep)
    dropped = list(filter(is_disguised, folders))
    return os.pathsep.join(folder for folder in folders if folder not in dropped), dropped
