"""A whole wheel: reading it beside merely inflating it once, and how little a quick look at a remote one reads.

python benchmarks/inspect_wheel.py WHEEL [WHEEL ...]
python benchmarks/inspect_wheel.py --remote torch==2.6.0 --python 3.11 --platform manylinux1_x86_64
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
import zipfile
from pathlib import Path

READ = """
import sys, time
from rekindle import api
start, cpu = time.perf_counter(), time.process_time()
report = api.inspect(sys.argv[1], cpu=sys.argv[2] == 'cpu')
print(time.perf_counter() - start, time.process_time() - cpu, len(report.gpu.libraries), len(report.findings))
"""


def inflate(path: Path) -> tuple[float, float]:
    start, cpu = time.perf_counter(), time.process_time()
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as member:
                while member.read(1 << 20):
                    pass
    return time.perf_counter() - start, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="*")
    parser.add_argument("--remote")
    parser.add_argument("--python")
    parser.add_argument("--platform")
    args = parser.parse_args()
    for name in args.wheels:
        wall, cpu = inflate(Path(name))
        print(f"{Path(name).name}: {Path(name).stat().st_size / 1e6:.0f} MB")
        print(f"  inflate once, one thread          {wall:7.1f} s wall {cpu:7.1f} s CPU")
        for mode, text in (("gpu", "read (GPU, links, RECORD)"), ("cpu", "read, with the CPU audit")):
            out = subprocess.run([sys.executable, "-c", READ, name, mode], capture_output=True, text=True, check=True)
            ours, used, libraries, findings = map(float, out.stdout.split())
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
            share = f"{100 * wall / ours:.0f} % of the speed"
            print(f"  {text:<33} {ours:7.1f} s wall {used:7.1f} s CPU {peak:6.0f} MB  {share}")
            del libraries, findings
    if args.remote:
        from rekindle import api

        start = time.perf_counter()
        report = api.inspect(args.remote, quick=True, python=args.python, platform=args.platform)
        read = report.read_bytes or 0
        share, took = 100 * read / report.bytes, time.perf_counter() - start
        print(f"{report.target}: {read / 1e6:.1f} of {report.bytes / 1e6:.0f} MB read ({share:.2f} %) in {took:.1f} s")
        print(f"  declared {' '.join(report.gpu.declared)}")


if __name__ == "__main__":
    main()
