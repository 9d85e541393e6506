"""AMD's libraries: code of a chip of the same kind, sources by clang, bundles written as they were read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from binaries import make_pe
from gpu_libraries import make_code_object, make_gpu_library, write_library
from rekindle import api
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.formats.offload import (
    object_chip,
    read_bundles,
    read_object_face,
    read_objects,
    rename_chip,
    write_bundle,
)
from rekindle.formats.view import Malformed
from rekindle.formats.wheel import check_wheel
from rekindle.graft.hip import HipLibrary, HipSourceWay, TwinWay, judge_chip_files
from rekindle.host.files import sha256_of
from rekindle.model.arch import parse_gfx
from tiny_wheels import make_wheel

GFX1030, GFX1100 = make_code_object(), make_code_object(0x41, "gfx1100", code=b"\x22" * 64)
FORMS = ["plain", "CCOB 2 zstd", "CCOB 2 zlib", "CCOB 3 zstd", "CCOB 3 zlib"]
HOST = "host-x86_64-unknown-linux-gnu-"


def _bundle(form: str = "plain", **chips: bytes) -> bytes:
    return write_bundle(
        {HOST: b""} | {f"hipv4-amdgcn-amd-amdhsa--{name}": image for name, image in chips.items()}, form
    )


def _library(folder: Path, *bundles: bytes) -> HipLibrary:
    return HipLibrary(write_library(folder / "lib.so", make_gpu_library(bundles=bundles)), "pkg/lib.so")


@pytest.mark.parametrize("form", FORMS)
def test_bundles_come_back_as_they_were_written(form: str) -> None:
    data = _bundle(form, gfx1030=GFX1030, gfx1100=GFX1100)
    [bundle] = read_bundles(data, 0, len(data))
    assert bundle.form == form and bundle.size == len(data)
    assert list(read_objects(data, bundle).values()) == [b"", GFX1030, GFX1100]


def test_a_compressed_bundle_that_lies_is_refused() -> None:
    data = bytearray(_bundle("CCOB 3 zstd", gfx1030=GFX1030))
    [bundle] = read_bundles(bytes(data), 0, len(data))
    data[16:24] = (1 << 40).to_bytes(8, "little")
    with pytest.raises(Malformed, match="claims"):
        read_objects(bytes(data), bundle)
    data[16:24] = (len(data) * 2 + 99999).to_bytes(8, "little")
    with pytest.raises(Malformed, match="damaged"):
        read_objects(bytes(data), bundle)


def test_renamed_is_what_the_compiler_makes() -> None:
    assert rename_chip(GFX1030, "gfx1031") == make_code_object(0x37, "gfx1031")
    assert object_chip(GFX1030) == "gfx1030" and object_chip(b"x" * 80) is None
    with pytest.raises(Malformed, match="cannot be named"):
        rename_chip(GFX1030, "gfx90a")  # names of another length would move everything
    with pytest.raises(Malformed, match="0 times"):
        rename_chip(make_code_object(0x36, "gfx1035"), "gfx1031")


def test_what_is_passed_counts_and_what_is_hidden_does_not() -> None:
    face = read_object_face(make_code_object(variables={"table": 16}, cuid="ab12"))
    assert face.kernels["scale"] == ((0, 8), (1, 4)) and face.variables == {"table": 16}
    with pytest.raises(Malformed, match="no metadata"):
        read_object_face(make_code_object().replace(b"\x20\0\0\0AMDGPU", b"\x21\0\0\0AMDGPU"))


@pytest.mark.parametrize("form", FORMS)
def test_a_code_object_more(tmp_path: Path, form: str) -> None:
    bundles = [_bundle(form, gfx1030=GFX1030, gfx1100=GFX1100), _bundle(form, gfx1100=GFX1100)]
    new = rename_chip(GFX1030, "gfx1032")
    with _library(tmp_path, *bundles) as library:
        library.write_with({0: [new]}, tmp_path / "new.so")
    with HipLibrary(tmp_path / "new.so", "new.so") as written:
        assert [unit.chips for unit in written.units] == [("gfx1030", "gfx1100", "gfx1032"), ("gfx1100",)]
        assert written.units[0].bundle.objects[-1].id == "hipv4-amdgcn-amd-amdhsa--gfx1032"
        assert written.code_object(written.units[0], "gfx1032") == new
        assert written.code_object(written.units[0], "gfx1030") == GFX1030
        assert all(unit.bundle.form == form and not unit.address % 4096 for unit in written.units)


def test_amds_code_in_a_windows_library_is_not_written(tmp_path: Path) -> None:
    plain, amd = make_pe({".text": b"x"}), make_pe({".hip_fat": b"x"})
    with HipLibrary(write_library(tmp_path / "a.dll", plain), "a.dll") as library:
        assert library.units == ()
    with (
        HipLibrary(write_library(tmp_path / "b.dll", amd), "b.dll") as library,
        pytest.raises(Malformed, match="not wr"),
    ):
        assert library.units


def test_twins(tmp_path: Path) -> None:
    empty = write_bundle({HOST: b""}, "plain")
    bundles = [_bundle(gfx1030=GFX1030), _bundle(gfx1100=GFX1100), _bundle(gfx1032=rename_chip(GFX1030, "gfx1032"))]
    way = TwinWay(card=parse_gfx("gfx1032"), facts=load_facts())
    with _library(tmp_path, *bundles, empty) as library:
        made, others = way.survey(library)
        assert [(unit.unit.number, unit.origin) for unit in made] == [(0, "gfx1030")]
        assert [row.state for row in others] == ["left-out", "has", "has"]
        assert "none of the same kind as gfx1032; --source DIR" in (others[0].why or "")
        assert way.jobs(tmp_path, 0, library, made) == []
        image = (tmp_path / "cubin/0-0.gfx1032.cubin").read_bytes()
        assert object_chip(image) == "gfx1032" and library.differences(made[0], image) is None
        assert "it is for gfx1030, not gfx1032" in str(library.differences(made[0], GFX1030))
        other = make_code_object(0x38, "gfx1032", {"scale": (8, 8)})
        assert "the parameters of scale" in str(library.differences(made[0], other))


def test_a_fault_of_the_wheels_own_code_is_none_of_the_new_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> NoReturn:
        raise Malformed("the wheel's own is damaged")

    way = TwinWay(card=parse_gfx("gfx1032"), facts=load_facts())
    with _library(tmp_path, _bundle(gfx1030=GFX1030)) as library:
        made, _ = way.survey(library)
        monkeypatch.setattr(HipLibrary, "face", damaged)
        with pytest.raises(Malformed, match="own is damaged"):
            library.differences(made[0], GFX1030)


def test_of_many_chips_the_first_are_named(tmp_path: Path) -> None:
    for count, dots in ((8, False), (9, True)):
        names = [f"gfx90{digit}" for digit in "0123456789"][:count]
        bundle = _bundle("plain", **{name: GFX1100 for name in names})
        with _library(tmp_path, bundle) as library:
            [row] = TwinWay(card=parse_gfx("gfx1010"), facts=load_facts()).survey(library)[1]
        assert " ".join(names[:8]) + (" …," if dots else ",") in (row.why or "")


def test_gfx1012_code_does_not_serve_gfx1010(tmp_path: Path) -> None:
    with _library(tmp_path, _bundle(gfx1012=make_code_object(0x35, "gfx1012"))) as library:
        assert TwinWay(card=parse_gfx("gfx1010"), facts=load_facts()).survey(library)[0] == []
        assert len(TwinWay(card=parse_gfx("gfx1012"), facts=load_facts()).survey(library)[1]) == 1


def test_sources_are_told_by_their_kernels(tmp_path: Path) -> None:
    tree = tmp_path / "src"
    tree.mkdir()
    (tree / "scale.hip").write_text("__global__ void scale(float *a, int n) {}\n")
    (tree / "other.hip").write_text("__global__ void other(float *a) {}\n")
    one = make_code_object(kernels={"_Z5scalePfi": (8, 4)}, cuid="ab12cd34")
    two = make_code_object(kernels={"_Z7unknownv": ()})
    way = HipSourceWay(card=parse_gfx("gfx1103"), tree=tree, clang="hipcc", options=("-DX=1", "-Iinclude"))
    with _library(tmp_path, _bundle(gfx1030=one), _bundle(gfx1030=two)) as library:
        [unit], [other] = way.survey(library)
        assert unit.name == unit.plan == "scale.hip" and "no file of src defines" in (other.why or "")
        [job] = way.jobs(tmp_path, 0, library, [unit])
    words = job.command
    assert words[:3] == ("env", "HIP_PLATFORM=amd", "hipcc")
    assert {"--offload-arch=gfx1103", "-cuid=ab12cd34", "-mcode-object-version=4", "-DX=1", "-Iinclude"} <= set(words)


def test_files_per_chip_are_told_apart() -> None:
    members = ["torch/lib/rocblas/library/Tensile_gfx1030.co", "torch/lib/hipblaslt/library/k_gfx1031.co", "x_gfx1031"]
    rows = judge_chip_files(members, parse_gfx("gfx1031"), load_facts())
    assert [(row.name, row.code) for row in rows] == [("rocBLAS", "none"), ("hipBLASLt", "native")]
    assert "torch.matmul" in rows[0].operators and not rows[1].operators


def _wheel(folder: Path, *bundles: bytes) -> Path:
    library = make_gpu_library(bundles=bundles)
    return make_wheel(folder, "pkg", "1.0", tag="py3-none-linux_x86_64", files={"pkg/lib.so": library})


def test_the_whole_way(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, _bundle("CCOB 3 zstd", gfx1030=GFX1030), _bundle("CCOB 3 zstd", gfx1100=GFX1100))
    report: Any = api.graft(str(wheel), gpu="RX 6700 XT", workspace=tmp_path / "ws", out=tmp_path / "out")
    assert report.way == "twin" and report.count("added") == 1 and report.count("left-out") == 1
    assert report.version == "1.0+gfx1031" and report.arch == "gfx1031"
    assert any(name.endswith("rekindle-graft.json") for name in check_wheel(Path(report.out)).members)
    again = api.graft_apply(wheel, report.graft, out=tmp_path / "again", workspace=tmp_path / "ws")
    assert again.same_bytes and again.sha256 == report.sha256


@pytest.mark.parametrize("offline", [True, False])
def test_a_wheel_by_its_name_comes_from_the_folder_or_the_index_that_is_named(tmp_path: Path, offline: bool) -> None:
    wheel = _wheel(tmp_path / "house", _bundle(gfx1030=GFX1030))
    page = tmp_path / "simple" / "pkg" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{wheel.as_uri()}#sha256={sha256_of(wheel)}">{wheel.name}</a>')
    told: dict[str, Any] = {"python": "3.12", "platform": "linux_x86_64", "workspace": tmp_path / "ws"}
    told |= {"offline": True, "links": [str(wheel.parent)]} if offline else {"index": page.parents[1].as_uri()}
    report: Any = api.graft("pkg==1.0", gpu="gfx1031", **told)
    assert sha256_of(tmp_path / "ws" / "official" / wheel.name) == sha256_of(wheel)
    assert Path(report.out).parent == tmp_path / "ws" / "wheels"
    again = api.graft_apply("pkg==1.0", report.graft, **told)
    assert again.sha256 == report.sha256 and again.out == report.out
    beside = api.graft_apply(wheel, report.graft)
    alone: Any = api.graft(str(wheel), gpu="gfx1031", only_file=True, workspace=tmp_path / "ws")
    assert alone.out is None and Path(alone.graft).name == f"{wheel.stem}.gfx1031.graft"
    assert Path(beside.out or "").parent == Path(alone.graft).parent == wheel.parent, "beside a wheel that is a file"


def test_what_cannot_be_done_is_refused(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, _bundle(gfx1030=GFX1030))
    with pytest.raises(BadInput, match="one vendor"):
        api.graft(str(wheel), gpu=("gfx1031", "sm_90"), workspace=tmp_path / "ws")
    with pytest.raises(BadInput, match="no folder with the package's sources"):
        api.graft(str(wheel), gpu="gfx1103", sources="git", workspace=tmp_path / "ws")
    report = api.graft(str(wheel), gpu="gfx1103", workspace=tmp_path / "ws")
    assert report.out is None and report.count("left-out") == 1
