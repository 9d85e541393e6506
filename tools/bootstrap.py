"""Makes or refreshes the project's own environment (.venv); stdlib only, Python 3.11 or newer.

``./rekindle`` and ``./check`` call it when the stamp beside the environment does not match pyproject.toml.
Usage: bootstrap.py [--dev]
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def fail(message: str) -> None:
    print(f"rekindle: {message}", file=sys.stderr)
    raise SystemExit(2)


def wanted_stamp(dev: bool) -> str:
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    return f"{digest} {'dev' if dev else 'use'} {sys.version_info[0]}.{sys.version_info[1]}\n"


def is_fresh(dev: bool) -> bool:
    stamp = VENV / "rekindle.stamp"
    if not PYTHON.exists() or not stamp.exists():
        return False
    text = stamp.read_text()
    return text == wanted_stamp(dev) or (not dev and text == wanted_stamp(True))


def make_environment() -> None:
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        fail(f"this Python has no venv module. On Debian and Ubuntu: sudo apt install python{version}-venv")
    if VENV.exists() and not PYTHON.exists():
        shutil.rmtree(VENV)
    if not PYTHON.exists():
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True)
        if made.returncode:
            fail(f"cannot make an environment in {VENV}: {(made.stderr or made.stdout).strip().splitlines()[-1]}")


def install(dev: bool) -> None:
    target = f"{ROOT}[dev]" if dev else str(ROOT)
    argv = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", target]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if "ERROR" in line.upper()] or lines or ["pip said nothing"]
        fail(f"cannot install the dependencies: {errors[-1].strip()} (is a package index reachable? run again)")


def main() -> None:
    dev = "--dev" in sys.argv[1:]
    if sys.version_info < (3, 11):
        fail(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    os.chdir(ROOT)
    lock = ROOT / ".venv.lock"
    with lock.open("w") as file:
        _lock(file)
        if is_fresh(dev):
            return
        print("rekindle: first use, setting up .venv (about a minute) ...", file=sys.stderr)
        make_environment()
        install(dev)
        # Written last: an interrupted set-up is done again.
        (VENV / "rekindle.stamp").write_text(wanted_stamp(dev))


def _lock(file: object) -> None:
    """Two first uses at once: the second waits. Without the module, they race as before."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(file, fcntl.LOCK_EX)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
