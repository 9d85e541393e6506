"""Writes tools/locked/use.txt and dev.txt: every package of Rekindle's own set-up, with the digests of its files.

    .venv/bin/python tools/refresh_locks.py            newest versions that fit pyproject.toml
    .venv/bin/python tools/refresh_locks.py --keep     pinned versions stay; only what pyproject.toml added or dropped
    .venv/bin/python tools/refresh_locks.py --check    only say whether the lists fit pyproject.toml

One list serves every platform and Python 3.11 and newer: uv resolves for all of them at once and writes the digest of
each file the index offers. older.txt holds, for each package, the version before: what the set-up takes where an index
does not offer the pinned one (a mirror that lags). Each of them fits all the others as they are pinned; a package that
has no such version (its neighbours, or we, ask for this one) is named there and stands alone. The digest of the lists
goes into pyproject.toml, so that a change of them sets up anew.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from bootstrap import BROUGHT, read_pins

ROOT = Path(__file__).resolve().parent.parent
LOCKED = ROOT / "tools" / "locked"
PROJECT = ROOT / "pyproject.toml"
OLDEST = "3.11"
# To install the project itself without fetching anything more: its build backend, and what that needs for -e.
BACKEND = ("editables>=0.5",)


def wanted(*extras: str) -> list[str]:
    """The requirements of one list, as pyproject.toml gives them: what the set-up always brings, and ``extras``."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    names = [*project["build-system"]["requires"], *BACKEND, *project["project"]["dependencies"]]
    optional = project["project"]["optional-dependencies"]
    return [*names, *(name for extra in (*BROUGHT, *extras) for name in optional[extra])]


def digest() -> str:
    """Of both lists, and of what they were made from."""
    parts = [*(path.read_bytes() for path in sorted(LOCKED.glob("*.txt"))), "\n".join(wanted("dev")).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def noted() -> str | None:
    return str(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["rekindle"].get("locked"))


def resolve(requirements: list[str], *constraints: Path) -> subprocess.CompletedProcess[str]:
    """What uv pins for these requirements, with digests."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    argv = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST, "--generate-hashes"]
    argv += [
        "--no-header",
        "--no-annotate",
        "--upgrade",
        *(word for file in constraints for word in ("--constraint", str(file))),
    ]
    return subprocess.run([*argv, "-"], input="\n".join(requirements), capture_output=True, text=True)


def write(name: str, requirements: list[str], *constraints: Path) -> None:
    done = resolve(requirements, *constraints)
    if done.returncode:
        raise SystemExit(f"refresh_locks: {done.stderr.strip()}")
    save(name, done.stdout)


def save(name: str, text: str) -> None:
    LOCKED.mkdir(exist_ok=True)
    head = f"# Written by tools/refresh_locks.py from pyproject.toml, for Python {OLDEST} and newer.\n"
    (LOCKED / name).write_text(head + text, encoding="utf-8", newline="\n")


def older_versions() -> str:
    """The version before of each package in dev.txt, one at a time, the others as they are pinned."""
    pinned = read_pins(LOCKED / "dev.txt")
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        rest = Path(folder) / "rest.txt"
        for name, lines in pinned.items():
            others = [pin.split(" \\", 1)[0] for other, pins in pinned.items() if other != name for pin in pins]
            rest.write_text("\n".join(others), encoding="utf-8")
            versions = [re.split(r"[\s;\\]", line.split("==", 1)[1])[0] for line in lines]
            # The lowest where Pythons differ, so that the one before it is older than all of them.
            wish = f"{name}<{min(versions, key=lambda text: [int(part) for part in re.findall(r'[0-9]+', text)])}"
            done = resolve([*wanted("dev"), wish], rest)
            made = read_pins(done.stdout)
            if done.returncode or not made.keys() <= pinned.keys():
                found.append(f"# {name} has no older version that fits the others")
                continue
            found += made.get(name, [])
    return "".join(re.sub(r" +(?=--hash)", r" \\\n    ", line) + "\n" for line in found)


def main() -> None:
    if "--check" not in sys.argv[1:]:
        kept = [LOCKED / "dev.txt"] if "--keep" in sys.argv[1:] else []
        write("use.txt", wanted(), *kept)
        # The same versions in both, so that what is tested is what is used.
        write("dev.txt", wanted("dev"), LOCKED / "use.txt", *kept)
        save("older.txt", older_versions())
        text = PROJECT.read_text(encoding="utf-8")
        PROJECT.write_text(
            re.sub(r'(?m)^locked = ".*"$', f'locked = "{digest()}"', text), encoding="utf-8", newline="\n"
        )
    if noted() != digest():
        raise SystemExit("tools/locked does not fit pyproject.toml: run tools/refresh_locks.py")


if __name__ == "__main__":
    main()
