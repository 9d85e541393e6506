"""What comes with a wheel (a record, a statement, a report, proofs) is taken only where it speaks of that file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from rekindle import api
from rekindle.errors import BadInput, StageFailed
from rekindle.formats.statement import IN_TOTO, PROOF_RECORD, seal
from rekindle.host.keys import checker, new_key, read_private, trusted_keys
from rekindle.index.wheelhouse import store
from rekindle.index.wheelhouse.reading import parse_name
from rekindle.index.wheelhouse.store import (
    Evidence,
    Wheelhouse,
    admit,
    broken_claims,
    check_about,
    check_report,
    copied_in,
    find_origin,
    find_provenance,
    receive,
    split_proofs,
    take_record,
)
from rekindle.model.build import BuildResult
from rekindle.model.document import encode
from rekindle.model.plan import Plan
from rekindle.model.progress import Silent
from rekindle.model.verify import ProofCard, ProofCheck, ProofRecord, VerifyReport
from rekindle.model.wheel import Kernels, WheelGpu, WheelReport
from rekindle.model.wheelhouse import Origin, SharedRecord, StoredWheel
from tiny_wheels import make_wheel

DIGEST = "ab" * 32


def put(house: Wheelhouse, wheel: Path, **evidence: object) -> str:
    with receive(house, wheel, Silent()) as incoming:
        return admit(house, incoming, Evidence(**evidence)).state  # type: ignore[arg-type]


@pytest.fixture
def house(tmp_path: Path) -> Wheelhouse:
    return Wheelhouse(tmp_path / "house")


def test_what_is_known_stays_and_what_is_new_comes_to_it(house: Wheelhouse, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    first, second = (VerifyReport(passed=number, wheel_sha256=DIGEST) for number in (1, 2))
    record, other = SharedRecord(line='{"a": 1}'), SharedRecord(line='{"a": 2}')
    signed = msgspec.structs.replace(record, signer="ann")
    report, origin = WheelReport(cuda="12.6"), Origin(cuda="12.6")

    def known() -> tuple[object, ...]:
        entry = house.entry(wheel.name)
        return entry.report, entry.origin, entry.provenance_sha256, entry.proofs, entry.records

    assert put(house, wheel) == "added" and known() == (None, None, None, (), ())
    assert put(house, wheel, proofs=(first,), records=(record,)) == "updated"
    assert put(house, wheel, proofs=(first,), records=(record,)) == "already"
    assert put(house, wheel, proofs=(first, second), records=(other,)) == "updated"
    assert known()[3:] == ((first, second), (record, other))
    assert put(house, wheel, records=(signed,)) == "updated" and known()[4] == (signed, other), "signed meanwhile"
    digest = hashlib.sha256(b"{}").hexdigest()
    assert put(house, wheel, report=report, origin=origin, provenance=b"{}") == "updated"
    assert known()[:3] == (report, origin, digest)
    assert put(house, wheel) == "already" and known()[:3] == (report, origin, digest)
    beside = house.wheel("tiny", wheel.name)
    assert beside.with_name(f"{wheel.name}.provenance").read_bytes() == b"{}"
    assert beside.with_name(f"{wheel.name}.proofs.jsonl").read_text() == '{"a": 1}\n{"a": 2}\n'


def test_nothing_lies_beside_a_wheel_of_which_nothing_is_known(house: Wheelhouse, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    put(house, wheel)
    names = sorted(path.name for path in (house.wheels / "tiny").iterdir())
    assert names == [wheel.name, f"{wheel.name}.metadata"] and not list((house.root / ".incoming").iterdir())
    record = house.record("tiny", wheel.name)
    stamp = record.stat().st_mtime_ns
    assert put(house, wheel) == "already" and record.stat().st_mtime_ns == stamp, "no change, no writing"


def test_a_wheel_that_was_lost_is_put_back_and_one_that_is_there_stays(house: Wheelhouse, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    put(house, wheel)
    place = house.wheel("tiny", wheel.name)
    inode = place.stat().st_ino
    put(house, wheel)
    assert place.stat().st_ino == inode
    place.unlink()
    assert put(house, wheel) == "already" and place.read_bytes() == wheel.read_bytes()
    # One without a record is none of the house's: it is replaced.
    house.record("tiny", wheel.name).unlink()
    place.write_bytes(b"stray")
    assert put(house, wheel) == "added" and place.read_bytes() == wheel.read_bytes()


def test_an_entry_is_found_by_its_file(house: Wheelhouse, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "Tiny.Name", "1.0")
    assert not house.exists()
    put(house, wheel)
    entry = house.entry(wheel.name)
    assert house.exists() and isinstance(entry, StoredWheel)
    assert (entry.project, entry.version, entry.bytes) == ("tiny-name", "1.0", wheel.stat().st_size)
    with pytest.raises(BadInput, match="is not in the wheelhouse"):
        house.entry("tiny-1.0-py3-none-any.whl")
    yanked = store.yank(house, wheel.name, "old")
    assert yanked == msgspec.structs.replace(entry, yanked="old") == house.entry(wheel.name)
    assert Wheelhouse(tmp_path / "none").exists() is False
    (tmp_path / "grafted" / "grafts").mkdir(parents=True)
    assert Wheelhouse(tmp_path / "grafted").exists()


def test_a_copy_is_made_where_nobody_looks_and_gone_afterwards(house: Wheelhouse, tmp_path: Path) -> None:
    source = tmp_path / "a.bin"
    source.write_bytes(b"x" * 3_000_000)
    steps: list[tuple[float, float | None]] = []

    class Listener(Silent):
        def step(self, done: float, total: float | None, detail: str = "") -> None:
            steps.append((done, total))

    for _ in range(2):
        with copied_in(house, source, Listener()) as (copy, sha256, size):
            assert copy.read_bytes() == source.read_bytes() and copy.parent.parent == house.root / ".incoming"
            assert (sha256, size) == (hashlib.sha256(source.read_bytes()).hexdigest(), 3_000_000)
        assert not copy.parent.exists()
    assert steps[-1] == (3_000_000, 3_000_000) and steps[0][0] == 1 << 20
    with copied_in(house, source, Silent()) as (copy, *_):
        copy.unlink()
        copy.parent.rmdir()  # whoever takes it away may take its folder, too


def built(wheel: Path, sha256: str) -> None:
    plan = Plan(answer="build", torch="2.6.0", cuda="12.6")
    result = BuildResult(project="torch", wheel=f"/out/{wheel.name}", wheel_sha256=sha256, plan=plan, plan_digest="d")
    (wheel.parent / "build.json").write_bytes(encode(msgspec.structs.replace(result, source_commit="c0ffee")))


def test_the_record_of_a_build_is_taken_for_its_own_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    assert find_origin(wheel, DIGEST) is None
    built(wheel, DIGEST)
    assert find_origin(wheel, DIGEST) == Origin(torch="2.6.0", cuda="12.6", plan_digest="d", source_commit="c0ffee")
    assert find_origin(tmp_path / "other-1.0-py3-none-any.whl", DIGEST) is None
    with pytest.raises(BadInput, match="is not the file that"):
        find_origin(wheel, "0" * 64)


def test_a_statement_is_taken_where_a_believed_key_signed_it_about_this_file(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        new_key(name, tmp_path / name)
    key, believed = read_private("ours", tmp_path / "ours"), checker(trusted_keys(tmp_path / "ours"))
    strangers = checker(trusted_keys(tmp_path / "theirs"))
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    beside = tmp_path / f"{wheel.name}.intoto.dsse.json"
    said = json.dumps({"_type": "s", "subject": [{"name": "x", "digest": {"sha256": DIGEST}}]}).encode()
    assert find_provenance(wheel, DIGEST, believed) == (None, None)
    beside.write_bytes(seal(IN_TOTO, said, key.id, key.sign))
    taken, why = find_provenance(wheel, DIGEST, believed)
    assert why is None and json.loads(taken or b"")["version"] == 1
    for raw, check in (
        (beside.read_bytes(), strangers),
        (said, believed),
        (seal(PROOF_RECORD, said, key.id, key.sign), believed),
    ):
        beside.write_bytes(raw)
        taken, why = find_provenance(wheel, DIGEST, check)
        assert taken is None and (why or "").startswith("no key that is believed here signed")
    with pytest.raises(BadInput, match="about another file"):
        find_provenance(wheel, "0" * 64, believed)


def test_a_statement_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    beside = tmp_path / f"{wheel.name}.intoto.dsse.json"
    said = json.dumps({"subject": [{"name": "x", "digest": {"sha256": DIGEST}}]}).encode()
    beside.write_bytes(said)
    monkeypatch.setattr(store, "MAX_ENVELOPE_BYTES", len(said))
    assert find_provenance(wheel, DIGEST, checker([]))[0] is None
    monkeypatch.setattr(store, "MAX_ENVELOPE_BYTES", len(said) - 1)
    with pytest.raises(BadInput, match="is larger than"):
        find_provenance(wheel, DIGEST, checker([]))


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, None), ({"name": "Tiny"}, None), ({"version": "1.0"}, None), ({"bytes": 7}, None), ({"bytes": 0}, None),
        ({"name": "other"}, "project"), ({"version": "1"}, "version"), ({"bytes": 8}, "size"),
    ],
)  # fmt: skip
def test_a_report_may_leave_out_what_it_does_not_know(fields: dict[str, object], word: str | None) -> None:
    report, name = WheelReport(**fields), parse_name("tiny-1.0-py3-none-any.whl")  # type: ignore[arg-type]
    if word is None:
        check_report(report, name, 7)
        return
    with pytest.raises(BadInput, match=f"{word} is .* in it, and .* here"):
        check_report(report, name, 7)


@pytest.mark.parametrize(
    ("declared", "kernels", "said"),
    [
        ((), {"sass": ("sm_80",)}, None),
        (("sm_80", "compute_80"), {"sass": ("sm_80",)}, None),
        (("sm_90",), {"sass": ("sm_80",), "ptx": ("compute_90",)}, None),
        (("gfx906",), {"gfx": ("gfx906",)}, None),
        (("sm_35",), {}, None),
        (("sm_35",), {"sass": ("sm_80",)}, "its own list names sm_35, but no code for it is in it"),
        (
            ("sm_35", "compute_50"), {"gfx": ("gfx906",)},
            "its own list names sm_35, compute_50, but no code for them is in it",
        ),
    ],
)  # fmt: skip
def test_claims_are_held_against_the_code(
    declared: tuple[str, ...], kernels: dict[str, tuple[str, ...]], said: str | None
) -> None:
    report = WheelReport(gpu=WheelGpu(declared=declared, torch_kernels=Kernels(**kernels)))  # type: ignore[arg-type]
    assert broken_claims(report) == ((said,) if said else ())
    assert broken_claims(msgspec.structs.replace(report, quick=True)) == () == broken_claims(None)


def record(**more: object) -> ProofRecord:
    known: dict[str, object] = {
        "package": "torch", "version": "1.0", "wheel_sha256": DIGEST, "verdict": "proven", "level": "smoke",
        "claims": ("cpu", "gpu"), "checks": (ProofCheck(id="gpu0.matmul", status="passed"),), "system": "linux",
        "arch": "x86_64", "cards": (ProofCard(name="NVIDIA GeForce GTX 1080", arch="sm_61"),), "driver": "580.65",
        **more,
    }  # fmt: skip
    return ProofRecord(**known)  # type: ignore[arg-type]


def test_proofs_of_people_and_of_the_house_are_told_apart_by_their_first_words(tmp_path: Path) -> None:
    new_key("me", tmp_path / "keys")
    key = read_private("me", tmp_path / "keys")
    written = {
        "plain.json": encode(record()),
        "signed.json": seal(PROOF_RECORD, encode(record()), key.id, key.sign),
        "own.json": encode(VerifyReport(passed=1)),
        "late.json": encode(VerifyReport(subject="x" * 300 + '"proof"')),
    }
    for name, raw in written.items():
        (tmp_path / name).write_bytes(raw)
    records, reports = split_proofs([str(tmp_path / name) for name in written])
    assert [(path.name, raw) for path, raw in records] == [
        (name, written[name]) for name in ("plain.json", "signed.json")
    ]
    assert [path.name for path in reports] == ["own.json", "late.json"] and split_proofs([]) == ([], [])


def test_a_record_is_held_against_what_was_read_of_the_wheel(tmp_path: Path) -> None:
    new_key("me", tmp_path / "keys")
    key, believed = read_private("me", tmp_path / "keys"), checker(trusted_keys(tmp_path / "keys"))
    plain, signed = encode(record()), seal(PROOF_RECORD, encode(record()), key.id, key.sign)

    def report(**kernels: tuple[str, ...]) -> WheelReport:
        return WheelReport(cuda="12.6", gpu=WheelGpu(torch_kernels=Kernels(**kernels)))  # type: ignore[arg-type]

    for known in (None, report(), report(sass=("sm_61",)), report(ptx=("compute_61",))):
        taken = take_record(plain, "p.json", DIGEST, known, believed)
        assert taken.signer is None and json.loads(taken.line) == json.loads(plain) and "\n" not in taken.line
    assert take_record(signed, "p.json", DIGEST, None, believed).signer == "me"
    for other in (report(sass=("sm_90",)), report(gfx=("gfx906",)), report(ptx=("compute_90",))):
        with pytest.raises(BadInput, match="is doubtful: "):
            take_record(plain, "p.json", DIGEST, other, believed)
        quick = msgspec.structs.replace(other, quick=True)
        assert take_record(plain, "p.json", DIGEST, quick, believed), "a quick look at a wheel says nothing of its code"
    with pytest.raises(BadInput, match="about another file"):
        take_record(plain, "p.json", "0" * 64, None, believed)
    with pytest.raises(BadInput, match="neither a verification nor a record"):
        take_record(b"{}", "p.json", DIGEST, None, believed)
    odd = take_record(encode(record(distro="Ünlinux")), "p.json", DIGEST, None, believed)
    assert odd.line.isascii() and json.loads(odd.line)["distro"] == "Ünlinux"


def test_a_writer_waits_as_long_as_another_may_need() -> None:
    assert store.LOCK_WAIT_SECONDS == 120 and store.RECORDS == ".proofs.jsonl"


def test_a_proof_is_about_one_file() -> None:
    check_about(DIGEST, "x.whl", (VerifyReport(wheel_sha256=DIGEST),))
    check_about(DIGEST, "x.whl", ())
    for wrong, words in ((None, "names no wheel"), ("0" * 64, "about another file")):
        with pytest.raises(BadInput, match=words):
            check_about(DIGEST, "x.whl", (VerifyReport(wheel_sha256=DIGEST), VerifyReport(wheel_sha256=wrong)))


def test_a_full_disk_says_how_much_room_is_left(house: Wheelhouse, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = cast("object", SimpleNamespace(free=(5 << 20) + 7))
    monkeypatch.setattr("rekindle.index.wheelhouse.store.shutil.disk_usage", lambda path: usage)
    with pytest.raises(BadInput, match=r"No space left on device \(5 MiB free\)$"), store.disk_errors(house.root):
        raise OSError(28, "No space left on device")
    with pytest.raises(BadInput, match="odd"), store.disk_errors(house.root):
        raise OSError("odd")


def test_another_wheel_of_the_same_name_is_refused_by_its_digest(house: Wheelhouse, tmp_path: Path) -> None:
    put(house, make_wheel(tmp_path, "tiny", "1.0"))
    other = make_wheel(tmp_path / "b", "tiny", "1.0", files={"tiny/__init__.py": b"other"})
    with pytest.raises(StageFailed, match="already has another"):
        put(house, other)
    assert api.index_add(str(house.root), [str(make_wheel(tmp_path, "tiny", "2.0"))], look_inside=False).wheels
