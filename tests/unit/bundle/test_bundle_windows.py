"""Windows wheels made fat: where DLLs go, which names they get, who tells Windows where to look."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from binaries import make_pe
from rekindle.bundle.dlls import MARK
from rekindle.bundle.fat import BundleOrder, make_fat
from rekindle.bundle.rules import load_rules
from rekindle.formats.pe import DELAY_IMPORT, Pe
from rekindle.model.arch import Sm
from rekindle.model.build import BundleReport
from rekindle.model.progress import Silent
from tiny_wheels import make_wheel

EXT = "cp311-win_amd64.pyd"


def _bundle(folder: Path, files: Mapping[str, bytes], dlls: Mapping[str, bytes], **more: object) -> BundleReport:
    bin = folder / "bin"
    bin.mkdir(exist_ok=True)
    for name, data in dlls.items():
        (bin / name).write_bytes(data)
    wheel = make_wheel(folder, "pkg", "1.0", tag="cp311-cp311-win_amd64", files=dict(files))
    order = BundleOrder(
        wheel=wheel, out=folder / "out", places=(bin,), rules=load_rules(), set_path=_no_patchelf,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip
    return make_fat(order, Silent())


def _no_patchelf(library: Path, path: str) -> None:
    raise AssertionError("patchelf is for Linux")


def _read(report: BundleReport) -> dict[str, bytes]:
    with zipfile.ZipFile(report.out or "") as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def _one(files: Mapping[str, bytes], pattern: str) -> str:
    found = [name for name in files if re.fullmatch(pattern, name)]
    assert len(found) == 1, (pattern, sorted(files))
    return found[0]


def test_a_dll_gets_a_name_of_its_own_and_all_who_ask_for_it_know(tmp_path: Path) -> None:
    files = _read(
        report := _bundle(
            tmp_path,
            {"pkg/__init__.py": b"x = 1\n", f"pkg/sub/ext.{EXT}": make_pe(imports=["One.dll", "python311.dll"])},
            {"one.dll": make_pe(imports=["TWO.dll"]), "two.dll": make_pe(imports=["KERNEL32.dll", "one.dll"])},
        )
    )
    one, two = _one(files, r"pkg\.libs/One-[0-9a-f]{16}\.dll"), _one(files, r"pkg\.libs/TWO-[0-9a-f]{16}\.dll")
    names = one.split("/")[1], two.split("/")[1]
    assert Pe(files[f"pkg/sub/ext.{EXT}"]).needed == (names[0], "python311.dll")
    assert Pe(files[one]).needed == (names[1],)
    assert Pe(files[two]).needed == ("KERNEL32.dll", names[0]), "a circle"
    assert set(report.patched) == {"pkg/__init__.py", f"pkg/sub/ext.{EXT}"}
    order = files["pkg.libs/.load-order-pkg-1.0"].decode().splitlines()
    assert [row.split("\t")[0] for row in order] == [names[1], names[0]], "what others need comes first"
    assert {left.name for left in report.left} == {"python311.dll", "KERNEL32.dll"}


def test_another_content_is_another_name(tmp_path: Path) -> None:
    """Of the DLL, of what it needs, or by device code taken out: two wheels in one process must not share it."""

    def name(folder: str, two: bytes, **more: object) -> str:
        (tmp_path / folder).mkdir()
        dlls = {"one.dll": make_pe(imports=["two.dll"]), "two.dll": make_pe({".data": two})}
        ext = {"pkg/__init__.py": b"", f"pkg/ext.{EXT}": make_pe(imports=["one.dll"])}
        return _one(_read(_bundle(tmp_path / folder, ext, dlls, **more)), r"pkg\.libs/one-.*")

    first = name("a", b"x")
    assert first == name("b", b"x"), "the same again"
    assert first != name("c", b"y"), "what it needs changed"
    assert first != name("d", b"x", archs=(Sm(8, 6),)), "device code was taken out"


def test_names_that_programs_ask_for_stay(tmp_path: Path) -> None:
    """Of what is opened while running, and of CUDA's libraries, which torch's companions ask for, too."""
    files = _read(
        _bundle(
            tmp_path,
            {
                "pkg/__init__.py": b"",
                "pkg/lib/torch_cuda.dll": make_pe(
                    imports=[
                        "cudnn64_8.dll",
                        "c10.dll",
                        "MSVCP140.dll",
                        "uv.dll",
                        "nvcuda.dll",
                        "WINSPOOL.DRV",
                        "cublasLt64_12.dll",
                        "bäse.dll",
                    ]
                ),
                "pkg/lib/c10.dll": make_pe(imports=["KERNEL32.dll", "api-ms-win-crt-heap-l1-1-0.dll"]),
                f"pkg/_C.{EXT}": make_pe(imports=["torch_cuda.dll", "python311.dll"]),
            },
            {
                "CUDART64_110.dll": make_pe(imports=["KERNEL32.dll"]),
                "cudnn64_8.dll": make_pe(imports=["cudart64_110.dll"]),
                "cudnn_ops_infer64_8.dll": make_pe(imports=["kernel32.dll"]),
                "msvcp140.dll": make_pe(imports=["vcruntime140.dll"]),
                "uv.dll": make_pe(imports=["WS2_32.dll"]),
                "cublasLt64_12.dll": make_pe(imports=["KERNEL32.dll"]),
                "bäse.dll": make_pe(imports=["KERNEL32.dll"]),
            },
        )
    )
    brought = {name.split("/")[1] for name in files if name.startswith("pkg.libs/")}
    hashed = {re.sub(r"-[0-9a-f]{16}", "-#", name) for name in brought}
    assert hashed == {
        "cudnn64_8.dll", "cudnn_ops_infer64_8.dll", "cudart64_110.dll", "MSVCP140-#.dll", "uv-#.dll",
        ".load-order-pkg-1.0", "cublasLt64_12.dll", "bäse.dll",
    }  # fmt: skip
    assert "c10.dll" in Pe(files["pkg/lib/torch_cuda.dll"]).needed, "the wheel's own DLLs are left as they are"
    order = files["pkg.libs/.load-order-pkg-1.0"].decode()
    assert "cudnn_ops_infer64_8.dll\tnow\n" in order, "opened by name: that search does not know the folder"
    assert "cudnn64_8.dll\t\n" in order


def test_exports_that_are_handed_on_keep_their_goal(tmp_path: Path) -> None:
    files = _read(
        _bundle(
            tmp_path,
            {"pkg/__init__.py": b"", f"pkg/ext.{EXT}": make_pe(imports=["front.dll"])},
            {"front.dll": _forwarding("back.work"), "back.dll": make_pe(imports=["KERNEL32.dll"])},
        )
    )
    assert "pkg.libs/back.dll" in files
    assert Pe(files[_one(files, r"pkg\.libs/front-.*")]).forwards == ("back",)


def _forwarding(target: str) -> bytes:
    """A DLL whose only export is ``work``, handed on to ``target``."""
    at = 0x2000  # the second section: make_pe numbers them
    text = target.encode() + b"\0work\0"
    head = b"\0" * 12 + b"".join(value.to_bytes(4, "little") for value in (0, 1, 1, 1, at + 40, at + 44, at + 48))
    tables = (at + 50).to_bytes(4, "little") + (at + 50 + len(target) + 1).to_bytes(4, "little") + b"\0\0"
    edata = head + tables + text
    return make_pe({".edata": edata}, imports=["KERNEL32.dll"], more={0: (at, len(edata))})


@pytest.mark.parametrize(
    ("files", "folders"),
    [
        ({f"ext.{EXT}": b""}, {""}),
        ({f"space/ext.{EXT}": b""}, {"space"}),
        ({f"space/pkg/ext.{EXT}": b"", "space/pkg/__init__.py": b""}, {"pkg.libs"}),
        ({f"pkg/ext.{EXT}": b"", "pkg/__init__.py": b"def ("}, {"pkg"}),
        ({f"pkg/ext.{EXT}": b"", "pkg/__init__.py": b"", f"other.{EXT}": b""}, {"pkg.libs", ""}),
        ({f"pkg-1.0.data/platlib/pkg/ext.{EXT}": b"", "pkg-1.0.data/platlib/pkg/__init__.py": b""}, {"pkg.libs"}),
    ],
)  # fmt: skip
def test_where_no_package_can_be_told_dlls_lie_beside_the_module(
    tmp_path: Path, files: dict[str, bytes], folders: set[str]
) -> None:
    ext = make_pe(imports=["one.dll"])
    made = {name: ext if name.endswith(".pyd") else data for name, data in files.items()}
    inside = _read(_bundle(tmp_path, made, {"one.dll": make_pe(imports=["KERNEL32.dll"])}))
    dlls = {name for name in inside if name.endswith(".dll")}
    assert {name.rpartition("/")[0] for name in dlls} == folders
    starts = [name for name in inside if name.endswith("__init__.py") and MARK.encode() in inside[name]]
    assert len(starts) == ("pkg.libs" in folders)
    for name in starts:
        way = "os.pardir, 'pkg.libs'" if "space" not in name else "os.pardir, os.pardir, 'pkg.libs'"
        assert f"(__file__), {way})" in inside[name].decode()


def test_a_dry_run_names_the_same_files(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": b"", f"pkg/ext.{EXT}": make_pe(imports=["one.dll"])}
    dlls = {"one.dll": make_pe(imports=["KERNEL32.dll"])}
    planned = _bundle(tmp_path, files, dlls, dry_run=True)
    assert planned.out is None
    assert [b.file for b in planned.brought] == [b.file for b in _bundle(tmp_path, files, dlls).brought]


def test_a_wheel_that_needs_nothing_is_not_touched(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": b"x = 1\n", f"pkg/ext.{EXT}": make_pe(imports=["KERNEL32.dll"])}
    report = _bundle(tmp_path, files, {})
    inside = _read(report)
    assert not report.patched and all(inside[name] == data for name, data in files.items())
    assert not [name for name in inside if ".libs" in name]


@pytest.mark.parametrize("package", [True, False])
def test_what_is_loaded_at_first_use_is_loaded_early_or_told(tmp_path: Path, package: bool) -> None:
    """That search knows neither the folder nor the module's own."""
    table = struct.pack("<8I", 1, 0x2000 + 64, 0, 0, 0, 0, 0, 0) + bytes(32) + b"late.dll\0"
    ext = make_pe({".didat": table}, imports=["KERNEL32.dll"], more={DELAY_IMPORT: (0x2000, 64)})
    files = {"pkg/__init__.py": b"", f"pkg/ext.{EXT}": ext} if package else {f"ext.{EXT}": ext}
    report = _bundle(tmp_path, files, {"late.dll": make_pe(imports=["KERNEL32.dll"])})
    inside = _read(report)
    name = _one(inside, r".*late-[0-9a-f]{16}\.dll").rpartition("/")[2]
    assert Pe(inside[f"pkg/ext.{EXT}" if package else f"ext.{EXT}"]).delayed == (name,)
    if package:
        assert inside["pkg.libs/.load-order-pkg-1.0"] == f"{name}\tnow\n".encode() and not report.notes
    else:
        assert len(report.notes) == 1 and name in report.notes[0]


