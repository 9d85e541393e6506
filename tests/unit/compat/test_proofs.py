"""Shared records: read with bounds, weighed, and unable to turn an answer, however many are forged."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import needs
from rekindle.api.plan_torch import plan
from rekindle.api.proofs import check_shareable, find_records, record_of, review_records, share_proof
from rekindle.compat.images import GpuCode
from rekindle.compat.proofs import GivenRecord, find_doubt, read_record, speak_of_plan, weigh_records
from rekindle.errors import BadInput
from rekindle.formats.statement import IN_TOTO, PROOF_RECORD, seal
from rekindle.host.files import write_atomically
from rekindle.host.keys import checker, new_key, read_private
from rekindle.host.live import LiveHost
from rekindle.host.redact import Redactor
from rekindle.host.workspace import workspace_at
from rekindle.interpreters.packages import look_into
from rekindle.model.document import encode, load
from rekindle.model.journey import Installation
from rekindle.model.plan import Plan
from rekindle.model.verify import ProofCard, ProofCheck, ProofRecord, VerifyCheck, VerifyReport, card_of
from rekindle.model.wheel import OperatorTrial
from rekindle.plan.describe import machine_from_flags
from small_records import (
    FACTS,
    GOOD,
    MACHINE,
    PASCAL,
    PLANNED,
    STRANGER,
    WISH,
    believing_all,
    failing,
    nobody,
    record,
    signed,
    spoken,
    texts,
    unsigned,
)


def test_what_people_proved_is_told() -> None:
    assert (PLANNED.torch, PLANNED.variant) == ("2.7.0", "cu126"), "the records below are about this one"
    people = [signed(record(), "ann"), signed(record(driver="535.98"), "bob"), signed(record(), "cleo")]
    made = spoken([*people, signed(record(day="2026-11-18"), "ann"), signed(failing(), "dan")])
    reason = next(one for one in made.because if one.code == "proven-by-people")
    assert reason.text == (
        "Proven by 3 people on NVIDIA GeForce GTX 1080 (sm_61) with driver 580, 535;"
        " failed for 1 person (gpu0.matmul: kernel image is invalid)."
    )
    assert reason.source == "a list"
    alone = spoken([signed(failing(), "dan")])
    assert "Failed for 1 person" in alone.warnings[-1].text and not any(
        "Proven by" in one.text for one in alone.because
    )


def test_only_records_about_this_torch_card_and_system_are_told() -> None:
    others = [
        record(version="2.7.1+cu126"),
        record(version="2.7.0+cu118", cuda="11.8"),
        record(system="linux"),
        record(package="torchvision"),
        record(cards=(ProofCard(name="RTX 3060", arch="sm_86"),)),
        record(cards=(), claims=("cpu",), checks=GOOD[:1]),
    ]
    assert spoken([signed(one, f"p{number}") for number, one in enumerate(others)]) == PLANNED
    assert "Proven by 1 person" in texts(spoken([signed(record(version="2.7.0"), "ann")])), "PyPI's name of it"


def test_hearsay_counts_for_nothing_and_is_told_as_that() -> None:
    weighed = weigh_records(
        unsigned(*(record(day=f"2026-01-{day:02d}") for day in range(1, 20))), nobody, FACTS, redact=STRANGER
    )
    assert {one.standing for one in weighed} == {"hearsay"}
    made = speak_of_plan(PLANNED, ["sm_61"], weighed, "x")
    assert "19 records that no key believed here signed count for nothing: 19 say" in texts(made)
    assert "Proven by" not in texts(made)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (record(checks=(*GOOD, ProofCheck(id="x", status="failed"))), "its own checks do not"),
        (record(checks=(ProofCheck(id="x", status="skipped"),)), "its own checks do not"),
        (record(verdict="failed"), "no check of it failed"),
        (record(checks=GOOD[:1]), "no check on a card passed"),
        (record(cards=()), "no check on a card passed"),
        (record(cards=(ProofCard(name="Tesla K40c", arch="sm_35"),)), "that wheel"),
        (record(cards=(ProofCard(name="x", arch="sm_x"),)), "no architecture"),
        (record(driver="470.14"), "needs driver"),
        (record(distro="linux of someone@example.org"), "names a person"),
        (failing(why="in /home/ann/torch"), "names a person"),
        (failing(why="token=abcdefgh12345678"), "names a person"),
    ],
)
def test_what_contradicts_itself_or_the_wheel_is_doubtful(one: ProofRecord, why: str) -> None:
    assert why in find_doubt(one, FACTS, redact=STRANGER)
    (weighed,) = weigh_records([signed(one, "ann")], believing_all, FACTS, redact=STRANGER)
    assert weighed.standing == "doubtful" and why in weighed.why, "whoever signed it"


def test_what_nothing_speaks_against_is_not_doubtful() -> None:
    private = record(version="1.13.1+rekindle.cu118.sm35", cuda="11.8", cards=(ProofCard(name="K40c", arch="sm_35"),))
    for one in (record(), failing(), private, record(driver=None), record(verdict="not-proven", checks=GOOD[:1])):
        assert find_doubt(one, FACTS, redact=STRANGER) == ""


def test_the_bytes_of_the_wheel_itself_are_asked_first() -> None:
    held = GpuCode(("sm_35",), cuda="12.6")
    assert "that wheel" in find_doubt(record(), FACTS, held, redact=STRANGER)


def test_outliers_are_marked() -> None:
    people = [signed(record(), name) for name in ("a", "b")] + [signed(failing(), "c")]
    marks = {one.place: one.outlier for one in weigh_records(people, believing_all, FACTS, redact=STRANGER)}
    assert marks == {"a.json": False, "b.json": False, "c.json": True}
    torn = [signed(record(), "a"), signed(failing(), "b")]
    assert not any(one.outlier for one in weigh_records(torn, believing_all, FACTS, redact=STRANGER))


def test_a_build_that_was_untried_is_reported_by_believed_people_alone() -> None:
    untried = msgspec.structs.replace(PLANNED, answer="build", variant=None, evidence="untried")
    built = record(version="2.7.0+rekindle.cu126.sm61")
    assert spoken([signed(built, "ann")], untried).evidence == "reported"
    assert (
        speak_of_plan(untried, ["sm_61"], weigh_records(unsigned(built), nobody, FACTS, redact=STRANGER), "x").evidence
        == "untried"
    )


CARDS = st.sampled_from([PASCAL, ProofCard(name="Tesla K40c", arch="sm_35"), ProofCard(name="RTX 5090", arch="sm_120")])
FORGED = st.builds(
    record,
    version=st.sampled_from(
        ["2.14.1+cu126", "2.14.1", "2.7.0", "2.0.1", "2.0.1+cu118", "2.15.0+cu130", "1.13.1+cu117"]
    ),
    verdict=st.sampled_from(["proven", "failed", "not-proven"]),
    checks=st.sampled_from([GOOD, GOOD[:1], (ProofCheck(id="gpu0.matmul", status="failed", why="no kernel image"),)]),
    cards=st.lists(CARDS, max_size=2).map(tuple),
    system=st.sampled_from(["linux", "windows"]),
    driver=st.sampled_from([None, "1.0", "580.65", "999.99"]),
    cuda=st.sampled_from([None, "12.6", "11.4", "13.0"]),
    day=st.dates().map(lambda day: f"{day.year:04d}-{day.month:02d}-{day.day:02d}"),
)
PLANS = [
    (plan(machine_from_flags(gpu=[gpu], os=system), wheelhouses=[], proofs=[]), arch)
    for gpu, system, arch in (
        ("GTX 1080", "windows", "sm_61"),
        ("Tesla K40c", "windows", "sm_35"),
        ("RTX 5090", "linux", "sm_120"),
        ("GeForce 8800 GT", "linux", "sm_11"),
    )
]


@settings(max_examples=60, deadline=None)
@given(st.lists(FORGED, max_size=40), st.sampled_from(PLANS), st.booleans())
def test_a_flood_of_forged_records_turns_no_answer(
    flood: list[ProofRecord], case: tuple[Plan, str], sealed: bool
) -> None:
    """Unsigned, or signed by keys nobody believes: everything but words stays, and no word says proven."""
    made, arch = case
    given_records = [signed(one, f"k{number}") for number, one in enumerate(flood)] if sealed else unsigned(*flood)
    spoke = speak_of_plan(made, [arch], weigh_records(given_records, nobody, FACTS, redact=STRANGER), "x")
    words = ("because", "warnings")
    for field in Plan.__struct_fields__:
        if field not in words:
            assert getattr(spoke, field) == getattr(made, field), field
    new = {reason.code for reason in (*spoke.because, *spoke.warnings)} - {
        reason.code for reason in (*made.because, *made.warnings)
    }
    assert new <= {"proofs-not-believed", "proofs-doubtful"}


@settings(max_examples=40, deadline=None)
@given(st.lists(FORGED, max_size=20), st.sampled_from(PLANS))
def test_believed_records_turn_no_answer_either(records: list[ProofRecord], case: tuple[Plan, str]) -> None:
    made, arch = case
    given_records = [signed(one, f"k{number}") for number, one in enumerate(records)]
    spoke = speak_of_plan(made, [arch], weigh_records(given_records, believing_all, FACTS, redact=STRANGER), "x")
    assert (spoke.answer, spoke.torch, spoke.requests, spoke.variant) == (
        made.answer, made.torch, made.requests, made.variant,
    )  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_a_record_or_unreadable(raw: bytes) -> None:
    assert read_record(GivenRecord("x", raw), nobody).standing == "unreadable"


def test_hostile_records_are_unreadable() -> None:
    good = json.loads(encode(record()))
    hostile: list[bytes] = [
        json.dumps({**good, "extra": 1}).encode(),
        json.dumps({**good, "version": "2.7.0\u001b[2J"}).encode(),
        json.dumps({**good, "wheel_sha256": "A" * 64}).encode(),
        json.dumps({**good, "checks": []}).encode(),
        json.dumps({**good, "checks": [{"id": "x", "status": "passed"}] * 3000}).encode(),
        json.dumps({**good, "kind": "plan"}).encode(),
        json.dumps({**good, "distro": "x" * 400}).encode(),
        b"[" * 100_000,
        b" " * (300 << 10),
        seal(IN_TOTO, encode(record()), "ann", lambda message: b"x"),
    ]
    for raw in hostile:
        assert read_record(GivenRecord("x", raw), believing_all).standing == "unreadable", raw[:80]


@needs.links()
def test_folders_and_lists(tmp_path: Path) -> None:
    first, second = encode(record()), encode(failing())
    (tmp_path / "a.json").write_bytes(first)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "again.json").write_bytes(first)
    lines = [json.dumps(json.loads(raw)) for raw in (second, encode(record(day="2026-01-01")))]
    (tmp_path / "proofs.jsonl").write_text("\n".join([*lines, ""]))
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.json").write_text("{}")
    (tmp_path / "outside.json").symlink_to("/etc/passwd")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "large.json").write_bytes(b" " * (300 << 10))
    (tmp_path / "README.md").write_text("not a record")
    found = find_records(str(tmp_path))
    assert sorted(one.place for one in found) == ["a.json", "large.json", "proofs.jsonl:1", "proofs.jsonl:2"]
    review = review_records(str(tmp_path))
    assert not review.good and review.count("unreadable") == 1 and review.count("hearsay") == 3
    assert len(find_records(str(tmp_path / "proofs.jsonl"))) == 2
    with pytest.raises(BadInput, match="no records at"):
        find_records(str(tmp_path / "nowhere"))


def test_a_list_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.api.proofs.MAX_RECORDS", 3)
    (tmp_path / "proofs.jsonl").write_text("".join(f'{{"n": {number}}}\n' for number in range(5)))
    with pytest.raises(BadInput, match="more than 3"):
        find_records(str(tmp_path))


def test_real_signatures(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    mine, other = new_key("mine", tmp_path / "k"), new_key("other", tmp_path / "o")
    private = read_private("mine", tmp_path / "k")
    raw = seal(PROOF_RECORD, encode(record()), private.id, private.sign)
    assert read_record(GivenRecord("x", raw), checker([mine])).signer == "mine"
    assert read_record(GivenRecord("x", raw), checker([other])).standing == "hearsay"
    swapped = json.loads(raw)
    swapped["payload"] = json.loads(seal(PROOF_RECORD, encode(failing()), "x", lambda message: b"x"))["payload"]
    assert read_record(GivenRecord("x", json.dumps(swapped).encode()), checker([mine])).signer is None


def test_plan_reads_what_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.json").write_bytes(encode(record()))
    assert "count for nothing: 1 say" in texts(plan(MACHINE, WISH, wheelhouses=[], proofs=[str(tmp_path)]))
    monkeypatch.setenv("REKINDLE_PROOFS", f"{tmp_path}/nowhere")
    assert plan(MACHINE, wheelhouses=[]).warnings[-1].code == "proofs-silent"
    with pytest.raises(BadInput, match="no records"):
        plan(MACHINE, wheelhouses=[], proofs=[str(tmp_path / "nowhere")])


REPORT = VerifyReport(
    verdict="failed",
    claims=("cpu", "gpu"),
    checks=(
        VerifyCheck(id="import.torch", status="passed", detail="2.7.0 from /home/ann/env/lib/torch"),
        VerifyCheck(id="gpu0.matmul", status="failed", detail="ann@host: /home/ann/x/torch/lib/libc10.so: no\nkernel"),
    ),
    failed=1,
    environment={
        "python": "3.12.4",
        "machine": "AMD64",
        "executable": "C:\\Users\\ann\\env\\python.exe",
        "torch": "2.7.0+cu126",
        "cuda": "12.6",
        "gpu0": "NVIDIA GeForce GTX 1080, sm_61, 8.0 GiB",
        "rekindle": "0.2.0",
        "settings": "HOME=/home/ann",
    },
    subject="torch in C:\\Users\\ann\\env\\python.exe",
    wheel_sha256="a" * 64,
)


def test_a_record_names_neither_person_nor_machine() -> None:
    made = record_of(REPORT, machine_from_flags(gpu=["GTX 1080"], os="windows", driver="580.65"))
    text = encode(msgspec.structs.replace(made, wheel_sha256="0" * 64)).decode()
    redactor = Redactor(user="ann", home="/home/ann", host="ann-pc")
    assert redactor.text(text.replace("0" * 64, "")) == text.replace("0" * 64, "")
    assert "ann" not in text and "/" not in made.checks[1].why and made.checks[0].why == ""
    assert (made.cards, made.driver, made.arch, made.python) == ((PASCAL,), "580.65", "x86_64", "3.12")
    assert made.cuda == "12.6" and made.version == "2.7.0+cu126" and made.count("failed") == 1


@pytest.mark.parametrize(
    ("said", "arch", "told"), [("AMD64", "aarch64", "x86_64"), (None, "aarch64", "aarch64"), (None, None, "unknown")]
)
def test_the_processor_of_a_record_is_the_runs_then_the_machines(said: str | None, arch: str | None, told: str) -> None:
    environment = {name: word for name, word in REPORT.environment.items() if name != "machine"}
    ran = msgspec.structs.replace(REPORT, environment={**environment, **({"machine": said} if said else {})})
    system = msgspec.structs.replace(MACHINE.os, arch=arch)
    assert record_of(ran, msgspec.structs.replace(MACHINE, os=system)).arch == told


def test_a_record_tells_what_crashed_beside_the_checks() -> None:
    """torch 2.13 on a Neoverse N1 passes every check, and operators that no check calls die of SIGILL."""
    trials = (
        OperatorTrial(operator="a", outcome="crashes"),
        OperatorTrial(operator="b", outcome="no-answer"),
        OperatorTrial(operator="c", outcome="runs"),
        OperatorTrial(operator=None, functions=("at::f", "at::g"), outcome="crashes"),
    )
    made = record_of(msgspec.structs.replace(REPORT, operators=trials), MACHINE)
    assert made.crashes == ("a", "b", "at::f, at::g")
    told = spoken([signed(record(crashes=("torch._stack on float64",)), "ann"), signed(record(), "bob")])
    reason = next(one for one in told.because if one.code == "proven-by-people")
    assert ", but it crashes in torch._stack on float64" in reason.text


def test_sharing_writes_a_record_that_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    new_key("mine")
    share_proof(REPORT, tmp_path / "plain" / "r.json", machine=MACHINE)
    share_proof(REPORT, tmp_path / "signed" / "r.json", machine=MACHINE, sign="mine")
    assert load(tmp_path / "plain" / "r.json", ProofRecord).verdict == "failed"
    plain = review_records(str(tmp_path / "plain"))
    assert plain.count("hearsay") == 1 and plain.good
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "r.json").write_text("{")
    assert not review_records(str(tmp_path / "broken")).good
    assert review_records(str(tmp_path / "signed")).records[0].signer == "mine"
    bare = msgspec.structs.replace(REPORT, wheel_sha256=None)
    with pytest.raises(BadInput, match="names no wheel"):
        share_proof(bare, tmp_path / "r.json", machine=MACHINE)


def test_what_up_installed_is_shared_by_the_digest_of_its_wheel_until_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    told = {**REPORT.environment, "executable": sys.executable}
    ran = msgspec.structs.replace(REPORT, wheel_sha256=None, environment=told)
    now = look_into(LiveHost(), sys.executable).fingerprint

    def keep(python: str, fingerprint: str) -> None:
        kept = Installation(python=python, wheel_sha256="b" * 64, fingerprint=fingerprint)
        write_atomically(workspace_at(None).reports / "install.json", encode(kept))

    with pytest.raises(BadInput, match="names no wheel"):
        check_shareable()
    keep(sys.executable, now)
    check_shareable()
    assert record_of(ran, MACHINE).wheel_sha256 == "b" * 64
    for python, fingerprint in (("/another/python", now), (sys.executable, "another"), (sys.executable, "")):
        keep(python, fingerprint)
        with pytest.raises(BadInput, match="names no wheel"):
            record_of(ran, MACHINE)


def test_cards_as_checks_name_them() -> None:
    assert card_of("NVIDIA H200, sm_90, 139.8 GiB") == ProofCard(name="NVIDIA H200", arch="sm_90")
    assert card_of("AMD Radeon RX 6600, gfx1032") == ProofCard(name="AMD Radeon RX 6600", arch="gfx1032")
    assert card_of("something") is None
