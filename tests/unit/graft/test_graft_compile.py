"""Jobs as a Ninja file: only what changed is written again, and odd names stay names."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import ninja

from rekindle.graft.compile import Job, forget_empty, pack_job, write_jobs
from rekindle.graft.nvidia import ptxas_options
from rekindle.host.files import write_if_changed
from rekindle.model.arch import Sm

NINJA = shutil.which("ninja", path=ninja.BIN_DIR) or "ninja"
COPY = "import shutil,sys; shutil.copy(sys.argv[1], sys.argv[2]); open('ran','a').write(sys.argv[2]+' ')"


def _jobs(*names: str) -> list[Job]:
    return [
        Job(
            output=f"out/{name}.o",
            command=(sys.executable, "-c", COPY, f"{name}.in", f"out/{name}.o"),
            inputs=(f"{name}.in",),
        )
        for name in names
    ]


def _run(folder: Path) -> str:
    (folder / "ran").unlink(missing_ok=True)
    subprocess.run([NINJA, "-j1"], cwd=folder, check=True, capture_output=True)
    return (folder / "ran").read_text() if (folder / "ran").exists() else ""


def test_nothing_is_made_twice_and_what_changed_is(tmp_path: Path) -> None:
    names = ["a", "b c", "d$e:f"] if sys.platform != "win32" else ["a", "b c"]
    for name in names:
        write_if_changed(tmp_path / f"{name}.in", b"1")
    write_jobs(tmp_path, _jobs(*names), {"ptxas": "13.0"})
    assert len(_run(tmp_path).split(".o ")) == len(names) + 1
    for name in names:
        write_if_changed(tmp_path / f"{name}.in", b"1")
    write_jobs(tmp_path, _jobs(*names), {"ptxas": "13.0"})
    assert _run(tmp_path) == "", "the same call again makes nothing"
    write_if_changed(tmp_path / "a.in", b"2")
    assert _run(tmp_path) == "out/a.o "
    write_jobs(tmp_path, _jobs(*names), {"ptxas": "13.1"})
    assert len(_run(tmp_path).split(".o ")) == len(names) + 1, "another ptxas at the same place makes all anew"


def test_empty_outputs_are_made_again(tmp_path: Path) -> None:
    write_if_changed(tmp_path / "a.in", b"1")
    jobs = _jobs("a")
    write_jobs(tmp_path, jobs, {})
    _run(tmp_path)
    (tmp_path / "out/a.o").write_bytes(b"")
    assert forget_empty(tmp_path, jobs) == 1 and _run(tmp_path) == "out/a.o "
    assert forget_empty(tmp_path, jobs) == 0


def test_options_for_ptxas() -> None:
    told = ("-v", "-O2", "-O9", "-arch=sm_80", "-maxrregcount=64", "--fmad=false", "-o", "/etc/passwd", "@file", "-g")
    assert ptxas_options(told) == ("-O2", "-maxrregcount=64", "--fmad=false")


def test_packing_stores_as_the_container_does() -> None:
    job = pack_job("fatbinary", "cubin/0-1.sm_90a.cubin", Sm(9, 0, "a"), compression="lz4", release="13.0")
    command = job.command
    assert job.output == "cubin/0-1.sm_90a.fatbin" and "--compress-mode=speed" in command
    assert command[-1] == "--image3=kind=elf,sm=90a,file=cubin/0-1.sm_90a.cubin"
    # fatbinary of 11.8 and 12.4 ends at this option; LZ4 is what they do anyway.
    for release in ("11.8", "12.4"):
        old = pack_job("fatbinary", "a.cubin", Sm(9, 0), compression="lz4", release=release).command
        assert "--compress-all" in old and not any("compress-mode" in word for word in old)
    plain = pack_job("fatbinary", "a.cubin", Sm(9, 0), compression="none", release="13.0").command
    assert not any("compress" in word for word in plain)