@pytest.mark.parametrize(
    "name", ["cusolverMg64_11.dll", "cusolvermg64_11.dll", "CUSOLVERMG64_11.DLL", "NVJITLINK_120_0.dll"]
)
def test_case_does_not_count_in_dll_names(name: str) -> None:
    assert load_rules().asked_by_name(name)
    assert not load_rules().asked_by_name("my" + name)


def test_the_load_order_names_only_what_lies_in_its_folder(tmp_path: Path) -> None:
    """A module outside any package has its DLLs beside itself: Windows looks there, and nothing loads them early."""
    files = {
        "pkg/__init__.py": b"",
        f"pkg/ext.{EXT}": make_pe(imports=["one.dll", "both.dll"]),
        f"other.{EXT}": make_pe(imports=["two.dll", "both.dll"]),
    }
    kernel = make_pe(imports=["KERNEL32.dll"])
    report = _bundle(tmp_path, files, {"one.dll": kernel, "two.dll": make_pe({".x": b"2"}), "both.dll": kernel})
    inside = _read(report)
    order = inside["pkg.libs/.load-order-pkg-1.0"].decode().splitlines()
    assert sorted(re.sub(r"-[0-9a-f]{16}", "", row) for row in order) == ["both.dll\t", "one.dll\t"]
    places = sorted(re.sub(r"-[0-9a-f]{16}", "", name) for name in inside if name.endswith(".dll"))
    assert places == ["both.dll", "pkg.libs/both.dll", "pkg.libs/one.dll", "two.dll"]
    rows = sorted((re.sub(r"-[0-9a-f]{16}", "", row.file), row.bytes) for row in report.brought)
    assert [name for name, _ in rows] == places, "each place is told"


