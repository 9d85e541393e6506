"""Edges of the planner that a small slip would move without anybody noticing."""

from __future__ import annotations

from typing import Any

import pytest
from planning import FACTS, ask, build, changed, plan, said, wheel

from rekindle.plan.assess import assess
from rekindle.plan.candidates import choose_python
from rekindle.plan.question import BuildInputs
from rekindle.plan.rules_gpu import source_end
from rekindle.plan.rules_toolchain import compiler_problems
from rekindle.plan.solve import make_plan, solve
from rekindle.plan.wording.document import _is_poor


@pytest.mark.parametrize(
    ("gpus", "flags", "backend"),
    [
        ((), {}, "cpu"),
        ((), {"cuda": "12.6"}, "cuda"),
        ((), {"cudnn": "9.1"}, "cuda"),
        ((), {"variant": "cu126"}, "cuda"),
        ((), {"torch": "2.8.0+cu128"}, "cuda"),
        ((), {"rocm": "6.3"}, "rocm"),
        ((), {"variant": "rocm6.4"}, "rocm"),
        ((), {"variant": "amd7.14"}, "rocm"),
        ((), {"driver": "550.54"}, "cuda"),
        (("sm_86",), {"variant": "cpu"}, "cpu"),
        (("gfx1030",), {"cuda": "12.6"}, "rocm"),
        (("sm_86", "gfx1030"), {}, "cuda"),
        (("sm_86", "gfx1030"), {"rocm": "6.3"}, "rocm"),
        (("sm_20",), {"cuda": "8.0"}, "cpu"),
        (("sm_86",), {"os": "macos"}, "cpu"),
    ],
)
def test_which_backend_a_machine_and_a_wish_mean(gpus: tuple[str, ...], flags: dict[str, Any], backend: str) -> None:
    assert ask(*gpus, **flags).backend == backend


def test_fifteen_releases_behind_are_worth_a_word_and_sixteen_are_not() -> None:
    question = ask("sm_86")
    best = assess(wheel("2.15.0", "cu130"), question)
    assert not _is_poor(assess(wheel("2.0.1", "cu118"), question), best, question)
    assert _is_poor(assess(wheel("1.13.1", "cu117"), question), best, question)
    assert not _is_poor(assess(wheel("1.13.1", "cu117"), question), best, ask("sm_86", torch="1.13.1"))


def test_where_no_python_is_liked_the_newest_is_taken() -> None:
    odd = changed(wheel("1.3.0", "cu101"), pythons={"linux_x86_64": ("2.6", "2.7", "3.5")})
    assert choose_python(odd, ask("sm_61")) == "3.5"
    assert choose_python(changed(odd, pythons={"linux_x86_64": ("3.5", "3.6")}), ask("sm_61")) == "3.6"


def test_a_refused_visual_studio_is_called_by_its_year() -> None:
    found = list(compiler_problems("msvc-19.44", build("2.0.1", cuda="11.4"), ask("sm_61", os="windows")))
    assert "MSVC 19.44 (Visual Studio 2022) is none of them" in found[0].reason
    assert not list(compiler_problems("msvc-19.29", build("2.0.1", cuda="11.4"), ask("sm_61", os="windows")))


def test_cards_no_torch_ever_served_are_told_why() -> None:
    assert "older than Kepler" in plan("sm_20").because[0].text
    assert "ROCm never supported it" in plan("gfx600").because[0].text
    assert "XPU wheels" in plan("Arc A770").because[0].text
    assert not plan("sm_20").as_asked and plan("sm_20").answer == "none"


def test_an_end_of_sources_holds_from_its_first_to_its_last_card() -> None:
    for row in FACTS.cuda.source_end:
        assert source_end(row.first, FACTS) == row and source_end(row.last, FACTS) == row


@pytest.mark.parametrize(("disk", "refused"), [(29.9, True), (30.0, False), (None, False)])
def test_disk_for_a_build(disk: float | None, refused: bool) -> None:
    assert bool(said("R502", build("2.6.0", cuda="12.4"), ask("sm_86", disk=disk))) is refused


def test_a_python_with_its_patch_number_is_that_python() -> None:
    assert said("R301", wheel("2.7.1", "cu126"), ask("sm_86", python="3.12.4")) == []
    assert said("R301", wheel("2.7.1", "cu126"), ask("sm_86", python="3.8.4"))


def test_builds_are_looked_for_only_where_a_wheel_does_not_do() -> None:
    assert solve(ask("sm_86")).builds == []
    assert solve(ask("sm_86", torch="2.7.1")).builds == []
    assert solve(ask("sm_120", torch="2.6.0")).builds
    assert solve(ask("sm_86", build=True)).builds
    assert solve(ask("sm_35")).builds


def test_an_asked_toolkit_ends_the_search_where_it_just_works() -> None:
    made = solve(ask("sm_86", cuda="12.8", build=True))
    assert made.best is not None and made.best.candidate.cuda == "12.8" and not made.best.changes


def test_torchaudio_of_the_old_page_is_pypis() -> None:
    left_out = [w.text for w in plan("sm_75", os="windows", torch="1.5.1+cu102").warnings if "torchaudio" in w.text]
    assert left_out and "PyPI has no torchaudio 0.5.1" in left_out[0]


def test_variables_to_keep() -> None:
    assert plan("gfx1031", torch="2.9.1").env == {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}
    assert plan("gfx1030", torch="2.9.1").env == {} and plan("sm_86").env == {}


@pytest.mark.parametrize("system", ["linux", "windows"])
def test_patches_are_applied_right_before_the_tree_is_entered(system: str) -> None:
    line = "rekindle source patch pytorch"
    bare = plan("sm_86", torch="2.6.0", build=True, os=system)
    assert bare.build is not None and not bare.build.patches and line not in bare.commands
    question = ask("sm_86", torch="2.6.0", build=True, os=system)
    inputs = BuildInputs(patches=lambda build: ("x", build.torch))
    patched = make_plan(question.machine, question.wish, FACTS, inputs=inputs)
    assert patched.build is not None and patched.build.patches == ("x", "2.6.0")
    at = patched.commands.index("cd pytorch")
    assert patched.commands[at - 1] == line and patched.commands.count(line) == 1
    assert [one for one in patched.commands if one != line] == list(bare.commands)
    assert (line in patched.powershell) is (system == "windows")


def test_a_build_from_git_names_the_systems_packages_and_keeps_its_lines() -> None:
    made = plan("none", torch="2.6.0", build=True, distro="debian 12")
    assert made.build is not None and made.build.origin == "git" and made.build.packages
    assert made.commands[0].startswith("git clone ")
