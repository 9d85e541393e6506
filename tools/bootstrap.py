"""Makes or refreshes the project's own environment (.venv); stdlib only, Python 3.11 or newer.

``./rekindle`` and ``./check`` call it when the stamp beside the environment does not match pyproject.toml.
Usage: bootstrap.py [--dev]

Every package is a wheel whose digest stands in tools/locked. Where an index does not offer one of them, the version
before it is tried (older.txt, with digests too), and the digests of all others stay; nothing is installed without one
unless a person says so with REKINDLE_UNPINNED=1.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
# The extras of pyproject.toml that a clone has from the start: every verb works on one machine.
BROUGHT = ("build", "inspect", "sign")
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def fail(message: str) -> NoReturn:
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
        show("making the environment")
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True)
        show()
        if made.returncode:
            fail(f"cannot make an environment in {VENV}: {(made.stderr or made.stdout).strip().splitlines()[-1]}")


def install(dev: bool) -> None:
    """The pinned set, each file checked against its digest; the version before where one of them is not offered."""
    if os.environ.get("REKINDLE_UNPINNED") == "1":
        print("rekindle: REKINDLE_UNPINNED=1: installing without pinned versions and digests", file=sys.stderr)
        done = pip("-e", f"{ROOT}[{','.join((*BROUGHT, *(['dev'] if dev else [])))}]")
        if done.returncode:
            fail(f"cannot install the dependencies: {last_words(done)} (is a package index reachable? run again)")
        return
    install_pinned(ROOT / "tools" / "locked" / ("dev.txt" if dev else "use.txt"))
    # The build backend is among the pinned packages, so nothing more is fetched.
    words = ("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    show("installing Rekindle itself")
    own = by_uv(words, 0)
    own = own if own and not own.returncode else pip(*words)
    if own.returncode:
        fail(f"cannot install rekindle itself: {last_words(own)}")


def install_pinned(locked: Path) -> None:
    """All of ``locked``, or nothing and the reason; each package that is missing is replaced once."""
    pins, older = read_pins(locked), read_pins(locked.with_name("older.txt"))
    while True:
        done = install_with_digests(pins)
        if not done.returncode:
            return
        said = done.stderr + done.stdout
        if "DO NOT MATCH THE HASHES" in said:
            fail(
                f"a package is not the one that was pinned, so nothing of it was installed: {last_words(done)} "
                "(a mirror that rebuilds packages? REKINDLE_UNPINNED=1 goes without digests, if you trust it)"
            )
        missing = next((name for pattern in MISSING for name in pattern.findall(said)), None)
        if missing is None:
            fail(f"cannot install the dependencies: {last_words(done)} (is a package index reachable? run again)")
        name = canonical(missing)
        if name not in older:
            fail(
                f"cannot install the dependencies: {missing} cannot be had here as it was pinned, nor a version before "
                f"it: {last_words(done)} (is a package index reachable? run again). Nothing is installed without its "
                "digest; REKINDLE_UNPINNED=1 does that, if you trust the package index"
            )
        print(
            f"rekindle: {missing} as it was pinned is not offered here; trying the version before it", file=sys.stderr
        )
        pins[name] = older.pop(name)


def install_with_digests(pins: dict[str, list[str]]) -> subprocess.CompletedProcess[str]:
    """Wheels only: building a source archive would fetch its build tools, which have no digests here."""
    handle, place = tempfile.mkstemp(suffix=".txt", prefix="rekindle-pins-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for lines in pins.values() for line in lines)
        words = ("--only-binary", ":all:", "--require-hashes", "-r", place)
        show(f"installing {len(pins)} packages")
        done = by_uv(words, len(pins))
        return done if done and not done.returncode else pip(*words, expected=len(pins))
    finally:
        Path(place).unlink()


def read_pins(place: Path | str) -> dict[str, list[str]]:
    """The requirements of a list (a file, or its text) by the package's name, each with its digests on one line."""
    if isinstance(place, Path):
        place = place.read_text(encoding="utf-8") if place.exists() else ""
    pins: dict[str, list[str]] = {}
    for line in re.sub(r"\\\n\s*", " ", place).splitlines():
        if "==" in line and not line.startswith("#"):
            pins.setdefault(canonical(line.split("==")[0]), []).append(line.strip())
    return pins


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


# What pip says where a pinned version has no wheel for this Python and platform, or the index withholds its file.
MISSING = (
    re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+?)=="),
    re.compile(r"HTTP error [45]\d\d while getting \S*/([A-Za-z0-9._]+)-[^/\s]+\.whl"),
)


def pip(*words: str, expected: int = 0) -> subprocess.CompletedProcess[str]:
    """pip's own words decide what is told of a failure; while it works, what it has come to is shown."""
    argv = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", *words]
    return watched(argv, expected, re.compile(r"(?:Collecting|Installing collected packages:) ?([A-Za-z0-9._-]+)"))


def by_uv(words: tuple[str, ...], expected: int) -> subprocess.CompletedProcess[str] | None:
    """The same with uv where that is here, several times as fast, from the index that pip is told to use."""
    uv = shutil.which("uv")
    if uv is None:
        return None
    index = os.environ.get("PIP_INDEX_URL") or "".join(
        subprocess.run(
            [str(PYTHON), "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True
        ).stdout.split()
    )
    argv = [uv, "pip", "install", "--no-config", "--python", str(PYTHON), *words]
    return watched([*argv, *(("--default-index", index) if index else ())], expected, re.compile(r" \+ (\S+)"))


def watched(argv: list[str], expected: int, step: re.Pattern[str]) -> subprocess.CompletedProcess[str]:
    """Run it and show each package it comes to: in place in a terminal, else a line every ten seconds."""
    live, said, seen, told = sys.stderr.isatty(), "", 0, time.monotonic()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace") as process,
    ):
        for line in process.stdout or ():
            said += line
            if expected and (match := step.match(line)):
                seen = min(seen + 1, expected)
                text = f"{seen} of {expected} packages: {match[1]}"
                show(text)
                if not live and time.monotonic() - told > 10:
                    told = time.monotonic()
                    print(f"  {text}", file=sys.stderr, flush=True)
        code = process.wait()
        show()
        errors.seek(0)
        return subprocess.CompletedProcess(argv, code, said, errors.read())


def show(text: str = "") -> None:
    """What is being done, in place in a terminal; without words, what stood there goes."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K  {text}" if text else "\r\x1b[K", end="", file=sys.stderr, flush=True)


def last_words(done: subprocess.CompletedProcess[str]) -> str:
    """The line in which pip says what went wrong; with a wrong digest, the package's own."""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    wrong = [line for line in lines if "(from -r" in line] if "DO NOT MATCH" in done.stderr else []
    errors = wrong or [line for line in lines if "ERROR" in line.upper()] or lines or ["pip said nothing"]
    return errors[0 if wrong else -1]


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
        pins = read_pins(ROOT / "tools" / "locked" / ("dev.txt" if dev else "use.txt"))
        print(f"rekindle: first use, setting up .venv: {len(pins)} packages (about a minute)", file=sys.stderr)
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
    try:
        main()
    except KeyboardInterrupt:
        print("rekindle: the set-up was interrupted; the same command does it again", file=sys.stderr)
        raise SystemExit(3) from None
