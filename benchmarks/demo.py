"""The demo's stages: seconds of each leg for a first run, a second run, and a run after the wheel was lost.

Usage: python benchmarks/demo.py [--cmake EXE] [--no-cuda]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def run(workspace: str, more: list[str]) -> tuple[float, dict[str, tuple[str, float]]]:
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "rekindle", "demo", "--json", "-q", "--workspace", workspace, *more],
        capture_output=True,
        check=True,
    )
    legs = json.loads(done.stdout)["legs"]
    return time.perf_counter() - begin, {leg["name"]: (leg["status"], leg["seconds"]) for leg in legs}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as workspace:
        first = run(workspace, sys.argv[1:])
        second = run(workspace, sys.argv[1:])
        for wheel in (Path(workspace) / "wheels").glob("*.whl"):
            wheel.unlink()
        third = run(workspace, sys.argv[1:])
    print(f"{'leg':<10} {'first':>10} {'again':>10} {'wheel lost':>12}")
    for name in first[1]:
        cells = [
            f"{seconds:.2f}" if status == "done" else status
            for status, seconds in (r[1][name] for r in (first, second, third))
        ]
        print(f"{name:<10} {cells[0]:>10} {cells[1]:>10} {cells[2]:>12}")
    print(f"{'wall':<10} {first[0]:>10.2f} {second[0]:>10.2f} {third[0]:>12.2f}")


if __name__ == "__main__":
    main()
