"""Hold `rekindle inspect`'s "runs from" against wheels seen on emulated CPUs (`tests/truth/cpu_wheels.toml`).

    python tools/cpu_compare.py --work DIR [--only NAME ...] [--arch aarch64]

DIR holds what `tools/cpu_oracle.py --keep` installed. Prints a line per wheel and the sums; the exit status is 1 where
a verdict is wrong, that is, names a CPU as enough that crashed, or more than a CPU that ran it has.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from rekindle.compat.processor import missing
from rekindle.inspect.reader import DirectorySource
from rekindle.inspect.survey import inspect_source
from rekindle.model.progress import Silent
from rekindle.model.wheel import WheelCpu

TRUTH = Path(__file__).resolve().parent.parent / "tests" / "truth"
FILES = {"x86_64": "cpu_wheels.toml", "aarch64": "cpu_wheels_aarch64.toml"}
NAMES = {"core2duo": "core2", "Nehalem": "nehalem", "SandyBridge": "sandybridge", "IvyBridge": "ivybridge",
         "Haswell": "haswell", "cortex-a72": "cortex_a72", "neoverse-n1": "neoverse_n1"}  # fmt: skip
# What archspec does not know: the emulator's own documentation, and the CPU's manual.
OWN = {"cortex-a53": {"asimd", "crc32", "aes", "pmull", "sha1", "sha2", "fp"}, "max": None}


def features(cpu: str) -> set[str] | None:
    """What an emulated CPU can do; None: everything."""
    import archspec.cpu

    if cpu in OWN:
        return OWN[cpu]
    target = archspec.cpu.TARGETS[NAMES[cpu]]
    return set(target.features).union(*(one.features for one in target.ancestors))


def judged(cpu: WheelCpu, tried: dict[str, str]) -> str:
    """right | in part | cannot tell | too old | too new | no code; in part: it crashed in a place that is named."""
    for name, seen in tried.items():
        lacking = _lacking(cpu, name)
        if seen == "ok" and lacking:
            return "too new"
    if cpu.functions is None:
        return "no code"
    if cpu.runs_from is None:
        return "cannot tell"
    for name, seen in tried.items():
        lacking = _lacking(cpu, name)
        if seen == "crash" and not lacking:
            named = [use.isa for use in (*cpu.unconditional, *cpu.suspects)]
            return "in part" if missing(named, features(name) or ()) else "too old"
    return "right"


def _lacking(cpu: WheelCpu, name: str) -> list[str]:
    have = features(name)
    return [] if have is None else missing(cpu.required, have)


def folders_of(where: Path, spec: str) -> list[str]:
    """The folders and files of one distribution among several that lie beside each other, from its RECORD."""
    name = spec.split("==")[0].lower().replace("-", "_").replace(".", "_")
    for info in where.glob("*.dist-info"):
        if info.name.split("-")[0].lower().replace("-", "_").replace(".", "_") == name:
            rows = (info / "RECORD").read_text("utf-8").splitlines()
            return sorted({row.split("/")[0] for row in rows if "/" in row and not row.startswith("..")})
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--arch", choices=FILES, default="x86_64")
    arguments = parser.parse_args()
    sums: dict[str, int] = {}
    for row in tomllib.loads((TRUTH / FILES[arguments.arch]).read_text("utf-8"))["wheel"]:
        row_: dict[str, Any] = row
        name = row_["spec"].split("==")[0]
        where = next((p for p in (arguments.work / row_["spec"].replace("==", "-"), arguments.work / name)
                      if p.is_dir()), None)  # fmt: skip
        if where is None or (arguments.only and name not in arguments.only):
            continue
        source = DirectorySource(where, folders=[f for f in folders_of(where, row_["spec"]) if (where / f).is_dir()])
        source.files |= {p.name: p.stat().st_size for p in where.glob("*.so") if p.is_file()}
        begun = time.process_time()
        cpu = inspect_source(source, progress=Silent()).cpu
        used = time.process_time() - begun
        found = judged(cpu, row_["tried"])
        sums[found] = sums.get(found, 0) + 1
        doubt = ", ".join(f"{use.isa} {use.functions}" for use in cpu.untold)
        first = next((cpu_ for cpu_, seen in row_["tried"].items() if seen == "ok"), "none")
        said = cpu.runs_from or f"at least {cpu.at_least}, cannot tell ({doubt})"
        print(f"{found:12} {row_['spec']:34} ran on {first:12} said {said}  [{used:.1f} CPU-s]", flush=True)
    print(sums)
    return 1 if "too old" in sums or "too new" in sums else 0


if __name__ == "__main__":
    sys.exit(main())
