"""Start-up cost: CPU time above the bare interpreter, least and middle of interleaved runs in one go.

Usage: python benchmarks/startup.py [--runs 15]
The least is what it costs where nobody else uses the machine.
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
    print(f"{'command':<36} {'least ms':>9} {'above bare':>11} {'middle ms':>10} {'above bare':>11}")
    bare = taken["python -c pass"]
    for name, values in taken.items():
        figures = (took(values) - above for took in (min, statistics.median) for above in (0, took(bare)))
        print("{:<36} {:9.1f} {:11.1f} {:10.1f} {:11.1f}".format(name, *(1000 * figure for figure in figures)))


if __name__ == "__main__":
    main()
