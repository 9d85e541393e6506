"""Situations in which the planner once went wrong, each as the rule behind it: not the case, the cause."""

from __future__ import annotations

import json

import pytest
from planning import FACTS, ask, plan

from rekindle.cli.main import main
from rekindle.errors import BadInput
from rekindle.model.arch import Sm
from rekindle.model.plan import Plan
from rekindle.model.version import matches
from rekindle.plan.evidence import anybody_built, evidence, sources_parse, weakest_build
from rekindle.plan.question import OTHER_ARCHS
from rekindle.plan.rules_toolchain import find_obstacle
from rekindle.plan.solve import why_not
from rekindle.source.patches.header import Context, load_patches


def text_of(made: Plan) -> str:
    return json.dumps([reason.text for reason in (*made.because, *made.warnings)], ensure_ascii=False)


# --- several cards


def test_cards_that_share_no_driver_are_told_so_and_each_is_offered_alone() -> None:
    made = plan("sm_37", "sm_89")
    assert made.answer == "install" and not made.as_asked
    assert [warning.code for warning in made.warnings if warning.code == "gpu-not-served"]
    assert "no driver serves both" in text_of(made)
    alone = [other for other in made.alternatives if "sm_37 alone" in other.why]
    assert [(one.torch, one.driver) for one in alone] == [("2.3.1", "450.80.02 to 470.x")]


def test_an_old_card_beside_a_new_one_does_not_hide_what_the_new_one_could_have() -> None:
    made = plan("sm_61", "sm_89")
    better = [other for other in made.alternatives if "sm_89 alone" in other.why]
    assert better and better[0].torch == plan("sm_89").torch != made.torch


def test_two_cards_of_one_driver_and_wheel_need_no_such_talk() -> None:
    made = plan("sm_86", "sm_89")
    assert made.as_asked and not any("alone" in other.why for other in made.alternatives)


def test_one_wheel_for_two_machines_may_be_built_for_cards_that_share_no_driver() -> None:
    made = plan("sm_35", "sm_90", torch="1.13.1", cuda="11.8", build=True)
    assert (made.answer, made.torch, made.arch_list) == ("build", "1.13.1", ("3.5", "9.0"))
    assert [change.what for change in made.changes] == ["machine"] and not made.as_asked


# --- systems no torch was made for


@pytest.mark.parametrize("arch", OTHER_ARCHS)
def test_other_machines_get_one_clear_no(arch: str) -> None:
    made = plan(arch=arch)
    assert made.answer == "none" and len(made.because) == 1
    assert ("64-bit" in made.because[0].text) == (made.because[0].code == "system-32-bit")


@pytest.mark.parametrize("arch", ["x86_64", "amd64", "aarch64", "arm64"])
def test_64_bit_machines_have_no_obstacle(arch: str) -> None:
    assert find_obstacle(ask(arch=arch)) is None


def test_musl_is_a_no_that_says_what_would_do() -> None:
    made = plan("sm_86", distro="alpine-3.19")
    assert made.answer == "none" and made.because[0].code == "libc-musl"
    assert [other.why.split(":")[0] for other in made.alternatives][:1] == ["on a system with glibc"]


def test_a_mac_gets_the_cpu_wheel_whatever_card_it_has() -> None:
    made = plan("sm_61", os="macos")
    assert (made.answer, made.variant, made.as_asked) == ("install", "cpu", False)
    assert plan(os="macos", arch="arm64").as_asked


def test_a_card_older_than_kepler_stays_hopeless_with_a_toolkit_asked_for() -> None:
    for flags in ({}, {"cuda": "8.0"}, {"torch": "1.0"}, {"build": True}):
        made = plan("sm_20", **flags)
        assert made.answer == "none" and made.because[0].code == "gpu-unsupported"
        assert made.alternatives[-1].variant == "cpu"


def test_a_number_between_known_chips_is_a_slip_and_a_higher_one_is_not() -> None:
    with pytest.raises(BadInput, match="sm_99"):
        ask("sm_99")
    assert ask("sm_130").sms == (Sm(13, 0),)


# --- what sources accept, and what is known of it


@pytest.mark.parametrize(
    ("torch", "sm", "reads"),
    [
        ("1.0.0", Sm(9, 9), True), ("2.5.1", Sm(9, 0), True), ("2.5.1", Sm(10, 0), False), ("2.6.0", Sm(10, 0), True),
        ("2.3.1", Sm(9, 0, "a"), False), ("2.4.0", Sm(9, 0, "a"), True), ("2.8.0", Sm(10, 0, "f"), False),
        ("2.9.0", Sm(10, 0, "f"), True), ("0.1.12", Sm(3, 5), True),
    ],
)  # fmt: skip
def test_what_the_cmake_of_a_release_reads(torch: str, sm: Sm, reads: bool) -> None:
    assert sources_parse(torch, sm, FACTS) is reads


