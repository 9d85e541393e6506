"""A plan for an application keeps its bounds, or names the version of it that fits the card."""

from __future__ import annotations

import pytest

from rekindle import api
from rekindle.facts import load_facts
from rekindle.model.companion import AppUse
from rekindle.model.plan import Plan, Wish
from rekindle.model.version import matches
from rekindle.plan.apps import age_of, app_ages, plan_app


def plan_for(app: str, **flags: object) -> Plan:
    return api.plan(api.machine_from_flags(**flags), wheelhouses=[], app=app)  # type: ignore[arg-type]


def test_a_new_card_gets_its_newest_torch_and_hears_of_the_floor() -> None:
    made = plan_for("comfyui", gpu=["RTX 5090"], os="windows")
    free = api.plan(api.machine_from_flags(gpu=["RTX 5090"], os="windows"), wheelhouses=[])
    assert (made.torch, made.requests, made.as_asked) == (free.torch, free.requests, True)
    assert made.because[0].code == "app-torch" and "ComfyUI from 0.31.0 on takes torch >=2.7" in made.because[0].text


def test_the_floor_is_part_of_the_question() -> None:
    """Without it a K80 gets 2.3.1, with which ComfyUI of today does not start."""
    flags = {"gpu": ["Tesla K80"], "driver": "470.82", "os": "linux"}
    assert api.plan(api.machine_from_flags(**flags), wheelhouses=[]).torch == "2.3.1"  # type: ignore[arg-type]
    made = plan_for("comfyui", **flags)
    assert matches(made.torch or "", ">=2.7")
    other = made.alternatives[1]
    assert (other.answer, other.torch) == ("install", "2.3.1") and "ComfyUI before 0.7.0" in other.why


def test_a_wheel_with_cudnn_switched_off_spares_a_build() -> None:
    made = plan_for("comfyui", gpu=["Tesla K80"], driver="470.82", os="linux", arch="x86_64")
    assert (made.answer, made.torch, made.variant) == ("install", "2.7.1", "cu118")
    assert made.env == {"REKINDLE_CUDNN": "off"} and made.warnings[0].code == "cudnn-off"
    assert (made.alternatives[0].answer, made.alternatives[0].torch) == ("build", "2.7.1")
    fine = plan_for("comfyui", gpu=["GTX 1080"], driver="580.95", os="linux", arch="x86_64")
    assert fine.env == {} and "cudnn-off" not in {warning.code for warning in fine.warnings}
    asked = plan_for("automatic1111", gpu=["Tesla K80"], driver="470.82", os="linux", arch="x86_64")
    assert asked.torch == "2.3.1" and asked.env == {}, "an application without bounds needs no such torch"


def test_what_the_installed_version_asks_for_goes_before_the_tables() -> None:
    use = AppUse(name="vllm", version="0.33.0", torch="==2.14.0", python="3.12")
    machine = api.machine_from_flags(gpu=["RTX 3060"], os="linux")
    made = api.plan(machine, wheelhouses=[], app=use)
    assert (made.torch, made.python) == ("2.14.0", "3.12") and made.because[
        0
    ].text == "vLLM 0.33.0 takes torch ==2.14.0."
    assert api.plan(machine, Wish(python="3.11"), wheelhouses=[], app=use).python == "3.11"


def test_other_choices_are_such_that_the_application_takes() -> None:
    machine, wish = api.machine_from_flags(gpu=["Tesla K80"], os="linux"), Wish(torch=">=2.7")
    free = api.plan(machine, wish, wheelhouses=[])
    made = api.plan(machine, wish, wheelhouses=[], app="comfyui")
    assert any(not matches(other.torch or "", ">=2.7") for other in free.alternatives)
    assert made.alternatives and all(matches(other.torch or "", ">=2.7") for other in made.alternatives)