def test_the_outermost_package_of_a_module_looks_for_its_dlls(tmp_path: Path) -> None:
    """Its __init__.py runs before any other: once for all the modules in it; a namespace folder above has none."""
    ext = make_pe(imports=["one.dll"])
    starts = ["top/pkg/__init__.py", "top/pkg/sub/__init__.py", "top/pkg/other/__init__.py"]
    files = {name: f"# {name}\n".encode() for name in starts}
    files |= {f"top/pkg/sub/ext.{EXT}": ext, f"top/pkg/other/ext.{EXT}": ext}
    report = _bundle(tmp_path, files, {"one.dll": make_pe(imports=["KERNEL32.dll"])})
    inside = _read(report)
    assert [name for name in starts if MARK.encode() in inside[name]] == ["top/pkg/__init__.py"]
    assert inside[starts[0]].count(MARK.encode()) == 1
    assert [row.file.rpartition("/")[0] for row in report.brought] == ["pkg.libs"]


def test_a_file_that_only_ends_like_a_package_starts_nothing(tmp_path: Path) -> None:
    files = {f"pkg/ext.{EXT}": make_pe(imports=["one.dll"]), "pkg/my__init__.py": b"", "pkg/__init__.pyi": b""}
    inside = _read(_bundle(tmp_path, files, {"one.dll": make_pe(imports=["KERNEL32.dll"])}))
    assert _one(inside, r"pkg/one-[0-9a-f]{16}\.dll") and not [name for name in inside if "load-order" in name]