def test_grades_of_evidence() -> None:
    def grade(torch: str, cuda: str, sm: Sm, system: str = "linux") -> tuple[str, bool]:
        found = evidence(torch, cuda, sm, system, FACTS)
        return found.grade, found.near

    assert grade("1.13.1", "11.8", Sm(9, 0)) == ("proven", False)
    assert grade("1.13.1", "11.8", Sm(3, 5)) == ("compiled", False)
    assert grade("1.13.1", "11.7", Sm(3, 5)) == ("reported", False)  # another toolkit of the same major version
    assert grade("1.13.1", "12.0", Sm(3, 5)) == ("untried", False)
    assert grade("1.13.0", "11.8", Sm(3, 5)) == ("untried", False)  # sm_37 is a newer sibling: no evidence
    assert grade("2.7.1", "11.8", Sm(3, 5)) == ("untried", False)
    assert grade("2.7.1", "11.8", Sm(3, 7)) == ("compiled", False)  # the official cu118 wheel holds it
    assert grade("2.7.1", "12.6", Sm(8, 9)) == ("untried", True)  # sm_86 is an older sibling
    assert weakest_build([]) is None
    both = [evidence("1.13.1", "11.8", sm, "linux", FACTS) for sm in (Sm(9, 0), Sm(3, 5))]
    assert weakest_build(both) == both[1] == weakest_build(both[::-1])
    assert anybody_built("2.0.1", Sm(3, 5), "linux", FACTS)
    assert not anybody_built("2.1.0", Sm(3, 5), "linux", FACTS)


def test_a_card_without_wheels_is_sent_to_what_somebody_built() -> None:
    made = plan("sm_35")
    assert (made.answer, made.evidence) == ("build", "compiled") and made.torch == "2.6.0"
    assert any(other.torch == "2.8.0" and "evidence: untried" in other.why for other in made.alternatives)
    away = plan("sm_35", os="windows")
    assert (away.torch, away.evidence) == ("2.0.1", "reported"), "our probes say nothing of Visual Studio"
    asked = plan("sm_35", torch="2.7.1")
    assert (asked.torch, asked.evidence, asked.as_asked) == ("2.7.1", "untried", True)


def test_with_build_the_reason_of_a_change_is_not_a_wheels() -> None:
    made = plan("sm_120", torch="2.5.1", build=True, cuda="12.8")
    change = next(change for change in made.changes if change.what == "torch")
    assert "sources" in change.why and not any("+cu" in reason.text for reason in made.because)


def test_a_release_without_wheels_for_the_system_is_said_to_have_none() -> None:
    made = plan("gfx1100", os="windows", torch="2.6.0")
    change = next(change for change in made.changes if change.what == "torch")
    assert "no ROCm wheel of torch 2.6.0 was published for windows" in change.why


# --- wheels


def test_a_wheel_of_ptx_alone_does_not_come_before_the_next_torch() -> None:
    made = plan("sm_120", torch="2.6.0")
    assert (made.answer, made.torch, made.variant) == ("install", "2.7.1", "cu128")
    assert any(other.answer == "build" and other.torch == "2.6.0" for other in made.alternatives)


def test_an_old_driver_is_not_the_only_thing_that_can_change() -> None:
    made = plan("sm_70", driver="396.44")
    kept = [other for other in made.alternatives if other.driver is None and other.variant == "cu92"]
    assert made.changes[0].what == "driver" and kept


def test_a_glibc_too_old_for_the_tools_of_a_build_means_a_container() -> None:
    made = plan("none", glibc="2.12")
    assert made.answer == "none" and "glibc" in made.because[0].text and "container" in made.because[0].text
    assert made.alternatives[0].why.startswith("on a system with a newer glibc")
    assert plan("none", glibc="2.17", torch="2.15.0").answer == "build", "just new enough"
    none = plan("sm_86", glibc="2.12")
    assert none.answer == "none" and "glibc" in none.because[0].text, "no CUDA that knows the card runs there"
    assert plan("sm_86", glibc="2.17").answer == "install"


def test_a_wheel_needs_no_toolkit_and_says_so() -> None:
    made = plan("sm_120", cuda="12.3", os="windows")
    told = next(reason.text for reason in made.because if reason.code == "wheel-brings-cuda")
    assert "12.3" in told and "12.8 or newer" in told
    assert "those take" not in next(
        reason.text for reason in plan("sm_120", cuda="12.8").because if reason.code == "wheel-brings-cuda"
    )


def test_companions_that_do_not_exist_are_left_out_and_named() -> None:
    made = plan("sm_120", os="windows")
    names = [request.name for request in made.requests]
    left = [warning.text.split()[0] for warning in made.warnings if warning.code == "companion-left-out"]
    assert {"torch"} <= set(names) and not set(names) & set(left) and left
    assert all(name not in made.commands[0] for name in left)
    assert made.requests[0].version == f"{made.torch}+{made.variant}"


def test_requests_name_the_version_that_will_be_installed() -> None:
    pypi = plan("sm_86").requests[0]
    assert (pypi.index, pypi.version) == (None, plan("sm_86").torch)
    old = plan("sm_70", torch="1.7.1", variant="cu92").requests[0]
    assert old.version == "1.7.1+cu92" and old.links and old.requirement == "torch==1.7.1+cu92"


