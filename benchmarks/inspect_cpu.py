"""The CPU audit of a library beside plain disassembly: seconds, memory, megabytes of code per second.

    python benchmarks/inspect_cpu.py libtorch_cpu.so [--compare MB]

--compare also runs capstone and objdump over the first MB megabytes of code and scales them up.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time

OURS = """
import sys, time, resource
from rekindle.inspect.cpu import survey_cpu
from rekindle.formats.binary import open_binary
from rekindle.formats.functions import code_of
from rekindle.inspect.reader import map_file
from pathlib import Path
start, cpu = time.perf_counter(), time.process_time()
with map_file(Path(sys.argv[1])) as data:
    binary = open_binary(data, sys.argv[1])
    survey = survey_cpu(binary, sys.argv[1], lambda done, total: None)
    code = sum(part.size for part in code_of(binary))
wall, used = time.perf_counter() - start, time.process_time() - cpu
exposure = survey.exposure
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"  rekindle   {wall:7.1f} s wall {used:7.1f} s CPU {peak:6.0f} MB "
      f"{code / 1e6 / used:6.1f} MB/s  {exposure.functions} functions, {len(exposure.unconditional)} unguarded, "
      f"{len(exposure.suspects)} suspect, {sum(exposure.guards.values())} dispatched")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("--compare", type=float, default=0.0, metavar="MB")
    args = parser.parse_args()
    print(args.library)
    subprocess.run([sys.executable, "-c", OURS, args.library], check=True)
    if args.compare:
        compare(args.library, int(args.compare * 1e6))


def compare(library: str, size: int) -> None:
    import capstone

    from rekindle.formats.binary import open_binary
    from rekindle.formats.functions import code_of

    with open(library, "rb") as file:  # noqa: PTH123
        binary = open_binary(file.read(), library)
    assert binary is not None
    part = max(code_of(binary), key=lambda one: one.size)
    size = min(size, part.size)
    code = binary.view.take(part.offset, size)
    start = time.process_time()
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.skipdata = True
    for _ in engine.disasm_lite(code, 0):
        pass
    used = time.process_time() - start
    whole, speed = part.size / size * used, size / 1e6 / used
    print(f"  capstone   {whole:7.1f} s CPU (from {size / 1e6:.0f} MB) {speed:6.1f} MB/s, mnemonics only")
    start = time.perf_counter()
    limits = [f"--start-address={part.address:#x}", f"--stop-address={part.address + size:#x}"]
    tool = shutil.which(f"{binary.machine}-linux-gnu-objdump") or "objdump"
    subprocess.run([tool, "-d", *limits, library], stdout=subprocess.DEVNULL, check=True)
    used = time.perf_counter() - start
    whole, speed = part.size / size * used, size / 1e6 / used
    print(f"  objdump    {whole:7.1f} s wall (from {size / 1e6:.0f} MB) {speed:6.1f} MB/s, text to be parsed")


if __name__ == "__main__":
    main()
