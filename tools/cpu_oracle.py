"""Run wheels on emulated CPUs, oldest first, until one runs: the truth that `rekindle inspect` is held against.

    python tools/cpu_oracle.py --work DIR [--only NAME ...] [--write tests/truth/cpu_wheels.toml]
    python tools/cpu_oracle.py --arch aarch64 --root DIR --work DIR [--write tests/truth/cpu_wheels_aarch64.toml]

Reads `tests/truth/cpu_smokes.toml`. Needs qemu-user and a Python for the architecture: this one, or that of a Debian
system for it that lies in the folder `--root` names. A wheel is installed with pip
into a folder of its own, imported and called in the emulator; a CPU that runs it ends the search, as each CPU in the
list has all that the one before it has. `--keep` leaves the folders; without it each is deleted after its runs.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
SMOKES = HERE / "tests" / "truth" / "cpu_smokes.toml"
CPUS = ("core2duo", "Nehalem", "SandyBridge", "IvyBridge", "Haswell")
ARM_CPUS = ("cortex-a53", "cortex-a72", "neoverse-n1", "max")
_ILLEGAL = (-4, 132)
_ARM_TAGS = ("2014", "_2_17", "_2_24", "_2_26", "_2_27", "_2_28", "_2_31", "_2_34")


def emulate(cpu: str, where: Path, smoke: str, *, timeout: float = 900, root: Path | None = None) -> tuple[str, str]:
    """(ok | crash | error, last line) of the smoke call on this CPU; ``root`` holds a system for AArch64. ``-S``: what
    else is installed beside the interpreter must not be met."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(where), "PYTHONNOUSERSITE": "1", "HOME": str(where)}
    environment |= {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")}
    tool = "qemu-aarch64" if root else "qemu-x86_64"
    emulator = shutil.which(tool)
    if emulator is None:
        raise SystemExit(f"{tool} is not here: install qemu-user")
    command = [emulator, "-cpu", cpu, os.path.realpath(sys.executable), "-S", "-c", smoke]
    if root:
        environment["PYTHONHOME"] = str(root / "usr")
        python = max((root / "usr" / "bin").glob("python3.*[0-9]"))
        command = [emulator, "-cpu", cpu, "-L", str(root), str(python), "-B", "-S", "-c", smoke]
    try:
        done = subprocess.run(
            command, env=environment, cwd=where, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return "timeout", ""
    lines = (done.stdout + done.stderr).strip().splitlines()
    last = lines[-1][:160] if lines else ""
    if done.returncode == 0:
        return "ok", last
    return ("crash" if done.returncode in _ILLEGAL else "error"), last


def install(row: dict[str, Any], where: Path, *, arm: bool = False) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
    pip += ["--root-user-action=ignore", "--target", str(where)]
    if arm:
        pip += ["--python-version", "3.11", *(f"--platform=manylinux{tag}_aarch64" for tag in _ARM_TAGS)]
    packages = [row["spec"], *row.get("needs", ())]
    subprocess.run([*pip, *([] if row.get("deps") else ["--no-deps"]), *packages], check=True)


def version_of(spec: str, where: Path) -> str:
    name = spec.split("==")[0].lower().replace("-", "_").replace(".", "_")
    for info in where.glob("*.dist-info"):
        found = info.name.removesuffix(".dist-info").rsplit("-", 1)
        if found[0].lower().replace("-", "_").replace(".", "_") == name:
            return found[1]
    return "?"


def measure(row: dict[str, Any], where: Path, root: Path | None) -> dict[str, Any]:
    install(row, where, arm=root is not None)
    out: dict[str, Any] = {"spec": row["spec"].split("==")[0] + "==" + version_of(row["spec"], where), "tried": {}}
    for cpu in ARM_CPUS if root else CPUS:
        found, last = emulate(cpu, where, row["smoke"], root=root)
        out["tried"][cpu] = found
        out["says"] = last
        if found == "ok":
            break
    return out


def as_toml(row: dict[str, Any]) -> str:
    tried = ", ".join(
        f'"{cpu}" = "{found}"' if "-" in cpu else f'{cpu} = "{found}"' for cpu, found in row["tried"].items()
    )
    return f'\n[[wheel]]\nspec = "{row["spec"]}"\ntried = {{ {tried} }}\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="a folder for what is installed")
    parser.add_argument("--only", nargs="*", help="names of wheels")
    parser.add_argument("--write", type=Path, help="add the rows to this file")
    parser.add_argument("--keep", action="store_true", help="keep what was installed")
    parser.add_argument("--arch", choices=("x86_64", "aarch64"), default="x86_64")
    parser.add_argument("--root", type=Path, help="a system for AArch64 with a Python in it")
    arguments = parser.parse_args()
    if (arguments.arch == "aarch64") != (arguments.root is not None):
        parser.error("--arch aarch64 and --root belong together")
    rows = tomllib.loads(SMOKES.read_text("utf-8"))["wheel"]
    for row in rows:
        name = row["spec"].split("==")[0]
        if arguments.only and name not in arguments.only and row["spec"] not in arguments.only:
            continue
        where = arguments.work / row["spec"].replace("==", "-")
        try:
            found = measure(row, where, arguments.root)
        except subprocess.CalledProcessError as error:
            print(f"# {row['spec']}: {error}", flush=True)
            continue
        finally:
            if not arguments.keep:
                shutil.rmtree(where, ignore_errors=True)
        print(f"{found['spec']}: {found['tried']} {found['says']}", flush=True)
        if arguments.write:
            head = f"# Seen with qemu-user on {platform.machine()}, {datetime.date.today()}.\n"
            text = arguments.write.read_text("utf-8") if arguments.write.exists() else head + "schema = 1\n"
            arguments.write.write_text(text + as_toml(found), "utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