# --- compilers, CPUs, boards


def test_a_hazard_that_a_patch_cures_is_no_reason_for_another_compiler() -> None:
    made = plan(torch="1.13.1", build=True, compiler="gcc-12.2")
    assert made.build is not None and made.build.compiler == "gcc-12.2" and "gloo-array" in made.build.patches
    assert [change.what for change in made.changes] == ["sources"]
    free = plan(torch="1.13.1", build=True)
    assert free.build is not None and free.build.compiler == "gcc-11" and free.as_asked


def test_every_cure_exists_and_reaches_all_of_its_hazard() -> None:
    known = {patch.id: patch for patch in load_patches("torch")}
    for hazard in FACTS.hazards.hazard:
        if hazard.patch is None:
            continue
        versions = [one for block in known[hazard.patch].applies for one in block if one.key == "version"]
        for release in FACTS.releases:
            if hazard.torch is None or matches(release, hazard.torch):
                context = Context({"version": release})
                assert not versions or any(one.holds(context) for one in versions), (hazard.id, release)


def test_nothing_is_said_about_avx_on_arm() -> None:
    made = plan(arch="aarch64", build=True, torch="2.6.0")
    assert made.build is not None and not any("AVX" in loss for loss in made.build.losses)
    assert "AVX" not in text_of(made) and made.build.asserts["BLAS"] == "OpenBLAS"


def test_blas_is_planned_and_asserted() -> None:
    made = plan(build=True, torch="2.6.0")
    assert made.build is not None
    assert made.build.env["BLAS"] == made.build.asserts["BLAS"] == made.build.asserts["LAPACK"] == "MKL"
    assert "mkl-static" in made.build.pins


@pytest.mark.parametrize(("memory", "jobs"), [(7.9, "1"), (8, "2"), (64, "8"), (None, None)])
def test_jobs_come_from_memory(memory: float | None, jobs: str | None) -> None:
    made = plan("sm_86", build=True, memory=memory)
    assert made.build is not None and made.build.env.get("MAX_JOBS") == jobs


def test_the_lines_name_the_toolkit_that_is_meant() -> None:
    assert "export CUDA_HOME=/usr/local/cuda-11.8" in plan("sm_35", torch="1.13.1", build=True, cuda="11.8").commands
    windows = plan("sm_35", torch="2.0.1", build=True, cuda="11.8", os="windows")
    assert any("CUDA_HOME=" in line and line.rstrip('"').endswith("v11.8") for line in windows.commands)


@pytest.mark.parametrize(("torch", "words"), [("2.13.0", "setup.py"), ("2.14.0", "-m build")])
def test_the_front_end_is_that_of_the_release(torch: str, words: str) -> None:
    assert any(words in command for command in plan("sm_86", torch=torch, build=True).commands)


def test_a_board_is_planned_with_what_its_jetpack_brings() -> None:
    made = plan("Jetson Nano")
    assert (made.answer, made.cuda, made.cudnn, made.python) == ("build", "10.2", "8.2.1", "3.6")
    assert made.build is not None and (made.build.memory_gib or 0) <= 4
    assert "jetson-wheels" in [warning.code for warning in made.warnings]


def test_a_crash_that_was_seen_is_told_and_is_no_plain_yes() -> None:
    made = plan(cpu="Celeron J1900", variant="cpu")
    assert "cpu-seen-crashing" in [warning.code for warning in made.warnings]
    assert "cpu-seen-crashing" not in [warning.code for warning in plan(cpu="haswell", variant="cpu").warnings]


# --- words


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--gpu", "sm_86", "--build"], "as asked"),
        (["--gpu", "sm_35", "--os", "linux"], "Build torch 2.6.0 from source with CUDA 11.8 for Python 3.12 (evidence"),
        (["--gpu", "sm_86"], "a published wheel with code for this GPU"),
        (["--gpu", "none"], "a published wheel for this system"),
        (["--gpu", "none", "--cpu", "Celeron J1900"], "it starts, but not all of it works on this CPU"),
        (["--gpu", "sm_37", "--gpu", "sm_90"], "it serves a part of the cards"),
    ],
)
def test_headlines_claim_no_more_than_is_known(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *argv]) == 0
    assert line in capsys.readouterr().out.splitlines()[0]


def test_why_not_tells_a_wheel_from_a_build() -> None:
    pascal = ask("sm_61")
    assert why_not(pascal.machine, pascal.wish, "torch=2.15").way == "build"
    assert why_not(pascal.machine, pascal.wish, "torch=2.14.1").way == "install"
    fermi = ask("sm_20")
    assert (why_not(fermi.machine, fermi.wish, "torch=2.7").possible) is False


def test_nothing_fits_names_the_nearest_that_does() -> None:
    made = plan("sm_35", torch="2.15.0", variant="cu130")
    assert made.answer != "none" or made.alternatives
    gone = plan("sm_20", "sm_21")
    assert gone.answer == "none" and gone.alternatives
