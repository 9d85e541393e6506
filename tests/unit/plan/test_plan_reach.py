"""Machines of every family, judged by public sources before the planner was asked: at least 97 % must be right."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

PLANS = Path(__file__).parents[2] / "plans"
sys.path.insert(0, str(PLANS))

from score import answer, load_cases, misses  # noqa: E402


def test_machines_of_every_family_are_answered_right() -> None:
    cases = load_cases(PLANS / "reach.jsonl")
    wrong = {case["id"]: found for case in cases if (found := misses(case, answer(case["ask"], by_name=True)))}
    assert len(cases) >= 150 and len(wrong) <= 0.03 * len(cases), wrong


def test_every_expectation_says_something_and_has_a_source() -> None:
    for case in load_cases(PLANS / "reach.jsonl"):
        assert case["url"] and case["why"] and any(value not in (None, [], {}) for value in case["expect"].values())


def test_what_pytorch_still_builds_in_its_ci_is_a_build_as_asked() -> None:
    asked = answer({"gpu": "V100", "torch": "2.15.0", "cuda": "12.6"}, by_name=True)
    assert (asked.answer, asked.as_asked, asked.torch, asked.cuda) == ("build", True, "2.15.0", "12.6")
    assert any("PyTorch itself names builds" in reason.text for reason in asked.because)
    assert answer({"gpu": "V100"}, by_name=True).answer == "install", "unasked, the last wheel"
    other = answer({"gpu": "V100", "torch": "2.15.0", "cuda": "12.4"}, by_name=True)
    assert not other.as_asked, "of CUDA 12.4 nobody said so"


def test_wsl_is_a_system() -> None:
    assert answer({"gpu": "Arc A770", "os": "wsl2"}, by_name=True).variant == "xpu"
    amd = answer({"gpu": "RX 7900 XTX", "os": "wsl"}, by_name=True)
    assert any("WSL2" in reason.text for reason in amd.warnings)


def test_an_old_windows_is_said_to_be_one_and_builds_take_its_python() -> None:
    made = answer({"gpu": "RTX 2070 SUPER", "os": "windows-7"}, by_name=True)
    assert any("windows 7" in reason.text and "R470" in reason.text for reason in made.warnings)
    assert all(other.python in (None, "3.8", "3.7", "3.6") for other in made.alternatives)
    today = answer({"gpu": "RTX 2070 SUPER", "os": "windows-11"}, by_name=True)
    assert all(reason.code != "old-windows" for reason in today.warnings)


def test_an_arm_cpu_that_nobody_knows_is_not_judged_and_said_so() -> None:
    strange = answer({"gpu": "none", "arch": "aarch64", "cpu": "Cortex X99", "torch": "2.10.0"}, by_name=True)
    assert any("Cortex X99" in reason.text and "LSE" in reason.text for reason in strange.warnings)
    known = answer({"gpu": "none", "arch": "aarch64", "cpu": "Odroid N2", "torch": "2.10.0"}, by_name=True)
    assert known.torch != "2.10.0" and not any("was not judged" in reason.text for reason in known.warnings)


def test_a_torch_of_years_ago_by_ptx_alone_is_no_answer_for_a_new_card() -> None:
    made = answer({"gpu": "RTX 5090", "distro": "centos-7"}, by_name=True)
    assert made.torch != "1.5.1"
    newer = [other for other in made.alternatives if "newer glibc" in other.why]
    assert [other.torch for other in newer] == ["2.15.0"]
    asked = answer({"gpu": "RTX 5090", "distro": "centos-7", "torch": "1.5.1"}, by_name=True)
    assert asked.torch == "1.5.1" and not asked.as_asked, "who names it is told that nobody can tell"
    here = answer({"gpu": "Tesla K40c", "distro": "centos-7"}, by_name=True)
    assert not any("newer glibc" in other.why for other in here.alternatives), "the card is in the way, not the system"


@pytest.mark.parametrize(
    ("cpu", "words"), [("POWER9", "ppc64le"), ("IBM z15", "s390x"), ("z14", "s390x"), ("riscv64", "riscv64")]
)
def test_a_cpu_that_pytorch_publishes_nothing_for_is_refused_in_its_own_words(cpu: str, words: str) -> None:
    made = answer({"gpu": "none", "cpu": cpu}, by_name=True)
    assert made.answer == "none" and words in made.because[0].text


def test_a_patch_release_of_another_maker_ends_nothing() -> None:
    made = answer({"gpu": "BC-250"}, by_name=True)
    assert made.torch == "2.14.0" and all(reason.code != "last-torch" for reason in made.warnings)
    assert any(reason.code == "last-torch" for reason in answer({"gpu": "V100"}, by_name=True).warnings)


def test_drivers_are_no_matter_on_an_old_windows_without_a_card() -> None:
    (told,) = [
        reason.text
        for reason in answer({"gpu": "none", "os": "windows-8.1"}, by_name=True).warnings
        if reason.code.startswith("old-windows")
    ]
    assert "3.12" in told and "NVIDIA" not in told


def test_people_with_polaris_get_a_ready_image() -> None:
    made = answer({"gpu": "RX 580"}, by_name=True)
    assert any("docker run" in reason.text and "gfx803" in reason.text for reason in made.warnings)
