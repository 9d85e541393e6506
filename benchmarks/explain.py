"""How fast does ``explain`` read, and in how much memory? All rules, one core, a log as builds write it.

    python benchmarks/explain.py [MEGABYTES]

Side by side: our engine, one alternation regex over the same words (the plain way), and reading alone.
"""

from __future__ import annotations

import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from longlogs import WARNINGS, noise, progress  # noqa: E402

CHUNK = 1 << 20


def block(seed: int) -> bytes:
    """About a megabyte of a build: progress, command lines, warnings with their notes, configure and pip output."""
    rng = random.Random(seed)
    flags = " ".join(
        f"-I/opt/src/pt/third_party/{name}/include" for name in ("protobuf", "gloo", "onnx", "fmt", "XNNPACK")
    )
    lines = [*noise("configure"), *noise("pip"), *noise("run")]
    while sum(map(len, lines)) < CHUNK:
        for line in progress(rng, 200):
            lines.append(line)
            if rng.random() < 0.2:
                lines.append(
                    f"/usr/bin/c++ -DUSE_CUDA -DTORCH_ASSERT_ONLY_METHOD_OPERATORS {flags} -O2 -std=gnu++17 -c x.cpp"
                )
        lines += [
            rng.choice(WARNINGS),
            "      |     ~~^~~~~~~~~~~~~~~~~~~",
            "/usr/include/c++/11/vector:66: note: declared here",
        ]
    return "\n".join(lines).encode()[:CHUNK]


def stream(megabytes: int) -> Iterator[bytes]:
    pieces = [block(seed) for seed in range(8)]
    for number in range(megabytes):
        yield pieces[number % len(pieces)]
    yield b"\nnvcc fatal   : Unsupported gpu architecture 'compute_120'\n"


def measure_ours(path: str) -> None:
    """Run in a process of its own, so that the peak memory is ours alone."""
    from rekindle import api

    before = time.process_time()
    diagnosis = api.explain(Path(path))
    seconds = time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = Path(path).stat().st_size / 1e6
    speed = f"{size / seconds:7.1f} MB/s  {seconds:6.2f} s CPU  {peak:5.0f} MB resident"
    print(f"explain            {speed}  {diagnosis.matches[0].id}")


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "build.log"
        with log.open("wb") as file:
            for piece in stream(megabytes):
                file.write(piece)
        print(f"a build log of {log.stat().st_size / 1e6:.0f} MB, all rules")
        subprocess.run([sys.executable, __file__, "--ours", str(log)], check=True)

        from rekindle.explain.rule import load_rules, load_signals

        words = {word for owner in (*load_rules(), *load_signals()) for p in owner.match for word in p.words}
        pattern = re.compile(b"|".join(map(re.escape, sorted(words))))
        sample = block(1)
        before = time.process_time()
        for _ in pattern.finditer(sample):
            pass
        print(
            f"one big regex      {len(sample) / 1e6 / (time.process_time() - before):7.1f} MB/s  ({len(words)} words)"
        )
        before = time.process_time()
        with log.open("rb") as file:
            while file.read(CHUNK):
                pass
        print(f"reading alone      {log.stat().st_size / 1e6 / (time.process_time() - before):7.1f} MB/s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ours"]:
        measure_ours(sys.argv[2])
    else:
        main()
