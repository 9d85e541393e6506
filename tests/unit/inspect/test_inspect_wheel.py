"""The whole verb on small made-up wheels: architectures per library, origin of kernels, links."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from binaries import make_elf, make_entry, make_fatbin, make_pe, make_wheel
from rekindle import api
from rekindle.cli.main import main
from rekindle.model.wheel import WheelFinding


def entries(*archs: int) -> list[bytes]:
    return [make_entry(2, arch) for arch in archs]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    cuda = make_elf(
        {".nv_fatbin": make_fatbin(entries(37, 50, 60), entries(37, 50, 60), entries(35, 50, 60), entries(50))},
        needed=["libcudart.so.11.0", "libtorch_cpu.so", "libc.so.6"],
        versions={"libc.so.6": ["GLIBC_2.27"]},
    )
    files = {
        "torch/lib/libtorch_cuda.so": cuda,
        "torch/lib/libtorch_cpu.so": make_elf(needed=["libc.so.6"], versions={"libc.so.6": ["GLIBC_2.14"]}),
        "torch/lib/libtorch_python.so": make_elf({".rodata": b"\0sm_37 sm_50 sm_60\0sm_90\0"}),
        "torch/version.py": b"__version__ = '1.13.1+cu117'\ncuda: Optional[str] = '11.7'\nhip = None\n",
    }
    path = tmp_path / "torch-1.13.1-cp311-cp311-linux_x86_64.whl"
    path.write_bytes(make_wheel(files, name="torch", version="1.13.1"))
    return path


def test_own_kernels_are_told_from_static_libraries(wheel: Path) -> None:
    report = api.inspect(str(wheel))
    assert report.gpu.declared == ("sm_37", "sm_50", "sm_60")
    assert report.gpu.kernels.sass == ("sm_37", "sm_50", "sm_60")
    assert report.gpu.static_libraries.sass == ("sm_35", "sm_50", "sm_60")
    [library] = report.gpu.libraries
    assert library.sass == ("sm_35", "sm_37", "sm_50", "sm_60")
    assert {one.archs: (one.count, one.origin) for one in library.sets} == {
        ("sm_37", "sm_50", "sm_60"): (2, "own"),
        ("sm_35", "sm_50", "sm_60"): (1, "static"),
        ("sm_50",): (1, "specialised"),
    }


def test_links(wheel: Path) -> None:
    links = api.inspect(str(wheel)).links
    assert links.bundled == ("libtorch_cpu.so",)
    assert links.external == ("libc.so.6", "libcudart.so.11.0")
    assert links.glibc == "2.27"


def test_local_version_comes_from_version_py(wheel: Path) -> None:
    report = api.inspect(str(wheel), quick=True)
    assert (report.version, report.cuda) == ("1.13.1+cu117", "11.7")
    assert report.gpu.declared == ("sm_37", "sm_50", "sm_60")


def test_json_is_one_document(wheel: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["inspect", str(wheel), "--json"]) == 0
    document = json.loads(capfdbinary.readouterr().out)
    assert document["schema"] == 1
    assert document["gpu"]["libraries"][0]["file"] == "torch/lib/libtorch_cuda.so"


def test_text(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(wheel)]) == 0
    out = capsys.readouterr().out
    assert "libtorch_cuda.so" in out
    assert "sm_37" in out


def test_a_windows_library(tmp_path: Path) -> None:
    path = tmp_path / "curand64_10.dll"
    path.write_bytes(make_pe({".nv_fatb": make_fatbin(entries(35, 90))}, imports=["KERNEL32.dll"]))
    report = api.inspect(str(path))
    assert report.kind == "library"
    assert report.gpu.libraries[0].sass == ("sm_35", "sm_90")
    assert report.links.needed == ("KERNEL32.dll",)


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", b"\x7fELF", b"MZ", b"PK\x03\x04nothing"])
def test_bad_input_is_exit_2_and_one_line(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "torch.whl"
    path.write_bytes(content)
    assert main(["inspect", str(path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_one_damaged_library_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "w.whl"
    good = make_elf({".nv_fatbin": make_fatbin(entries(70))})
    path.write_bytes(make_wheel({"a/bad.so": b"\x7fELF\x02\x01" + b"\xff" * 100, "a/good.so": good}))
    report = api.inspect(str(path))
    assert [library.file for library in report.gpu.libraries] == ["a/good.so"]
    assert [finding.code for finding in report.findings] == ["unreadable-library"]


def test_an_installed_package(tmp_path: Path) -> None:
    """What pip would have unpacked, found by its name."""
    from rekindle.inspect.survey import inspect_source
    from rekindle.inspect.targets import open_target
    from rekindle.model.progress import Silent

    (tmp_path / "demo" / "lib").mkdir(parents=True)
    (tmp_path / "demo-1.5.dist-info").mkdir()
    (tmp_path / "other").mkdir()
    library = make_elf({".nv_fatbin": make_fatbin(entries(70))})
    (tmp_path / "demo" / "lib" / "k.so").write_bytes(library)
    (tmp_path / "other" / "k.so").write_bytes(library)
    (tmp_path / "demo-1.5.dist-info" / "METADATA").write_text("Name: demo\nVersion: 1.5\n")

    def unasked() -> Any:
        raise AssertionError("no index is asked")

    with open_target("demo", places=unasked, installed=lambda name, _: tmp_path, progress=Silent()) as source:
        report = inspect_source(source, progress=Silent())
    assert (report.kind, report.name, report.version) == ("installed", "demo", "1.5")
    assert [one.file for one in report.gpu.libraries] == ["demo/lib/k.so"]


def test_a_vendors_library_brought_along_is_not_the_wheels_own(tmp_path: Path) -> None:
    vendor = make_elf({".nv_fatbin": make_fatbin(*[entries(75, 80, 121)] * 5)})
    own = make_elf({".nv_fatbin": make_fatbin(entries(80, 90))})
    path = tmp_path / "tv.whl"
    path.write_bytes(make_wheel({"torchvision.libs/libnvjpeg.36e11081.so.13": vendor, "torchvision/_C.so": own}))
    report = api.inspect(str(path))
    assert report.gpu.kernels.sass == ("sm_80", "sm_90")
    assert report.gpu.static_libraries.sass == ("sm_75", "sm_80", "sm_121")
    alone = tmp_path / "alone.whl"
    alone.write_bytes(make_wheel({"nvidia/libnvjpeg.so.13": vendor}))
    assert api.inspect(str(alone)).gpu.kernels.sass == ("sm_75", "sm_80", "sm_121")


def test_a_name_that_is_not_installed_says_what_was_read(tmp_path: Path) -> None:
    """Someone who means the torch of an environment must not take the index's newest for it."""
    from rekindle.inspect.published import Places
    from rekindle.inspect.targets import open_target
    from rekindle.model.progress import Silent

    (tmp_path / "demo-1.5-py3-none-any.whl").write_bytes(make_wheel({"demo/a.py": b""}, version="1.5"))
    places = Places(links=(str(tmp_path),))
    said: list[WheelFinding] = []
    lines: list[str] = []

    class Listening(Silent):
        def note(self, text: str) -> None:
            lines.append(text)

    asked = {"places": lambda: places, "installed": lambda name, _: None, "progress": Listening(), "tell": said.append}
    with open_target("demo", **asked) as source:  # type: ignore[arg-type]
        assert source.label.endswith("demo-1.5-py3-none-any.whl")
    assert [finding.code for finding in said] == ["read-from-index"]
    assert "not installed" in said[0].text
    assert "demo-1.5-py3-none-any.whl" in said[0].text
    assert "rekindle inspect demo --python" in said[0].text
    assert said[0].text in lines
    said.clear()
    with open_target("demo==1.5", **asked):  # type: ignore[arg-type]
        assert said == []


def test_an_active_environment_is_asked_before_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rekindle.inspect.targets import usual_pythons

    python = tmp_path / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    python.parent.mkdir()
    python.write_text("")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    assert usual_pythons()[0] == str(python)
    assert sys.executable in usual_pythons()
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))
    assert usual_pythons()[0] == sys.executable
