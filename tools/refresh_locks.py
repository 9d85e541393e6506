"""Writes tools/locked/use.txt and dev.txt: every package of Rekindle's own set-up, with the digests of its files.

    .venv/bin/python tools/refresh_locks.py            newest versions that fit pyproject.toml
    .venv/bin/python tools/refresh_locks.py --check    only say whether the lists fit pyproject.toml

One list serves every platform and Python 3.11 and newer: uv resolves for all of them at once and writes the digest of
each file the index offers. The digest of the lists goes into pyproject.toml, so that a change of them sets up anew.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKED = ROOT / "tools" / "locked"
PROJECT = ROOT / "pyproject.toml"
OLDEST = "3.11"
# To install the project itself without fetching anything more: its build backend, and what that needs for -e.
BACKEND = ("editables>=0.5",)


def wanted(extra: str | None) -> list[str]:
    """The requirements of one list, as pyproject.toml gives them."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    names = [*project["build-system"]["requires"], *BACKEND, *project["project"]["dependencies"]]
    return [*names, *(project["project"]["optional-dependencies"][extra] if extra else ())]


def digest() -> str:
    """Of both lists, and of what they were made from."""
    parts = [*(path.read_bytes() for path in sorted(LOCKED.glob("*.txt"))), "\n".join(wanted("dev")).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def noted() -> str | None:
    return str(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["rekindle"].get("locked"))


def write(name: str, requirements: list[str], constraint: Path | None = None) -> None:
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    argv = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST, "--generate-hashes"]
    argv += ["--no-header", "--no-annotate", "--upgrade", *(["--constraint", str(constraint)] if constraint else [])]
    done = subprocess.run([*argv, "-"], input="\n".join(requirements), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"refresh_locks: {done.stderr.strip()}")
    LOCKED.mkdir(exist_ok=True)
    head = f"# Written by tools/refresh_locks.py from pyproject.toml, for Python {OLDEST} and newer.\n"
    (LOCKED / name).write_text(head + done.stdout, encoding="utf-8", newline="\n")


def main() -> None:
    if "--check" not in sys.argv[1:]:
        write("use.txt", wanted(None))
        # The same versions in both, so that what is tested is what is used.
        write("dev.txt", wanted("dev"), constraint=LOCKED / "use.txt")
        text = PROJECT.read_text(encoding="utf-8")
        PROJECT.write_text(
            re.sub(r'(?m)^locked = ".*"$', f'locked = "{digest()}"', text), encoding="utf-8", newline="\n"
        )
    if noted() != digest():
        raise SystemExit("tools/locked does not fit pyproject.toml: run tools/refresh_locks.py")


if __name__ == "__main__":
    main()
