"""Links and promises: where libraries come from, what the tag claims, whether RECORD is right; two wheels compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binaries import make_elf, make_entry, make_fatbin, make_pe, make_wheel
from rekindle import api
from rekindle.cli.main import main
from rekindle.inspect.gpu import find_data_files
from rekindle.inspect.packages import find_provider, promised_glibc


def write(folder: Path, file: str, files: dict[str, bytes], **more: str) -> str:
    path = folder / file
    path.write_bytes(make_wheel(files, **more))
    return str(path)


def test_where_libraries_come_from() -> None:
    requires = ["nvidia-cublas-cu12==12.4.5.8 ; platform_system == 'Linux'", "nvidia-cudnn-cu12==9.1.0.70"]
    assert find_provider("libcublasLt.so.12", requires) == ("nvidia-cublas-cu12", False)
    assert find_provider("libcudnn.so.9", requires) == ("nvidia-cudnn-cu12", False)
    assert find_provider("libcuda.so.1", [])[1] is True
    assert find_provider("KERNEL32.dll", []) == ("Windows", True)
    assert find_provider("libnever.so.3", []) == (None, False)


@pytest.mark.parametrize(
    ("tag", "glibc"),
    [
        ("manylinux1_x86_64", "2.5"),
        ("manylinux_2_28_aarch64", "2.28"),
        ("manylinux2014_x86_64.manylinux_2_17_x86_64", "2.17"),
        ("linux_x86_64", None),
    ],
)
def test_what_a_tag_promises(tag: str, glibc: str | None) -> None:
    assert promised_glibc(tag) == glibc


def test_a_broken_manylinux_promise_is_found(tmp_path: Path) -> None:
    library = make_elf(needed=["libc.so.6"], versions={"libc.so.6": ["GLIBC_2.28"]})
    report = api.inspect(write(tmp_path, "demo-1.0-cp311-cp311-manylinux1_x86_64.whl", {"demo/a.so": library}))
    assert [finding.code for finding in report.findings] == ["manylinux-claim"]
    assert report.links.manylinux_fact == "manylinux_2_28_x86_64"


def test_a_missing_dll_is_found(tmp_path: Path) -> None:
    library = make_pe({}, imports=["KERNEL32.dll", "libomp140.x86_64.dll", "fbgemm.dll"])
    files = {"torch/lib/torch_cpu.dll": library, "torch/lib/FBGEMM.dll": make_pe({})}
    report = api.inspect(write(tmp_path, "torch-2.4.0-cp311-cp311-win_amd64.whl", files, version="2.4.0"))
    assert report.links.bundled == ("fbgemm.dll",)
    assert "missing-dll" in {finding.code for finding in report.findings}


def test_record_is_checked(tmp_path: Path) -> None:
    data = make_wheel({"demo/a.py": b"x = 1\n", "demo/b.py": b"y = 2\n"})
    wrong = tmp_path / "demo-1.0-py3-none-any.whl"
    import io
    import zipfile

    source, out = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for item in source.infolist():
            if item.filename != "demo/b.py":
                target.writestr(item.filename, source.read(item) if item.filename != "demo/a.py" else b"x = 666\n")
        target.writestr("demo/extra.py", b"")
    wrong.write_bytes(out.getvalue())
    codes = {finding.code for finding in api.inspect(str(wrong)).findings}
    assert codes == {"record-wrong", "record-missing", "record-unlisted"}
    good = tmp_path / "good-1.0-py3-none-any.whl"
    good.write_bytes(data)
    assert api.inspect(str(good)).findings == ()


def test_rocm_data_files() -> None:
    names = [
        "torch/lib/rocblas/library/TensileLibrary_Type_HH_gfx90a.co",
        "torch/lib/rocblas/library/Kernels.so-000-gfx1030.hsaco",
        "torch/lib/hipblaslt/library/TensileLibrary_gfx942.dat",
        "torch/share/miopen/db/gfx906_60.HIP.fdb.txt",
        "torch/lib/other_gfx803.txt",
    ]
    found = {data.library: data.gfx for data in find_data_files(names)}
    assert found == {"rocBLAS": ("gfx90a", "gfx1030"), "hipBLASLt": ("gfx942",), "MIOpen": ("gfx906",)}


def test_two_wheels_compared(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    paths = []
    for version, archs in (("1.0", (50, 60)), ("2.0", (60, 90))):
        library = make_elf({".nv_fatbin": make_fatbin([make_entry(2, arch) for arch in archs])})
        paths.append(
            write(tmp_path, f"demo-{version}-cp311-cp311-linux_x86_64.whl", {"demo/k.so": library}, version=version)
        )
    assert main(["inspect", "--diff", *paths, "--json"]) == 0
    rows = {row["what"]: row for row in json.loads(capfdbinary.readouterr().out)["differences"]}
    assert (rows["own kernels"]["gone"], rows["own kernels"]["come"]) == (["sm_50"], ["sm_90"])
    assert rows["version"]["after"] == "2.0"


def test_html_stands_alone_and_escapes(tmp_path: Path) -> None:
    library = make_elf({".nv_fatbin": make_fatbin([make_entry(2, 86)])}, needed=["lib<script>.so"])
    path = write(tmp_path, "demo-1.0-cp311-cp311-linux_x86_64.whl", {"demo/k.so": library})
    page = tmp_path / "out.html"
    assert main(["inspect", path, "--gpu", "sm_86", "--html", str(page)]) == 0
    text = page.read_text("utf-8")
    assert "<script" not in text
    assert "http" not in text.split("</style>")[0]
    assert "k.so" in text


def test_a_verdict_of_no_is_exit_1(tmp_path: Path) -> None:
    library = make_elf({".nv_fatbin": make_fatbin([make_entry(2, 86)])})
    path = write(tmp_path, "demo-1.0-cp311-cp311-linux_x86_64.whl", {"demo/k.so": library})
    assert main(["inspect", path, "--gpu", "sm_35"]) == 1
    assert main(["inspect", path, "--for", "sm_86"]) == 0
    assert main(["inspect", path, "--for", "nonsense-machine"]) == 2
