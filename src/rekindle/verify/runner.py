"""Has the checks run in the target's Python and gathers what they say; a crash costs one check, not the run. The agent
there answers in lines of JSON: it is started, listened to with a deadline, and ended for sure."""

import contextlib
import importlib.util
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rekindle.errors import tell_os_errors
from rekindle.host.live import LiveHost, kill_group
from rekindle.host.processes import spawn
from rekindle.host.text import last_line, text_of
from rekindle.model.progress import Progress, Silent
from rekindle.model.verify import VerifyReport
from rekindle.verify.crash import outcomes
from rekindle.verify.gather import Gathering
from rekindle.verify.target import CHECKS, SMOKE, Target, Trial, companion_rows

# The agent keeps the checks' own time limits; past this many seconds more it must have been stopped itself.
GRACE = 60.0
START = 60.0
MAX_RESTARTS = 40
# Variables of our own Python, or of the user's, that would change which torch the target finds.
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
# What ``import setuptools`` needs of its own site-packages folder.
_SETUPTOOLS = ("setuptools", "pkg_resources", "_distutils_hack")


def run_checks(
    target: Target, trial: Trial = SMOKE, *, companions: Sequence[str] = (), progress: Progress | None = None
) -> VerifyReport:
    """Every check of the trial's level in the target's Python; then its suspects, and the ``companions`` beside it."""
    started = time.monotonic()
    gathered = Gathering(LiveHost(), progress or Silent(), target.environment)
    rows = companion_rows(companions)
    asked = ("package", "patience", "cpu", "cpu_features", "no_import", "no_import_remedy", "inline")
    request = {name: getattr(target, name) for name in asked} | {
        "level": trial.level,
        "only": trial.only,
        "expect": trial.expect,
        "operators": [{"id": row.call.id, "call": row.call.call} for row in trial.suspects if row.call is not None],
        "companions": rows,
    }
    with tempfile.TemporaryDirectory(prefix="rekindle-verify-", ignore_cleanup_errors=True) as folder:
        if trial.level == "full":
            request["lent"] = lend_tools(Path(folder) / "lent")
        for _ in range(MAX_RESTARTS):
            if _run_session(target, request, gathered, Path(folder)):
                break
    # Unless it is told, a GPU is owed as built. No emulated CPU has one beside it, so nothing is claimed about one.
    emulated = target.cpu is not None
    promised = bool(trial.expect.get("cuda") or trial.expect.get("rocm"))
    gpu = False if emulated or trial.gpu is False else promised or trial.gpu
    owed = tuple(f"with.{row['name']}" for row in rows)
    claim = gathered.claim(
        target.package, trial.level, gpu, emulated=emulated, companions=owed, foretold=trial.foretold
    )
    seconds, tried, only = time.monotonic() - started, outcomes(trial.suspects, gathered.trials), bool(trial.only)
    return gathered.report(claim, subject=target.subject, seconds=seconds, only=only, operators=tried)


def _run_session(target: Target, request: Mapping[str, Any], gathered: Gathering, work: Path) -> bool:
    """One life of the agent; False where it ended early and must be started again."""
    log = work / "stderr.log"
    env = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    env |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1", "PYTHONIOENCODING": "utf-8"}
    env |= target.env
    argv = [*target.command, str(CHECKS / "agent.py")]
    if target.sandbox is not None:
        # The folder that lends setuptools holds links: where they lead is shown.
        real = [path.resolve() for path in (work / "lent").glob("*") if path.is_symlink()]
        real += [Path(place) for name, place in request.get("lent", {}).items() if name == "ninja"]
        argv, env = target.sandbox.wrap(argv, work=work, env=env, shown=[CHECKS, *real])
        env |= target.env
    with _talk(argv, {**request, "done": gathered.done}, env=env, cwd=work, log=log) as (process, events):
        while True:
            current = gathered.current
            # Impatience is for checks: an interpreter starts no quicker.
            limit = float(current["timeout"]) + GRACE if current is not None else START * max(1.0, target.patience)
            try:
                event = events.get(timeout=limit)
            except queue.Empty:
                how = f"no answer within {limit:.0f} s"
                break
            if event is None:
                code = _end(process, timeout=5.0)
                # Bubblewrap tells of a signal as shells do.
                how = _ending_words(128 - code if target.sandbox and code > 128 else code)
                break
            if event["event"] == "done":
                _end(process, timeout=5.0)
                failed = any(check.id.startswith("import.") and check.status == "failed" for check in gathered.checks)
                return bool(event.get("clean", True)) or failed
            gathered.hear(event)
        gathered.cut_short(_with_complaint(how, log))
        return current is None or current["id"].startswith("import.")


