"""The reasons of a plan, in words."""

from __future__ import annotations

import pytest
from planning import ask, build, plan

from rekindle.plan.assess import (
    assess,
)
from rekindle.plan.wording.because import choice_reasons


def test_a_build_for_a_board_says_why_the_wheels_of_its_cuda_will_not_do() -> None:
    made = plan("Jetson AGX Orin", cuda="12.6", torch="2.11.0")
    assert made.because[0].text == (
        "No official wheel of the asked torch has code for Jetson AGX Orin (sm_87): it takes a source build."
    )
    assert plan("Tesla K40c").because[0].text.startswith("No official wheel after torch 1.3.0+cu101 (Python 3.7) has")
    assert plan("Tesla K40c", torch="2.0.1").because[0].text.startswith("No official wheel of the asked torch has")


def test_a_release_without_known_wheels_says_so_and_is_built_with_a_toolkit_of_its_time() -> None:
    made = plan("sm_61", torch="0.4.1", variant="cu90", python="3.6")
    assert made.changes[0].why == "no wheel of torch 0.4.1 for linux_x86_64 is known here."
    assert plan("sm_61", torch="0.4.1", build=True).cuda == "8.0", "the first that knows the card"
    other = plan("sm_86", torch="2.8.0", variant="cu118")
    assert "was not published as cu118 for linux_x86_64; there are cpu, cu126, cu128, cu129" in other.changes[0].why


def test_the_nearest_wheel_is_one_of_the_asked_release_with_an_easier_way() -> None:
    text = plan("sm_86", torch="2.9.0", glibc="2.17").because[0].text
    assert "The nearest is torch 2.9.0+" in text
    assert text.endswith("Easier than a build: an older torch, a container, or a newer distribution.")


@pytest.mark.parametrize(
    ("gpus", "rocm", "code", "words"),
    [
        ((), None, "build-asked", "torch 2.6.0 is built from source for the CPU."),
        (("gfx803",), "6.2", "rocm-targets-arch", "Built from source for gfx803: PYTORCH_ROCM_ARCH=gfx803."),
        ((), "6.2", "rocm-targets-arch", "No card is named, so PYTORCH_ROCM_ARCH is left out and the build takes"),
    ],
)
def test_what_a_build_is_made_for(gpus: tuple[str, ...], rocm: str | None, code: str, words: str) -> None:
    question = ask(*gpus, rocm=rocm)
    reasons = list(choice_reasons(assess(build("2.6.0", rocm=rocm, compiler="gcc-13"), question), question))
    assert [one.code for one in reasons] == [code]
    assert reasons[0].text.startswith(words)
    assert "ARCH=." not in reasons[0].text, "an empty list is no list"


@pytest.mark.parametrize("wish", [{}, {"build": True}, {"variant": "cu118"}])
def test_a_cudnn_that_cannot_be_kept_has_its_reason_with_the_source(wish: dict[str, object]) -> None:
    made = plan("sm_37", cudnn="9.1.0", **wish)
    assert [(change.what, change.from_, change.to) for change in made.changes] == [("cudnn", "9.1.0", "<=8.7.0")]
    (reason,) = [reason for reason in made.because if reason.code == "cudnn-lacks-arch"]
    assert reason.text.startswith("cuDNN 9.1.0 has no code for sm_37") and reason.source


def test_a_cudnn_that_the_plan_keeps_is_no_reason() -> None:
    made = plan("sm_86", torch="2.2.2", cudnn="8.2.1", python="3.14")
    assert made.changes and not any(reason.code.startswith("cudnn") for reason in made.because)
