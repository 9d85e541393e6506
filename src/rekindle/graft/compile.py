"""Compile jobs as a Ninja file: carried out by whoever runs Ninja, continued after a kill, nothing compiled twice.

Ninja keeps what was made and with which command, so a changed flag makes anew only what it concerns. The tools' own
versions stand in a file that every job depends on: another ptxas at the same place counts as a change. Only what
really changed is written, since Ninja goes by times.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.host.files import write_atomically
from rekindle.model.arch import Sm
from rekindle.model.version import at_least

_STAMP = "tools.txt"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One output: ``command`` is a list of programs to run in a row, each a list of words; ``inputs`` are files it
    reads. Names are relative to the folder of the jobs, with ``/``."""

    output: str
    command: tuple[tuple[str, ...], ...]
    inputs: tuple[str, ...] = ()
    title: str = ""


def write_jobs(folder: Path, jobs: Sequence[Job], tools: Mapping[str, str]) -> None:
    """``build.ninja`` in ``folder``; ``tools``: name -> version, told to every job."""
    stamp = "".join(f"{name} {version}\n" for name, version in sorted(tools.items()))
    write_if_changed(folder / _STAMP, stamp.encode())
    lines = ["ninja_required_version = 1.10", "rule run", "  command = $words", "  description = $title"]
    for job in jobs:
        inputs = " ".join(_ninja_path(name) for name in job.inputs)
        words = " && ".join(_spoken(command) for command in job.command)
        if os.name == "nt" and len(job.command) > 1:
            words = f'cmd /c "{words}"'
        lines += [
            "",
            f"build {_ninja_path(job.output)}: run {inputs} | {_STAMP}",
            f"  words = {_ninja_value(words)}",
            # Supervisors read what is made from "object NAME".
            f"  title = {_ninja_value(job.title or f'object {job.output}')}",
        ]
        (folder / job.output).parent.mkdir(parents=True, exist_ok=True)
    write_if_changed(folder / "build.ninja", ("\n".join(lines) + "\n").encode())


def pack_job(fatbinary: str, cubin: str, arch: Sm, *, compression: str, release: str) -> Job:
    """A cubin into a fat binary of one entry by NVIDIA's own tool of CUDA ``release``, beside it. Up to CUDA 12 it
    compresses by LZ4 where nothing is said (11.8 and 12.4 know no other way); 13 has to be told."""
    output = cubin.removesuffix(".cubin") + ".fatbin"
    how = ["--compress-all"] if compression != "none" else []
    if compression == "lz4" and at_least(release, "13.0"):
        how.append("--compress-mode=speed")
    image = f"--image3=kind=elf,sm={str(arch).removeprefix('sm_')},file={cubin}"
    return Job(output=output, command=((fatbinary, f"--create={output}", "-64", *how, image),), inputs=(cubin,))


def write_if_changed(path: Path, content: bytes) -> None:
    """Write a file unless it has this very content: its time then stays what it was."""
    try:
        if path.read_bytes() == content:
            return
    except OSError:
        pass
    write_atomically(path, content)


def forget_empty(folder: Path, jobs: Sequence[Job]) -> int:
    """After a power loss an output may be empty though Ninja noted it as made: it is made again. How many."""
    empty = [path for job in jobs if (path := folder / job.output).is_file() and not path.stat().st_size]
    for path in empty:
        path.unlink()
    return len(empty)


def _spoken(command: Sequence[str]) -> str:
    return subprocess.list2cmdline(command) if os.name == "nt" else shlex.join(command)


def _ninja_path(name: str) -> str:
    return name.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _ninja_value(text: str) -> str:
    return text.replace("$", "$$").replace("\n", " ")
