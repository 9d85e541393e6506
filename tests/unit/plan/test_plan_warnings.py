"""What the user of a plan is warned of."""

from __future__ import annotations

import pytest
from planning import ask, plan

from rekindle.plan.assess import assess
from rekindle.plan.candidates import (
    Candidate,
)
from rekindle.plan.question import Question
from rekindle.plan.wording.document import alternative


def told(candidate: Candidate, question: Question) -> str:
    return alternative(assess(candidate, question)).why


def test_a_card_no_torch_ever_served_says_why() -> None:
    assert "32-bit board" in plan("Jetson TK1").because[0].text
    old = plan("sm_20").because[0]
    assert "older than Kepler" in old.text and old.source and old.source.startswith("https://")
    assert plan("sm_30").answer == "build", "Kepler's first is the oldest that works"


@pytest.mark.parametrize("gpu", ["sm_35", "sm_61", "Jetson Nano", "gfx803"])
def test_nothing_is_said_twice(gpu: str) -> None:
    texts = [warning.text for warning in plan(gpu).warnings]
    assert len(texts) == len(set(texts))


def test_cards_no_torch_ever_served_are_told_why() -> None:
    assert "older than Kepler" in plan("sm_20").because[0].text
    assert "ROCm never supported it" in plan("gfx600").because[0].text
    assert "XPU wheels" in plan("Iris Xe Graphics", variant="xpu").because[0].text
    assert not plan("sm_20").as_asked and plan("sm_20").answer == "none"


def test_a_problem_that_the_settings_avoid_is_said_to_be_handled() -> None:
    made = plan(torch="1.13.1", variant="cpu", build=True, compiler="gcc-12", python="3.10")
    told = {warning.code: warning.handled for warning in made.warnings}
    assert told["cmake4-policy"] and made.build and made.build.env["CMAKE_POLICY_VERSION_MINIMUM"] == "3.5"
    assert not told["setuptools-82"], "nothing in this plan's settings takes it away"


@pytest.mark.parametrize("cpu", ["x86_64", "aarch64"])
def test_a_kind_of_machine_is_no_cpu(cpu: str) -> None:
    told = [warning.text for warning in plan("none", cpu=cpu).warnings]
    assert any(text.startswith(f"What {cpu} can do is not known here") for text in told)
    assert ask("none", cpu=cpu).arch == cpu
