"""Which host compiler is taken, refused and proposed, at the very edges of what nvcc and the sources accept."""

from __future__ import annotations

import pytest
from planning import FACTS, ask, build

from rekindle.model.plan import Refusal
from rekindle.plan.candidates import Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules_toolchain import choose_compiler, compiler_fits, compiler_problems


def only(compiler: str, candidate: Candidate, question: Question | None = None) -> Refusal:
    """The first thing said, which is nvcc's where it has any."""
    return next(compiler_problems(compiler, candidate, question or ask("sm_86")))


def test_too_new_a_compiler_is_told_the_newest_that_fits_and_the_first_toolkit_that_takes_it() -> None:
    found = only("gcc-13", build("2.5.0", cuda="12.3"))
    assert (found.rule, found.code) == ("R202", "host-compiler-rejected")
    assert found.remedy == "use gcc-12, or CUDA 12.4 or newer"
    assert "takes gcc 6 to 12 as host compiler; gcc 13 is none of them" in found.reason
    assert found.source == FACTS.cuda.toolkit["12.3"].host_source


def test_too_old_a_compiler_is_not_sent_to_a_newer_toolkit() -> None:
    old = build("1.5.0", cuda="10.2")
    assert only("gcc-4.9", old).remedy == "use gcc-8", "only older toolkits took it"
    assert list(compiler_problems("gcc-5", old, ask("sm_70"))) == []


def test_visual_studio_is_named_by_its_year() -> None:
    found = only("msvc-19.44", build("2.0.1", cuda="11.4"), ask("sm_86", os="windows"))
    assert found.remedy == "use the Visual Studio 2017-2019 toolset, or CUDA 12.4 or newer"
    assert "MSVC 19.44 (Visual Studio 2022) is none of them" in found.reason


def test_a_toolkit_without_a_source_for_its_compilers_gives_its_own() -> None:
    row = FACTS.cuda.toolkit["9.2"]
    assert row.host_source is None and len(row.source) > 1
    assert only("gcc-8", build("1.4.0", cuda="9.2"), ask("sm_61")).source == row.source[0]


@pytest.mark.parametrize(
    ("torch", "compiler", "taken"),
    [
        ("2.12.0", "gcc-11.2", False),
        ("2.12.0", "gcc-11.3", True),
        ("2.12.0", "gcc-11", True),  # the newest of them
        ("2.12.0", "gcc-10", False),
        ("2.11.0", "gcc-10", True),
        ("2.11.0", "gcc-9.2", False),
        ("2.11.0", "gcc-9.3", True),
        ("2.11.0", "gcc-9", True),
        ("2.11.0", "gcc-8", False),
    ],
)
def test_the_sources_want_a_compiler_of_their_time(torch: str, compiler: str, taken: bool) -> None:
    candidate, question = build(torch, cuda="12.8"), ask("sm_86")
    assert compiler_fits(compiler, candidate, question) is taken
    found = list(compiler_problems(compiler, candidate, question))
    assert [refusal.code for refusal in found] == ([] if taken else ["compiler-too-old"])
    if found:
        assert found[0].source == FACTS.era(torch).source[0] and "CMakeLists.txt" in str(found[0].source)


def test_what_a_patch_cures_is_no_reason_for_another_compiler_and_what_breaks_is() -> None:
    old, question = build("1.13.1"), ask()
    assert list(compiler_problems("gcc-12", old, question)) == [], "the patch gloo-array cures it"
    broken = only("clang-16", old, question)
    assert (broken.rule, broken.code) == ("R204", "clang16-cast-function-type")
    assert compiler_fits("gcc-12", old, question) and not compiler_fits("clang-16", old, question)
    unrelated = build("2.0.1", cuda="11.2")  # breaks whatever the compiler is
    assert list(compiler_problems("gcc-9", unrelated, ask("sm_86"))) == []


def test_the_nearest_to_the_asked_compiler_is_proposed() -> None:
    assert choose_compiler(build("2.5.0", cuda="12.3"), ask("sm_86", compiler="gcc-14")) == "gcc-12"
    assert choose_compiler(build("2.12.1", cuda="12.8"), ask("sm_86", compiler="gcc-10")) == "gcc-13", (
        "none older will do"
    )
    assert choose_compiler(build("1.5.0", cuda="10.1"), ask("sm_70", distro="ubuntu 16.04")) == "gcc-5", "its own"
    assert choose_compiler(build("2.12.1", cuda="12.8"), ask("sm_86", distro="ubuntu 16.04")) == "gcc-13"
