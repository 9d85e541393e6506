"""R2xx asked directly: sources, toolkits and compilers."""

from __future__ import annotations

from planning import ask, build, said

from rekindle.plan.rules_toolchain import compiler_problems


def test_a_rocm_that_nobody_pairs_is_a_doubt_and_says_who_is_named() -> None:
    (doubt,) = said("R205", build("2.8.0", rocm="5.7"), ask("gfx1100"))
    assert not doubt.certain and "named are: 6." in doubt.reason


def test_a_compiler_s_change_gives_the_reason_of_the_refusal() -> None:
    (found,) = said("R202", build("2.5.0", cuda="12.4", compiler="gcc-13"), ask("sm_86", compiler="gcc-14"))
    assert found.change is not None and found.change.why == found.reason


def test_a_rocm_without_any_pair_says_that_none_is_known() -> None:
    (found,) = said("R205", build("1.0.1", rocm="5.7"), ask("gfx900"))
    assert found.reason.endswith("named are: none that we know.")


def test_a_refused_visual_studio_is_called_by_its_year() -> None:
    found = list(compiler_problems("msvc-19.44", build("2.0.1", cuda="11.4"), ask("sm_61", os="windows")))
    assert "MSVC 19.44 (Visual Studio 2022) is none of them" in found[0].reason
    assert not list(compiler_problems("msvc-19.29", build("2.0.1", cuda="11.4"), ask("sm_61", os="windows")))
