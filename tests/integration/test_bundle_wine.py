"""Fat Windows wheels for real: DLLs by mingw-w64, loaded by a Windows Python under wine; delvewheel for comparison.

The extension modules speak Python's C interface through declarations of their own: there are no headers for Windows.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

import needs
from rekindle import api
from rekindle.bundle.trim import trim
from rekindle.formats.binary import open_binary
from rekindle.formats.fatbin import SECTIONS, read_containers
from rekindle.formats.pe import Pe
from rekindle.model.arch import Sm
from tiny_wheels import make_wheel
from under_wine import CACHE, MARKS, PYTHON, run_python, windows

pytestmark = [*MARKS, needs.tool("x86_64-w64-mingw32-gcc", "lld-link-15")]
BIN = Path(sys.executable).parent
MODULE = r"""
typedef struct { long long count; void *type; } Object;
typedef struct { const char *name; Object *(*work)(Object *, Object *); int flags; const char *doc; } Method;
typedef struct { Object base; void *init; long long index; void *copy; const char *name, *doc; long long size;
                 Method *methods; void *slots, *traverse, *clear, *free; } Definition;
__declspec(dllimport) Object *PyModule_Create2(Definition *, int);
__declspec(dllimport) Object *PyLong_FromLong(long);
int ask(void);
static Object *answer(Object *self, Object *none) { return PyLong_FromLong(ask()); }
static Method methods[] = {{"answer", answer, 4, 0}, {0, 0, 0, 0}};
static Definition definition = {{1, 0}, 0, 0, 0, "NAME", 0, -1, methods, 0, 0, 0, 0};
__declspec(dllexport) Object *PyInit_NAME(void) { return PyModule_Create2(&definition, 1013); }
"""


def _run(*arguments: str, cwd: Path) -> None:
    done = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _gcc(*arguments: str, cwd: Path) -> None:
    _run("x86_64-w64-mingw32-gcc", "-O1", *arguments, cwd=cwd)


def _dlls(folder: Path, value: int) -> Path:
    """middle.dll asks base.dll at once and late.dll at its first call; base.dll's symbols lie behind its image. GNU's
    linker does not list delayed imports in the header, so LLVM's makes that one."""
    folder.mkdir()
    lib = Path("/usr/x86_64-w64-mingw32/lib")
    link = ("lld-link-15", "/lldmingw", "/dll", "/noentry")
    (folder / "base.c").write_text(f"__declspec(dllexport) int base(void) {{ return {value}; }}\n")
    (folder / "late.c").write_text("__declspec(dllexport) int late(void) { return 1000; }\n")
    (folder / "middle.c").write_text(
        "int base(void); int late(void);\n__declspec(dllexport) int ask(void) { return base() + late(); }\n"
    )
    _gcc("-g", "-shared", "-o", "base.dll", "base.c", "-Wl,--out-implib,libbase.a", cwd=folder)
    _gcc("-c", "late.c", "middle.c", cwd=folder)
    _run(*link, "/out:late.dll", "/implib:late.lib", "late.o", cwd=folder)
    libraries = [str(lib / f"lib{name}.a") for name in ("delayimp", "kernel32", "msvcrt", "mingwex", "mingw32")]
    _run(*link, "/alternatename:__image_base__=__ImageBase", "/delayload:late.dll", "/out:middle.dll",
         "middle.o", "libbase.a", "late.lib", *libraries, cwd=folder)  # fmt: skip
    return folder


def _module(folder: Path, name: str, library: str = "middle.dll", function: str = "ask") -> bytes:
    (folder / f"{name}.c").write_text(MODULE.replace("NAME", name).replace("ask", function))
    python = str(PYTHON.with_name("python311.dll"))
    _gcc("-shared", "-o", f"{name}.pyd", f"{name}.c", library, python, cwd=folder)
    return (folder / f"{name}.pyd").read_bytes()


def _wheel(folder: Path, dlls: Path, package: str) -> Path:
    files = {
        f"{package}/__init__.py": b'"""Doc."""\r\nfrom . import ext\r\n',
        f"{package}/ext.cp311-win_amd64.pyd": _module(dlls, "ext"),
    }
    return make_wheel(folder, package, "1.0", tag="cp311-cp311-win_amd64", files=files)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fat")


