"""What records say of a plan, which of them are about it, and who makes another an outlier: each condition alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rekindle.compat.proofs import GivenRecord, find_doubt, read_record, speak_of_plan, weigh_records
from rekindle.model.document import encode
from rekindle.model.plan import Plan
from rekindle.model.verify import ProofCard, ProofCheck, ProofRecord
from small_records import (
    FACTS,
    GOOD,
    PASCAL,
    PLANNED,
    STRANGER,
    believing_all,
    failing,
    nobody,
    record,
    signed,
    spoken,
    texts,
    unsigned,
)


def is_told(one: ProofRecord, made: Plan, archs: tuple[str, ...] = ("sm_61",)) -> bool:
    weighed = weigh_records([signed(one, "ann")], believing_all, FACTS, redact=STRANGER)
    assert weighed[0].standing == "counts", weighed[0].why
    return speak_of_plan(made, archs, weighed, "x") != made


@pytest.mark.parametrize(
    ("planned", "recorded", "told"),
    [
        # The very wheel; PyPI's name of it tells no variant, so its CUDA counts, by its first two numbers.
        ({}, {"version": "2.7.0+cu126"}, True),
        ({}, {"version": "2.7.0", "cuda": "12.6"}, True),
        ({}, {"version": "2.7.0", "cuda": "12.6.77"}, True),
        ({"cuda": "12.6.3"}, {"version": "2.7.0", "cuda": "12.6.77"}, True),
        ({}, {"version": "2.7.0", "cuda": "12.8"}, False),
        ({}, {"version": "2.7.0", "cuda": None, "driver": None}, False),
        ({}, {"version": "2.7.0+cu128", "cuda": "12.6"}, False),
        ({}, {"version": "2.7.0+mine", "cuda": "12.6"}, False),
        ({"variant": None}, {"version": "2.7.0+mine", "cuda": "12.8"}, True),
        ({"torch": "2.7.0+cu126"}, {"version": "2.7.0+cu126"}, True),
        ({"torch": None}, {}, False),
        ({"project": "torchvision"}, {}, False),
        ({"os": None}, {}, True),
        # A build: whatever it is called, of that CUDA.
        ({"answer": "build", "variant": None}, {"version": "2.7.0+mine", "cuda": "12.6.77"}, True),
        ({"answer": "build", "variant": None}, {"version": "2.7.0+mine", "cuda": "12.8"}, False),
        ({"answer": "build", "variant": None}, {"version": "2.7.0+mine", "cuda": None, "driver": None}, False),
        ({"answer": "build", "variant": None, "cuda": None}, {"version": "2.7.0+mine", "cuda": "12.8"}, True),
        ({"answer": "build", "variant": None}, {"version": "2.7.1+mine", "cuda": "12.6"}, False),
    ],
)
def test_whether_a_record_is_about_the_plan(planned: dict[str, Any], recorded: dict[str, Any], told: bool) -> None:
    assert is_told(record(**recorded), msgspec.structs.replace(PLANNED, **planned)) is told


def test_a_plan_for_the_processor_hears_of_processors_alone() -> None:
    """And one for cards of those who had one of them."""
    alone = record(cards=(), claims=("cpu",), checks=GOOD[:1])
    two = record(cards=(PASCAL, ProofCard(name="RTX 3060", arch="sm_86")))
    assert is_told(alone, PLANNED, archs=()) and not is_told(alone, PLANNED)
    assert not is_told(record(), PLANNED, archs=())
    assert is_told(two, PLANNED, archs=("sm_86", "sm_90")) and not is_told(two, PLANNED, archs=("sm_90",))


def new_words(made: Plan) -> list[tuple[str, str]]:
    said = [*made.because[len(PLANNED.because) :], *made.warnings[len(PLANNED.warnings) :]]
    return [(reason.code, reason.text) for reason in said]


def test_nothing_is_said_of_what_nobody_did() -> None:
    where = "NVIDIA GeForce GTX 1080 (sm_61)"
    assert new_words(spoken([signed(record(driver=None), "ann")])) == [
        ("proven-by-people", f"Proven by 1 person on {where}.")
    ]
    both = spoken([signed(record(driver=None), "ann"), signed(record(), "bob")])
    assert new_words(both) == [("proven-by-people", f"Proven by 2 people on {where} with driver 580.")]
    doubtful = spoken([signed(record(driver="470.14"), "ann"), signed(record(day="2026-01-01", driver="1.0"), "bob")])
    ((code, text),) = new_words(doubtful)
    assert code == "proofs-doubtful" and text.startswith("2 records about it are doubtful and count for nothing: CUDA")


def test_the_checks_that_failed_are_listed_two_at_most_and_cut() -> None:
    def check(number: int, status: Any = "failed", why: str = "") -> ProofCheck:
        return ProofCheck(id=f"gpu0.{number}", status=status, why=why)

    def said(*checks: ProofCheck) -> str:
        ((code, text),) = new_words(spoken([signed(record(verdict="failed", checks=checks), "ann")]))
        assert code == "failed-for-people"
        return text.partition("with driver 580 ")[2]

    assert said(check(1, "passed"), check(2), check(3, "skipped")) == "(gpu0.2)."
    assert said(check(1, why="no"), check(2), check(3)) == "(gpu0.1: no; gpu0.2)."
    assert said(check(1), check(1)) == "(gpu0.1)."
    assert said(check(1, why="x" * 200)) == f"(gpu0.1: {'x' * 112})."


def test_the_driver_must_be_one_of_the_system_it_ran_on() -> None:
    """528.33 is the least that runs CUDA 12.6 on Windows, 525.60.13 on Linux."""
    assert "needs driver 528.33, and it says 527.41" in find_doubt(record(driver="527.41"), FACTS, redact=STRANGER)
    assert find_doubt(record(driver="528.33"), FACTS, redact=STRANGER) == ""
    assert find_doubt(record(driver="527.41", system="linux"), FACTS, redact=STRANGER) == ""
    assert "525.60.13" in find_doubt(record(driver="525.60.12", system="linux"), FACTS, redact=STRANGER)


def test_a_name_in_any_script_is_a_name() -> None:
    def redact(text: str) -> str:
        return text.replace("Jürgen", "…")

    assert "names a person" in find_doubt(record(distro="Linux of Jürgen"), FACTS, redact=redact)
    assert find_doubt(record(distro="Linux of Jurgen"), FACTS, redact=redact) == ""


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"version": "2.7.1+cu126"},
        {"package": "torchvision"},
        {"system": "linux"},
        {"cards": (ProofCard(name="RTX 3060", arch="sm_86"),)},
        {"driver": "470.14"},  # doubtful, whoever signed it
    ],
)
def test_only_those_who_count_and_speak_of_the_same_make_an_outlier(elsewhere: dict[str, Any]) -> None:
    others = [signed(record(**elsewhere), name) for name in ("a", "b")]
    weighed = weigh_records([*others, signed(failing(), "c")], believing_all, FACTS, redact=STRANGER)
    assert not any(one.outlier for one in weighed)
    same = [signed(record(), name) for name in ("a", "b")]
    assert weigh_records([*same, signed(failing(), "c")], believing_all, FACTS, redact=STRANGER)[-1].outlier


def test_one_person_counts_once() -> None:
    twice = [signed(record(), "a"), signed(record(day="2026-01-01"), "a"), signed(failing(), "c")]
    assert not any(one.outlier for one in weigh_records(twice, believing_all, FACTS, redact=STRANGER))


def test_a_record_may_be_a_quarter_of_a_mebibyte_and_no_longer() -> None:
    raw = encode(record())
    full = raw + b" " * ((1 << 18) - len(raw))
    assert read_record(GivenRecord("x", full), nobody).standing == "hearsay"
    long = read_record(GivenRecord("x", full + b" "), nobody)
    assert long.standing == "unreadable" and "too long" in long.why


def test_why_a_record_cannot_be_read_is_cut() -> None:
    assert len(read_record(GivenRecord("x" * 1000, b"{"), nobody).why) == 400


@pytest.mark.parametrize("field", ["cuda", "rocm", "driver"])
def test_a_number_too_long_to_compare_spoils_its_own_record_alone(field: str) -> None:
    bad = record(**{field: "1234567890123456789.0"})
    weighed = weigh_records([*unsigned(bad), signed(record(), "ann")], believing_all, FACTS, redact=STRANGER)
    assert [one.standing for one in weighed] == ["unreadable", "counts"]
    assert "Proven by 1 person" in texts(spoken([signed(bad, "bob"), signed(record(), "ann")]))
