"""Start-up cost: CPU time above the bare interpreter, medians of interleaved runs in one go.

Usage: python benchmarks/startup.py [--runs 15]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "rekindle --help": ["-m", "rekindle", "--help"],
    "rekindle plan --help": ["-m", "rekindle", "plan", "--help"],
    "rekindle plan --gpu 'Tesla K40c'": ["-m", "rekindle", "plan", "--gpu", "Tesla K40c", "--os", "linux", "-q"],
    "rekindle doctor": ["-m", "rekindle", "doctor", "-q"],
}


def cpu_seconds(argv: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        # Interleaved, so that a noisy moment hits all of them.
        for name, argv in COMMANDS.items():
            taken[name].append(cpu_seconds(argv))
    bare = statistics.median(taken["python -c pass"])
    print(f"{'command':<36} {'CPU ms':>8} {'above bare':>11}")
    for name, values in taken.items():
        middle = statistics.median(values)
        print(f"{name:<36} {middle * 1000:8.1f} {(middle - bare) * 1000:11.1f}")


if __name__ == "__main__":
    main()
