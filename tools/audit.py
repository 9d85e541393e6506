"""Asks pip-audit whether a pinned package of Rekindle's own set-up has a known hole; stdlib only.

    python3 tools/audit.py             exit 0: none known, or not asked (and why); 1: some are known

The database is PyPI's own (``/pypi/NAME/VERSION/json``), which mirrors of the package index rarely carry. Where
it does not answer, nothing is installed and nothing is asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path
from typing import Any

LOCKED = Path(__file__).resolve().parent / "locked"
DATABASE = "https://pypi.org/pypi/{}/{}/json"
SECONDS = 10.0


def unreachable() -> str | None:
    """Why the database cannot be asked, or None: it is asked about one pin, as pip-audit will about all."""
    pin = next(line for line in (LOCKED / "use.txt").read_text(encoding="utf-8").splitlines() if "==" in line)
    name, _, version = pin.split()[0].partition("==")
    try:
        with urllib.request.urlopen(DATABASE.format(name, version), timeout=SECONDS) as answer:
            known = json.load(answer)
    except (OSError, ValueError) as error:
        return str(error)
    return None if "vulnerabilities" in known else "it answers without vulnerabilities"


def audit(lists: list[Path]) -> dict[str, Any]:
    """What pip-audit says about the lists, from an environment of its own."""
    with tempfile.TemporaryDirectory(prefix="rekindle-audit-") as folder:
        venv.create(folder, with_pip=True)
        bin = Path(folder) / ("Scripts" if os.name == "nt" else "bin")
        subprocess.run([bin / "python", "-m", "pip", "install", "-q", "pip-audit"], check=True, capture_output=True)
        argv = [
            str(bin / "pip-audit"),
            "--format",
            "json",
            "--require-hashes",
            "--disable-pip",
            "--progress-spinner",
            "off",
        ]
        words = [word for path in lists for word in ("-r", str(path))]
        done = subprocess.run([*argv, *words], capture_output=True, text=True)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        raise SystemExit(f"audit: pip-audit failed: {done.stderr.strip()[-500:]}") from None


def judge(found: dict[str, Any]) -> int:
    """Print what is known; the exit code."""
    rows = found.get("dependencies", [])
    asked = [row for row in rows if "vulns" in row and "skip_reason" not in row]
    holes = [(row["name"], row["version"], hole) for row in asked for hole in row["vulns"]]
    for name, version, hole in holes:
        fixed = ", ".join(hole.get("fix_versions", ())) or "no version yet"
        print(f"audit: {name} {version}: {hole['id']}, fixed in {fixed}")
    if not asked:
        print(f"audit: skipped: the database knows none of the {len(rows)} packages")
    else:
        print(f"audit: {len(asked)} of {len(rows)} packages asked about, {len(holes)} known holes")
    return 1 if holes else 0


def main() -> None:
    if why := unreachable():
        print(f"audit: skipped: its database cannot be had here ({why})")
        return
    sys.exit(judge(audit([LOCKED / "use.txt", LOCKED / "dev.txt"])))


if __name__ == "__main__":
    main()
