"""Records that people share travel with a wheelhouse: beside its wheels, on its pages, in its list."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from rekindle.api.index import index_add, index_build, index_sync
from rekindle.api.proofs import find_records
from rekindle.errors import BadInput
from rekindle.formats.statement import PROOF_RECORD, seal
from rekindle.host.files import sha256_of
from rekindle.host.keys import new_key, read_private
from rekindle.index.wheelhouse.catalogue import load_wheels
from rekindle.model.document import encode
from rekindle.model.verify import ProofCard, ProofCheck, ProofRecord
from rekindle.model.wheel import Kernels, WheelGpu, WheelReport
from tiny_wheels import make_wheel


def record(wheel: Path) -> ProofRecord:
    return ProofRecord(
        package="torch",
        version="1.0",
        wheel_sha256=sha256_of(wheel),
        verdict="proven",
        level="smoke",
        claims=("cpu", "gpu"),
        checks=(ProofCheck(id="gpu0.matmul", status="passed"),),
        system="linux",
        arch="x86_64",
        cards=(ProofCard(name="NVIDIA GeForce GTX 1080", arch="sm_61"),),
        driver="580.65",
    )


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path, "torch", "1.0", tag="py3-none-manylinux_2_17_x86_64")


def page_of(root: Path, wheel: Path) -> str:
    return (root / "wheel" / "torch" / f"{wheel.name}.html").read_text("utf-8")


def test_a_signed_record_is_a_proof_and_an_unsigned_one_is_told(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    new_key("ann")
    private = read_private("ann")
    plain, signed = tmp_path / "plain.json", tmp_path / "signed.json"
    plain.write_bytes(encode(record(wheel)))
    root = tmp_path / "house"
    index_add(str(root), [str(wheel)], proofs=[str(plain)])
    index_build(str(root))
    (row,) = load_wheels(str(root))
    assert not row.proofs and row.hearsay[0].passed == 1
    assert "no key that this house believes signed it" in page_of(root, wheel)
    assert "proven on" not in page_of(root, wheel) and "Nobody has sent one" in page_of(root, wheel)
    signed.write_bytes(seal(PROOF_RECORD, encode(record(wheel)), private.id, private.sign))
    assert index_add(str(root), [str(wheel)], proofs=[str(signed), str(plain)]).wheels[0].state == "updated"
    index_build(str(root))
    (row,) = load_wheels(str(root))
    assert row.proofs[0].environment["shared"] == "signed by ann" and len(row.hearsay) == 1
    assert "proven on NVIDIA GeForce GTX 1080" in page_of(root, wheel)
    beside = root / "wheels" / "torch" / f"{wheel.name}.proofs.jsonl"
    assert len(beside.read_text().splitlines()) == 2
    assert len(find_records(str(root / "proofs.jsonl"))) == 2
    index_sync(str(root), str(tmp_path / "www"))
    assert (tmp_path / "www" / "proofs.jsonl").read_bytes() == (root / "proofs.jsonl").read_bytes()
    assert (tmp_path / "www" / "wheels" / "torch" / beside.name).is_file()


def test_what_is_about_another_file_or_contradicts_its_bytes_stays_out(tmp_path: Path, wheel: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(encode(msgspec.structs.replace(record(wheel), wheel_sha256="b" * 64)))
    with pytest.raises(BadInput, match="another file"):
        index_add(str(tmp_path / "h"), [str(wheel)], proofs=[str(other)])
    read = WheelReport(name="torch", version="1.0", gpu=WheelGpu(torch_kernels=Kernels(sass=("sm_90",))), cuda="12.6")
    report, plain = tmp_path / "report.json", tmp_path / "plain.json"
    report.write_bytes(encode(read))
    plain.write_bytes(encode(record(wheel)))
    with pytest.raises(BadInput, match="doubtful: it says proven on"):
        index_add(str(tmp_path / "h"), [str(wheel)], report=str(report), proofs=[str(plain)])
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({"kind": "proof", "version": 3}))
    with pytest.raises(BadInput, match="neither a verification nor a record"):
        index_add(str(tmp_path / "h"), [str(wheel)], proofs=[str(broken)])