def _unpack(wheel: str | Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


PROGRAM = """
import importlib, json, sys
out = {}
for name in sys.argv[2:]:
    folder, module = name.split("=")
    sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module)
        out[name] = getattr(found, "ext", found).answer()
    except ImportError as error:
        out[name] = "cannot"
    sys.path.remove(folder)
print(json.dumps(list(out.values())), file=open(sys.argv[1], "w"))
"""


def _answers(folder: Path, *modules: tuple[Path, str]) -> list[object]:
    (folder / "ask.py").write_text(PROGRAM)
    names = [f"{windows(place)}={name}" for place, name in modules]
    code, text = run_python(windows(folder / "ask.py"), windows(folder / "answers.json"), *names, limit=120)
    assert code == 0, text
    found: list[object] = json.loads((folder / "answers.json").read_text())
    return found


def test_two_fat_wheels_live_in_one_process(world: Path) -> None:
    """Each with a base.dll of its own: under one name the second would get the first's. The thin one is the control."""
    one, two = _dlls(world / "dlls one", 42), _dlls(world / "dlls two", 7)
    thin = _wheel(world, one, "first")
    fat = api.bundle(thin, out=world / "out", library_path=[str(one)])
    other = api.bundle(_wheel(world, two, "second"), out=world / "out", library_path=[str(two)])
    solo = make_wheel(
        world,
        "solo",
        "1.0",
        tag="cp311-cp311-win_amd64",
        files={"solo.cp311-win_amd64.pyd": _module(two, "solo", "base.dll", "base")},
    )
    alone = api.bundle(solo, out=world / "out", library_path=[str(two)])
    assert {Path(b.file).parent.as_posix() for b in alone.brought} == {"."}, "no package: beside the module"
    found = _answers(
        world,
        (_unpack(thin, world / "thin"), "first"),
        (_unpack(str(fat.out), world / "site ü"), "first"),
        (_unpack(str(other.out), world / "site ü"), "second"),
        (_unpack(str(alone.out), world / "alone"), "solo"),
    )
    assert found == ["cannot", 1042, 1007, 7]


def test_delvewheel_brings_the_same_and_finds_nothing_missing(world: Path, tmp_path: Path) -> None:
    dlls = _dlls(tmp_path / "dlls", 3)
    thin = _wheel(tmp_path, dlls, "third")
    ours = api.bundle(thin, out=tmp_path / "out", library_path=[str(dlls)])
    repair = ("repair", "--strip", "--add-path", str(dlls), "-w", str(tmp_path / "theirs"), str(thin))
    _run(str(BIN / "delvewheel"), *repair, cwd=tmp_path)
    theirs = next((tmp_path / "theirs").iterdir())
    assert _bare(theirs) == _bare(Path(str(ours.out)))
    shown = subprocess.run(
        [str(BIN / "delvewheel"), "show", "--ignore-existing", "--analyze-existing", str(ours.out)],
        capture_output=True, text=True,
    )  # fmt: skip
    copied = shown.stdout.partition("will be copied into the wheel.")[2].split("\n\n")[0]
    assert shown.returncode == 0 and copied.strip() == "None", shown.stdout + shown.stderr
    for brought in ours.brought:
        path = _unpack(str(ours.out), tmp_path / "read") / brought.file
        listed = subprocess.run([str(BIN / "delvewheel"), "needed", str(path)], capture_output=True, text=True)
        pe = Pe(path.read_bytes(), path.name)
        assert set(listed.stdout.lower().split()) == {name.lower() for name in (*pe.needed, *pe.delayed)}


def _bare(wheel: Path) -> set[str]:
    """The DLLs of a wheel without the hashes in their names."""
    with zipfile.ZipFile(wheel) as archive:
        return {re.sub(r"-[0-9a-f]{16,}", "", name) for name in archive.namelist() if name.endswith(".dll")}


def test_what_stays_outside_is_on_delvewheels_list_of_windows_own() -> None:
    from delvewheel import _dll_list  # type: ignore[import-untyped]

    from rekindle.bundle.rules import load_rules

    lists = (value for value in vars(_dll_list).values() if isinstance(value, dict))
    known = {
        name for found in lists for names in found.values() if isinstance(names, (set, frozenset)) for name in names
    }
    ours = next(row.names for row in load_rules().leave if row.system == "windows" and row.why == "part of Windows")
    plain = {name for name in ours if "*" not in name}
    assert len(plain) > 150 and plain <= known


CUDA = CACHE / "cuda" / "nvidia" / "cu13"


@pytest.mark.skipif(not (CUDA / "bin" / "cuobjdump").exists(), reason="needs bash .ci/prepare/inspect.sh")
def test_device_code_goes_out_of_a_dll_as_out_of_a_linux_library(tmp_path: Path) -> None:
    """The device code of a library NVIDIA publishes for Linux, put into a DLL: both lose the same, byte for byte, and
    NVIDIA's tool lists what is left (it reads no DLLs, so it gets the containers one by one)."""
    linux = tmp_path / "libnvjpeg.so"
    linux.write_bytes((CUDA / "lib" / "libnvjpeg.so.13").read_bytes())
    section = tmp_path / "code.bin"
    section.write_bytes(b"".join(_containers(linux)))
    (tmp_path / "code.s").write_text('.section .nv_fatb,"dr"\n.balign 8\n.incbin "code.bin"\n')
    _gcc("-shared", "-nostdlib", "-Wl,--entry,0", "-o", "code.dll", "code.s", cwd=tmp_path)
    files = {"pkg/__init__.py": b"", "pkg/code.dll": (tmp_path / "code.dll").read_bytes()}
    wheel = make_wheel(tmp_path, "pkg", "1.0", tag="cp311-cp311-win_amd64", files=files)
    report = api.bundle(wheel, out=tmp_path / "out", archs=["8.6"])
    trimmed = _unpack(str(report.out), tmp_path / "read") / "pkg" / "code.dll"
    assert trim(linux, [Sm(8, 6)], linux.name).archs == report.trimmed[0].archs
    left = _containers(trimmed)
    assert left == _containers(linux) and len(left) > 5
    [library] = api.inspect(str(trimmed), cpu=False).gpu.libraries
    listed: list[str] = []
    for number, container in enumerate(left):
        file = tmp_path / f"{number}.fatbin"
        file.write_bytes(container)
        said = subprocess.run([CUDA / "bin" / "cuobjdump", "-all", "-lelf", file], capture_output=True, text=True)
        listed += re.findall(r"\.(sm_\d+[af]?)\.cubin$", said.stdout, re.MULTILINE)
    assert {use.arch: use.entries for use in library.uses} == dict(Counter(listed))
    assert set(listed) <= {"sm_80", "sm_86"} and report.bytes_after and report.bytes_after < report.bytes_before / 2


def _containers(path: Path) -> list[bytes]:
    data = path.read_bytes()
    binary = open_binary(data, path.name)
    assert binary is not None
    spans = (binary.content(s) for s in binary.sections if s.name in SECTIONS)  # type: ignore[arg-type]
    return [data[c.offset : c.offset + c.size] for span in spans for c in read_containers(data, *span)]
