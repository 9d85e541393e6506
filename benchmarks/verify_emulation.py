"""How long an emulated CPU takes to answer: torch's C functions alone, against a whole import of torch.

Usage: python benchmarks/verify_emulation.py WHEEL [CPU]        (an x86-64 Linux wheel of torch; default: ivybridge)
CPU seconds of the emulated process are printed beside the wall clock: they mean the same on a busy machine.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rekindle import api


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    wheel, cpu = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "ivybridge"
    print(f"{wheel.name} on emulated {cpu}")
    for name, only in (("C functions", ("core",)), ("import torch", ("arithmetic",))):
        started = time.monotonic()
        report = api.verify(wheel=wheel, cpu=cpu, only=only)
        burnt = sum(check.cpu_seconds or 0.0 for check in report.checks)
        inside = sum(check.seconds for check in report.checks)
        print(
            f"  {name:14} {report.passed} passed, {report.failed} failed: {burnt:6.1f} CPU s, {inside:6.1f} s in the "
            f"checks, {time.monotonic() - started:6.1f} s with unpacking"
        )


if __name__ == "__main__":
    main()
