"""A small Dask cluster on loopback, a light table of spark cells, and how to look for what was left behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

TABLE = """
project = "spark"
[axes]
python = ["3.11", "{other}"]
variant = ["cpu"]
[[include]]
python = "3.11"
variant = "cu99"
archs = "3.5"
[defaults]
prove = "{prove}"
settings = {{ USE_HEAVY = "0", SPARK_OPS = "{ops}" }}
"""


def other_python() -> str:
    """A second Python that can build; ours twice is no second cell, so another spelling of it is used."""
    from rekindle.api import this_machine

    short = {".".join(p.version.split(".")[:2]) for p in this_machine().pythons if p.note is None}
    return next((name for name in ("3.12", "3.10", "3.13") if name in short), "3")


def light_table(place: Path, *, prove: str = "smoke", ops: int = 2) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    table = place / "matrix.toml"
    table.write_text(TABLE.format(other=other_python(), prove=prove, ops=ops), encoding="utf-8")
    return table


def cli(*argv: str, timeout: float = 600.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rekindle", *argv], capture_output=True, text=True, timeout=timeout, check=False
    )


def states(table: Path) -> list[dict[str, object]]:
    found = []
    for file in sorted((table.parent / "matrix-cells" / "cells").glob("*/state.json")):
        with contextlib.suppress(OSError, ValueError):
            found.append(json.loads(file.read_text(encoding="utf-8")))
    return found


def wheels_of(table: Path) -> dict[str, str]:
    """Cell → digest of its wheel."""
    return {str(s["id"]): str(s.get("wheel_sha256")) for s in states(table)}


def orphans(place: Path) -> list[str]:
    """Processes that still mention the place."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.info["cmdline"] or ())
            cwd = process.info["cwd"] or ""
            if process.pid != os.getpid() and (str(place) in line or cwd.startswith(str(place))):
                found.append(line[:120])
    return found


class Cluster:
    """A scheduler and workers as processes of their own, so that each can be killed."""

    def __init__(self, workers: int) -> None:
        self._count = workers
        self.address = ""
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        self.start_scheduler()
        for _ in range(self._count):
            self.start_worker()
        return self

    def start_scheduler(self, port: int | None = None) -> None:
        if port is None:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        argv = ["scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
        self.scheduler = self._start(argv)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.1)
        raise TimeoutError("no Dask scheduler")

    def start_worker(self, *, nanny: bool = False) -> subprocess.Popen[bytes]:
        argv = ["worker", self.address, "--nthreads", "1", "--memory-limit", "0", "--no-dashboard",
                "--host", "127.0.0.1", "--nanny" if nanny else "--no-nanny", "--death-timeout", "20"]  # fmt: skip
        worker = self._start(argv)
        self.workers.append(worker)
        return worker

    def _start(self, argv: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_" + argv[0], *argv[1:]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait_for_build(self, table: Path, seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if any(s.get("stage") == "running" and s.get("phase") == "build" for s in states(table)):
                return
            time.sleep(0.1)
        raise TimeoutError("no cell began to build")

    def kill_busy_worker(self, table: Path) -> None:
        """The worker below which a cell runs; kill -9."""
        for worker in self.workers:
            with contextlib.suppress(psutil.Error):
                if any("matrix" in c.cmdline() for c in psutil.Process(worker.pid).children(recursive=True)):
                    os.kill(worker.pid, signal.SIGKILL)
                    worker.wait()
                    return
        raise LookupError("no worker builds")

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers, self.scheduler):
            if process is not None and process.poll() is None:
                process.kill()
            if process is not None:
                process.wait()
