"""The whole reading of small targets: what is read, in which order, what is said meanwhile and what of faults."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from binaries import make_elf, make_pe, make_wheel
from rekindle.errors import BadInput
from rekindle.formats.binary import open_binary
from rekindle.inspect.libraries import newest, read_library
from rekindle.inspect.reader import DirectorySource, FileSource, WheelSource, open_local
from rekindle.inspect.survey import _tell_step, inspect_source
from rekindle.model.wheel import WheelReport

LIST = make_elf({".rodata": b"\0sm_70 sm_80 sm_90\0"})


class Heard:
    def __init__(self) -> None:
        self.stages: list[tuple[str, str]] = []
        self.steps: list[tuple[float, float | None, str]] = []
        self.notes: list[str] = []

    def stage(self, name: str, detail: str = "") -> None:
        self.stages.append((name, detail))

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        self.steps.append((done, total, detail))

    def note(self, text: str) -> None:
        self.notes.append(text)


def folder(place: Path, **files: bytes) -> DirectorySource:
    for name, data in files.items():
        path = place / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return DirectorySource(place)


def read(source: DirectorySource | FileSource | WheelSource, **more: bool) -> tuple[WheelReport, Heard]:
    heard = Heard()
    return inspect_source(source, cpu=False, progress=heard, **more), heard


def wheel(data: bytes, name: str = "demo-1.0-cp311-cp311-linux_x86_64.whl", **more: object) -> WheelSource:
    return WheelSource(lambda: io.BytesIO(data), name, len(data), **more)  # type: ignore[arg-type]


def test_large_files_first_and_the_answer_by_name(tmp_path: Path) -> None:
    small, large = make_elf(soname="b.so"), make_elf({".rodata": bytes(5000)}, soname="a.so")
    source = folder(tmp_path, z_DOT_so=large, a_DOT_so=small, readme_DOT_txt=b"hello")
    report, heard = read(source)
    assert [one.file for one in report.links.libraries] == ["a.so", "z.so"]
    total = len(small) + len(large)
    assert heard.steps == [(len(large), total, "z.so"), (total, total, "a.so")]
    assert heard.stages == [("reading", "2 native files, 0 MB")]
    assert (report.kind, report.quick, report.bytes, report.read_bytes) == ("directory", False, total + 5, None)


def test_nothing_native_in_it(tmp_path: Path) -> None:
    report, heard = read(folder(tmp_path, a_DOT_py=b"x = 1", bin__tool=b""))
    assert heard.steps == [(0, None, "bin/tool")]
    assert report.links.libraries == ()
    assert report.findings == ()


def test_what_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    broken = b"\x7fELF" + bytes(3)
    report, _ = read(folder(tmp_path, broken_DOT_so=broken, a_DOT_so=make_elf(), script_DOT_so=b"INPUT(x)"))
    assert [(one.code, one.severity) for one in report.findings] == [("unreadable-library", "error")]
    assert [one.file for one in report.links.libraries] == ["a.so"]
    (tmp_path / "broken.so").write_bytes(broken)
    with pytest.raises(BadInput, match="broken"):
        read(FileSource(tmp_path / "broken.so"))
    (tmp_path / "text").write_bytes(b"hello")
    with pytest.raises(BadInput, match="neither a wheel nor a native library"):
        read(FileSource(tmp_path / "text"))


def test_one_file_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "odd.name").write_bytes(make_elf(soname="x"))
    report, _ = read(FileSource(tmp_path / "odd.name"))
    assert (report.kind, [one.soname for one in report.links.libraries]) == ("library", ["x"])


def test_the_list_of_architectures(tmp_path: Path) -> None:
    version = b"__version__ = '2.0'\ncuda = '12.4'\n"
    source = folder(tmp_path, torch__lib__libtorch_python_DOT_so=LIST, torch__version_DOT_py=version)
    for quick in (True, False):
        report, heard = read(source, quick=quick)
        assert report.gpu.declared == ("sm_70", "sm_80", "sm_90")
        assert (report.quick, bool(heard.stages)) == (quick, not quick)
    # A library whose name only ends alike is not looked at.
    other = folder(tmp_path / "o", torch__lib__mytorch_python_DOT_so=LIST, torch__version_DOT_py=version)
    assert [read(other, quick=quick)[0].gpu.declared for quick in (True, False)] == [(), ()]
    # A build for no card has no list worth looking for.
    (tmp_path / "torch" / "version.py").write_bytes(b"__version__ = '2.0'\ncuda = None\n")
    assert read(DirectorySource(tmp_path), quick=True)[0].gpu.declared == ()
    (tmp_path / "torch" / "version.py").write_bytes(b"__version__ = '2.0'\nhip = '6.2'\n")
    assert read(DirectorySource(tmp_path), quick=True)[0].gpu.declared == ("sm_70", "sm_80", "sm_90")


def test_a_quick_reading_of_a_wheel(tmp_path: Path) -> None:
    version = b"__version__ = '2.0'\ncuda = '12.4'\n"
    data = make_wheel({"torch/lib/torch_python.dll": LIST, "torch/version.py": version}, name="torch", version="2.0")
    report, heard = read(wheel(data), quick=True)
    assert (report.gpu.declared, report.kind, heard.stages) == (("sm_70", "sm_80", "sm_90"), "wheel", [])
    assert (report.name, report.cuda, report.links.libraries) == ("torch", "12.4", ())


def test_the_record_of_a_wheel_on_disk() -> None:
    data = make_wheel({"demo/a.so": make_elf(), "demo/b.py": b"1"})
    report, heard = read(wheel(data))
    assert heard.stages == [("reading", "1 native files, 0 MB"), ("checking", "RECORD")]
    assert (report.findings, report.read_bytes) == ((), None)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, b"2" if name.endswith("b.py") else old.read(name))
    assert [one.code for one in read(wheel(out.getvalue()))[0].findings] == ["record-wrong"]
    # What comes by ranges is not fetched only to be summed.
    report, heard = read(wheel(out.getvalue(), fetched=lambda: 77))
    assert (report.findings, report.read_bytes, len(heard.stages)) == ((), 77, 1)


def test_an_installed_package(tmp_path: Path) -> None:
    folder(tmp_path, one__a_DOT_so=make_elf(), two__b_DOT_so=make_elf())
    report, _ = read(DirectorySource(tmp_path, "one", ["one"]))
    assert (report.kind, report.target, [one.file for one in report.links.libraries]) == (
        "installed", "one", ["one/a.so"],
    )  # fmt: skip


@pytest.mark.parametrize(("total", "told"), [(8 << 20, False), ((8 << 20) + 1, True)])
def test_the_audit_of_a_large_library_says_how_far_it_is(total: int, told: bool) -> None:
    heard = Heard()
    _tell_step(heard, "a.so", 5, total)
    assert heard.steps == ([(5, total, "auditing a.so")] if told else [])


@pytest.mark.parametrize(("cpu", "audited"), [(True, True), (False, False)])
def test_the_audit_is_left_out_where_nobody_asked(tmp_path: Path, cpu: bool, audited: bool) -> None:
    source = folder(tmp_path, a_DOT_so=make_elf({".text": b"\xc3"}))
    assert (inspect_source(source, cpu=cpu, progress=Heard()).cpu.runs_from is not None) is audited


def test_one_library() -> None:
    def nothing(done: int, total: int) -> None:
        raise AssertionError

    versions = {
        "libc.so.6": ["GLIBC_2.9", "GLIBC_2.17", "GLIBC_2.2.5", "GLIBC_PRIVATE"],
        "libstdc++.so.6": ["CXXABI_1.3"],
    }
    data = make_elf(needed=["libc.so.6"], soname="liba.so.1", rpath="$ORIGIN:/opt", versions=versions)
    found = read_library(data, "x/a.so", cpu=False, step=nothing)
    assert found is not None
    assert (found.file, found.base, found.format, found.machine) == ("x/a.so", "a.so", "elf", "x86_64")
    assert (found.needed, found.soname, found.rpath) == (("libc.so.6",), "liba.so.1", ("$ORIGIN", "/opt"))
    assert found.floors == {"GLIBC": "2.17", "CXXABI": "1.3"}
    assert (found.cpu, found.cxx_abi) == (None, None)
    windows = read_library(make_pe(imports=["a.dll"]), "a.dll", cpu=False, step=nothing)
    assert windows is not None
    assert (windows.format, windows.machine, windows.needed, windows.floors) == ("pe", "x86_64", ("a.dll",), {})
    assert read_library(b"#!/bin/sh\n", "a.sh", cpu=False, step=nothing) is None
    assert open_binary(b"", "a") is None


@pytest.mark.parametrize(
    ("names", "abi"),
    [
        ([], None),
        (["_ZNSt7__cxx1112basic_stringC1Ev"], "cxx11"),
        (["_ZNSsC1Ev"], "pre-cxx11"),
        (["_ZNKSs4sizeEv"], "pre-cxx11"),
        (["_Z1fRKSs"], "pre-cxx11"),
        # As many of each: a library that takes the old ones needs the old library.
        (["_ZNSsC1Ev", "_ZNSt7__cxx1112basic_stringC1Ev"], "pre-cxx11"),
        (["_ZNSsC1Ev", "aSt7__cxx1112basic_string", "bSt7__cxx1112basic_string"], "cxx11"),
    ],
)
def test_how_text_is_spelled_in_the_symbols(names: list[str], abi: str | None) -> None:
    found = read_library(make_elf(needed=names), "a.so", cpu=False, step=lambda done, total: None)
    assert found is not None
    assert found.cxx_abi == abi


def test_the_highest_version() -> None:
    assert newest(["2.9", "2.17", "2.2.5"]) == "2.17"
    assert newest(["3.4", "3.4.1"]) == "3.4.1"


def test_a_member_of_a_wheel_as_a_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_wheel({"demo/a.so": b"12345", "demo/empty": b""})
    source = wheel(data, fetched=None)
    with source.mapped("demo/a.so") as buffer, source.mapped("demo/empty") as nothing:
        assert (bytes(buffer[:]), nothing) == (b"12345", b"")
    assert sorted(source.digests) == ["demo/a.so", "demo/empty"]
    assert source.read("demo/a.so", 5) == b"12345"
    assert source.read("demo/none", 9) is None
    assert list(source.heads(["demo/a.so"], 2)) == [("demo/a.so", b"12")]
    assert "demo/" not in source.files
    stored = source.deflated("demo/a.so")
    assert stored is not None
    get, size, begins = stored
    assert get(0, size) == data[begins : begins + size]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a", b"plain")
    assert wheel(out.getvalue()).deflated("a") is None
    monkeypatch.setattr("tempfile.TemporaryFile", _full)
    with (
        pytest.raises(BadInput, match=r"demo/a\.so cannot be unpacked to .*: No space left"),
        source.mapped("demo/a.so"),
    ):
        pass


def _full(**_: object) -> None:
    raise OSError(28, "No space left on device")


def test_what_a_file_is_is_told_by_its_bytes(tmp_path: Path) -> None:
    for name, data, kind in (
        ("a.whl", make_elf(), FileSource),
        ("b.txt", make_pe(), FileSource),
        ("c.so", make_wheel({"x": b"1"}), WheelSource),
    ):
        (tmp_path / name).write_bytes(data)
        source = open_local(tmp_path / name)
        assert isinstance(source, kind)
        assert source.size == len(data)
    (tmp_path / "d").write_bytes(b"MX\x7fELF")
    with pytest.raises(BadInput):
        open_local(tmp_path / "d")
    gone = DirectorySource(tmp_path)
    (tmp_path / "a.whl").unlink()
    assert gone.read("a.whl", 9) is None
    with pytest.raises(BadInput, match="cannot read"), gone.mapped("a.whl"):
        pass
    with pytest.raises(BadInput, match="cannot read"):
        FileSource(tmp_path / "a.whl")
