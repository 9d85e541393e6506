"""What is asked before anything is computed: is the CPU the one it is called (check_cpu), are the files those of the
wheel (check_basics); and the miniature's checks (check_spark), through its C functions, too."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loaded_checks import loaded_checks
from tiny_wheels import hash_row

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the CPU on Linux")
X86 = platform.machine() == "x86_64"
Ask = Callable[..., str]


@pytest.fixture
def checks() -> Iterator[Any]:
    with loaded_checks() as load:
        yield load


@pytest.fixture
def ask(checks: Any) -> Ask:
    """What a check says, or its complaint with the kind of it first."""

    def ended(module: str, id: str, *words: Any, **request: Any) -> str:
        checks(module)
        frame = checks("framework")
        check = next(check for check in frame.CHECKS if check.id == id)
        try:
            return str(check.run(frame.Bench({"package": "spark", "level": "full", **request}), *words))
        except frame.Failed as failed:
            return f"failed: {failed}" + (f" ({failed.remedy})" if failed.remedy else "")
        except frame.Skip as skip:
            return f"{skip.kind}: {skip}"

    return ended


# The CPU.

# A feature no CPU tells of, with an instruction that none runs; with one that every CPU runs; and one that is told of
# with an instruction that none runs (SSE3 and advanced SIMD are everywhere).
NEVER = {"x86_64": [1, "ecx", 16], "aarch64": 62}
ALWAYS = {"x86_64": [1, "ecx", 0], "aarch64": 1}
UNDEFINED, NOTHING = {"x86_64": "0f0b", "aarch64": "00000000"}, {"x86_64": "90", "aarch64": "1f2003d5"}


@linux
@pytest.mark.skipif(platform.machine() not in NEVER, reason="asks two kinds of CPU")
def test_a_cpu_is_held_against_what_it_is_called(checks: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, here = checks("check_cpu"), platform.machine()
    rows = [
        ["known", ALWAYS[here], NOTHING[here], "nop"],
        ["plain", ALWAYS[here], NOTHING[here], "nop"],
        ["never", NEVER[here], UNDEFINED[here], "ud2"],
    ]
    monkeypatch.setattr(cpu, "TABLE", rows)
    features = "check_cpu", "cpu.features"
    assert ask(*features) == "has known plain"
    right = {"has": ["known", "plain"], "lacks": ["never"]}
    assert ask(*features, cpu="haswell", cpu_features=right) == "has known plain; refuses never"
    fewer = {"has": ["known"], "lacks": ["plain"]}
    assert ask(*features, cpu="k8", cpu_features=fewer).startswith(
        "failed: a real k8 has no plain, this emulation runs"
    )
    more = {"has": ["known", "never"], "lacks": []}
    said = ask(*features, cpu="zen5", cpu_features=more)
    assert said.startswith("failed: a real zen5 has never, which this emulation lacks (take an older CPU")
    assert ask(*features, cpu="x", cpu_features={"has": [], "lacks": []}) == "has known plain; refuses none"
    rows[2][2] = NOTHING[here]
    assert ask(*features, cpu="x", cpu_features={"has": [], "lacks": []}).endswith("refuses none; runs never unasked")
    assert "failed: a real x has no never" in ask(*features, cpu="x", cpu_features={"has": [], "lacks": ["never"]})
    rows[1][2] = UNDEFINED[here]
    assert ask(*features) == "failed: the CPU promises plain, but the instruction is refused"
    monkeypatch.setattr(cpu, "TABLE", [["never", NEVER[here], UNDEFINED[here], ""]])
    assert ask(*features, cpu_features={"has": [], "lacks": ["never"]}) == "has none; refuses never"


@linux
@pytest.mark.skipif(not X86, reason="the kernel's words for x86-64")
def test_what_this_cpu_has_is_what_the_kernel_says(ask: Ask) -> None:
    flags = Path("/proc/cpuinfo").read_text().split("\nflags", 1)[1].split("\n", 1)[0].split()
    names = [
        "pni",
        "ssse3",
        "sse4_1",
        "sse4_2",
        "popcnt",
        "aes",
        "avx",
        "f16c",
        "fma",
        "bmi1",
        "bmi2",
        "movbe",
        "avx2",
        "avx512f",
    ]
    want = ["sse3" if name == "pni" else name for name in names if name in flags]
    assert ask("check_cpu", "cpu.features") == "has " + " ".join(want)


@linux
def test_other_machines_are_not_asked(checks: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = checks("check_cpu")
    monkeypatch.setattr(cpu, "ARM", False)
    says = "untried: asks x86-64 and AArch64 CPUs on Linux only"
    for machine in ("riscv64", "i686"):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        assert ask("check_cpu", "cpu.features") == says
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(cpu, "executable_page", lambda code: None)
    assert ask("check_cpu", "cpu.features") == "untried: this system lets no program make executable memory"
    monkeypatch.setattr(struct, "calcsize", lambda kind: 4)
    assert ask("check_cpu", "cpu.features") == says
    monkeypatch.undo()
    monkeypatch.setattr(cpu, "ARM", False)
    monkeypatch.delattr(os, "fork")
    assert ask("check_cpu", "cpu.features") == says


# The files.


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The miniature as an installer leaves it: a header, a library, byte code and a script."""
    site = tmp_path / "site"
    files = {
        "spark/include/spark.h": b"header",
        "spark/lib.so": b"x" * 2_000_000,
        "spark/a.py": b"1",
        "spark/b.py": b"2",
    }
    for name, data in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(data)
    info = site / "spark_miniature-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: spark-miniature\nVersion: 1.0\n")
    rows = "".join(hash_row(name, data) for name, data in files.items())
    rows += hash_row("spark/a.pyc", b"made here") + hash_row("../../bin/tool", b"gone") + "spark/unhashed,,\n"
    (info / "RECORD").write_text(rows + "spark_miniature-1.0.dist-info/RECORD,,\n")
    monkeypatch.syspath_prepend(site)
    return site


