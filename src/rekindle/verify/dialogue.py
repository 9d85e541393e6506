"""A process that answers in lines of JSON: started, listened to with a deadline, and ended for sure."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rekindle.errors import BadInput
from rekindle.host.command import kill_group

MAX_LINE = 1 << 20


class Silence(Exception):
    """Nothing was said in time."""


class Dialogue:
    """One run of the agent. Standard error goes to ``log``."""

    def __init__(
        self, argv: Sequence[str], request: Mapping[str, Any], *, env: Mapping[str, str], cwd: Path, log: Path
    ) -> None:
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._log = log.open("ab")
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            raise BadInput(f"cannot start {argv[0]}: {error.strerror or error}") from error
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(request).encode())
            self._process.stdin.close()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self) -> Dialogue:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while line := self._process.stdout.readline(MAX_LINE):
                self._lines.put(line)
        self._lines.put(None)

    def next(self, timeout: float | None) -> dict[str, Any] | None:
        """The next event, None at the end; :class:`Silence` after ``timeout`` seconds."""
        while True:
            try:
                line = self._lines.get(timeout=timeout)
            except queue.Empty:
                raise Silence from None
            if line is None:
                return None
            # A torch that prints before we take standard output over may say anything.
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and "event" in event:
                    return event

    def stop(self) -> int:
        """End it with everything it started; its exit code."""
        if self._process.poll() is None and sys.platform == "win32":
            kill_group(self._process)
        elif self._process.poll() is None:
            # First a request, so that the agent ends the check it runs, which is a group of its own.
            for number, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
                with contextlib.suppress(OSError):
                    os.killpg(self._process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(seconds)
                    break
        code = self._process.wait()
        # A stray process may hold the pipe open; closing it under the listener would then wait for that process.
        self._listener.join(2.0)
        if self._process.stdout is not None and not self._listener.is_alive():
            self._process.stdout.close()
        self._log.close()
        return code

    def wait(self, timeout: float) -> int:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        return self.stop()
