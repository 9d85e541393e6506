"""Breaks the miniature tree in two dozen ways, builds it for real, and says what ``explain`` answers.

    python tools/break_spark.py            prints the table that stands in docs/explain.md
    python tools/break_spark.py NAME       one of them, with its whole log

What must be answered was written down beside each before it was run. Exit 1 where an answer is another one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from rekindle import api  # noqa: E402
from rekindle.api.source import patch_spark  # noqa: E402
from rekindle.model.diagnosis import Diagnosis  # noqa: E402
from rekindle.spark.unpack import tree_files  # noqa: E402

BUILD = "{python} setup.py -q bdist_wheel"
SMALL = {"USE_HEAVY": "0", "USE_DISPATCH": "0", "SPARK_OPS": "1", "MAX_JOBS": "1", "LC_ALL": "C.UTF-8"}
KERNELS = "spark/csrc/core/kernels.cpp"


@dataclass(frozen=True)
class Break:
    """``put`` stands in front of a file, ``say`` replaces words in it, ``drop`` files go; ``env`` and ``run`` as named.
    A ``compiler`` is a script that stands in for g++."""

    name: str
    causes: tuple[str, ...]
    put: dict[str, str] = field(default_factory=dict)
    say: dict[str, tuple[str, str]] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    compiler: str | None = None
    run: str = BUILD


BREAKS = (
    Break("a header of a submodule", ("missing-header",), put={KERNELS: "#include <cutlass/numeric_types.h>\n"}),
    Break("a header of a system library", ("missing-header",), put={KERNELS: "#include <numa.h>\n"}),
    Break("a C++17 name in C++14", ("cxx-standard-too-low", "cxx17-required", "missing-include-new-gcc"),
          put={KERNELS: "#include <optional>\nstd::optional<int> spark_wish;\n"}),
    Break("a forgotten #include", ("missing-include-new-gcc", "compile-error"), put={KERNELS: "uint32_t spark_a;\n"}),
    Break("a slip of the pen", ("compile-error",), put={KERNELS: "int spark_b( { return 1 }\n"}),
    Break("a library that is not linked", ("link-undefined-reference",),
          put={KERNELS: 'extern "C" int cudnnCreate(void*);\nint spark_c() { return cudnnCreate(nullptr); }\n'},
          env={"CMAKE_SHARED_LINKER_FLAGS": "-Wl,-z,defs"}),
    Break("a library that is not there", ("cudnn-not-found", "missing-link-library"),
          env={"CMAKE_SHARED_LINKER_FLAGS": "-lcudnn"}),
    Break("the same name twice", ("lnk2005-duplicate-symbols", "link-error", "link-refused"),
          put={KERNELS: "int spark_d = 1;\n", "spark/csrc/core/checksum.cpp": "int spark_d = 2;\n"}),
    Break("a processor nobody knows", ("unknown-compiler-option", "gcc-too-old", "unknown-option"),
          env={"SPARK_BASELINE_FLAGS": "-march=zen99"}),
    Break("a flag nobody knows", ("unknown-compiler-option", "gcc-too-old", "unknown-option"),
          env={"SPARK_BASELINE_FLAGS": "-fzork"}),
    Break("a warning as an error", ("werror-new-compiler",), put={KERNELS: "static int spark_e() { return 0; }\n"},
          env={"SPARK_BASELINE_FLAGS": "-Wall -Werror"}),
    Break("32-bit on a 64-bit system", ("missing-header", "multilib-missing", "link-error", "missing-link-library"),
          env={"SPARK_BASELINE_FLAGS": "-m32"}),
    Break("no such compiler", ("missing-command", "cmake-compiler-broken", "compiler-not-found"),
          env={"CXX": "/nowhere/g++-99"}),
    Break("a compiler that may not be run", ("permission-denied", "missing-command", "cmake-compiler-broken"),
          compiler="noexec"),
    Break("the compiler killed", ("oom-killed",),
          compiler='case "$*" in *kernels*) kill -9 $$;; esac\nexec g++ "$@"\n'),
    Break("no memory to compile in", ("oom-killed", "out-of-memory"),
          compiler='case "$*" in *kernels*) ulimit -v 40000;; esac\nexec g++ "$@"\n'),
    Break("a full disk", ("disk-full",),
          compiler='case "$*" in *kernels*) g++ "$@" && cat /proc/version > /dev/full;; *) exec g++ "$@";; esac\n'),
    Break("CMake of tomorrow", ("cmake-too-old",),
          say={"CMakeLists.txt": ("VERSION 3.0 FATAL_ERROR", "VERSION 99.1 FATAL_ERROR")}),
    Break("an empty submodule", ("missing-submodules",), drop=("spark/lib/libember/CMakeLists.txt",)),
    Break("a source file lost", ("configure-error", "missing-source-file"), drop=("spark/csrc/core/checksum.cpp",)),
    Break("a package CMake does not find", ("torch-not-found-cmake", "missing-package"),
          say={"CMakeLists.txt": ("project(spark CXX)", "project(spark CXX)\nfind_package(Torch REQUIRED)")}),
    Break("another generator before", ("cmake-generator-mismatch",),
          run="cmake -DPYTHON_EXECUTABLE={python} -S . -B build >/dev/null; cmake -G Ninja -S . -B build"),
    Break("CUDA asked for, no nvcc", ("cuda-home-not-set", "cmake-cuda-compiler-broken", "cuda-not-found-disabled"),
          env={"USE_CUDA": "1", "CUDACXX": "/nowhere/nvcc"}),
    Break("torch wanted by setup.py", ("build-isolation-no-torch", "torch-not-installed", "missing-module"),
          put={"setup.py": "import torch_of_another_environment\n"}),
    Break("a version that is none", ("build-backend-refused", "invalid-version", "setuptools-too-new"),
          env={"SPARK_BUILD_VERSION": "the newest"}),
    Break("sources for Python 2", ("python-too-old-source", "syntax-error", "python2-sources"),
          put={"tools/gen_ops.py": "print 'generating'\n"}),
    Break("a pin that does not exist", ("index-lacks-version", "python-unsupported"),
          run="{python} -m pip install --no-index --disable-pip-version-check 'torch==1.2.99'"),
    Break("no network", ("network-name",),
          run="{python} -m pip install --retries 1 --no-cache-dir --index-url https://spark.invalid/simple torch"),
)  # fmt: skip


def build(broken: Break, folder: Path) -> str:
    for name, content in tree_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    patch_spark(folder)
    for name, text in broken.put.items():
        (folder / name).write_text(text + (folder / name).read_text(encoding="utf-8"), encoding="utf-8")
    for name, (before, after) in broken.say.items():
        text = (folder / name).read_text(encoding="utf-8")
        assert before in text, (name, before)
        (folder / name).write_text(text.replace(before, after, 1), encoding="utf-8")
    for name in broken.drop:
        (folder / name).unlink()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "CMAKE_", "CXX", "CC"))}
    env |= SMALL | {"PIP_CONFIG_FILE": os.devnull} | broken.env
    if broken.compiler:
        script = folder / "c++"
        script.write_text(f"#!/bin/sh\n{broken.compiler}", encoding="utf-8")
        script.chmod(0o644 if broken.compiler == "noexec" else 0o755)
        env["CXX"] = str(script)
    command = broken.run.replace("{python}", sys.executable)
    ended = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=300, errors="replace"
    )
    return ended.stdout + ended.stderr


def row(broken: Break, found: Diagnosis, folder: Path) -> str:
    first = found.matches[0] if found.matches else None
    said = first.evidence.replace(str(folder), "").replace("|", "\\|")[:110] if first else ""
    answer = f"{first.title} (`{first.id}`, {first.confidence})".replace(str(folder), "") if first else "nothing"
    return f"| {broken.name} | `{said.replace('`', chr(39))}` | {answer.replace('|', chr(92) + '|')} |"


def main() -> int:
    wanted = [broken for broken in BREAKS if not sys.argv[1:] or broken.name == sys.argv[1]]
    if not wanted:
        sys.exit(f"no such break: {sys.argv[1]}")
    rows, wrong = [], []
    for broken in wanted:
        folder = Path(tempfile.mkdtemp(prefix="spark-"))
        try:
            said = build(broken, folder)
            found = api.explain(said)
            rows.append(row(broken, found, folder))
        finally:
            shutil.rmtree(folder)
        if not found.matches or found.matches[0].id not in broken.causes:
            wrong.append(f"{broken.name}: {[match.id for match in found.matches[:3]]}, not {broken.causes}")
        if sys.argv[1:]:
            print(said)
    print("| broken how | what the build said | what was answered |\n|---|---|---|")
    print("\n".join(rows))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
