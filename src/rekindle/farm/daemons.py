"""Servers that outlive the command that started them, ended by what was noted of them and by nothing else.

A *note* lies beside the server's log: its number and :func:`process_mark`, which no other process ever has, neither
after a restart of the machine nor on another machine that sees the same folder.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from rekindle.errors import StageFailed
from rekindle.host.files import text_at, write_atomically
from rekindle.host.process import start_background
from rekindle.host.processes import process_mark
from rekindle.host.text import last_line

_GRACE_SECONDS = 6.0


class Daemon:
    """A server called ``name`` with its log (and that of the start before) and its note in ``folder``; ``conf`` is the
    file it is started with."""

    def __init__(self, folder: Path, name: str, conf: Path) -> None:
        self.folder, self.name, self.conf = folder, name, conf
        self.log, self.note = folder / f"{name}.log", folder / f"{name}.json"

    def find(self) -> int | None:
        """Its process, where it runs on this machine."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            note = json.loads(self.note.read_bytes())
            if (mark := process_mark(int(note["pid"]))) and mark == note["mark"]:
                return int(note["pid"])
        import psutil

        # Started with this configuration, and killed before its note was written.
        for process in psutil.process_iter(["cmdline"]):
            if ("--config", str(self.conf)) in pairwise(process.info["cmdline"] or ()):
                return int(process.pid)
        return None

    def start(self, argv: Sequence[str], env: Mapping[str, str]) -> int:
        """Start it and note it; what cannot be noted is ended again."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.log.exists():
            self.log.replace(Path(f"{self.log}.before"))
        self.log.touch(mode=0o600)
        # A server that goes to the background by itself would have another number than the one noted here.
        settings = {"SCCACHE_NO_DAEMON": "1", "SCCACHE_LOG": "info"}
        process = start_background([*argv, "--config", str(self.conf)], {**env, **settings}, self.log)
        try:
            write_atomically(self.note, json.dumps({"pid": process.pid, "mark": process_mark(process.pid)}))
        except BaseException:
            end_group(process.pid)
            raise
        finally:
            process.returncode = 0  # nobody waits for it: it stays when we end
        return process.pid

    def bring_up(
        self, argv: Sequence[str], env: Mapping[str, str], ready: Callable[[], bool], *, timeout: float
    ) -> int:
        """Start it and wait until it is ``ready``. What is not is ended again: StageFailed with its last words."""
        pid = self.start(argv, env)
        deadline = time.monotonic() + timeout
        try:
            while True:
                ended = process_mark(pid) is None  # asked first: what it said last is then in its log
                if ready() and not ended:
                    return pid
                if ended or time.monotonic() > deadline:
                    why = "ended at once" if ended else f"did not answer in {timeout:.0f} seconds"
                    raise StageFailed(f"the {self.name} {why}: {self.last_words()}", remedy=f"its log: {self.log}")
                time.sleep(0.1)
        except BaseException:
            self.end()
            raise

    def last_words(self) -> str:
        """What its log ends with."""
        return last_line(text_at(self.log), "it said nothing") if self.log.exists() else "it has no log"

    def end(self) -> bool:
        """End it with all it started; False where it does not run here."""
        if (pid := self.find()) is not None:
            end_group(pid)
            self.note.unlink(missing_ok=True)
        return pid is not None


def end_group(pid: int) -> None:
    """Ask a server and its compilers to end; after a while they must."""
    if pid <= 1:  # to the system these are no groups: 1 is every process there is, 0 is ourselves
        raise StageFailed(f"process {pid} is not ours to end", remedy="end it where it was started")
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):
            os.killpg(pid, number)
        deadline = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < deadline:
            if process_mark(pid) is None:
                return
            time.sleep(0.05)
