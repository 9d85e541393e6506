#!/usr/bin/env python3
"""Coverage-guided fuzzing of the readers with atheris (libFuzzer).

    CLANG_BIN=clang-15 pip install atheris      builds from source where there is no wheel (aarch64)
    python tools/fuzz_atheris.py [--seconds 60] [--target elf] [--keep FOLDER]

Each target runs in a process of its own; a fault leaves its input as FOLDER/TARGET/crash-*, and the corpus stays in
FOLDER/TARGET/corpus for the next run (put small real files there).
The counts are libFuzzer's own.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# libFuzzer's limits on one input: seconds, MB.
SLOW, MUCH = 10, 2048


def fuzz(name: str, arguments: list[str]) -> None:
    """Runs in the child; does not return."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["rekindle"]):
        import fuzz_targets
        from rekindle import errors

        # Whatever is loaded later is not instrumented.
        for room in ("formats", "inspect"):
            for path in sorted((fuzz_targets.ROOT / "src" / "rekindle" / room).glob("[a-z]*.py")):
                importlib.import_module(f"rekindle.{room}.{path.stem}")
    reader, _ = fuzz_targets.targets()[name]

    def once(data: bytes) -> None:
        with contextlib.suppress(errors.RekindleError):
            reader(data)

    atheris.Setup([sys.argv[0], *arguments], once)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="per target")
    parser.add_argument("--target")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--child", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        fuzz(args.child[0], args.child[1:])
    import fuzz_targets

    faults = 0
    for name, (_, seeds) in fuzz_targets.targets().items():
        if args.target not in (None, name):
            continue
        folder = (args.keep or Path(tempfile.mkdtemp(prefix="fuzz-"))) / name
        corpus = folder / "corpus"
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            (corpus / f"seed{number}").write_bytes(seed)
        limits = [f"-max_total_time={args.seconds}", f"-timeout={SLOW}", f"-rss_limit_mb={MUCH}", "-max_len=20000"]
        call = [sys.executable, __file__, "--child", name, *limits, "-print_final_stats=1"]
        done = subprocess.run([*call, f"-artifact_prefix={folder}/", str(corpus)], capture_output=True, text=True)
        said = done.stderr
        runs = re.findall(r"number_of_executed_units:\s*(\d+)", said)
        reached = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", said)
        cov, features, kept = reached[-1] if reached else ("0", "0", "0")
        verdict = "ok" if done.returncode == 0 else f"FAULT, input under {folder}"
        count = (runs or ["?"])[-1]
        print(f"{name:<8} {count:>9} runs, {cov:>5} edges, {features:>6} features, {kept:>4} kept: {verdict}")
        if done.returncode:
            faults += 1
            print("\n".join(said.strip().splitlines()[-40:]), file=sys.stderr)
        sys.stdout.flush()
    print(f"targets with faults: {faults}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
