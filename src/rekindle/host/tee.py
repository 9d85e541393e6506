"""A program of the user's run as if it had been started by hand, while a copy of what it says is kept.

Its bytes pass through untouched, standard output and standard error apart; standard input stays the terminal's. The
copy lies in a file, in the order things were said, however much it is.
"""

from __future__ import annotations

import errno
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, BinaryIO

_CHUNK = 64 * 1024


def run_and_copy(
    argv: Sequence[str], copy: BinaryIO, *, out: BinaryIO, err: BinaryIO, env: Mapping[str, str] | None = None
) -> int:
    """The program's exit code, as shells say it: 128 plus the number where a signal ended it, 127 where there is no
    such program and 126 where it cannot be started (both are told on ``err``, and copied)."""
    program = shutil.which(argv[0])
    if program is None:
        if Path(argv[0]).is_file():
            return _refused(f"{argv[0]}: Permission denied", 126, copy, err)
        return _refused(f"{argv[0]}: command not found", 127, copy, err)
    try:
        process = subprocess.Popen([program, *argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    except OSError as error:
        # The program was found: what is not there is what its first line names, or its loader.
        reason = "cannot execute: required file not found" if error.errno == errno.ENOENT else error.strerror or error
        return _refused(f"{argv[0]}: {reason}", 126, copy, err)
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


def _refused(words: str, code: int, copy: BinaryIO, err: BinaryIO) -> int:
    line = f"{words}\n".encode()
    copy.write(line)
    err.write(line)
    err.flush()
    return code


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
