"""The ways worth judging: toolkits, Pythons, names, and when one is feasible."""

from __future__ import annotations

import msgspec
from planning import FACTS, ask, build, changed, said, wheel, with_machine

from rekindle.model.machine import Toolkit
from rekindle.model.plan import Change, Refusal
from rekindle.plan.assess import _python_steps
from rekindle.plan.candidates import (
    Assessed,
    buildable_releases,
    choose_python,
    python_span,
    pythons_of,
    same_python,
    source_builds,
)

BUILD = build("2.3.1", cuda="12.1", compiler="gcc-12.2")


def test_toolkits_in_order_and_only_toolkits() -> None:
    found = [each.cuda for each in source_builds(ask("sm_86"), ("2.0.1",))]
    assert found[:3] == ["11.8", "11.7", "11.6"], "what official builds used, then others of that age, newest first"
    other, unread = Toolkit(kind="cudnn", version="9.9"), Toolkit(kind="cuda", version=None)
    kits = (other, unread, Toolkit(kind="cuda", version="11.5"))
    assert next(iter(source_builds(with_machine(ask("sm_86"), toolkits=kits), ("2.0.1",)))).cuda == "11.5"
    rocm = [each.rocm or "" for each in source_builds(ask("gfx1100"), ("2.4.1",))]
    assert rocm[0] == max(rocm, key=lambda version: [int(part) for part in version.split(".")])
    board = with_machine(ask("Jetson Xavier NX"), toolkits=(other, unread, Toolkit(kind="cuda", version="10.2.300")))
    assert board.board_cuda == "10.2.300"


def test_no_release_is_built_twice() -> None:
    found = buildable_releases(ask("sm_86", torch=">=2.5,<2.7"))
    assert len(found) == len(set(found)) and found[0].startswith("2.6")


def test_a_python_with_a_third_number_is_the_same_python() -> None:
    assert _python_steps(build("2.7.1", python="3.10"), ask(python="3.12.4")) == 2
    assert _python_steps(build("2.7.1", python="3.10.9"), ask(python="3.12.4")) == 2
    assert same_python("3.12.4", "3.12") and not same_python("3.12.4", "3.11") and not same_python("3.13t", "3.13")
    assert (
        python_span(("3.8",)),
        python_span(("3.8", "3.9")),
        python_span(("3.8", "3.9", "3.13t")),
        python_span(()),
    ) == (
        "3.8",
        "3.8 to 3.9",
        "3.8 to 3.9",
        "none",
    )
    assert choose_python(wheel("1.4.0", "cu101"), ask("sm_70", python="2.6")) == "2.7", "the nearest, not the newest"
    known = {"linux_x86_64": ("2.7", "3.5", "3.8", "3.11", "3.14t")}
    several = changed(wheel("1.4.0", "cu101"), pythons=known)
    asked = {
        "3.9.18": "3.8",
        "3.10": "3.11",
        "3.0": "3.5",
        "2.0": "2.7",
        "3.14": "3.11",
        "3.14t": "3.14t",
        "4.8": "3.8",
    }
    assert {python: choose_python(several, ask("sm_70", python=python)) for python in asked} == asked


def test_pythons_of_a_platform_of_a_board_and_of_one_without_wheels() -> None:
    release = FACTS.release("2.7.1")
    assert release is not None
    here = tuple(version for version in release.pythons["linux_aarch64"] if not version.endswith("t"))
    assert pythons_of(build("2.7.1"), ask(arch="aarch64")) == here
    assert "3.6" in pythons_of(build("1.10.2", cuda="10.2"), ask("Jetson Nano"))
    assert pythons_of(build("0.4.1"), ask(os="windows")) != ()


def test_where_no_python_is_liked_the_newest_is_taken() -> None:
    odd = changed(wheel("1.3.0", "cu101"), pythons={"linux_x86_64": ("2.6", "2.7", "3.5")})
    assert choose_python(odd, ask("sm_61")) == "3.5"
    assert choose_python(changed(odd, pythons={"linux_x86_64": ("3.5", "3.6")}), ask("sm_61")) == "3.6"


def test_a_python_with_its_patch_number_is_that_python() -> None:
    assert said("R301", wheel("2.7.1", "cu126"), ask("sm_86", python="3.12.4")) == []
    assert said("R301", wheel("2.7.1", "cu126"), ask("sm_86", python="3.8.4"))


def test_a_candidate_is_feasible_if_every_certain_no_can_be_changed() -> None:
    def judged(*refusals: Refusal) -> Assessed:
        return Assessed(BUILD, list(refusals))

    hard = Refusal(rule="R1", code="a", what="x", reason="No.")
    doubt = Refusal(rule="R1", code="b", what="x", reason="Perhaps.", certain=False)
    change = Change(what="cuda", from_="1", to="2", why="so")
    soft = Refusal(rule="R1", code="c", what="x", reason="Else.", change=change)
    again = Refusal(rule="R2", code="d", what="x", reason="Else.", change=msgspec.structs.replace(change, to="3"))
    assert judged().feasible and judged(doubt).feasible and judged(soft).feasible
    assert not judged(hard).feasible and not judged(soft, hard).feasible
    assert judged(soft, again).changes == [change], "the first reason for a change counts"
    assert judged(hard, doubt).doubts == [doubt]


def test_names_of_candidates() -> None:
    assert wheel("2.7.1", "cu126").name == "torch 2.7.1+cu126"
    assert build("2.7.1", cuda="12.6").name == "torch 2.7.1 from source with CUDA 12.6"
    assert build("2.7.1", rocm="6.3").name == "torch 2.7.1 from source with ROCm 6.3"
    assert build("2.7.1").name == "torch 2.7.1 from source"
