"""What a build is told by name: its card, its compiler and the package that brings it, its patches, a missing cuDNN."""

from __future__ import annotations

import msgspec
import pytest
from planning import FACTS, ask, build, recipe_of

from rekindle.model.arch import Sm
from rekindle.model.machine import Gpu, Toolkit
from rekindle.plan.candidates import Assessed
from rekindle.plan.question import Question
from rekindle.plan.recipe import decide_build
from rekindle.plan.rules import RULES
from rekindle.plan.rules_gpu import card
from rekindle.plan.rules_toolchain import choose_compiler, compiler_problems


@pytest.mark.parametrize(
    ("name", "arch", "called"),
    [
        ("Tesla K40c", Sm(3, 5), "Tesla K40c (sm_35)"),
        ("SM_35", Sm(3, 5), "sm_35"),
        (None, Sm(3, 5), "sm_35"),
        ("Tesla K40c", None, "Tesla K40c"),
        (None, None, "an unknown nvidia GPU"),
    ],
)
def test_a_card_is_called_by_its_name_and_architecture(name: str | None, arch: Sm | None, called: str) -> None:
    assert card(Gpu(vendor="nvidia", name=name, arch=arch)) == called


def test_a_rule_is_titled_by_its_first_line() -> None:
    assert RULES["R101"].title == "The wheel holds code that every card runs."


@pytest.mark.parametrize(
    ("compiler", "remedy"), [("gcc-15", "use gcc-13, or CUDA 13.0 or newer"), ("gcc-17", "use gcc-13")]
)
def test_a_rejected_compiler_is_told_which_toolkit_takes_it(compiler: str, remedy: str) -> None:
    no = next(compiler_problems(compiler, build("2.6.0", cuda="12.4"), ask("sm_86")))
    assert (no.code, no.rule, no.remedy) == ("host-compiler-rejected", "R202", remedy)


def test_a_compiler_that_only_the_newest_toolkit_takes_is_told_too() -> None:
    no = next(compiler_problems("gcc-16", build("2.6.0", cuda="12.4"), ask("sm_86")))
    assert no.remedy is not None and no.remedy.startswith("use gcc-13, or CUDA 13.")


def test_the_asked_compiler_is_taken_where_it_fits() -> None:
    assert choose_compiler(build("2.6.0", cuda="12.4"), ask("sm_86", compiler="gcc-12")) == "gcc-12"


@pytest.mark.parametrize(
    ("distro", "compiler", "said"),
    [
        ("ubuntu-22.04", "gcc-11", "gcc 11: apt install g++-11"),
        ("ubuntu-22.04", "clang-14", "clang 14: apt install clang-14"),
        ("fedora-40", "gcc-11", "gcc 11 (fedora 40 itself has gcc 14)"),
        ("arch", "gcc-11", "gcc 11"),
    ],
)
def test_a_compiler_is_named_with_what_brings_it(distro: str, compiler: str, said: str) -> None:
    recipe = recipe_of(build("2.0.1", cuda="11.8", compiler=compiler), ask("sm_86", distro=distro))
    assert recipe.toolchain["compiler"] == said


def test_the_patches_of_met_hazards_are_in_the_recipe() -> None:
    recipe = recipe_of(build("1.13.1", cuda="11.7", compiler="gcc-13"), ask("sm_86"))
    assert recipe.patches == ("gcc13-missing-includes", "gloo-array")
    assert recipe_of(build("2.6.0", cuda="12.4", compiler="gcc-12"), ask("sm_86")).patches == ()


def test_a_machine_with_the_toolkit_and_no_cudnn_builds_without_it() -> None:
    bare = ask("sm_86", cuda="11.8")
    kit = Toolkit(kind="cuda", version="11.8", path="/usr/local/cuda-11.8")
    question = Question(msgspec.structs.replace(bare.machine, toolkits=(kit,)), bare.wish, FACTS)
    made = decide_build(Assessed(build("2.0.1", cuda="11.8", compiler="gcc-11")), question)
    assert made.lacks_cudnn is not None and made.lacks_cudnn.code == "no-cudnn-here" and made.cudnn is None
    assert "get cuDNN 8.7.0 (pip install --no-deps nvidia-cudnn-cu11==8.7.0.*) and" in made.lacks_cudnn.text
    assert made.recipe.env["USE_CUDNN"] == "0" and "cudnn" not in made.recipe.toolchain
    assert len(made.recipe.losses) == 1 and made.recipe.losses[0].startswith("cuDNN: there is none")
