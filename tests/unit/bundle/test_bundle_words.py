"""What a fat wheel says of itself: METADATA, the licences beside the libraries, the bill of materials."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from rekindle.bundle.rules import (
    bill_of_materials,
    licence_files,
    load_rules,
    required_packages,
    without_vendor_packages,
)
from rekindle.model.build import Brought

MIB = 1 << 20


@pytest.mark.parametrize(
    "asks",
    ["nvidia-cublas-cu12", "NVIDIA_cudnn_cu11 (==8.5)", "cuda-toolkit==12", "cuda-bindings", "rocm", "rocm-sdk-core"],
)
def test_a_vendors_package_is_no_longer_asked_for(asks: str) -> None:
    text = f"Name: x\r\nRequires-Dist: {asks}\r\nRequires-Dist: numpy\r\n"
    assert without_vendor_packages(text, ["libcublas.so.12"]) == "Name: x\r\nRequires-Dist: numpy\r\n"


@pytest.mark.parametrize("asks", ["nvidiary", "cuda-toolkits", "cuda-python", "rocmer", "torch ; extra == 'nvidia-x'"])
def test_others_are_asked_for_as_before(asks: str) -> None:
    text = f"Name: x\nRequires-Dist: {asks}\n\nRequires-Dist: nvidia-in-the-description\n"
    assert without_vendor_packages(text, ["libcublas.so.12"]) == text


@pytest.mark.parametrize(
    "name",
    ["libcudart.so.12", "libnvrtc.so.12", "libnccl.so.2", "librocblas.so.4", "libhipblas.so.2", "cudart64_12.dll"],
)
def test_any_of_a_vendors_libraries_makes_its_packages_superfluous(name: str) -> None:
    text = "Name: x\nRequires-Dist: nvidia-nccl-cu12\n"
    assert without_vendor_packages(text, ["libgomp.so.1", name]) == "Name: x\n"
    assert without_vendor_packages(text, ["libgomp.so.1", f"my-{name}"]) == text


def test_required_are_only_packages_that_always_come_with_the_wheel() -> None:
    told = [
        "Name: x",
        "Requires-Dist: Typing_Extensions>=4",
        "Requires-Dist: torch==2.6.0 ; python_version >= '3.9'",
        "Requires-Dist: pillow ; extra == 'image'",
        "Requires-Dist: (no name",
        "Provides-Dist: scipy",
    ]
    assert required_packages("\n".join(told).encode()) == {"typing-extensions", "torch"}


def _licences(folder: Path, **sizes: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in sizes.items():
        with (folder / name.replace("__", ".")).open("wb") as file:
            file.truncate(size)
    return folder


def test_licences_lie_beside_the_libraries_or_one_folder_up(tmp_path: Path) -> None:
    lib = _licences(tmp_path / "kit" / "lib", LICENSE=10, EULA__txt=10, README=10, libx__so__1=10)
    _licences(tmp_path / "kit", COPYING=10, NOTICE__md=10)
    _licences(tmp_path, LICENCE=10)
    (lib / "LICENSES").mkdir()
    found = licence_files([lib / "libx.so.1", lib / "liby.so.1"])
    assert found == {
        "lib-LICENSE": lib / "LICENSE",
        "lib-EULA.txt": lib / "EULA.txt",
        "kit-COPYING": lib.parent / "COPYING",
        "kit-NOTICE.md": lib.parent / "NOTICE.md",
    }


def test_a_licence_is_at_most_one_mebibyte(tmp_path: Path) -> None:
    lib = _licences(tmp_path / "lib", LICENSE=MIB, EULA=MIB + 1)
    assert list(licence_files([lib / "libx.so"])) == ["lib-LICENSE"]


def test_a_name_that_two_folders_have_is_taken_once(tmp_path: Path) -> None:
    first, second = _licences(tmp_path / "a/lib", LICENSE=1), _licences(tmp_path / "b/lib", LICENSE=2)
    assert licence_files([first / "x.so", second / "y.so"]) == {"lib-LICENSE": first / "LICENSE"}


@pytest.mark.parametrize(("folder", "looked_into"), [("/usr/lib/x", 0), ("/lib", 0), ("/usr/local/lib", 2)])
def test_licences_in_a_folder_of_the_system_are_others(
    folder: str, looked_into: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[Path, None] = {}

    def glob(self: Path, pattern: str) -> list[Path]:
        seen[self] = None
        return []

    monkeypatch.setattr(Path, "resolve", lambda self: self)
    monkeypatch.setattr(Path, "glob", glob)
    assert licence_files([Path(folder) / "libx.so"]) == {} and len(seen) == looked_into


def test_the_bill_names_each_library_with_its_digest_and_terms(tmp_path: Path) -> None:
    (tmp_path / "libcudart.so.12").write_bytes(b"cudart")
    (tmp_path / "libown.so.1").write_bytes(b"own")
    rows = [
        (Brought(file=f"torch/lib/{name}", origin=str(tmp_path / name), bytes=3, why=why), tmp_path / name)
        for name, why in (("libcudart.so.12", "needed by a.so"), ("libown.so.1", "needed by b.so"))
    ]
    bill = json.loads(bill_of_materials("torch-2.whl", rows, load_rules()))
    assert bill["metadata"]["component"] == {"type": "library", "name": "torch-2.whl"}
    told = [(row["name"], row["hashes"][0]["content"], row["licenses"][0]["license"]) for row in bill["components"]]
    licence = load_rules().licence_of("libcudart.so.12")
    assert licence is not None and told == [
        ("libcudart.so.12", hashlib.sha256(b"cudart").hexdigest(), {"name": licence.name}),
        ("libown.so.1", hashlib.sha256(b"own").hexdigest(), {"name": "unknown"}),
    ]
    assert bill["components"][1]["properties"] == [
        {"name": "rekindle:in-wheel", "value": "torch/lib/libown.so.1"},
        {"name": "rekindle:why", "value": "needed by b.so"},
    ]


@pytest.mark.parametrize("name", ["libcurl.so.4", "libcups.so.2", "libcurl-x64.dll", "curl.dll", "libcunit.so.1"])
def test_names_that_only_begin_like_a_vendors_are_others(name: str) -> None:
    """libcurl is not NVIDIA's: not under its terms, and no reason to do without its packages."""
    text = "Name: x\nRequires-Dist: nvidia-nccl-cu12\n"
    assert load_rules().licence_of(name) is None and without_vendor_packages(text, [name]) == text


@pytest.mark.parametrize(
    "name",
    [
        "libcudart.so.12", "libcudnn_ops.so.9", "libcublasLt.so.12", "libcufft.so.11", "libcufile.so.0",
        "libcurand.so.10",
        "libcusolverMg.so.11", "libcusparseLt.so.0", "libcupti.so.12", "libcutensor.so.2", "libcudss.so.0",
        "libcuinj64.so.12.4", "libnvrtc-builtins.so.12.4", "libnvshmem_host.so.3", "libnccl.so.2",
        "CUDART64_110.dll", "cublasLt64_12.dll", "curand64_10.dll", "nvJitLink_120_0.dll",
    ],
)  # fmt: skip
def test_a_vendors_own_are_its_own(name: str) -> None:
    licence = load_rules().licence_of(name)
    assert licence is not None and licence.spdx == "LicenseRef-NVIDIA"
    assert "nvidia" not in without_vendor_packages("Requires-Dist: nvidia-nccl-cu12\n", [name])
