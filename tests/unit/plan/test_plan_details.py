"""Small promises of the planner's parts that whole plans seldom show: order, filters, words and sources."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from planning import FACTS, ask, build, plan, recipe_of, said, wheel

from rekindle.errors import BadInput
from rekindle.model.machine import Gpu, Toolkit
from rekindle.model.plan import Step
from rekindle.plan.assess import _python_steps, assessed_builds
from rekindle.plan.candidates import (
    buildable_releases,
    choose_python,
    python_span,
    pythons_of,
    same_python,
    source_builds,
)
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.evidence import arch_syntax
from rekindle.plan.question import Question
from rekindle.plan.recipe import planned_cudnn
from rekindle.plan.whynot import why_not
from rekindle.scripts.spell import spell


def with_(question: Question, **values: Any) -> Question:
    return Question(msgspec.structs.replace(question.machine, **values), question.wish, question.facts)


def test_where_cards_share_no_driver_each_way_beside_speaks_of_the_rest() -> None:
    made = plan("K40c", "H200", torch="1.13.1", build=True, cuda="11.8")
    assert [change.what for change in made.changes] == ["machine"]
    assert made.alternatives and all("machine" not in other.why for other in made.alternatives)


def test_one_wheel_for_all_cards_is_named_where_the_plan_leaves_one_out() -> None:
    made = plan("Tesla T4", "Tesla K80")
    first = made.alternatives[0]
    assert (first.torch, first.variant) == ("2.3.1", "cu118")
    assert first.why == "for all cards, with NVIDIA driver 450.80.02 to 470.x: an official wheel"
    told = next(warning.text for warning in made.warnings if warning.code == "gpu-not-served")
    assert told == (
        "Tesla K80 (sm_37) is not served by this plan:"
        " the official wheel that serves all cards is years older (torch 2.3.1+cu118)."
    )
    assert made.alternatives[1].why == "for Tesla T4 (sm_75): an official wheel"
    built = plan("Tesla K40c", "RTX 3060")
    assert built.alternatives[0].answer == "build" and "for all cards" in built.alternatives[0].why
    assert any("the build that serves all cards is years older" in warning.text for warning in built.warnings)
    whole = plan("GT 1030", "RTX 4090")
    assert all("for all cards" not in other.why for other in whole.alternatives), "the plan itself is that"


def test_a_release_whose_sources_cannot_name_the_card_is_not_tried() -> None:
    assert list(assessed_builds(ask("sm_120"), ("2.5.1",))) == []
    assert any(assessed_builds(ask("sm_120"), ("2.5.1",), every=True)), "unless all is wanted, to say why not"


def test_toolkits_in_order_and_only_toolkits() -> None:
    found = [each.cuda for each in source_builds(ask("sm_86"), ("2.0.1",))]
    assert found[:3] == ["11.8", "11.7", "11.6"], "what official builds used, then others of that age, newest first"
    other, unread = Toolkit(kind="cudnn", version="9.9"), Toolkit(kind="cuda", version=None)
    kits = (other, unread, Toolkit(kind="cuda", version="11.5"))
    assert next(iter(source_builds(with_(ask("sm_86"), toolkits=kits), ("2.0.1",)))).cuda == "11.5"
    rocm = [each.rocm or "" for each in source_builds(ask("gfx1100"), ("2.4.1",))]
    assert rocm[0] == max(rocm, key=lambda version: [int(part) for part in version.split(".")])
    board = with_(ask("Jetson Xavier NX"), toolkits=(other, unread, Toolkit(kind="cuda", version="10.2.300")))
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


def test_compilers_are_read_or_refused() -> None:
    (found,) = machine_from_flags(FACTS, compiler="gcc-13.2").compilers
    assert (found.kind, found.version) == ("gcc", "13.2")
    for wrong in ("icc-13", "gcc-", "gcc-new", "gcc"):
        with pytest.raises(BadInput):
            machine_from_flags(FACTS, compiler=wrong)


def test_a_cpu_by_name_brings_its_features() -> None:
    assert "avx2" in machine_from_flags(FACTS, cpu="haswell").cpu.features
    assert "avx2" not in machine_from_flags(FACTS, cpu="ivybridge").cpu.features


def test_the_oldest_releases_read_architectures_as_the_first_known_did() -> None:
    assert arch_syntax("0.1.12", FACTS) == FACTS.sources.syntax[0]


def test_an_unknown_release_is_told_the_newest() -> None:
    with pytest.raises(BadInput, match=FACTS.releases[0].replace(".", r"\.")):
        _ = ask(torch="9.9").wanted_releases


def test_cards_of_unknown_kind_are_kept_apart_by_name() -> None:
    cards = (Gpu(vendor="amd", name="Radeon One"), Gpu(vendor="amd", name="Radeon Two"))
    question = with_(ask("gfx1100"), gpus=cards)
    assert [gpu.name for gpu in question.gpus] == ["Radeon One", "Radeon Two"] and question.gfxs == ()


def test_cudnn_at_the_edge_of_what_it_has_code_for() -> None:
    floor = FACTS.cudnn.cudnn["8.7.0"].cuda["11.x"]
    assert planned_cudnn(build("2.0.1", cuda="11.8"), ask(str(floor), cudnn="8.7.0")) == "8.7.0", "the very oldest card"
    old = build("1.10.2", cuda="10.2")
    assert planned_cudnn(old, ask("sm_70")) == planned_cudnn(old, ask())


def test_the_architectures_of_one_build() -> None:
    question = ask("sm_89")
    made = recipe_of(build("2.0.1", cuda="11.7", compiler="gcc-11"), question)
    assert made.arch_list == ("8.6",), "CUDA 11.7 does not know 8.9; its 8.6 code runs there"


@pytest.mark.parametrize(
    ("compiler", "called"), [("gcc-4.9", "gcc-4.9"), ("gcc-5.4", "gcc-5"), ("gcc-12.2.0", "gcc-12")]
)
def test_a_compiler_is_called_by_its_number(compiler: str, called: str) -> None:
    made = recipe_of(build("1.4.0", compiler=compiler), ask())
    assert made.env["CC"] == called


def test_a_processor_that_is_no_x86_or_not_known_gets_no_x86_settings() -> None:
    for question in (ask(arch="aarch64", cpu="neoverse_n1"), ask()):
        made = recipe_of(build("2.7.1", compiler="gcc-13"), question)
        assert "CXX_AVX2_FOUND" not in made.cmake
    old = ask(cpu="ivybridge")
    assert recipe_of(build("2.7.1", compiler="gcc-13"), old).cmake["CXX_AVX2_FOUND"] == "OFF"


def test_what_is_in_the_way_is_named_as_it_was_given() -> None:
    kepler = wheel("2.3.1", "cu118")
    assert said("R102", kepler, ask("sm_37", driver="495.29"))[0].what == "driver 495.29"
    (ended,) = said("R102", wheel("2.7.1", "cu126"), ask("sm_37"))
    assert ended.what == "CUDA 12.6" and ended.remedy == "take a torch made with an older CUDA"
    (apart,) = said("R102", kepler, ask("sm_37", "sm_90"))
    assert apart.remedy == "use each card in a machine of its own"
    (unread,) = said("R112", build("2.5.1", cuda="12.8"), ask("sm_120"))
    assert unread.remedy == "build torch 2.6.0 or newer"


def test_rocm_too_old_or_too_new_for_a_card() -> None:
    ended = next(row for row in FACTS.rocm.span if row.last is not None)
    (late,) = said("R114", build("2.9.1", rocm="99.0"), ask(str(ended.gfx)))
    assert late.remedy == f"use ROCm {ended.last} or older"
    (early,) = said("R114", build("2.9.1", rocm="0.1"), ask(str(ended.gfx)))
    assert early.remedy == f"use ROCm {ended.rocm} or newer", "too old is too old, whatever the last one is"


def test_a_rocm_that_nobody_pairs_is_a_doubt_and_says_who_is_named() -> None:
    (doubt,) = said("R205", build("2.8.0", rocm="5.7"), ask("gfx1100"))
    assert not doubt.certain and "named are: 6." in doubt.reason


def test_a_card_no_torch_ever_served_says_why() -> None:
    assert "32-bit board" in plan("Jetson TK1").because[0].text
    old = plan("sm_20").because[0]
    assert "older than Kepler" in old.text and old.source and old.source.startswith("https://")
    assert plan("sm_30").answer == "build", "Kepler's first is the oldest that works"


def test_a_build_for_a_board_says_why_the_wheels_of_its_cuda_will_not_do() -> None:
    made = plan("Jetson AGX Orin", cuda="12.6")
    assert made.because[0].text == (
        "No official wheel that keeps the wish has code for Jetson AGX Orin (sm_87): it takes a source build."
    )
    assert plan("Tesla K40c").because[0].text.startswith("No official wheel after torch 1.3.0+cu101 (Python 3.7) has")
    assert plan("Tesla K40c", torch="2.0.1").because[0].text.startswith("No official wheel of the asked torch has")


def test_too_old_a_c_library_is_told_the_nearest_that_works() -> None:
    made = plan("RTX 3060", glibc="2.12")
    assert made.answer == "none"
    assert made.alternatives[0].torch == FACTS.releases[0]
    assert made.alternatives[0].why.startswith("on a system with a newer glibc: an official wheel")
    assert all("newer glibc" not in other.why for other in plan("sm_20", glibc="2.35").alternatives)


@pytest.mark.parametrize(
    ("gpu", "text", "proposed", "way"),
    [
        ("RTX 3060", f"torch={FACTS.releases[0]}", True, "install"),
        ("RTX 3060", "torch=2.14.1", False, "install"),
        ("Tesla K40c", "torch=2.0.1", True, "build"),
        ("GTX 1080", "torch=2.15", False, "build"),
        ("RTX 5090", "variant=cu118", False, "none"),
    ],
)
def test_why_not_knows_what_the_plan_has(gpu: str, text: str, proposed: bool, way: str) -> None:
    question = ask(gpu)
    answer = why_not(question.machine, question.wish, text, FACTS)
    assert (answer.proposed, answer.way) == (proposed, way)


def test_a_release_without_known_wheels_says_so_and_is_built_with_a_toolkit_of_its_time() -> None:
    made = plan("sm_61", torch="0.4.1", variant="cu90", python="3.6")
    assert made.changes[0].why == "no wheel of torch 0.4.1 for linux_x86_64 is known here."
    assert plan("sm_61", torch="0.4.1", build=True).cuda == "8.0", "the first that knows the card"
    other = plan("sm_86", torch="2.8.0", variant="cu118")
    assert "was not published as cu118 for linux_x86_64; there are cpu, cu126, cu128, cu129" in other.changes[0].why


def test_a_board_s_driver_belongs_to_its_jetpack_and_is_not_judged() -> None:
    assert "driver-fits" not in {reason.code for reason in plan("Jetson AGX Orin", driver="540.3.0").because}
    assert "driver-fits" in {reason.code for reason in plan("RTX 3060", driver="580.65.06").because}


def test_the_nearest_wheel_is_one_of_the_asked_release_with_an_easier_way() -> None:
    text = plan("sm_86", torch="2.9.0", glibc="2.17").because[0].text
    assert "The nearest is torch 2.9.0+" in text
    assert text.endswith("Easier than a build: an older torch, a container, or a newer distribution.")


@pytest.mark.parametrize("gpu", ["sm_35", "sm_61", "Jetson Nano", "gfx803"])
def test_nothing_is_said_twice(gpu: str) -> None:
    texts = [warning.text for warning in plan(gpu).warnings]
    assert len(texts) == len(set(texts))


def test_a_compiler_s_change_gives_the_reason_of_the_refusal() -> None:
    (found,) = said("R202", build("2.5.0", cuda="12.4", compiler="gcc-13"), ask("sm_86", compiler="gcc-14"))
    assert found.change is not None and found.change.why == found.reason


def test_a_rocm_without_any_pair_says_that_none_is_known() -> None:
    (found,) = said("R205", build("1.0.1", rocm="5.7"), ask("gfx900"))
    assert found.reason.endswith("named are: none that we know.")


def test_rocm_on_windows_names_amd_s_targets_and_where_that_stands() -> None:
    (found,) = said("R116", build("2.9.1", rocm="6.4"), ask("gfx803", os="windows"))
    assert found.remedy == "use Linux" and found.source and found.source.startswith("ROCm/TheRock")
    assert "gfx1100" in found.reason


def test_cudnn_starts_at_its_oldest_card() -> None:
    assert said("R004", build("2.3.1", cuda="11.8"), ask("sm_50", cudnn="8.9.0")) == []
    assert [r.code for r in said("R004", build("2.3.1", cuda="11.8"), ask("sm_37", cudnn="8.9.0"))] == [
        "cudnn-lacks-arch"
    ]


def test_pythons_of_a_platform_of_a_board_and_of_one_without_wheels() -> None:
    release = FACTS.release("2.7.1")
    assert release is not None
    here = tuple(version for version in release.pythons["linux_aarch64"] if not version.endswith("t"))
    assert pythons_of(build("2.7.1"), ask(arch="aarch64")) == here
    assert "3.6" in pythons_of(build("1.10.2", cuda="10.2"), ask("Jetson Nano"))
    assert pythons_of(build("0.4.1"), ask(os="windows")) != ()


def test_an_environment_is_activated_where_it_lies() -> None:
    assert spell([Step(kind="activate")], "sh") == (". .venv/bin/activate",)
    assert spell([Step(kind="activate", folder="env")], "sh") == (". env/bin/activate",)
    assert spell([Step(kind="activate", folder="env")], "cmd") == ("call env\\Scripts\\activate.bat",)


def test_why_not_tells_each_way_once_and_what_stands_instead() -> None:
    question = ask("RTX 3060")
    answer = why_not(question.machine, question.wish, "torch=2.14.1", FACTS)
    names = [each.name for each in answer.considered]
    assert len(names) == len(set(names)) and answer.instead == f"install torch {FACTS.releases[0]}+cu132"
    only = why_not(question.machine, question.wish, "variant=cu126", FACTS)
    assert {each.answer for each in only.considered} == {"install"}, "a flavour is a wheel's"
    for hopeless in (ask("sm_20"), ask("RTX 3060", distro="alpine 3.20")):
        assert why_not(hopeless.machine, hopeless.wish, "torch=2.6.0", FACTS).way == "none"


def test_a_variant_beside_build_names_what_to_build_for() -> None:
    """``--build --variant cpu`` is no wish for a wheel that is then not kept."""
    cpu = ask(variant="cpu", build=True)
    assert said("R002", build("2.6.0"), cpu) == []
    assert said("R002", build("2.6.0"), ask(variant="cpu")) != [], "without --build the wheel was meant"
    assert said("R002", build("2.6.0", cuda="12.4"), cpu) != []
    card = ask("sm_61", variant="cu124", build=True)
    assert said("R002", build("2.6.0", cuda="12.4.1"), card) == []
    assert said("R002", build("2.6.0", cuda="12.6"), card) != []
    assert said("R002", build("2.6.0"), card) != []
    amd = ask("gfx906", variant="rocm6.2", build=True)
    assert said("R002", build("2.6.0", rocm="6.2.4"), amd) == []
    assert said("R002", build("2.6.0", rocm="6.3"), amd) != []
    assert plan(torch="2.6.0", variant="cpu", build=True).changes == ()