def _ending_words(code: int) -> str:
    if code < 0:
        return f"the interpreter died of signal {-code}"
    # Windows: 0xC0000005 access violation, 0xC000001D illegal instruction
    return f"the interpreter ended with exit code {code if code < 2**31 else hex(code)}"


def _with_complaint(how: str, log: Path) -> str:
    """How the agent ended, with the last line of its log where there is one."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        # A stranger's wheel may have filled it with anything, however much.
        file.seek(max(0, log.stat().st_size - 4000))
        if complaint := last_line(text_of(file.read(4000))):
            return f"{how}: {complaint[:300]}"
    return how


def lend_tools(folder: Path) -> dict[str, str]:
    """A folder that holds our setuptools and nothing else of ours, and where our ninja lies, lent to the check that
    compiles an extension: nothing is installed into the user's Python."""
    lent: dict[str, str] = {}
    spec = importlib.util.find_spec("setuptools")
    if spec is not None and spec.submodule_search_locations:
        home = Path(next(iter(spec.submodule_search_locations))).parent
        folder.mkdir(parents=True, exist_ok=True)
        for name in _SETUPTOOLS:
            if (home / name).is_dir():
                try:
                    (folder / name).symlink_to(home / name, target_is_directory=True)
                except OSError:
                    shutil.copytree(home / name, folder / name)  # Windows lets only some users make links
        lent["setuptools"] = str(folder)
    if ninja := shutil.which("ninja", path=str(Path(sys.executable).parent)) or shutil.which("ninja"):
        lent["ninja"] = str(Path(ninja).parent)
    return lent


MAX_LINE = 1 << 20
Events = queue.Queue[dict[str, Any] | None]


@contextlib.contextmanager
def _talk(
    argv: Sequence[str], request: Mapping[str, Any], *, env: Mapping[str, str], cwd: Path, log: Path
) -> Iterator[tuple[subprocess.Popen[bytes], Events]]:
    """A running agent and the events it tells of, None at their end. Standard error goes to ``log``."""
    with log.open("ab") as errors, tell_os_errors(f"cannot start {argv[0]}"):
        process = spawn(argv, env, cwd, stdin=subprocess.PIPE, stderr=errors, start_new_session=True)
    assert process.stdin is not None and process.stdout is not None
    said, events = process.stdout, Events()

    def listen() -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := said.readline(MAX_LINE):
                # A torch that prints before we take standard output over may say anything.
                with contextlib.suppress(ValueError, RecursionError):
                    event = json.loads(line)
                    if isinstance(event, dict) and "event" in event:
                        events.put(event)
        events.put(None)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
        yield process, events
    finally:
        _end(process, timeout=0.0)
        # A stray process may hold the pipe open; closing it under the listener would then wait for that process.
        listener.join(2.0)
        if not listener.is_alive():
            said.close()


def _end(process: subprocess.Popen[bytes], *, timeout: float) -> int:
    """End it with everything it started, if it does not end by itself; its exit code."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(timeout)
    if sys.platform != "win32":
        # First a request, so that the agent ends the check it runs, which is a group of its own.
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGTERM)
            return process.wait(timeout=5.0)
    kill_group(process)
    return process.wait()
