"""Compile jobs as a Ninja file: carried out by whoever runs Ninja, continued after a kill, nothing compiled twice.

Ninja keeps what was made and with which command, so a changed flag makes anew only what it concerns. The tools' own
versions stand in a file that every job depends on: another ptxas at the same place counts as a change. Only what
really changed is written, since Ninja goes by times.

And an nvcc whose device compiler takes a unit's module id from us, so that internal names come out as in the wheel:
names with internal linkage carry the *module id* of their source file, in which the compiler puts a digest and a
process id. nvcc lets its device compiler (``cicc``) make that id and hand it on in a file; ours writes the wanted id
there and does not ask for one. nvcc finds cicc by the profile beside itself: a folder of ours holds a link to nvcc and
a profile that names our cicc first.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import MissingTool
from rekindle.host.files import write_if_changed
from rekindle.model.arch import Sm
from rekindle.model.version import at_least

_STAMP = "tools.txt"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One output and the ``command`` that makes it; ``inputs`` are files it reads. Names are relative to the folder of
    the jobs, with ``/``."""

    output: str
    command: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    title: str = ""


def write_jobs(folder: Path, jobs: Sequence[Job], tools: Mapping[str, str]) -> None:
    """``build.ninja`` in ``folder``; ``tools``: name -> version, told to every job."""
    stamp = "".join(f"{name} {version}\n" for name, version in sorted(tools.items()))
    write_if_changed(folder / _STAMP, stamp.encode())
    lines = ["ninja_required_version = 1.10", "rule run", "  command = $words", "  description = $title"]
    for job in jobs:
        inputs = " ".join(_ninja_path(name) for name in job.inputs)
        command = subprocess.list2cmdline(job.command) if os.name == "nt" else shlex.join(job.command)
        lines += [
            "",
            f"build {_ninja_path(job.output)}: run {inputs} | {_STAMP}",
            f"  words = {_ninja_value(command)}",
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
    return Job(output=output, command=(fatbinary, f"--create={output}", "-64", *how, image), inputs=(cubin,))


def forget_empty(folder: Path, jobs: Sequence[Job]) -> int:
    """After a power loss an output may be empty though Ninja noted it as made: it is made again. How many."""
    empty = [path for job in jobs if (path := folder / job.output).is_file() and not path.stat().st_size]
    for path in empty:
        path.unlink()
    return len(empty)


def _ninja_path(name: str) -> str:
    return name.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _ninja_value(text: str) -> str:
    return text.replace("$", "$$").replace("\n", " ")


MODULE_ID = "REKINDLE_MODULE_ID"
# POSIX shell alone: started once per unit. Options stay in their order; only the wish for a new id is dropped.
_CICC = Path(__file__).with_name("cicc.sh").read_text(encoding="utf-8")


# ccache caches what -c makes and nothing else: behind this name it makes a cubin. It hashes the script in place of the
# compiler, so the script says which compiler it is.
_CACHED = Path(__file__).with_name("cached_nvcc.sh").read_text(encoding="utf-8")
CACHED = "cached/nvcc"


def wrap_nvcc(nvcc: Path, folder: Path) -> Path:
    """The nvcc to call: in ``folder``, with the toolkit of ``nvcc`` and a device compiler that takes a given module id.

    The id is told in the variable ``REKINDLE_MODULE_ID`` of each call. For a compiler cache there is :data:`CACHED`
    beside it, which makes a cubin where ``-c`` is asked for.
    """
    # Debian's /usr/bin/nvcc is a script; the program and its profile lie below /usr/lib.
    inner = nvcc.parent.parent / "lib/nvidia-cuda-toolkit/bin/nvcc"
    if not (nvcc.parent / "nvcc.profile").is_file() and inner.is_file():
        nvcc = inner
    profile = nvcc.parent / "nvcc.profile"
    if not profile.is_file():
        raise MissingTool(
            f"beside {nvcc} there is no nvcc.profile, by which it finds its own compilers",
            remedy="name the toolkit's own folder with --toolkit DIR (the one with bin/nvcc.profile)",
        )
    text = profile.read_text(encoding="utf-8")
    cicc = _find_cicc(nvcc.parent, text)
    ours = folder / "device"
    ours.mkdir(parents=True, exist_ok=True)
    script = _CICC.replace("MODULE_ID", MODULE_ID).replace("REAL", shlex.quote(str(cicc)))
    write_if_changed(ours / "cicc", script.encode())
    (ours / "cicc").chmod(0o755)
    # $(_HERE_) is where nvcc was called; everything else of the toolkit stays where it is.
    lines = [line for line in text.replace("$(_HERE_)", str(nvcc.parent)).splitlines() if "CICC_PATH" not in line]
    kept = [line.replace("$(CICC_PATH)", str(cicc.parent)) for line in lines]
    kept += [f"CICC_PATH = {ours}", f"PATH += {ours}:{cicc.parent}:{nvcc.parent}:"]
    write_if_changed(folder / "nvcc.profile", ("\n".join(kept) + "\n").encode())
    link = folder / "nvcc"
    if not (link.is_symlink() and link.readlink() == nvcc):
        link.unlink(missing_ok=True)
        link.symlink_to(nvcc)
    stamp = " ".join(f"{tool.stat().st_size}-{tool.stat().st_mtime_ns}" for tool in (nvcc, cicc))
    cached = folder / CACHED
    cached.parent.mkdir(exist_ok=True)
    write_if_changed(cached, _CACHED.replace("STAMP", stamp).replace("REAL", shlex.quote(str(link))).encode())
    cached.chmod(0o755)
    return link


def _find_cicc(bin_folder: Path, profile: str) -> Path:
    """The toolkit's own device compiler: in ``nvvm/bin`` beside ``bin``, or where distributions put it."""
    folders: list[str] = re.findall(r"\$\(TOP\)/(\S*?nvvm/bin)", profile)
    for place in (*folders, "nvvm/bin", bin_folder.name, "lib/nvidia-cuda-toolkit/bin"):
        if (cicc := bin_folder.parent / place / "cicc").is_file():
            return cicc
    raise MissingTool(
        f"the toolkit in {bin_folder.parent} has no cicc, which compiles device code",
        remedy="install the whole CUDA compiler (pip: nvidia-cuda-nvcc and nvidia-nvvm)",
    )