def test_a_package_without_need_is_left_as_it_is(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": b"",
        f"pkg/ext.{EXT}": make_pe(imports=["one.dll"]),
        "plain/__init__.py": b"y = 1\n",
        f"plain/ext.{EXT}": make_pe(imports=["KERNEL32.dll"]),
    }
    report = _bundle(tmp_path, files, {"one.dll": make_pe(imports=["KERNEL32.dll"])})
    assert _read(report)["plain/__init__.py"] == b"y = 1\n"
    assert report.patched == ("pkg/__init__.py", f"pkg/ext.{EXT}") and report.system == "windows"


def test_what_a_needed_dll_needs_lies_with_it(tmp_path: Path) -> None:
    """Through others, also through DLLs of the wheel, and what is opened by name."""
    files = {
        f"ext.{EXT}": make_pe(imports=["own.dll"]),
        "own.dll": make_pe(imports=["cudnn64_9.dll"]),
        f"deep/alone.{EXT}": make_pe(imports=["KERNEL32.dll"]),
    }
    kernel = make_pe(imports=["KERNEL32.dll"])
    dlls = {"cudnn64_9.dll": make_pe(imports=["cudart64_12.dll"]), "cudart64_12.dll": kernel,
            "cudnn_ops64_9.dll": kernel}  # fmt: skip
    report = _bundle(tmp_path, files, dlls)
    assert {row.file for row in report.brought} == set(dlls)
    assert len(report.notes) == 1 and report.notes[0].startswith("cudnn_ops64_9.dll: asked for by name")


def test_dlls_are_loaded_after_all_that_they_need(tmp_path: Path) -> None:
    """However deep, and whatever is asked for first."""
    kernel = make_pe(imports=["KERNEL32.dll"])
    files = {"pkg/__init__.py": b"", f"pkg/ext.{EXT}": make_pe(imports=["one.dll", "four.dll"])}
    dlls = {"one.dll": make_pe(imports=["two.dll", "four.dll"]), "two.dll": make_pe(imports=["three.dll"]),
            "three.dll": make_pe(imports=["four.dll"]), "four.dll": kernel}  # fmt: skip
    order = _read(_bundle(tmp_path, files, dlls))["pkg.libs/.load-order-pkg-1.0"].decode()
    assert re.findall(r"^[a-z]+", order, re.MULTILINE) == ["four", "three", "two", "one"]


@pytest.mark.parametrize(
    ("folder", "way"),
    [
        ("pkg", ["..", "pkg.libs"]),
        ("pkg-1.0.data/platlib/pkg", ["..", "pkg.libs"]),
        ("pkg-1.0.data/purelib/space/pkg", ["..", "..", "pkg.libs"]),
        ("platlib/pkg", ["..", "..", "pkg.libs"]),
        ("space/purelib/pkg", ["..", "..", "..", "pkg.libs"]),
    ],
)
def test_the_way_leads_from_where_a_package_is_installed(tmp_path: Path, folder: str, way: list[str]) -> None:
    files = {f"{folder}/__init__.py": b"", f"{folder}/ext.{EXT}": make_pe(imports=["one.dll"])}
    inside = _read(_bundle(tmp_path, files, {"one.dll": make_pe(imports=["KERNEL32.dll"])}))
    steps = ", ".join("os.pardir" if part == ".." else repr(part) for part in way)
    assert f"(__file__), {steps})" in inside[f"{folder}/__init__.py"].decode()


def test_progress_never_says_more_than_all(tmp_path: Path) -> None:
    """Also where each DLL lies in two places."""
    told: list[tuple[float, float]] = []

    class Listening(Silent):
        def step(self, done: float, total: float | None, detail: str = "") -> None:
            told.append((done, total or 0))

    ext = make_pe(imports=["one.dll", "two.dll", "six.dll"])
    files = {"pkg/__init__.py": b"", f"pkg/ext.{EXT}": ext, f"other.{EXT}": ext}
    for name in ("one.dll", "two.dll", "six.dll"):
        (tmp_path / name).write_bytes(make_pe(imports=["KERNEL32.dll"]))
    wheel = make_wheel(tmp_path, "pkg", "1.0", tag="cp311-cp311-win_amd64", files=files)
    order = BundleOrder(
        wheel=wheel, out=tmp_path / "out", places=(tmp_path,), rules=load_rules(), set_path=_no_patchelf
    )
    assert len(make_fat(order, Listening()).brought) == 6
    assert all(done < total for done, total in told)
