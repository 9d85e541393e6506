"""Records of verifications: what one says of where it ran, and how much of a stranger's list is read."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rekindle.api.proofs import find_records, record_of, review_records, share_proof
from rekindle.errors import BadInput
from rekindle.model.document import encode, load
from rekindle.model.machine import Cpu, Drivers, Machine, Os
from rekindle.model.verify import ProofRecord, VerifyCheck, VerifyReport
from small_records import record

proofs: Any = importlib.import_module("rekindle.api.proofs")
MACHINE = Machine(
    os=Os(system="linux", distro="debian 12", arch="x86_64"),
    cpu=Cpu(microarchitecture="zen2"),
    drivers=Drivers(nvidia="580.65", amdgpu="6.1"),
)
RAN = VerifyReport(
    claims=("cpu", "gpu"),
    checks=(VerifyCheck(id="import.torch", status="passed"),),
    environment={"torch": "2.7.0", "python": "3.12.4"},
    wheel_sha256="a" * 64,
)


def ran(claims: Any = ("cpu", "gpu"), why: str = "", **environment: str) -> ProofRecord:
    checks = (VerifyCheck(id="x", status="failed" if why else "passed", detail=why),)
    env = {**RAN.environment, **environment}
    return record_of(msgspec.structs.replace(RAN, claims=claims, checks=checks, environment=env), MACHINE)


def test_a_record_is_about_the_machine_it_ran_on_and_not_the_one_it_is_written_on() -> None:
    here = ran()
    assert (here.distro, here.cpu, here.driver, here.python) == ("debian 12", "zen2", "580.65", "3.12")
    assert ran(cpu="haswell").cpu == "haswell", "what the run says of its CPU comes first"
    elsewhere = ran(events="events.jsonl", cpu="haswell")
    assert (elsewhere.distro, elsewhere.cpu, elsewhere.driver) == (None, None, None)
    amd = msgspec.structs.replace(MACHINE, drivers=Drivers(amdgpu="6.1"))
    assert record_of(RAN, amd).driver == "6.1"
    bare = record_of(msgspec.structs.replace(RAN, environment={"spark": "1.0"}), MACHINE)
    assert (bare.package, bare.version, bare.python, bare.cuda, bare.rocm) == ("spark", "1.0", None, None, None)


@pytest.mark.parametrize("claims", [("cpu", "gpu"), ("cpu",), ("gpu",), ()])
def test_a_record_claims_what_the_run_did(claims: tuple[str, ...]) -> None:
    assert ran(claims).claims == claims


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("in /opt/venv/lib/libc10.so: no\nkernel", "in libc10.so: no kernel"),
        (r"in C:\torch\lib\c10.dll: no kernel", "in c10.dll: no kernel"),
        ("1/2 and/or torch/a.py", "1/2 and/or torch/a.py"),
        ("a/b/c", "c"),
        ("x\u0007y", "xy"),
        ("e" * 200, "e" * 200),
        ("e" * 201, "e" * 200),
    ],
)
def test_why_a_check_failed_is_one_short_line_without_places(said: str, kept: str) -> None:
    assert ran(why=said).checks[0].why == kept


def test_a_record_is_of_this_machine_unless_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = SimpleNamespace(examination=SimpleNamespace(machine=MACHINE))
    monkeypatch.setattr("rekindle.doctor.examine.examine", lambda host: here)
    share_proof(RAN, tmp_path / "r.json")
    assert load(tmp_path / "r.json", ProofRecord).cpu == "zen2"
    other = msgspec.structs.replace(MACHINE, cpu=Cpu(microarchitecture="nehalem"))
    share_proof(RAN, tmp_path / "r.json", machine=other)
    assert load(tmp_path / "r.json", ProofRecord).cpu == "nehalem"


def test_what_contradicts_itself_is_not_shared(tmp_path: Path) -> None:
    odd = msgspec.structs.replace(RAN, verdict="failed")
    with pytest.raises(BadInput, match="cannot be shared as it is"):
        share_proof(odd, tmp_path / "r.json", machine=MACHINE)
    assert not (tmp_path / "r.json").exists()


def test_an_address_is_a_list_or_the_folder_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    lines = b"".join(json.dumps({"n": number}).encode() + b"\n" for number in (1, 2, 1))

    def read(url: str, *, most: int) -> bytes:
        asked.append(url)
        return lines

    monkeypatch.setattr(proofs, "read_page", read)
    found = [one.place for one in find_records("https://x.example/shared/")]
    assert found == [f"https://x.example/shared/proofs.jsonl:{number}" for number in (1, 2)], "each once"
    assert [one.raw for one in find_records("http://x.example/one.json")] == [lines]
    assert asked == ["https://x.example/shared/proofs.jsonl", "http://x.example/one.json"]


def test_a_record_is_short_and_a_list_of_them_may_be_long(tmp_path: Path) -> None:
    one = encode(record())
    short, long = one + b" " * ((256 << 10) - len(one)), one + b" " * ((256 << 10) - len(one) + 1)
    (tmp_path / "a.json").write_bytes(short)
    (tmp_path / "b.json").write_bytes(long)
    (tmp_path / "c.jsonl").write_bytes(b'{"n": 1}\n' + b"\n" * (256 << 10) + b'{"n": 2}')
    found = {given.place: given.raw for given in find_records(str(tmp_path))}
    assert found["a.json"] == short and found["b.json"] == b""
    assert found[f"c.jsonl:{(256 << 10) + 2}"] == b'{"n": 2}' and len(found) == 4


def test_lists_have_an_end(tmp_path: Path) -> None:
    place = tmp_path / "list.jsonl"
    for count in (20_000, 20_001):
        place.write_text("\n".join(f'{{"n": {number}}}' for number in range(count)))
        if count == 20_000:
            assert len(find_records(str(place))) == count
    with pytest.raises(BadInput, match="more than 20000 records"):
        find_records(str(place))
    os.truncate(place, 0)
    os.truncate(place, 64 << 20)
    assert len(find_records(str(place))) == 1
    os.truncate(place, (64 << 20) + 1)
    with pytest.raises(BadInput, match="is larger than 64 MiB"):
        find_records(str(place))


@pytest.mark.parametrize("cryptography", [True, False])
def test_only_the_keys_that_are_named_are_believed(
    cryptography: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rekindle import api

    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    for name in ("mine", "other"):
        api.key_new(name)
    share_proof(RAN, tmp_path / "r" / "r.json", machine=MACHINE, sign="mine")
    keys = {key.name: Path(key.public) for key in api.key_list().keys}
    monkeypatch.setattr(proofs, "has_package", lambda name: cryptography)
    told = [review_records(str(tmp_path / "r"), keys=named) for named in ((), [keys["mine"]], [keys["other"]])]
    standing = [review.records[0].standing for review in told]
    assert standing == (["counts", "counts", "hearsay"] if cryptography else ["hearsay"] * 3)
    assert all(review.good for review in told)
