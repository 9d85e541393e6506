"""A companion's build leaves out in silence what it does not find: asked at the start, just inside and just outside."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest
from msgspec.structs import replace

import needs
from bare_host import BareHost
from rekindle.build.companion import plan_for, toolkit_for_cmake, with_settings
from rekindle.errors import BadInput, NotReady
from rekindle.model.build import Fact
from rekindle.model.machine import Check
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.readiness.case import PlannedBuild
from rekindle.readiness.register import check_build, refuse_unready
from rekindle.readiness.supplies import check_companion

FILES = (
    "/usr/include/png.h", "/usr/lib/libpng.so", "/usr/include/jpeglib.h", "/usr/lib/x86_64-linux-gnu/libjpeg.so",
    "/usr/include/webp/decode.h", "/usr/lib/libwebp.so", "/usr/include/x86_64-linux-gnu/libavcodec/avcodec.h",
    "/usr/include/x86_64-linux-gnu/libavformat/avformat.h", "/usr/include/x86_64-linux-gnu/libswscale/swscale.h",
    "/usr/include/x86_64-linux-gnu/libswresample/swresample.h",
)  # fmt: skip
PROGRAMS = ("apt-get", "libpng-config", "ffmpeg")


class Machine(BareHost):
    def __init__(self, files: tuple[str, ...] = FILES, programs: tuple[str, ...] = PROGRAMS) -> None:
        super().__init__(env={"HOME": "/root"})
        self.files, self.programs = files, programs

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.programs else None

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(name for name in self.files if fnmatch(name, pattern))


def companion(project: str, torch: str, version: str, **settings: str) -> Plan:
    made = Plan(answer="build", torch=torch, build=BuildRecipe(source="x"))
    return with_settings(plan_for(made, SourceTree(project=project, version=version, root="/t")), settings)


def vision(torch: str = "2.6.0", version: str = "0.21.0", **settings: str) -> Plan:
    return companion("torchvision", torch, version, **settings)


def found(host: Machine, plan: Plan) -> dict[str, Check]:
    return {check.id: check for check in check_companion(host, plan)}


def test_all_there() -> None:
    checks = found(Machine(), vision())
    assert {check.status for check in checks.values()} == {"ok"}
    assert checks["libraries-there"].found == "libpng, libjpeg, libwebp, FFmpeg"


def test_what_the_toolkit_alone_has_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel with it opened no pictures on a machine without a toolkit, and nobody had said that it would."""
    monkeypatch.setattr("rekindle.readiness.supplies.cuda_home", lambda host, settings, wanted: "/usr")
    torch = Plan(answer="build", torch="2.6.0", cuda="12.4", arch_list=("5.0",), build=BuildRecipe(source="x"))
    plan = plan_for(torch, SourceTree(project="torchvision", version="0.21.0", root="/t"))
    there = Machine((*FILES, "/usr/include/nvjpeg.h"))
    told = found(there, plan)["nvjpeg"]
    assert told.status == "warn" and "rekindle bundle" in (told.fix or "") and "USE_NVJPEG=0" in (told.fix or "")
    assert "nvjpeg" not in found(there, with_settings(plan, {"TORCHVISION_USE_NVJPEG": "0"}))
    assert "nvjpeg" not in found(Machine(), plan), "a toolkit without it"
    assert "nvjpeg" not in found(there, vision()), "no CUDA, no nvJPEG"


@pytest.mark.parametrize(
    ("gone", "words", "package", "switch"),
    [
        ("png.h", "libpng (<png.h>)", "libpng-dev", "TORCHVISION_USE_PNG"),
        ("libpng.so", "libpng (libpng)", "libpng-dev", "TORCHVISION_USE_PNG"),
        ("libpng-config", "libpng (libpng-config)", "libpng-dev", "TORCHVISION_USE_PNG"),
        ("jpeglib.h", "libjpeg (<jpeglib.h>)", "libjpeg-dev", "TORCHVISION_USE_JPEG"),
    ],
)
def test_what_everybody_expects_stops_the_build_before_it_starts(
    gone: str, words: str, package: str, switch: str
) -> None:
    host = Machine(
        tuple(name for name in FILES if not name.endswith(gone)), tuple(name for name in PROGRAMS if name != gone)
    )
    check = found(host, vision())["libraries"]
    assert check.status == "fail" and words in (check.found or "") and "built without" not in (check.found or "")
    line, _, otherwise = (check.fix or "").partition("   # ")
    assert line == f"apt-get install -y --no-install-recommends {package}", "a line to paste, with a remark"
    assert otherwise.endswith(f"--set {switch}=0")
    assert "libraries" not in found(host, vision(**{switch: "0"})), "the way it names does lead on"
    assert "libraries" not in found(host, vision(**{switch: "OFF"}))


