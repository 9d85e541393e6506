"""Fat wheels from synthetic libraries: the closure, the places, RECORD, METADATA, and nothing half done."""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binaries import make_elf, make_entry, make_fatbin
from rekindle.bundle.fat import BundleOrder, make_fat, new_path, reaches
from rekindle.bundle.rules import load_rules, required_packages, without_vendor_packages
from rekindle.errors import BadInput, StageFailed
from rekindle.formats.rewrite import Rewriter
from rekindle.index.wheelhouse.reading import read_wheel
from rekindle.model.arch import Sm
from rekindle.model.build import BundleReport
from rekindle.model.progress import Silent
from tiny_wheels import make_wheel

TAG = "cp311-cp311-linux_x86_64"


def _write(folder: Path, **libraries: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in libraries.items():
        (folder / name.replace("__", ".").replace("_D_", "-")).write_bytes(data)
    return folder


def _link(path: Path, target: str) -> None:
    """A link, or a copy where none can be made: wine makes nothing and says it did."""
    with contextlib.suppress(OSError):
        path.symlink_to(target)
    if not path.exists():
        shutil.copyfile(path.with_name(target), path)


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    lib = tmp_path / "cuda" / "lib64"
    lib.mkdir(parents=True)
    (lib / "libcudart.so.11.4.148").write_bytes(make_elf(soname="libcudart.so.11.0", needed=["libc.so.6"]))
    _link(lib / "libcudart.so.11.0", "libcudart.so.11.4.148")
    (lib / "libcudnn.so.8").write_bytes(make_elf(soname="libcudnn.so.8", needed=["libcudart.so.11.0", "libcuda.so.1"]))
    (lib / "libcudnn_ops_infer.so.8").write_bytes(make_elf(soname="libcudnn_ops_infer.so.8", needed=["libm.so.6"]))
    _link(lib / "libcudnn_ops_infer.so", "libcudnn_ops_infer.so.8")
    (lib / "EULA.txt").write_text("terms")
    return lib


def _wheel(folder: Path, **extra: object) -> Path:
    files = {
        "torch/__init__.py": b"",
        "torch/lib/libtorch.so": make_elf(
            needed=["libcudnn.so.8", "libc10.so", "libc.so.6"], rpath="/build/cuda/lib64:$ORIGIN"
        ),
        "torch/lib/libc10.so": make_elf(soname="libc10.so", needed=["libstdc++.so.6"], rpath="$ORIGIN"),
    }
    metadata = "Requires-Dist: nvidia-cudnn-cu11 (==8.5.0)\nRequires-Dist: filelock\n"
    return make_wheel(folder, "torch", "2.0.1", tag=TAG, files=files, metadata=metadata, **extra)  # type: ignore[arg-type]


def _order(
    wheel: Path, out: Path, *places: Path, set_path: Callable[[Path, str], None] | None = None, **more: object
) -> BundleOrder:
    return BundleOrder(
        wheel=wheel, out=out, places=places, rules=load_rules(), set_path=set_path or (lambda library, path: None),
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _check_record(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(archive.read(name).decode())))
        assert {row[0] for row in rows} == set(archive.namelist())
        for file, digest, size in rows:
            if file != name:
                data = archive.read(file)
                assert (
                    digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                )
                assert int(size) == len(data)
        assert archive.testzip() is None
        return set(archive.namelist())


def test_the_closure_goes_in_under_the_names_that_are_asked_for(tmp_path: Path, toolkit: Path) -> None:
    set_paths: list[str] = []
    report = make_fat(
        _order(_wheel(tmp_path), tmp_path / "out", toolkit, set_path=lambda library, path: set_paths.append(path)),
        Silent(),
    )
    assert report.out and Path(report.out).name == "torch-2.0.1-1fat-cp311-cp311-linux_x86_64.whl"
    members = _check_record(Path(report.out))
    for name in ("libcudart.so.11.0", "libcudnn.so.8", "libcudnn_ops_infer.so.8"):
        assert f"torch/lib/{name}" in members
    assert {left.name for left in report.left} == {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libcuda.so.1"}
    why = {Path(b.file).name: b.why for b in report.brought}
    assert why["libcudnn_ops_infer.so.8"] == "needed by libcudnn.so.8 (opened while running)"
    assert report.patched == ("torch/lib/libtorch.so",), "its path led to the build machine first"
    assert set_paths == ["$ORIGIN"] * 4
    read_wheel(Path(report.out))  # the index takes it


def test_what_it_says_about_itself(tmp_path: Path, toolkit: Path) -> None:
    report = make_fat(_order(_wheel(tmp_path), tmp_path / "out", toolkit), Silent())
    with zipfile.ZipFile(report.out or "") as archive:
        metadata = archive.read("torch-2.0.1.dist-info/METADATA").decode()
        assert "nvidia-cudnn" not in metadata and "Requires-Dist: filelock" in metadata
        assert "Build: 1fat" in archive.read("torch-2.0.1.dist-info/WHEEL").decode()
        bill = json.loads(archive.read("torch-2.0.1.dist-info/sboms/rekindle-bundle.cdx.json"))
        assert {c["name"] for c in bill["components"]} == {Path(b.file).name for b in report.brought}
        assert any(n.endswith("licenses/bundled/lib64-EULA.txt") for n in archive.namelist())
    assert all(b.licence and "NVIDIA" in b.licence for b in report.brought)
    assert report.bytes_after and report.biggest


def test_a_missing_library_stops_it_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(StageFailed, match=r"libcudnn\.so\.8"):
        make_fat(_order(_wheel(tmp_path), out), Silent())
    assert not list(out.iterdir())
    report = make_fat(_order(_wheel(tmp_path), out, allow_missing=True), Silent())
    assert [m.name for m in report.missing] == ["libcudnn.so.8"] and report.out


def test_a_dry_run_writes_nothing(tmp_path: Path, toolkit: Path) -> None:
    out = tmp_path / "out"
    report = make_fat(_order(_wheel(tmp_path), out, toolkit, dry_run=True), Silent())
    assert len(report.brought) == 3 and report.out is None and not list(out.iterdir())


def test_a_library_for_another_processor_is_not_taken(tmp_path: Path, toolkit: Path) -> None:
    wrong = _write(tmp_path / "arm", libcudnn__so__8=make_elf(machine=183, soname="libcudnn.so.8"))
    report = make_fat(_order(_wheel(tmp_path), tmp_path / "out", wrong, toolkit), Silent())
    assert all("/arm/" not in b.origin for b in report.brought)


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("at", range(8))
def test_cut_short_anywhere_the_result_is_whole_or_absent(
    tmp_path: Path, toolkit: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    calls = 0
    real = Rewriter.add

    def dying(self: Rewriter, *args: object, **options: object) -> int:
        nonlocal calls
        calls += 1
        if calls > at:
            raise _Killed
        return real(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Rewriter, "add", dying)
    out = tmp_path / "out"
    wheel = _wheel(tmp_path)
    before = wheel.read_bytes()
    try:
        make_fat(_order(wheel, out, toolkit), Silent())
    except _Killed:
        assert not list(out.iterdir())
    assert wheel.read_bytes() == before


def test_rocm_data_comes_along(tmp_path: Path) -> None:
    lib = tmp_path / "rocm" / "lib"
    (lib / "rocblas" / "library").mkdir(parents=True)
    (lib / "librocblas.so.4").write_bytes(make_elf(soname="librocblas.so.4"))
    (lib / "rocblas" / "library" / "TensileLibrary_gfx1030.dat").write_bytes(b"kernels")
    files = {
        "torch/__init__.py": b"",
        "torch/lib/libtorch_hip.so": make_elf(needed=["librocblas.so.4"], rpath="$ORIGIN"),
    }
    wheel = make_wheel(tmp_path, "torch", "2.8.0", tag=TAG, files=files)
    report = make_fat(_order(wheel, tmp_path / "out", lib), Silent())
    assert "torch/lib/rocblas/library/TensileLibrary_gfx1030.dat" in _check_record(Path(report.out or ""))


def test_amd_code_is_left_whole_and_that_is_said_where_trimming_was_asked_for(tmp_path: Path) -> None:
    lib = _write(tmp_path / "rocm", libamdhip64__so__6=make_elf(soname="libamdhip64.so.6"))
    files = {"torch/__init__.py": b"", "torch/lib/libtorch_hip.so": make_elf(needed=["libamdhip64.so.6"])}
    wheel = make_wheel(tmp_path, "torch", "2.8.0", tag=TAG, files=files)
    asked = make_fat(_order(wheel, tmp_path / "a", lib, archs=(Sm(8, 6),)), Silent())
    assert asked.system == "linux" and [note for note in asked.notes if "AMD device code is left whole" in note]
    assert not make_fat(_order(wheel, tmp_path / "b", lib), Silent()).notes


@pytest.mark.parametrize("name", ["../outside.so", "/etc/outside.so", "a\\outside.so", "..", "."])
def test_a_name_that_is_a_path_is_never_looked_for(tmp_path: Path, name: str) -> None:
    lib = _write(tmp_path / "kit" / "lib", a=b"")
    _write(tmp_path / "kit", outside__so=make_elf(soname="outside.so"))
    if os.name == "posix":
        (lib / "a\\outside.so").write_bytes(make_elf(soname="outside.so"))
    files = {"torch/__init__.py": b"", "torch/lib/libtorch.so": make_elf(needed=[name])}
    wheel = make_wheel(tmp_path, "torch", "2.0.1", tag=TAG, files=files)
    with pytest.raises(StageFailed):
        make_fat(_order(wheel, tmp_path / "out", lib), Silent())


def test_archs_make_the_wheel_smaller_and_say_so(tmp_path: Path) -> None:
    code = make_fatbin(
        [make_entry(2, arch, payload=hashlib.sha512(bytes([arch])).digest() * 512) for arch in (50, 86, 90)]
    )
    files = {"torch/__init__.py": b"", "torch/lib/libtorch_cuda.so": make_elf({".nv_fatbin": code})}
    wheel = make_wheel(tmp_path, "torch", "2.8.0", tag=TAG, files=files)
    report = make_fat(_order(wheel, tmp_path / "out", archs=(Sm(8, 6),)), Silent())
    (item,) = report.trimmed
    assert item.archs == ("sm_50", "sm_90") and item.bytes > 60_000
    _check_record(Path(report.out or ""))


def test_paths_inside_a_wheel() -> None:
    assert reaches("torch/lib/a.so", ("$ORIGIN",), "torch/lib")
    assert reaches("torch/_C.so", ("$ORIGIN/lib",), "torch/lib")
    assert not reaches("torch/lib/a.so", ("/usr/local/cuda/lib64", "$ORIGIN"), "torch/lib")
    assert new_path("torch/_C.so", ("/x", "$ORIGIN/lib", "$ORIGIN/other"), "torch/lib") == "$ORIGIN/lib:$ORIGIN/other"
    assert new_path("spark/a.so", (), "spark.libs") == "$ORIGIN/../spark.libs"


def test_requirements_stay_if_nothing_of_theirs_came_in() -> None:
    text = "Name: x\nRequires-Dist: nvidia-cublas-cu12\n\nRequires-Dist: nvidia-in-the-description\n"
    assert without_vendor_packages(text, ["libgomp.so.1"]) == text
    changed = without_vendor_packages(text, ["libcublas.so.12"])
    assert changed == "Name: x\n\nRequires-Dist: nvidia-in-the-description\n"


def test_torchs_own_libraries_stay_with_the_torch_that_is_required() -> None:
    told = (
        "Name: x\r\nRequires-Dist: Torch==1.13.1\r\nRequires-Dist: scipy; extra == 'scipy'\r\nRequires-Dist: (bad\r\n"
    )
    requires = required_packages(f"{told}\r\nRequires-Dist: numpy\r\n".encode())
    assert requires == {"torch"}, "neither an extra nor the description"
    rules = load_rules()
    for name, system in (("libc10.so", "linux"), ("libtorch_cpu.so.2.6", "linux"), ("C10.dll", "windows")):
        assert rules.why_left(name, system, requires) == "comes with the torch that the wheel requires"
        assert rules.why_left(name, system) is None, "a wheel that requires no torch must get it from somewhere"
    assert rules.why_left("libjpeg.so.62", "linux", requires) is None


@pytest.mark.parametrize("name", ["notawheel.whl", "x-1-py3-none-any.zip"])
def test_strange_files_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"PK\x05\x06" + b"\0" * 18)
    with pytest.raises(BadInput):
        make_fat(_order(path, tmp_path / "out"), Silent())


def test_rules_say_where_they_come_from() -> None:
    rules = load_rules()
    rows: tuple[Any, ...] = (*rules.leave, *rules.loaded, *rules.licence)
    assert all(row.source for row in rows)
    assert rules.why_left("libcuda.so.1", "linux") and rules.why_left("libcudart.so.12", "linux") is None
    assert rules.why_left("VCRUNTIME140.dll", "windows") and rules.why_left("MSVCP140.dll", "windows") is None
    assert isinstance(BundleReport(wheel="x", system="linux", bytes_before=1), BundleReport)
