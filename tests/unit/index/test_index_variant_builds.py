"""Variants of a house: which wheel becomes one, what is said of the others, what is written again, and what goes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from rekindle import api
from rekindle.facts import load_facts
from rekindle.formats.statement import read_provenance
from rekindle.host.keys import PrivateKey, new_key, read_private
from rekindle.index.variants import (
    MAX_LABEL,
    Variant,
    build_variants,
    release_files,
    variant_metadata,
    variants_of,
    write_variant,
)
from rekindle.index.wheelhouse.catalogue import load_wheels
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.document import encode
from rekindle.model.progress import Silent
from rekindle.model.wheel import Kernels, WheelGpu, WheelReport
from rekindle.model.wheelhouse import VariantRow, WheelRow
from tiny_wheels import make_wheel

FACTS = load_facts()


class House:
    def __init__(self, folder: Path) -> None:
        self.folder, self.house = folder, Wheelhouse(folder / "house")

    def add(self, version: str, *sass: str, python: str = "cp311", read: bool = True, **report: object) -> str:
        wheel = make_wheel(self.folder / "made", "torch", version, tag=f"{python}-{python}-linux_x86_64")
        given = self.folder / "report.json"
        gpu = WheelGpu(torch_kernels=Kernels(sass=sass))
        given.write_bytes(encode(WheelReport(gpu=gpu, **report)))  # type: ignore[arg-type]
        api.index_add(str(self.house.root), [str(wheel)], report=str(given) if read else None, look_inside=False)
        return wheel.name

    def rows(self) -> tuple[WheelRow, ...]:
        return load_wheels(str(self.house.root))

    def build(
        self, rows: Sequence[WheelRow] | None = None, signer: PrivateKey | None = None
    ) -> tuple[Sequence[VariantRow], list[str]]:
        made, left = build_variants(self.house, self.rows() if rows is None else rows, FACTS, Silent(), signer)
        return [row for row in made if isinstance(row, VariantRow)], left

    def files(self) -> set[str]:
        return {path.name for path in (self.house.root / "variants").rglob("*") if path.is_file()}

    def stamps(self) -> dict[str, tuple[int, int]]:
        paths = (self.house.root / "variants").rglob("*")
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths if path.is_file()}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_what_cannot_become_a_variant_is_told_in_words(house: House) -> None:
    house.add("2.0", read=False)
    house.add("2.1", "sm_80")
    house.add("2.2", "sm_80", cuda="12.6")
    house.add("2.3", "sm_80", cuda="12.6")
    house.add("2.4", "sm_80", rocm="6.2")
    rows = {row.version: row for row in house.rows()}
    amd = msgspec.structs.replace(rows["2.0"], file="amd.whl", inspected=True, gfx=("gfx906",))
    odd = msgspec.structs.replace(rows["2.3"], version="no version", file="odd.whl")
    gone = msgspec.structs.replace(rows["2.3"], yanked="")
    made, left = house.build([rows["2.0"], rows["2.1"], rows["2.2"], rows["2.4"], amd, odd, gone])
    assert [row.plain for row in made] == [rows["2.2"].file]
    assert sorted(left) == sorted([
        "odd.whl: its record says 'no version', which is no version",
        f"{rows['2.0'].file}: never looked into, so nothing can be promised about it",
        f"{rows['2.1'].file}: its CUDA version is not known",
        f"{rows['2.4'].file}: installers know no AMD variants yet",
        "amd.whl: installers know no AMD variants yet",
    ])  # fmt: skip


def test_of_wheels_that_differ_in_their_local_version_the_newest_wins(house: House) -> None:
    old, new = house.add("2.6.0+mine.1", "sm_80", cuda="12.6"), house.add("2.6.0+mine.10", "sm_80", cuda="12.6")
    made, left = house.build()
    assert [(row.plain, row.label, row.version) for row in made] == [(new, "cu126_80", "2.6.0")]
    file = "torch-2.6.0-cp311-cp311-linux_x86_64-cu126_80.whl"
    assert left == [f"{old}: {new} already is the variant cu126_80 of this release"] and made[0].file == file
    assert house.files() == {file, f"{file}.metadata", f"{file}.variant.json"}


def test_a_wheel_for_everybody_is_listed_with_a_label_and_without(house: House) -> None:
    name = house.add("2.6.0+cpu")
    made, left = house.build()
    plain = "torch-2.6.0-cp311-cp311-linux_x86_64"
    assert [(row.file, row.label, row.properties) for row in made] == [
        (f"{plain}-null.whl", "null", {}),
        (f"{plain}.whl", "", {}),
    ]
    assert left == [] and {row.plain for row in made} == {name} and release_files(made) == {}


def test_a_release_lists_its_labels_in_one_file(house: House) -> None:
    for version, sass in (("2.6.0+a", "sm_80"), ("2.6.0+b", "sm_90"), ("2.7.0", "sm_80")):
        house.add(version, sass, cuda="12.6")
    house.add("2.6.0+cpu")
    made, _ = house.build()
    files = release_files(made)
    assert {place: name for place, (name, _) in files.items()} == {
        ("torch", "2.6.0"): "torch-2.6.0-variants.json", ("torch", "2.7.0"): "torch-2.7.0-variants.json",
    }  # fmt: skip
    body = files["torch", "2.6.0"][1]
    told = json.loads(body)
    assert body.endswith(b"}\n") and list(told["variants"]) == ["cu126_80", "cu126_90", "null"]
    assert told == variant_metadata({row.label: row.properties for row in made if row.label and row.version == "2.6.0"})
    assert told["default-priorities"] == {"namespace": ["nvidia"]}
    assert set(told["providers"]["nvidia"]) == {"requires", "plugin-api"} and told["$schema"].endswith(".json")
    dashed = msgspec.structs.replace(made[0], project="torch-vision")
    assert [name for name, _ in release_files([dashed]).values()] == [f"torch_vision-{dashed.version}-variants.json"]


def test_a_label_of_its_own_where_the_same_label_means_something_else(house: House) -> None:
    house.add("2.6.0+cu126", "sm_80", "sm_90", cuda="12.6")
    row = house.rows()[0]
    ptx = msgspec.structs.replace(row, ptx=("compute_90",))
    house.add("2.7.0+cu126", "sm_80", "sm_90", python="cp310", cuda="12.6")
    other = next(each for each in house.rows() if each.version.startswith("2.7"))
    labels = [row.label for row in house.build([row, msgspec.structs.replace(other, ptx=("compute_90",))])[0]]
    assert labels == ["cu126_80_90", "cu126_80_90"], "another release"
    house.add("2.6.0+cu126", "sm_80", "sm_90", python="cp310", cuda="12.6")
    second = next(each for each in house.rows() if "cp310" in each.file and each.version.startswith("2.6"))
    second = msgspec.structs.replace(second, ptx=("compute_90",))
    first, own = sorted(row.label for row in house.build([row, second])[0])
    assert first == "cu126_80_90" and re.fullmatch(r"cu126_80_90_[0-9a-f]{6}", own)
    third = msgspec.structs.replace(ptx, file=row.file)
    assert {row.label for row in house.build([third, second])[0]} == {"cu126_80_90"}, "the same thing, the same label"


def test_only_what_changed_is_written_again(house: House) -> None:
    name = house.add("2.6.0+a", "sm_80", cuda="12.6")
    (first,), _ = house.build()
    stamps = house.stamps()
    assert house.build()[0] == [first] and house.stamps() == stamps
    place = house.house.root / first.url
    record = place.with_name(f"{place.name}.variant.json")
    good = place.read_bytes()
    assert (first.bytes, first.url) == (len(good), f"variants/torch/{place.name}")
    # Without its record, or without itself, it is made again, the same.
    record.unlink()
    assert house.build()[0] == [first] and house.stamps()[place.name] != stamps[place.name]
    place.unlink()
    assert house.build()[0] == [first] and place.read_bytes() == good
    # One that was made from another wheel, too.
    known = json.loads(record.read_bytes())
    record.write_text(json.dumps(known | {"plain_sha256": "0" * 64, "sha256": "1" * 64}))
    assert house.build()[0] == [first]
    # A statement that is noted but lies nowhere, or lies there and is not noted, is not carried.
    row = house.rows()[0]
    noted = msgspec.structs.replace(row, provenance=True)
    assert house.build([noted])[0] == [first]
    beside = house.house.wheel("torch", name).with_name(f"{name}.provenance")
    beside.write_bytes(b"{}")
    assert house.build([row])[0] == [first]
    (carried,) = house.build([noted])[0]
    assert carried.sha256 != first.sha256


def test_variants_of_what_is_no_longer_offered_go(house: House) -> None:
    house.add("2.6.0+a", "sm_80", cuda="12.6")
    house.add("2.7.0", "sm_80", cuda="12.6")
    house.build()
    assert len(house.files()) == 6
    stray = house.house.root / "variants" / "torch" / "torch-2.6.0-cp311-cp311-linux_x86_64-cu126_80.whl.provenance"
    stray.write_bytes(b"{}")
    kept = [row for row in house.rows() if row.version == "2.7.0"]
    house.build(kept)
    assert {name.split("-")[1] for name in house.files()} == {"2.7.0"} and len(house.files()) == 3
    house.build([msgspec.structs.replace(kept[0], yanked="bad")])
    assert house.files() == set()


def test_a_variant_is_signed_once_and_names_what_it_was_made_from(house: House, tmp_path: Path) -> None:
    new_key("me", tmp_path / "keys")
    key = read_private("me", tmp_path / "keys")
    name = house.add("2.6.0+a", "sm_80", cuda="12.6")
    (row,), _ = house.build(signer=key)
    assert row.provenance == f"{row.url}.provenance" and (house.house.root / row.provenance).is_file()
    stamps = house.stamps()
    assert house.build(signer=key)[0] == [row] and house.stamps() == stamps, "the same statement is not written again"
    assert house.build()[0] == [row], "without the key it stays"
    beside = house.house.wheel("torch", name).with_name(f"{name}.provenance")
    beside.write_bytes(b'{"version": 1}')
    noted = msgspec.structs.replace(house.rows()[0], provenance=True)
    (again,), _ = house.build([noted], signer=key)
    statement = json.loads(read_provenance((house.house.root / str(again.provenance)).read_bytes(), "x").payload)
    assert [one["uri"] for one in statement["predicate"]["buildDefinition"]["resolvedDependencies"]] == [
        name,
        f"{name}.provenance",
    ]
    assert house.stamps()[f"{row.file}.provenance"] != stamps[f"{row.file}.provenance"]
    # One that cannot be read speaks of nothing, and goes.
    (house.house.root / str(again.provenance)).write_bytes(b"{")
    (bare,), _ = house.build([noted])
    assert bare.provenance is None and not (house.house.root / str(again.provenance)).exists()
    assert house.build([noted])[0] == [bare]


def row(**more: object) -> WheelRow:
    known: dict[str, object] = {
        "file": "torch-2.6.0+x-cp311-cp311-linux_x86_64.whl", "url": "", "project": "torch", "version": "2.6.0+x",
        "bytes": 1, "sha256": "0", "metadata_sha256": "0", "added": "", "systems": ("linux",), "inspected": True,
        **more,
    }  # fmt: skip
    return WheelRow(**known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sass", "ptx", "archs"),
    [
        (("sm_50",), (), ["50_real"]),
        (("sm_90", "sm_90a"), (), ["90_real"]),
        (("sm_90", "sm_80", "sm_100"), (), ["80_real", "90_real", "100_real"]),
        (("sm_80",), ("compute_50", "compute_35"), ["80_real", "50_virtual"]),
        ((), ("compute_90",), ["90_virtual"]),
        ((), ("compute_90", "compute_90a"), ["90_virtual"]),
    ],
)
def test_the_code_that_installers_are_told_of(sass: tuple[str, ...], ptx: tuple[str, ...], archs: list[str]) -> None:
    (found,) = variants_of(row(cuda="11.8", sass=sass, ptx=ptx), FACTS)
    assert found.properties == {"nvidia": {"cuda_version_lower_bound": ["11.0"], "sm_arch": archs}} and found.note == ""


def test_code_that_installers_cannot_see_is_bound_by_the_newest_driver_that_runs_it() -> None:
    (found,) = variants_of(row(cuda="9.0", sass=("sm_20", "sm_35", "sm_37")), FACTS)
    assert found.properties["nvidia"]["cuda_version_upper_bound"] == ["11.5"] and found.label == "cu90_20_35_37"
    assert found.note.startswith("sm_20 sm_35 sm_37: bound by the driver alone") and found.note.endswith("below 5.0")
    assert variants_of(row(cuda="11.8", ptx=("compute_35",)), FACTS) == ()


def test_a_label_is_as_long_as_it_may_be() -> None:
    def label(*numbers: int) -> str:
        (found,) = variants_of(row(cuda="12.6", sass=tuple(f"sm_{number}" for number in numbers)), FACTS)
        return found.label

    assert MAX_LABEL == 40
    fitting = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 100)  # cu126, ten numbers of two digits, one of three
    assert label(*fitting) == "cu126_50_52_53_60_61_62_70_72_75_80_100" and len(label(*fitting)) == 39
    exact = (50, 52, 53, 60, 61, 62, 70, 72, 75, 100, 103)
    assert len(label(*exact)) == 40 and label(*exact).endswith("_75_100_103")
    assert re.fullmatch(r"cu126_50_to_103_[0-9a-f]{6}", label(*exact, 80))


def test_folders_of_an_archive_are_left_out_of_a_variant(tmp_path: Path) -> None:
    import zipfile

    plain = make_wheel(tmp_path, "tiny", "1.0+a", files={"aa/b.py": b"x"})
    with zipfile.ZipFile(plain, "a") as archive:
        archive.writestr(zipfile.ZipInfo("tiny/"), b"")
    target = tmp_path / "out" / "x.whl"
    write_variant(plain, target, Variant("", {}), {"variant_of.json": b"{}"})
    with zipfile.ZipFile(target) as made:
        names = set(made.namelist())
    assert names == {
        "aa/b.py",
        *(f"tiny-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "variant_of.json")),
    }
