"""A program of the user's run as if it had been started by hand, while a copy of what it says is kept.

Its bytes pass through untouched, standard output and standard error apart; standard input stays the terminal's. The
copy lies in a file, in the order things were said, however much it is.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Sequence
from typing import IO, BinaryIO

from rekindle.errors import BadInput

_CHUNK = 64 * 1024


def run_and_copy(argv: Sequence[str], copy: BinaryIO, *, out: BinaryIO, err: BinaryIO) -> int:
    """The program's exit code (128 plus the number where a signal ended it, as shells say it)."""
    program = shutil.which(argv[0])
    if program is None:
        raise BadInput(f"there is no program {argv[0]!r}", remedy="check the name, or put its directory on PATH")
    try:
        process = subprocess.Popen([program, *argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise BadInput(f"{argv[0]} cannot be started: {error.strerror or error}") from error
    assert process.stdout is not None and process.stderr is not None
    lock = threading.Lock()
    pumps = [
        threading.Thread(target=_pump, args=(source, target, copy, lock), daemon=True)
        for source, target in ((process.stdout, out), (process.stderr, err))
    ]
    for pump in pumps:
        pump.start()
    try:
        code = process.wait()
    except BaseException:
        # Ctrl-C reaches the program too; it gets a moment to end by itself.
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise
    for pump in pumps:
        pump.join()
    process.stdout.close()
    process.stderr.close()
    return code if code >= 0 else 128 - code


def _pump(source: IO[bytes], target: BinaryIO, copy: BinaryIO, lock: threading.Lock) -> None:
    read = getattr(source, "read1", source.read)
    gone = False
    while chunk := read(_CHUNK):
        with lock:
            copy.write(chunk)
        if not gone:
            try:
                target.write(chunk)
                target.flush()
            except (BrokenPipeError, ValueError):
                gone = True  # the reader went away (``| head``); the program is still heard to its end
