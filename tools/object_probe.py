"""Compile objects of a configured tree one by one by the tree's own commands, and say what each cost.

Run: python tools/object_probe.py BUILD [--until HH:MM] [--out FILE.jsonl] NAME …

BUILD has a ``build.ninja``; NAME is an object's own name (``AbsKernel.hip.o``). Ninja would first make everything the
object's library waits for: kernels that FindHIP compiles wait for the whole CPU library. What the compiler needs of it
are generated headers alone, so a target that made them (``rekindle build --target c10_hip``) comes before.
One JSON line each: object, exit code, CPU seconds, the most memory one process took, the first error.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from rekindle.build.failure import first_error
from rekindle.formats.ninja import read_build_ninja


def commands(build: Path, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Objects that end with one of the names, in the order of the names, each with the command that makes it."""
    found: dict[str, tuple[str, str]] = {}
    for edge in read_build_ninja(build / "build.ninja"):
        output = edge.outputs[0] if edge.outputs else ""
        for name in names:
            # FindHIP writes torch_hip_generated_NAME, CMake itself NAME alone.
            stem = output.rsplit("/", 1)[-1].rsplit("_generated_", 1)[-1]
            if stem == name and (command := edge.variables.get("COMMAND")):
                found.setdefault(name, (output, command))
    for name in names:
        if name in found:
            yield found[name]
        else:
            print(f"no command makes {name}", file=sys.stderr)


def compile_one(build: Path, output: str, command: str) -> dict[str, Any]:
    """As Ninja runs it: by the shell, in the build tree."""
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(["sh", "-c", command], cwd=build, stdout=said, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        lines = said.read(1 << 20).decode("utf-8", "replace").splitlines()
    at = first_error(lines) if child.returncode else None
    return {
        "object": output,
        "exit": child.returncode,
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "gib": round(used.ru_maxrss / 2**20, 2),
        "error": lines[at][:300] if at is not None else None,
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--until", help="start none after this time of day")
    parser.add_argument("--out", type=Path, help="also append the lines to this file; what is there is not done again")
    args = parser.parse_args(argv)
    done = set()
    if args.out and args.out.is_file():
        done = {json.loads(line)["object"] for line in args.out.read_text(encoding="utf-8").splitlines()}
    failed = 0
    for output, command in commands(args.build, args.names):
        if args.until and datetime.datetime.now().strftime("%H:%M") >= args.until:
            break
        if output in done:
            continue
        line = compile_one(args.build, output, command)
        failed += line["exit"] != 0
        print(json.dumps(line), flush=True)
        if args.out:
            with args.out.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
