"""Breaks a real torch tree in a dozen ways that take seconds, and says what ``explain`` answers.

    python tools/break_torch.py TREE CMAKE [NAME…]

TREE are unpacked sources (Debian's, without submodules), CMAKE one of 3.27 to 3.31; NAMEs choose among the ways.

What must be answered was written down beside each before it was run. Exit 1 where an answer is another one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

from break_spark import Break, row  # noqa: E402
from rekindle import api  # noqa: E402

COMPILE = "g++ -std=c++20 -I. -I{work} -Iaten/src -c {file} -o {work}/x.o"
MACROS = "#define C10_BUILD_SHARED_LIBS\n"


@dataclass(frozen=True)
class Way:
    name: str
    causes: tuple[str, ...]
    run: str
    env: dict[str, str] = field(default_factory=dict)
    macros: bool = True  # the header that configuring makes is there


WAYS = (
    Way("CMake of the distribution", ("cmake-too-old",), "/usr/bin/cmake -S . -B {work}/a"),
    Way("setup.py with that CMake", ("cmake-too-old",), "env PATH=/usr/bin:/bin {python} setup.py build"),
    Way("no submodules", ("missing-submodules",), "{cmake} -S . -B {work}/b -DUSE_CUDA=OFF -DBUILD_PYTHON=OFF"),
    Way("no such compiler", ("missing-command",), "{cmake} -S . -B {work}/c", {"CXX": "g++-99", "CC": "gcc-99"}),
    Way("another generator in the same directory", ("cmake-generator-mismatch",),
        "{cmake} -G 'Unix Makefiles' -S . -B {work}/d -DCMAKE_CXX_COMPILER=/bin/false;"
        " {cmake} -G Ninja -S . -B {work}/d"),
    Way("compiled without having been configured", ("missing-header",),
        COMPILE.replace("{file}", "c10/util/Exception.cpp"), macros=False),
    Way("the code generator has not run", ("missing-header",), COMPILE.replace("{file}", "aten/src/ATen/Context.cpp")),
    Way("an old C++ standard", ("cxx-standard-too-low", "cxx17-required", "nvcc-too-old-cxx20", "gcc-too-old"),
        COMPILE.replace("{file}", "c10/util/Exception.cpp").replace("c++20", "c++11")),
    Way("no room for the object file", ("disk-full",),
        COMPILE.replace("{file}", "c10/util/Exception.cpp").replace("{work}/x.o", "/dev/full")),
    Way("hardly any memory", ("out-of-memory-compiler", "system-limit", "oom-killed", "memory-exhausted"),
        "ulimit -v 70000; " + COMPILE.replace("{file}", "c10/util/Exception.cpp")),
    Way("the code generator without its packages", ("pyyaml-missing-build",),
        "{python} -S -m torchgen.gen --help"),
    Way("CUDA 13 and a Maxwell card", ("unsupported-gpu-architecture-old",),
        "nvcc -arch=compute_50 -I. -I{work} -c c10/cuda/impl/CUDATest.cpp -o {work}/x.o"),
    Way("no cuDNN", ("cudnn-not-found", "missing-header"),
        "echo '#include <ATen/cudnn/cudnn-wrapper.h>' |"
        " g++ -x c++ -std=c++20 -I. -I{work} -Iaten/src -c - -o {work}/x.o"),
)  # fmt: skip


def broken(way: Way, tree: Path, cmake: str, work: Path) -> str:
    if way.macros:
        for name in ("c10/macros/cmake_macros.h", "torch/headeronly/macros/cmake_macros.h"):
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(MACROS, encoding="utf-8")
    command = way.run.replace("{work}", str(work)).replace("{cmake}", cmake).replace("{python}", sys.executable)
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tree, env={**os.environ, "LC_ALL": "C.UTF-8", **way.env}, capture_output=True,
        text=True, timeout=300, errors="replace", check=False,
    )  # fmt: skip
    return ended.stdout + ended.stderr


def main() -> int:
    tree, cmake, names = Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3:]
    wrong = []
    print("| broken how | what was said | what was answered |\n|---|---|---|")
    for way in [way for way in WAYS if not names or way.name in names]:
        with tempfile.TemporaryDirectory(prefix="torch-") as work:
            said = broken(way, tree, cmake, Path(work)).replace(work, "")
        found = api.explain(said)
        print(row(Break(way.name, way.causes), found, tree), flush=True)
        if not found.matches or found.matches[0].id not in way.causes:
            wrong.append(f"{way.name}: {[match.id for match in found.matches[:3]]}, not {way.causes}\n{said[-600:]}")
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
