"""Compile jobs as a Ninja file: carried out by whoever runs Ninja, continued after a kill, nothing compiled twice.

Ninja keeps with which command a file was made. The tools' own versions stand in a file that every job depends on:
another ptxas at the same place counts as a change. Only what changed is written, since Ninja goes by times.

And what the jobs compile with. An nvcc whose device compiler (``cicc``) takes a unit's *module id* from us, so that
names with internal linkage, which carry it, come out as in the wheel: the real one makes it of a digest and a process
id and hands it on in a file; ours writes the wanted id there. nvcc finds cicc by the profile beside itself: a folder of
ours holds a link to nvcc and a profile that names our cicc first. Headers come out of the wheel itself, and out of
packages of the index without their libraries: the digest of RECORD is pinned, which holds those of every header.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import BadInput, MissingTool
from rekindle.formats.wheel import WheelZip
from rekindle.host.files import write_if_changed
from rekindle.model.arch import Sm
from rekindle.model.graft import HeaderPackage
from rekindle.model.progress import Progress
from rekindle.model.version import at_least

MODULE_ID = "REKINDLE_MODULE_ID"
# POSIX shell alone: started once per unit. Options stay in their order; only the wish for a new id is dropped.
_CICC = Path(__file__).with_name("cicc.sh").read_text(encoding="utf-8")
# ccache caches what -c makes and nothing else: behind this name it makes a cubin. It hashes the script in place of the
# compiler, so the script says which compiler it is.
_CACHED = Path(__file__).with_name("cached_nvcc.sh").read_text(encoding="utf-8")
CACHED = "cached/nvcc"
WHEEL_INCLUDE = "torch/include/"
_DONE = "complete.txt"
_MOST_HEADER = 16 << 20
_STAMP = "tools.txt"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One output, the ``command`` that makes it, and the files it reads; names are relative to the jobs' folder."""

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


def wrap_nvcc(nvcc: Path, folder: Path) -> Path:
    """The nvcc to call: in ``folder``, with the toolkit of ``nvcc`` and a device compiler that takes the module id told
    in the variable ``REKINDLE_MODULE_ID``. For a compiler cache there is :data:`CACHED` beside it."""
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
    text = f"the toolkit in {bin_folder.parent} has no cicc, which compiles device code"
    raise MissingTool(text, remedy="install the whole CUDA compiler (pip: nvidia-cuda-nvcc and nvidia-nvvm)")


def take_headers(package: HeaderPackage, open_package: Callable[[], WheelZip], folder: Path) -> tuple[Path, ...]:
    """The folders ``within`` the package, with every header in them checked; taken once."""
    room = folder / f"{package.name}-{package.version}"
    if not (room / _DONE).is_file():
        shutil.rmtree(room, ignore_errors=True)
        wheel = open_package()
        raw = wheel.read(f"{wheel.dist_info}/RECORD")
        if hashlib.sha256(raw).hexdigest() != package.record:
            raise BadInput(
                f"{package.name} {package.version} on this index is not the package whose headers were pinned",
                remedy=f"another index, or a folder with its headers: --headers DIR (it has {package.header})",
            )
        record = wheel.record or {}
        for name in wheel.members:
            if any(name.startswith(f"{inner}/") for inner in package.within) and not name.endswith("/"):
                content = wheel.read(name, _MOST_HEADER)
                if name not in record or hashlib.sha256(content).digest() != record[name].digest:
                    text = f"{name} is not what the package's RECORD says"
                    raise BadInput(text, remedy="try again, or another index")
                (room / name).parent.mkdir(parents=True, exist_ok=True)
                (room / name).write_bytes(content)
        write_if_changed(room / _DONE, b"")
    return tuple(room / inner for inner in package.within)


def take_include(wheel: WheelZip, folder: Path, progress: Progress) -> Path:
    """The wheel's own include folder as files; taken once."""
    room = folder / "include"
    if not (room / _DONE).is_file():
        names = [name for name in wheel.members if name.startswith(WHEEL_INCLUDE) and not name.endswith("/")]
        if not names:
            raise BadInput(f"{wheel.what} has no {WHEEL_INCLUDE}, so its kernels cannot be compiled")
        progress.stage("headers", f"{len(names)} of the wheel itself")
        for count, name in enumerate(names):
            progress.step(count, len(names), name)
            target = room / name.removeprefix(WHEEL_INCLUDE)
            target.parent.mkdir(parents=True, exist_ok=True)
            # Thousands of them: not one by one to the disk; what says that all are there is written last.
            target.write_bytes(wheel.read(name, _MOST_HEADER))
        write_if_changed(room / _DONE, b"")
    return room


def has_header(folders: tuple[Path, ...], header: str) -> bool:
    """Is it in one of them?"""
    return any((folder / header).is_file() for folder in folders)