def test_an_old_version_of_it_has_its_own_bounds() -> None:
    made = plan_for("invokeai==5.10.1", gpu=["RTX 3060"], os="linux")
    assert matches(made.torch or "", ">=2.6,<2.7") and made.answer == "install"
    assert matches(plan_for("vllm==0.8.5", gpu=["RTX 3060"], os="linux").torch or "", "2.6.0")


def test_the_version_that_fits_is_a_change_in_so_many_words() -> None:
    """The planner here can do nothing but 2.2.2: InvokeAI 4.2.9 takes exactly that."""

    def only_old(wish: Wish) -> Plan:
        if wish.torch is None or matches("2.2.2", wish.torch):
            return Plan(answer="install", torch="2.2.2", as_asked=True)
        return Plan(answer="none")

    made = plan_app(AppUse(name="invokeai"), Wish(), load_facts(), only_old)
    change = made.changes[0]
    assert (change.what, change.to) == ("invokeai", "before 5.10.0") and not made.as_asked
    assert "InvokeAI before 5.10.0 takes torch <2.5" in change.why


def test_beside_a_build_that_nobody_tried_stands_the_version_whose_build_somebody_compiled() -> None:
    made = plan_for("comfyui", gpu=["Tesla K40c"], os="linux")
    assert (made.answer, made.evidence) == ("build", "untried")
    other = made.alternatives[0]
    assert (other.answer, other.torch) == ("build", "2.6.0") and "ComfyUI before 0.7.0" in other.why
    assert "evidence: compiled" in other.why
    tried = [one for one in plan_for("comfyui", gpu=["Tesla K80"], os="linux").alternatives if "ComfyUI" in one.why]
    assert [one.answer for one in tried] == ["install"], "a wheel needs no evidence"


def test_an_old_version_is_not_promised_to_start_with_a_torch_that_must_be_built() -> None:
    made = plan_for("comfyui", gpu=["GTX 680"], os="linux")
    assert made.warnings[0].code == "app-torch-outside" and all(change.what != "comfyui" for change in made.changes)


def test_a_torch_asked_for_by_hand_is_kept_and_warned_about() -> None:
    machine = api.machine_from_flags(gpu=["RTX 3060"], os="linux")
    made = api.plan(machine, Wish(torch="2.5.1"), wheelhouses=[], app="comfyui")
    assert made.torch == "2.5.1" and made.warnings[0].code == "app-torch-outside" and not made.as_asked


def test_an_application_without_bounds_gets_the_cards_torch() -> None:
    made = plan_for("a1111", gpu=["GTX 1080"], os="linux")
    free = api.plan(api.machine_from_flags(gpu=["GTX 1080"], os="linux"), wheelhouses=[])
    assert made.torch == free.torch and "its own installer brings 2.1.2" in made.because[0].text


def test_a_version_older_than_the_tables_is_said_to_be_unknown() -> None:
    made = plan_for("vllm==0.1.0", gpu=["RTX 3060"], os="linux")
    assert made.because[-1].code == "app-torch-unknown" and "vLLM 0.1.0" in made.because[-1].text


@pytest.mark.parametrize(
    ("version", "since"), [("0.31.0", "0.31.0"), ("0.30.9", "0.28.0"), (None, "0.31.0"), ("0.6", "0.0.1")]
)
def test_a_version_falls_into_one_span(version: str | None, since: str) -> None:
    age = age_of(AppUse(name="comfyui", version=version), load_facts())
    assert age is not None and age.row.since == since


def test_spans_are_told_by_where_they_end() -> None:
    ages = app_ages("comfyui", load_facts())
    assert [age.words for age in ages] == ["from 0.31.0 on", "before 0.31.0", "before 0.28.0", "before 0.7.0"]


def test_every_row_is_about_an_application_of_the_tables() -> None:
    facts = load_facts()
    own = {name for name, app in facts.apps.app.items() if app.backend is None}
    assert {row.app for row in facts.apps.torch} == own
    assert {app.backend for app in facts.apps.app.values()} <= own | {None}
    assert len(facts.apps.app) >= 10
