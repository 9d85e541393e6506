"""Bundling beside a plain zip copy of the same contents, and its peak memory.

Run: python benchmarks/bundle.py [WHEEL [LIBRARY_DIR …]]
Without a wheel one of MIB_OWN MiB is made from pseudo-random libraries, with MIB_BROUGHT MiB to bring along. The
plain copy is what a simple tool does: read every member of the result with zipfile, write it into a new zip.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from rekindle import api

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from binaries import make_elf
from tiny_wheels import make_wheel

MIB_OWN, MIB_BROUGHT = 160, 80


def filler(mib: int) -> bytes:
    """Compresses to about a half, as machine code does."""
    chance = random.Random(mib)
    block = b"".join(chance.randbytes(512) + bytes(512) for _ in range(1024))
    return block * mib


def sample(folder: Path) -> tuple[Path, list[str]]:
    libraries = folder / "libraries"
    libraries.mkdir()
    (libraries / "libbig.so.1").write_bytes(
        make_elf({".data": filler(MIB_BROUGHT)}, soname="libbig.so.1", rpath="$ORIGIN")
    )
    own = make_elf({".data": filler(MIB_OWN)}, needed=["libbig.so.1"], rpath="$ORIGIN")
    files = {"pkg/__init__.py": b"", "pkg/lib/libown.so": own}
    return make_wheel(folder, "pkg", "1.0", tag="cp311-cp311-linux_x86_64", files=files), [str(libraries)]


def plain_copy(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as reading, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as writing:
        for info in reading.infolist():
            with reading.open(info) as source, writing.open(info.filename, "w", force_zip64=True) as sink:
                while chunk := source.read(1 << 20):
                    sink.write(chunk)


def peak_mib(code: str) -> float:
    """Peak memory of a fresh process that only does this (VmHWM: getrusage would inherit ours)."""
    script = f"{code}\nprint(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-2]) / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if len(sys.argv) > 1:
            wheel, places = Path(sys.argv[1]), sys.argv[2:]
        else:
            wheel, places = sample(folder)
        started = time.perf_counter(), time.process_time()
        report = api.bundle(wheel, out=folder / "fat", library_path=places, allow_missing=True)
        ours = time.perf_counter() - started[0], time.process_time() - started[1]
        started = time.perf_counter(), time.process_time()
        plain_copy(Path(report.out or ""), folder / "plain.zip")
        plain = time.perf_counter() - started[0], time.process_time() - started[1]
        size = (report.bytes_after or 0) / 2**20
        print(
            f"{wheel.name}: {report.bytes_before / 2**20:.0f} MiB became {size:.0f} MiB, {len(report.brought)} brought"
        )
        print(f"  bundle            {ours[0]:7.2f} s wall {ours[1]:7.2f} s CPU   {size / ours[0]:6.1f} MiB/s")
        print(f"  plain zip copy    {plain[0]:7.2f} s wall {plain[1]:7.2f} s CPU   {size / plain[0]:6.1f} MiB/s")
        print(f"  bundle / plain copy speed: {plain[0] / ours[0]:.2f} (wall) {plain[1] / ours[1]:.2f} (CPU)")
        code = (
            f"from pathlib import Path; from rekindle import api; api.bundle(Path({str(wheel)!r}), "
            f"out=Path({str(folder / 'again')!r}), library_path={places!r}, allow_missing=True)"
        )
        print(f"  peak memory       {peak_mib(code):7.0f} MiB (an idle 'import rekindle.api': "
              f"{peak_mib('import rekindle.api'):.0f} MiB)")  # fmt: skip


if __name__ == "__main__":
    main()
