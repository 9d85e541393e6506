"""What planning costs: a cold ``rekindle plan`` beside an empty Python, and a warm ``make_plan`` over many cards.

CPU seconds of the child process, the median of several runs; wall time would measure the neighbours.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

COLD = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "python -c 'import msgspec, argparse, tomllib'": [sys.executable, "-c", "import msgspec, argparse, tomllib"],
    "plan --gpu sm_86": [sys.executable, "-m", "rekindle", "plan", "--gpu", "sm_86", "--json"],
    "plan --gpu 'Tesla K40c' --torch 2.0.1": [
        *(sys.executable, "-m", "rekindle", "plan", "--json"),
        *("--gpu", "Tesla K40c", "--os", "windows", "--torch", "2.0.1"),
    ],
    "plan --gpu 'RX 6700 XT' --cpu 'Xeon E5-2690 v2'": [
        *(sys.executable, "-m", "rekindle", "plan", "--json"),
        *("--gpu", "RX 6700 XT", "--cpu", "Xeon E5-2690 v2"),
    ],
}


def cpu_seconds(argv: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=False, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def warm(count: int) -> list[tuple[float, str]]:
    from rekindle.facts import load_facts
    from rekindle.model.plan import Wish
    from rekindle.plan.describe import machine_from_flags
    from rekindle.plan.solve import make_plan

    facts = load_facts()
    names = [product for chip in (*facts.nvidia.chip.values(), *facts.amd.chip.values()) for product in chip.products]
    machines = [machine_from_flags(facts, gpu=[name], os=system) for name in names for system in ("linux", "windows")]
    timed = []
    for machine in machines[:: max(1, len(machines) // count)]:
        begin = time.process_time()
        make_plan(machine, Wish(), facts)
        timed.append((time.process_time() - begin, machine.gpus[0].name or ""))
    return sorted(timed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cards", type=int, default=300)
    args = parser.parse_args()
    base = None
    for name, argv in COLD.items():
        seconds = statistics.median(cpu_seconds(argv) for _ in range(args.runs))
        base = seconds if base is None else base
        print(f"{seconds * 1000:7.0f} ms CPU  ({(seconds - base) * 1000:5.0f} over an empty Python)  {name}")
    timed = warm(args.cards)
    values = [seconds for seconds, _ in timed]
    print(
        f"warm make_plan over {len(values)} cards: median {statistics.median(values) * 1000:.1f} ms,"
        f" 95 % {values[int(len(values) * 0.95)] * 1000:.1f} ms, worst {values[-1] * 1000:.1f} ms ({timed[-1][1]})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
