"""Compiler caches and farms, set up as compiler *launchers*: CMake puts them before each compile command.

Never as a wrapper that pretends to be the compiler: configure would then test the wrapper (a wrapped nvcc once
gave a torch without CUDA and no error). Caches also launch nvcc and hipcc; farms cannot, so they do not.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.errors import MissingTool
from rekindle.host.files import write_atomically
from rekindle.host.protocol import Host

CACHES = ("ccache", "sccache")
_MASQUERADE = ("ccache", "sccache", "distcc", "icecc")
# What ccache must not hash when precompiled headers are used (ccache manual, "Precompiled headers").
_PCH_SLOPPINESS = "pch_defines,time_macros,include_file_mtime,include_file_ctime"


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """``env`` joins the build's environment; ``jobs`` is how many a farm takes at once, where it says so."""

    name: str
    path: str
    env: dict[str, str] = field(default_factory=dict)
    jobs: int | None = None
    before: dict[str, int] = field(default_factory=dict)


def find_launcher(host: Host, name: str, settings: Mapping[str, str], root: Path, logs: Path) -> Launcher:
    """``root`` is the source tree; ``logs`` a folder of the workspace, for a launcher that only writes a log."""
    path = host.which(name)
    if not path:
        raise MissingTool(f"{name} is not on this machine", remedy=f"install {name}, or build without --launcher")
    env, jobs = before_each_compiler(name, path), None
    if name == "ccache":
        env |= {"CCACHE_BASEDIR": str(root), "CCACHE_COMPILERCHECK": "content"}
        if settings.get("USE_PRECOMPILED_HEADERS", "0").upper() in ("1", "ON"):
            env |= {"CCACHE_DEPEND": "1", "CCACHE_SLOPPINESS": _PCH_SLOPPINESS}
        env |= {key: value for key, value in settings.items() if key.startswith("CCACHE_")}
    elif name == "sccache":
        env |= {key: value for key, value in settings.items() if key.startswith("SCCACHE_")}
        # Its server must not be a child of the build, or it dies with the build and takes its statistics along.
        host.run([path, "--start-server"], timeout=20.0, env=env)
    elif name == "distcc":
        said = host.run([path, "-j"], timeout=10.0)
        jobs = int(said.out) if said.ok and said.out.strip().isdigit() else None
        if not (host.env.get("DISTCC_HOSTS") or jobs):
            raise MissingTool("distcc knows no hosts", remedy="set DISTCC_HOSTS, for example 'localhost/2 big-box/16'")
    elif name == "icecc":
        # It counts nothing itself; at this level it writes a line for each job that it sends out.
        env |= {"ICECC_DEBUG": "info", "ICECC_LOGFILE": str(logs / "icecc.log")}
        env |= {key: value for key, value in settings.items() if key.startswith("ICECC_")}
    return Launcher(name=name, path=path, env=env, jobs=jobs, before=_counts(host, name, path, env))


def before_each_compiler(name: str, program: str) -> dict[str, str]:
    """The settings that put ``program`` before each compile command; a cache also takes nvcc and hipcc, a farm not."""
    languages = ("C", "CXX", "CUDA", "HIP") if name in CACHES else ("C", "CXX")
    # PyTorch would add a ccache of its own in front.
    return {f"CMAKE_{language}_COMPILER_LAUNCHER": program for language in languages} | {"USE_CCACHE": "0"}


def behind_one_name(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The same settings through scripts of one name each, with or without a launcher.

    Ninja compiles again what has another command. With the launcher itself in the command, a cache that is switched
    on in the middle of a build would start it over; so commands name a script, and only the script changes.
    """
    if os.name == "nt":
        return dict(env)
    folder.mkdir(parents=True, exist_ok=True)
    found = dict(env)
    for language in ("C", "CXX", "CUDA", "HIP"):
        name = f"CMAKE_{language}_COMPILER_LAUNCHER"
        script = folder / ("launch-gpu" if language in ("CUDA", "HIP") else "launch")
        text = f'#!/bin/sh\nexec {shlex.quote(env[name])} "$@"\n' if name in env else '#!/bin/sh\nexec "$@"\n'
        if not script.is_file() or script.read_text(encoding="utf-8") != text:
            write_atomically(script, text)
        script.chmod(0o755)
        found[name] = str(script)
    return found


def statistics(host: Host, launcher: Launcher) -> dict[str, str]:
    """What the cache did during this build, in words; empty where it does not count."""
    after = _counts(host, launcher.name, launcher.path, launcher.env)
    change = {key: after[key] - launcher.before.get(key, 0) for key in after}
    hits, misses = change.get("hits", 0), change.get("misses", 0)
    if not after:
        return {"launcher": launcher.name}
    if "sent" in change:
        return {"launcher": launcher.name, "compiled elsewhere": str(change["sent"])}
    rate = f"{100 * hits / (hits + misses):.0f} %" if hits + misses else "no compilations"
    return {"launcher": launcher.name, "hits": str(hits), "misses": str(misses), "hit rate": rate}


def _counts(host: Host, name: str, path: str, env: Mapping[str, str]) -> dict[str, int]:
    if name == "ccache":
        said = host.run([path, "--print-stats"], timeout=20.0, env=env)
        counts = dict(line.split("\t", 1) for line in said.out.splitlines() if "\t" in line) if said.ok else {}
        hits = sum(int(counts.get(key, 0)) for key in ("direct_cache_hit", "preprocessed_cache_hit"))
        return {"hits": hits, "misses": int(counts.get("cache_miss", 0))} if counts else {}
    if name == "sccache":
        said = host.run([path, "--show-stats", "--stats-format=json"], timeout=20.0, env=env)
        try:
            stats = json.loads(said.out)["stats"]
            return {
                "hits": sum(stats["cache_hits"]["counts"].values()),
                "misses": sum(stats["cache_misses"]["counts"].values()),
            }
        except (ValueError, KeyError, TypeError):
            return {}
    if name == "icecc":
        log = host.read(env["ICECC_LOGFILE"], limit=256 << 20) or b""
        return {"sent": log.count(b"</send compile_file")}
    return {}


def without_masquerades(path: str) -> tuple[str, list[str]]:
    """PATH without folders whose ``gcc`` or ``c++`` is really a cache in disguise, and those folders."""
    kept: list[str] = []
    dropped: list[str] = []
    for folder in path.split(os.pathsep):
        disguised = any(
            Path(os.path.realpath(os.path.join(folder, name))).name in _MASQUERADE  # noqa: PTH118
            for name in ("c++", "g++", "gcc", "cc")
        )
        (dropped if disguised and folder else kept).append(folder)
    return os.pathsep.join(kept), dropped