def test_what_few_use_is_told() -> None:
    host = Machine(tuple(name for name in FILES if "webp" not in name), ("apt-get", "libpng-config"))
    checks = found(host, vision())
    assert "libraries" not in checks
    left_out = checks["libraries-left-out"]
    assert left_out.status == "warn" and "libwebp" in (left_out.found or "") and "FFmpeg" in (left_out.found or "")
    assert (left_out.found or "").endswith("; built without") and checks["libraries-there"].found == "libpng, libjpeg"
    assert "libwebp-dev ffmpeg" in (left_out.fix or "") and "--set" not in (left_out.fix or "")
    older = found(host, vision("1.13.1", "0.14.1"))["libraries-left-out"]
    assert "libwebp" not in (older.found or ""), "0.14.1 knows no WebP"


def test_places_that_were_named_count() -> None:
    """torchvision's own words for where headers and libraries lie."""
    host = Machine(("/opt/jpeg/include/jpeglib.h", "/opt/jpeg/lib/libjpeg.so"))
    told = {"TORCHVISION_USE_PNG": "0", "TORCHVISION_USE_WEBP": "0", "TORCHVISION_USE_FFMPEG": "0"}
    assert found(host, vision(**told))["libraries"].status == "fail"
    named = {**told, "TORCHVISION_INCLUDE": "/opt/jpeg/include", "TORCHVISION_LIBRARY": "/opt/jpeg/lib"}
    assert found(host, vision(**named))["libraries-there"].found == "libjpeg"


def test_what_would_be_downloaded_is_told() -> None:
    audio = companion("torchaudio", "2.6.0", "2.6.0")
    assert found(Machine(), audio) == {}, "off unless it is asked for"
    sox = found(Machine(), companion("torchaudio", "2.6.0", "2.6.0", BUILD_SOX="1"))["download-build_sox"]
    assert sox.status == "warn" and "downloaded" in (sox.found or "") and "--set BUILD_SOX=0" in (sox.fix or "")
    assert "download-use_ffmpeg" in found(Machine(), companion("torchaudio", "2.6.0", "2.6.0", USE_FFMPEG="1"))
    here = companion("torchaudio", "2.6.0", "2.6.0", USE_FFMPEG="1", FFMPEG_ROOT="/usr")
    assert found(Machine(), here) == {}, "an FFmpeg of one's own is not downloaded"


def test_it_is_one_of_the_questions_of_every_build(tmp_path: Path) -> None:
    tree = SourceTree(project="torchvision", version="0.21.0", root=str(tmp_path))
    asked = PlannedBuild(plan=vision(), python="3.99", place=tmp_path, tree=tree)
    checks = check_build(Machine(()), asked)
    with pytest.raises(NotReady, match="libpng") as refused:
        refuse_unready(checks)
    assert "apt-get install -y --no-install-recommends libpng-dev libjpeg-dev" in (refused.value.remedy or "")
    other = PlannedBuild(
        plan=Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="x")), python="3.99", place=tmp_path
    )
    assert not [check for check in check_build(Machine(()), other) if check.id.startswith("libraries")]


def test_other_systems_and_plans_without_a_torch_are_asked_nothing() -> None:
    bare, elsewhere = Machine(()), Machine(())
    elsewhere.system = "windows"
    assert "libraries" in found(bare, vision())
    assert found(elsewhere, vision()) == {}
    assert found(bare, replace(vision(), torch=None)) == found(bare, replace(vision(), build=None)) == {}


@needs.posix()
def test_cmake_files_of_a_torch_with_cuda_want_a_toolkit(tmp_path: Path) -> None:
    """torchaudio 2.6.0 beside PyPI's torch 2.6.0: "uses CUDA but I cannot find the CUDA libraries", says configure."""
    audio = companion("torchaudio", "2.6.0", "2.6.0")
    cuda = Fact(name="torch", wanted="2.6.0 (CPU)", found="2.6.0+cu124 (CUDA 12.4)", ok=True)
    assert toolkit_for_cmake(Machine(), audio, cuda, tmp_path) is None, "nothing reads torch's CMake files"
    (tmp_path / "cmake").mkdir()
    (tmp_path / "cmake/TorchAudioHelper.cmake").write_text("find_package(Torch REQUIRED)\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"stop where there is no CUDA toolkit") as refused:
        toolkit_for_cmake(Machine(), audio, cuda, tmp_path)
    line = (refused.value.remedy or "").partition("   # ")[0]
    assert line.endswith(f"rekindle build --source {tmp_path} --against torch==2.6.0+cpu")
    cpu = Fact(name="torch", wanted="2.6.0 (CPU)", found="2.6.0+cpu (CPU)", ok=True)
    assert toolkit_for_cmake(Machine(), audio, cpu, tmp_path) is None
    toolkit = tuple(f"/usr/local/cuda/{name}" for name in ("bin/nvcc", "include/cuda_runtime.h", "lib64/libcudart.so"))
    with pytest.raises(BadInput, match="with its libraries"):
        toolkit_for_cmake(Machine(toolkit), audio, cuda, tmp_path)
    whole = (*toolkit, "/usr/local/cuda/lib64/libcublas.so.12")
    assert toolkit_for_cmake(Machine(whole), audio, cuda, tmp_path) == "/usr/local/cuda"
