"""A fat spark, proven alone: its library is taken away from the machine, and it still installs and runs.

Also: a second opinion from auditwheel and delvewheel, and trimmed device code read by NVIDIA's own tool.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import needs
from rekindle import api
from rekindle.bundle.trim import trim
from rekindle.model.arch import Sm
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.spark.unpack import tree_version, unpack
from tiny_wheels import make_wheel

pytestmark = pytest.mark.integration
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
BIN = Path(sys.executable).parent


def _run(argv: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=600, **options)  # type: ignore[call-overload, no-any-return]


@pytest.fixture(scope="module")
def kindling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that no machine has: libkindling needs libtinder, and both lie in a directory of their own."""
    folder = tmp_path_factory.mktemp("only here")
    (folder / "tinder.c").write_text("int tinder(void) { return 7; }\n")
    (folder / "kindling.c").write_text("int tinder(void); int kindling(void) { return tinder(); }\n")
    for argv in (
        ["gcc", "-shared", "-fPIC", "-Wl,-soname,libtinder.so.2", "-o", "libtinder.so.2", "tinder.c"],
        ["gcc", "-shared", "-fPIC", "-Wl,-soname,libkindling.so.1", "-o", "libkindling.so.1", "kindling.c", "-L.",
         "-l:libtinder.so.2"],
    ):  # fmt: skip
        done = _run(argv, cwd=folder)
        assert done.returncode == 0, done.stderr
    (folder / "libkindling.so").symlink_to("libkindling.so.1")
    return folder


@pytest.mark.network
@needs.tool("g++", "git", "patchelf")
def test_a_fat_spark_runs_where_its_library_is_gone(tmp_path: Path, kindling: Path) -> None:
    unpack(tmp_path / "tree")
    flags = f"-L'{kindling}' -Wl,--no-as-needed -lkindling -Wl,-rpath-link,'{kindling}'"
    plan = Plan(
        answer="build", project="spark", torch=tree_version(), variant="cpu", python=HERE,
        build=BuildRecipe(
            source="spark", env={"USE_CUDA": "0", "USE_HEAVY": "0", "SPARK_OPS": "1", "LDFLAGS": flags},
            patches=("cmake-4-policies", "setuptools-74-msvccompiler"),
        ),
    )  # fmt: skip
    script = api.export(plan, "sh", out=tmp_path).path
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME") or k.startswith("PIP_")}
    env = {**kept, "SOURCE": str(tmp_path / "tree"), "WORK": str(tmp_path / "work"), "PYTHON": sys.executable}
    built = _run(["sh", str(script)], env=env, cwd=tmp_path)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    (thin,) = (tmp_path / "work" / "wheels").glob("*.whl")

    report = api.bundle(thin, out=tmp_path / "fat", library_path=[str(kindling)])
    assert {Path(b.file).name for b in report.brought} == {"libkindling.so.1", "libtinder.so.2"}
    hidden = kindling.with_name("hidden")
    kindling.rename(hidden)
    try:
        assert not _imports(tmp_path / "thin-env", thin)[0], "without its library the thin wheel cannot run"
        works, said = _imports(tmp_path / "fat-env", Path(report.out or ""))
        assert works, said
        assert "fat-env" in said and "libtinder.so.2" in said, "the libraries come from inside the wheel"
    finally:
        hidden.rename(kindling)

    # A library from outside keeps auditwheel from granting any manylinux tag; inside the wheel it does not.
    assert _tag(thin).startswith("linux_") and _tag(Path(report.out or "")).startswith("manylinux_")


def _tag(wheel: Path) -> str:
    shown = _run([str(BIN / "auditwheel"), "show", str(wheel)])
    assert shown.returncode == 0, shown.stderr
    return " ".join(shown.stdout.split()).partition('platform tag: "')[2].partition('"')[0]


def _imports(folder: Path, wheel: Path) -> tuple[bool, str]:
    python = folder / "bin" / "python"
    assert _run([sys.executable, "-m", "venv", str(folder)]).returncode == 0
    installed = _run([str(python), "-m", "pip", "install", "--no-index", "--no-deps", str(wheel)])
    assert installed.returncode == 0, installed.stderr
    code = "import spark; print(open('/proc/self/maps').read())"
    done = _run([str(python), "-c", code], env={"PATH": os.environ["PATH"]}, cwd=folder)
    return done.returncode == 0, done.stdout + done.stderr


@needs.tool("gcc", "patchelf")
def test_paths_are_set_by_the_real_patchelf(tmp_path: Path, kindling: Path) -> None:
    (tmp_path / "ext.c").write_text("int kindling(void); int ext(void) { return kindling(); }\n")
    made = _run(
        ["gcc", "-shared", "-fPIC", "-o", str(tmp_path / "ext.so"), str(tmp_path / "ext.c"), f"-L{kindling}",
         "-lkindling", "-Wl,-rpath,/build/machine", "-Wl,-rpath-link," + str(kindling)]
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    files = {"pkg/__init__.py": b"", "pkg/sub/ext.so": (tmp_path / "ext.so").read_bytes()}
    wheel = make_wheel(tmp_path, "pkg", "1.0", tag=f"cp311-cp311-linux_{os.uname().machine}", files=files)
    report = api.bundle(wheel, out=tmp_path / "out", library_path=[str(kindling)])
    with zipfile.ZipFile(report.out or "") as archive:
        archive.extractall(tmp_path / "site")
    shown = _run(["patchelf", "--print-rpath", str(tmp_path / "site/pkg/sub/ext.so")]).stdout.strip()
    assert shown == "$ORIGIN/../../pkg.libs"
    loaded = _run(
        [sys.executable, "-c", f"import ctypes; print(ctypes.CDLL({str(tmp_path / 'site/pkg/sub/ext.so')!r}).ext())"]
    )
    assert loaded.stdout.strip() == "7", loaded.stderr


@needs.tool("nvcc")
def test_trimmed_code_is_what_nvidias_tool_lists(tmp_path: Path) -> None:
    tool = shutil.which("cuobjdump") or next((str(p) for p in Path("/usr/local").glob("cuda*/bin/cuobjdump")), None)
    (tmp_path / "k.cu").write_text(
        "__global__ void k(float *x) { x[threadIdx.x] *= 2; }\nvoid f(float *x) { k<<<1, 32>>>(x); }\n"
    )
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in (75, 80, 90)] + [
        "-gencode=arch=compute_90,code=compute_90"
    ]
    library = tmp_path / "libk.so"
    made = _run(["nvcc", "-shared", "-Xcompiler", "-fPIC", *codes, "-o", str(library), str(tmp_path / "k.cu")])
    if made.returncode:
        pytest.skip(f"this nvcc cannot build it: {made.stderr.strip().splitlines()[-1][:120]}")
    outcome = trim(library, [Sm(8, 6)], library.name)
    assert "sm_75" in outcome.archs and "sm_90" in outcome.archs and outcome.bytes > 0
    report = api.inspect(str(library))
    assert all(set(lib.sass) <= {"sm_80", "sm_86"} and not lib.ptx for lib in report.gpu.libraries)
    loaded = _run([sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(library)!r})"])
    assert loaded.returncode == 0, "the library still loads and registers its code: " + loaded.stderr
    if tool is None:
        pytest.skip("trimmed and read back by us; no cuobjdump here for the second opinion")
    listed = _run([tool, "-all", "-lelf", str(library)]).stdout
    assert "sm_80" in listed and "sm_75" not in listed and "sm_90" not in listed