def test_every_file_is_as_the_record_lists_it(installed: Path, ask: Ask) -> None:
    files = "check_basics", "files"
    assert ask(*files) == ask(*files, level="smoke") == "4 files, 2 MB, as in RECORD"
    (installed / "spark/include/spark.h").write_bytes(b"headed")
    assert ask(*files) == "failed: spark/include/spark.h has other content"
    assert ask(*files, level="smoke") == "4 files, 2 MB, as in RECORD", "headers are many and compute nothing"
    (installed / "spark/include/spark.h").write_bytes(b"longer header")
    assert ask(*files, level="smoke") == "failed: spark/include/spark.h has 13 bytes instead of 6"
    (installed / "spark/b.py").unlink()
    (installed / "spark/lib.so").write_bytes(b"x" * 1_999_999 + b"y")
    complaints = "spark/b.py is gone; spark/include/spark.h has 13 bytes instead of 6; spark/lib.so has other content"
    assert ask(*files, level="smoke") == f"failed: {complaints}"
    (installed / "spark/a.py").unlink()
    said = ask(*files)
    assert said.startswith("failed: spark/a.py is gone; spark/b.py is gone; spark/include") and said.endswith(
        " and 1 more"
    )
    assert ask(*files, cpu="haswell").startswith("absent: the emulated layout")


def test_a_record_may_leave_sizes_and_digests_out(installed: Path, ask: Ask) -> None:
    record = installed / "spark_miniature-1.0.dist-info" / "RECORD"
    record.write_text("\n".join(line.rsplit(",", 1)[0] + "," for line in record.read_text().splitlines()) + "\n")
    assert ask("check_basics", "files") == "4 files, 0 MB, as in RECORD"
    (installed / "spark/a.py").write_text("10")
    assert ask("check_basics", "files") == "failed: spark/a.py has other content"
    record.write_text("short,line\n")
    assert ask("check_basics", "files") == "0 files, 0 MB, as in RECORD"
    record.unlink()
    assert ask("check_basics", "files").startswith("untried: this installation has no RECORD")
    said = ask("check_basics", "files", package="rekindle_has_no_such")
    assert said == "untried: no distribution rekindle_has_no_such is registered here: it was not installed from a wheel"


# The miniature.


def core(axpy: float = 0.0, dot: float = 0.0, bits: int = 0, name: bytes = b"AVX2") -> Any:
    """Its library, played by Python; each number is what is wrong with one function."""

    class Function:
        restype = None

        def __init__(self, run: Callable[..., Any], kind: Any) -> None:
            self.run, self.kind = run, kind

        def __call__(self, *words: Any) -> Any:
            assert self.restype is self.kind
            return self.run(*words)

    def run_axpy(a: Any, x: Any, y: Any, out: Any, count: Any) -> None:
        assert count.value == len(x) == len(y) == len(out)
        out[:] = [a.value * u + v + axpy for u, v in zip(x, y, strict=True)]

    def run_dot(x: Any, y: Any, count: Any) -> float:
        assert count.value == len(x)
        return float(sum(u * v for u, v in zip(x, y, strict=True))) + dot

    def run_checksum(x: Any, count: Any) -> int:
        return int(sum(struct.unpack(f"<{count.value}I", bytes(x)))) + bits

    return SimpleNamespace(
        spark_axpy=Function(run_axpy, None),
        spark_dot=Function(run_dot, ctypes.c_double),
        spark_checksum=Function(run_checksum, ctypes.c_uint64),
        spark_cpu_capability=Function(lambda: name, ctypes.c_char_p),
    )


