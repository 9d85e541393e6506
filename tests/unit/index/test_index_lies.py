"""Wheels and reports that say something else than the bytes; labels that would mean two things."""

from __future__ import annotations

import base64
import json
import re
import zipfile
from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.formats.statement import read_provenance
from rekindle.host.files import sha256_of
from rekindle.host.keys import new_key
from rekindle.model.document import encode
from rekindle.model.wheel import Kernels, WheelGpu, WheelReport
from tiny_wheels import make_wheel


def report_file(folder: Path, **fields: object) -> str:
    path = folder / "report.json"
    path.write_bytes(encode(WheelReport(**fields)))  # type: ignore[arg-type]
    return str(path)


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"name": "other"}, "project"), ({"version": "9.9"}, "version"), ({"bytes": 7}, "size")],
)
def test_a_report_about_another_file_is_refused(fields: dict[str, object], word: str, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="cp311-cp311-linux_x86_64")
    with pytest.raises(BadInput, match=f"the {word} is"):
        api.index_add(str(tmp_path / "house"), [str(wheel)], report=report_file(tmp_path, **fields))
    assert not list((tmp_path / "house").rglob("*.whl"))


def test_a_report_about_this_file_is_taken(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="cp311-cp311-linux_x86_64")
    said = report_file(tmp_path, name="Torch", version="2.6.0", bytes=wheel.stat().st_size)
    assert api.index_add(str(tmp_path / "house"), [str(wheel)], report=said).wheels[0].warnings == ()


def test_a_claim_that_the_bytes_do_not_hold_is_told(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="cp311-cp311-linux_x86_64")
    gpu = WheelGpu(
        declared=("sm_35", "sm_86", "compute_86"), torch_kernels=Kernels(sass=("sm_86",), ptx=("compute_86",))
    )
    (added,) = api.index_add(str(tmp_path / "house"), [str(wheel)], report=report_file(tmp_path, gpu=gpu)).wheels
    assert added.warnings == ("its own list names sm_35, but no code for it is in it",)


def test_a_label_means_one_thing_in_a_release(tmp_path: Path) -> None:
    """Two wheels of a release with the same machine code, and PTX in only one of them."""
    house = tmp_path / "house"
    for python, ptx in (("cp310", ()), ("cp311", ("compute_90",))):
        wheel = make_wheel(tmp_path, "torch", "2.6.0+cu126", tag=f"{python}-{python}-linux_x86_64")
        gpu = WheelGpu(torch_kernels=Kernels(sass=("sm_80", "sm_90"), ptx=ptx))
        api.index_add(str(house), [str(wheel)], report=report_file(tmp_path, gpu=gpu, cuda="12.6"))
    built = api.index_build(str(house), variants=True)
    rows = [row for row in built.variants if row.label]
    assert len(rows) == 2 and len({row.label for row in rows}) == 2
    assert all(re.fullmatch(r"[0-9a-z_.]+", row.label) for row in rows)
    (release,) = (house / "variants" / "torch").glob("*-variants.json")
    told = json.loads(release.read_text())["variants"]
    assert {row.label: row.properties for row in rows} == told


def test_a_variant_leads_back_to_the_wheel_it_was_made_from(tmp_path: Path) -> None:
    house = tmp_path / "house"
    wheel = make_wheel(tmp_path, "torch", "2.6.0+cu126", tag="cp311-cp311-linux_x86_64")
    gpu = WheelGpu(torch_kernels=Kernels(sass=("sm_90",)))
    api.index_add(str(house), [str(wheel)], report=report_file(tmp_path, gpu=gpu, cuda="12.6"))
    (row,) = api.index_build(str(house), variants=True).variants
    with zipfile.ZipFile(house / row.url) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/variant_of.json")]
        assert json.loads(archive.read(name)) == {"file": wheel.name, "sha256": sha256_of(wheel)}
        assert name in archive.read(name.replace("variant_of.json", "RECORD")).decode()
    # A statement that comes later is carried, too.
    statement = house / "wheels" / "torch" / f"{wheel.name}.provenance"
    statement.write_bytes(b'{"version": 1}')
    record = house / "records" / "torch" / f"{wheel.name}.json"
    known = json.loads(record.read_text())
    record.write_text(json.dumps(known | {"provenance_sha256": sha256_of(statement)}))
    (row,) = api.index_build(str(house), variants=True).variants
    with zipfile.ZipFile(house / row.url) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/variant_of.provenance")]
        assert archive.read(name) == statement.read_bytes()


def test_a_signed_variant_is_attested_by_its_own_bytes(tmp_path: Path) -> None:
    house, keys = tmp_path / "house", tmp_path / "keys"
    key = new_key("me", keys)
    wheel = make_wheel(tmp_path, "torch", "2.6.0+cu126", tag="cp311-cp311-linux_x86_64")
    gpu = WheelGpu(torch_kernels=Kernels(sass=("sm_90",)))
    api.index_add(str(house), [str(wheel)], report=report_file(tmp_path, gpu=gpu, cuda="12.6"))
    (bare,) = api.index_build(str(house), variants=True).variants
    assert bare.provenance is None and not list(house.rglob("variants/torch/*.provenance"))
    (row,) = api.index_build(str(house), variants=True, sign=str(keys / "me.key")).variants
    place = house / row.url
    beside = place.with_name(f"{place.name}.provenance")
    statement = json.loads(read_provenance(beside.read_bytes(), "x").payload)
    assert statement["subject"] == [{"name": place.name, "digest": {"sha256": sha256_of(place)}}]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"] == [{"uri": wheel.name, "digest": {"sha256": sha256_of(wheel)}}]
    assert definition["internalParameters"]["properties"] == row.properties
    listed = json.loads((house / "variant/simple/torch/index.json").read_bytes())["files"]
    (shown,) = [file for file in listed if file["filename"] == place.name]
    assert shown["provenance"].endswith(f"/{place.name}.provenance")
    checks = {one.id: one for one in api.verify_claims(place, keys=[key.path], cpu=False).checks}
    assert checks["signature"].status == checks["statement"].status == "passed"
    # Without the key it stays, as long as it speaks of these bytes; a statement about others goes.
    stamp = beside.stat().st_mtime_ns
    (again,) = api.index_build(str(house), variants=True).variants
    assert again.provenance and beside.stat().st_mtime_ns == stamp
    said = json.loads(beside.read_bytes())
    other = base64.b64encode(json.dumps(statement | {"subject": []}).encode()).decode()
    said["attestation_bundles"][0]["attestations"][0]["envelope"]["statement"] = other
    beside.write_text(json.dumps(said))
    assert api.verify_claims(place, keys=[key.path], cpu=False).checks[0].status == "failed"
    (gone,) = api.index_build(str(house), variants=True).variants
    assert gone.provenance is None and not beside.exists()


@pytest.mark.parametrize(
    "raw", [b"{}", b"[]", b"x", b'{"attestation_bundles": []}', b'{"attestation_bundles": [{"attestations": [7]}]}']
)
def test_a_broken_provenance_is_told(raw: bytes) -> None:
    with pytest.raises(BadInput, match="no provenance of an index"):
        read_provenance(raw, "x")
