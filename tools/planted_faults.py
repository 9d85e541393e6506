"""Does `verify` notice what is broken? Plants faults in copies of a real torch, one at a time, and counts.

    python tools/planted_faults.py --python ENV/bin/python [--only NAME] [--level full] [--device cuda]

Each fault goes into a copy of the package made of hard links: other bytes in libtorch_cpu.so (a wrong constant in a
kernel), or a kernel replaced through the dispatcher (left out, less precise, off by one). The check of the files'
digests would notice every one of them at once, so it is left out of the count: the numbers must give it away.
``--device cuda`` plants the replaced kernels behind the dispatcher's CUDA key and runs the GPU's checks alone.
Exit 0 only if the clean copy is proven and every fault is caught.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from rekindle.verify.runner import run_checks
from rekindle.verify.target import Target, Trial

LIBRARY = "lib/libtorch_cpu.so"
FAULTS = Path(__file__).with_suffix(".toml")
# In a namespace of its own: torch's has other functions called range, sum, min and compile. The library object takes
# its kernels back when it goes, so the namespace is kept.
_CODE = """
import builtins as _builtins
_planted = {{}}
_builtins.exec(_builtins.compile({text!r}, "planted", "exec"), _planted)
"""
_HOOK = """
import torch
library = torch.library.Library({space!r}, "IMPL")
library.impl({operator!r}, kernel, {key!r})
"""
# The GPU's checks that hold numbers against a reference; the others (memory, streams, Triton) say nothing of kernels.
_ON_GPU = (
    "elementwise", "functions", "reductions", "matmul", "activations", "indexing", "sort", "linalg", "random",
    "autograd", "training",
)  # fmt: skip


def copy_with_links(package: Path, folder: Path) -> Path:
    """The package as hard links (or copies, on another disk): half a gigabyte costs nothing."""
    target = folder / package.name
    for here, _, names in os.walk(package):
        place = target / Path(here).relative_to(package)
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            if name.endswith(".pyc"):
                continue
            try:
                os.link(Path(here, name), place / name)
            except OSError:
                (place / name).write_bytes(Path(here, name).read_bytes())
    return target


def plant_constant(package: Path, fault: dict[str, Any]) -> int:
    """Change the constant wherever it stands in the library; how often it stood there."""
    form = "<d" if fault["type"] == "float64" else "<f"
    old, new = struct.pack(form, fault["is"]), struct.pack(form, fault["becomes"])
    path = package / LIBRARY
    data = path.read_bytes()
    count = data.count(old)
    path.unlink()  # the link, not the file behind it
    path.write_bytes(data.replace(old, new))
    return count


def plant_code(package: Path, fault: dict[str, Any], device: str) -> None:
    """Code that runs at the end of the import, as a wrong build would be wrong from the start."""
    space, _, operator = fault.get("operator", "").partition("::")
    hook = _HOOK.format(space=space, operator=operator, key=device.upper()) if operator else ""
    path = package / "__init__.py"
    text = path.read_text(encoding="utf-8")
    path.unlink()
    path.write_text(text + _CODE.format(text=fault["text"] + hook), encoding="utf-8")


def imports(python: str, folder: Path) -> str | None:
    """Why the copy cannot be imported: a fault that stops everything at once is badly planted, and proves nothing."""
    env = {**os.environ, "PYTHONPATH": str(folder)}
    said = subprocess.run([python, "-c", "import torch"], env=env, capture_output=True, text=True, check=False)
    return said.stderr.strip().splitlines()[-1] if said.returncode else None


def try_copy(python: str, folder: Path, level: str, device: str) -> tuple[str, list[str]]:
    """The verdict, and the checks that failed (without the one that compares digests)."""
    target = Target(command=(python,), env={"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "2"}, subject="planted")
    only = [f"gpu*.{name}" for name in _ON_GPU] if device == "cuda" else []
    report = run_checks(target, Trial(level="full" if level == "full" or only else "smoke", only=tuple(only)))
    if only and not any(check.status == "passed" for check in report.checks):
        raise SystemExit(f"no check of a GPU passed: {[(check.id, check.detail[:90]) for check in report.checks]}")
    failed = [f"{check.id} ({check.detail[:90]})" for check in report.checks if check.status == "failed"]
    # A busy machine that gives no answer in time has noticed nothing.
    return report.verdict, [one for one in failed if not one.startswith("files ") and "no answer within" not in one]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="an interpreter that has a CPU build of torch")
    parser.add_argument("--only", action="append", default=[], help="only this fault; repeatable")
    parser.add_argument("--level", choices=("smoke", "full"), default="smoke")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="whose kernels are replaced")
    args = parser.parse_args()
    ask = "import importlib.util as u; print(list(u.find_spec('torch').submodule_search_locations)[0])"
    said = subprocess.run([args.python, "-c", ask], capture_output=True, text=True, check=True)
    package = Path(said.stdout.strip())
    faults = tomllib.loads(FAULTS.read_text(encoding="utf-8"))
    clean: dict[str, Any] = {"name": "none", "about": "a copy without any fault"}
    missed, caught, absent = [], 0, []
    for fault in (clean, *faults["constant"], *faults["code"]):
        name, about = fault["name"], fault["about"]
        if (args.only and name not in args.only) or (args.device == "cuda" and not fault.get("gpu", name == "none")):
            continue
        # Beside the package, so that hard links are possible.
        with tempfile.TemporaryDirectory(prefix="planted-", dir=package.parent) as place:
            copy = copy_with_links(package, Path(place))
            if (package.parent / "nvidia").is_dir():
                # CUDA's libraries from packages of their own are looked for beside torch.
                (Path(place) / "nvidia").symlink_to(package.parent / "nvidia")
            if "is" in fault and not plant_constant(copy, fault):
                absent.append(name)
                print(f"absent  {name:<24} this library has no such constant", flush=True)
                continue
            if "text" in fault:
                plant_code(copy, fault, args.device)
            if broken := imports(args.python, Path(place)):
                print(f"BROKEN  {name:<24} the copy cannot be imported: {broken}", flush=True)
                missed.append(name)
                continue
            verdict, failed = try_copy(args.python, Path(place), args.level, args.device)
        if name == "none":
            # Chosen checks prove nothing, and links may differ from their digests: neither is a fault.
            good = verdict == "proven" or not failed
            print(f"{'clean' if good else 'FALSE'}   {name:<24} {about}: {verdict} {failed}", flush=True)
            if not good:
                return 1
        elif failed:
            caught += 1
            print(f"caught  {name:<24} {about}: {failed[0]}", flush=True)
        else:
            missed.append(name)
            print(f"MISSED  {name:<24} {about}: {verdict}", flush=True)
    print(f"{caught} of {caught + len(missed)} planted faults caught" + (f"; not there: {absent}" if absent else ""))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