def test_the_miniatures_c_functions(checks: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = checks("check_spark")

    def said(id: str, **wrong: Any) -> str:
        def load(t: Any, name: str) -> Any:
            assert name == "lib/libspark_core.so"
            return core(**wrong)

        monkeypatch.setattr(spark, "load_library", load)
        return ask("check_spark", f"core.{id}")

    x = [((7 * i) % 23 - 11) / 8 for i in range(67)]
    y = [((5 * i) % 19 - 9) / 4 for i in range(67)]
    right = {id: said(id) for id in ("axpy", "dot", "checksum", "capability")}
    assert right == {
        "axpy": "67 elements, exact", "dot": f"{math.fsum(u * v for u, v in zip(x, y, strict=True)):.6g}",
        "checksum": "67 bit patterns", "capability": "AVX2",
    }  # fmt: skip
    assert said("axpy", axpy=1e-5).startswith("failed: result: element")
    assert said("dot", dot=1e-9).startswith("failed: result: element 0")
    assert said("checksum", bits=1).startswith("failed: checksum: ")
    assert said("capability", name=b"MMX") == "failed: unknown capability 'MMX'"
    for name in (b"DEFAULT", b"AVX512", b"ASIMD", b"SVE"):
        assert said("capability", name=name) == name.decode()


def test_the_miniatures_python_face(checks: Any, ask: Ask) -> None:
    def said(id: str, *, expect: Any = None, **face: Any) -> str:
        registered = checks("check_spark") and checks("framework").CHECKS
        check = next(one for one in registered if one.id == id and one.package == "spark")
        frame = checks("framework")
        try:
            return str(check.run(frame.Bench({"package": "spark", "expect": expect}), SimpleNamespace(**face)))
        except (frame.Failed, frame.Skip) as error:
            return f"{getattr(error, 'kind', 'failed')}: {error}"

    assert said("version", __version__="1.0") == "1.0"
    assert said("version", __version__="1.0", expect={"version": "1.0"}) == "1.0 as planned"
    assert said("version", __version__="1.0", expect={"version": "1.1"}) == "failed: version: 1.0 instead of 1.1"
    words = "spark\n - BUILD_TYPE=Release\n - USE_CUDA=OFF"
    assert said("settings", config=lambda: words) == "spark - BUILD_TYPE=Release - USE_CUDA=OFF"
    planned = {"settings": {"USE_CUDA": "0"}}
    assert said("settings", config=lambda: words, expect=planned).endswith("OFF; 1 settings as planned")
    assert said("settings", config=lambda: "x") == "failed: config() names no build type"
    applied: list[tuple[int, float]] = []

    def apply(which: int, x: float) -> float:
        applied.append((which, x))
        return 0.0

    assert said("operators", op_count=lambda: 3, apply_op=apply) == "3 operators"
    assert applied == [(0, 1.5), (1, 1.5), (2, 1.5)]
    assert said("operators", op_count=lambda: 1, apply_op=apply) == "1 operators"
    assert said("operators", op_count=lambda: 0) == "failed: no generated operators"
    bad = said("operators", op_count=lambda: 2, apply_op=lambda which, x: math.nan if which else 1.0)
    assert bad == "failed: operator 1: operator 1 gives NaN"

    def careful(x: list[float], y: list[float]) -> float:
        if len(x) != len(y):
            raise ValueError
        return 0.0

    assert said("errors", dot=careful) == "a length mismatch is a ValueError"
    assert said("errors", dot=lambda x, y: 0.0) == "failed: vectors of different length were accepted"

    def on_card(off: float) -> str:
        def axpy(a: float, x: list[float], y: list[float]) -> list[float]:
            assert a == 0.25 and len(x) == 67
            return [a * u + v + off for u, v in zip(x, y, strict=True)]

        return said("cuda", cuda_arch_list=lambda: ["8.0", "9.0"], cuda_available=lambda: True, cuda_axpy=axpy)

    assert on_card(0.0) == "axpy on the GPU, exact" and on_card(1e-9).startswith("failed: ")
    assert said("cuda", cuda_arch_list=list) == "absent: built without CUDA"
    none = said("cuda", cuda_arch_list=lambda: ["8.0", "9.0"], cuda_available=lambda: False)
    assert none == "untried: built for 8.0 9.0; no GPU here"
