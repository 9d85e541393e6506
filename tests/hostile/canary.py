"""A canary: a program that, if anything runs it, leaves a file behind. Shared by the tests in this folder."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

LONG = pytest.mark.skipif(not os.environ.get("REKINDLE_LONG"), reason="takes minutes; REKINDLE_LONG=1 runs it")


class Canary:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.mark = folder / "sang"
        self.program = folder / "canary.sh"
        self.program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{self.mark}'\nexit 0\n", encoding="utf-8")
        self.program.chmod(0o755)

    @property
    def sang(self) -> str:
        """What ran it, or nothing."""
        return self.mark.read_text(encoding="utf-8") if self.mark.exists() else ""


def rekindle(
    *args: str, env: dict[str, str] | None = None, timeout: float = 120.0, **options: object
) -> subprocess.CompletedProcess[str]:
    """The program as a user starts it."""
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "rekindle", *args],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        env={**os.environ, **(env or {})},
        **options,
    )


def in_process(*args: str) -> tuple[int, str]:
    """The same without a new process: exit code and all that was said."""
    from rekindle.cli.main import main

    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(args)
    said.flush()
    return code, said.buffer.getvalue().decode("utf-8", "replace")


class TooLong(BaseException):
    """Past its time; not an Exception, so that nothing takes it for an ordinary error."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """What takes longer is stopped where it hangs."""

    def stop(number: int, frame: object) -> None:
        raise TooLong(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def limited(*argv: str, cpu_seconds: int = 5, address_space: int = 1100 << 20) -> subprocess.CompletedProcess[str]:
    """Under hard limits of processor time and address space: what passes them is killed, and that is a failure.

    The interpreter, our imports and numpy map about 500 MB of address space before anything is read.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))

    return subprocess.run(
        [sys.executable, "-m", "rekindle", *argv], preexec_fn=limit, capture_output=True, text=True, errors="replace",
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
