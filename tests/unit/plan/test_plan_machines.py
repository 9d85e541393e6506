"""Kinds of machines people have, each with the one thing that is special about it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from planning import FACTS, ask, build, plan, said

from rekindle.api import machine_from_flags
from rekindle.cli.main import main
from rekindle.compat.processor import wheel_starts
from rekindle.compat.toolkit import emits_for
from rekindle.model.arch import parse_sm
from rekindle.model.machine import Compiler, Python, Toolkit
from rekindle.plan.candidates import buildable_releases, choose_python, source_builds
from rekindle.plan.question import Question
from rekindle.plan.recipe import planned_cudnn
from rekindle.plan.rules_toolchain import choose_compiler, find_obstacle, visual_studio
from rekindle.plan.solve import make_plan


@pytest.mark.parametrize(
    ("gpu", "flags", "platform"),
    [
        ("GH200", {}, "linux_aarch64"),
        ("GH200 480GB", {}, "linux_aarch64"),
        ("GB200", {}, "linux_aarch64"),
        ("DGX Spark", {}, "linux_aarch64"),
        ("H100", {}, "linux_x86_64"),
        ("GH200", {"arch": "x86_64"}, "linux_x86_64"),
        ("Jetson Nano", {}, "linux_aarch64"),
        ("sm_87", {}, "linux_aarch64"),
        ("sm_87", {"arch": "amd64"}, "linux_x86_64"),
        ("sm_86", {"cpu": "neoverse_n1"}, "linux_aarch64"),
        ("sm_86", {"os": "windows"}, "windows"),
        ("none", {"os": "macos", "arch": "arm64"}, "macos_arm64"),
        ("none", {"os": "macos"}, "macos_x86_64"),
    ],
)
def test_which_wheels_a_machine_takes(gpu: str, flags: dict[str, Any], platform: str) -> None:
    assert ask(gpu, **flags).platform == platform


@pytest.mark.parametrize(
    ("python", "is_narrow"), [("3.8-32", True), ("3.8", False), ("3.13t", False), ("3.32", False), (None, False)]
)
def test_a_32_bit_python_is_told_from_a_64_bit_one(python: str | None, is_narrow: bool) -> None:
    obstacle = find_obstacle(ask("sm_75", os="windows", python=python))
    assert (obstacle is not None) is is_narrow
    if obstacle is not None:
        assert obstacle.code == "system-32-bit" and "the 64-bit Python 3.8" in obstacle.text


def test_a_board_has_the_tools_of_its_jetpack() -> None:
    made = plan("Jetson Xavier NX", build=True)
    assert made.build is not None
    assert (made.cuda, made.cudnn, made.python, made.build.compiler) == ("11.4", "8.6.0", "3.8", "gcc-9")
    question = ask("Jetson Xavier NX")
    assert question.distro is not None and question.distro.name == "ubuntu 20.04"
    assert question.jetpack is not None and question.jetpack.cuda == "11.4"
    old = ask("Jetson Xavier NX", cuda="10.2")
    assert old.jetpack is not None and old.jetpack.name == "JetPack 4.6" and old.board_cuda == "10.2"
    assert ask("sm_86").jetpack is None and ask("sm_86").board_cuda is None
    assert ask("Jetson Nano").memory_gib == 4.0
    assert ask("Jetson Nano", memory="2G").memory_gib == 2.0
    assert ask("sm_86").memory_gib is None


def with_(question: Question, **values: Any) -> Question:
    return Question(msgspec.structs.replace(question.machine, **values), question.wish, question.facts)


def test_a_board_keeps_the_cuda_that_is_on_it() -> None:
    kits = (Toolkit(kind="cuda", version="10.2.300"), Toolkit(kind="cuda", version="11.4.19"))
    board = with_(ask("Jetson Xavier NX"), toolkits=kits)
    assert board.board_cuda == "11.4.19"
    assert with_(ask("sm_86"), toolkits=kits).board_cuda is None


def test_the_distribution_s_own_compiler_comes_first_and_none_other_is_forced() -> None:
    candidate = build("2.9.0", cuda="12.8")
    assert choose_compiler(candidate, ask("sm_86", distro="debian 12")) == "gcc-12"
    assert choose_compiler(candidate, ask("sm_86", distro="ubuntu 24.04")) == "gcc-13"
    assert choose_compiler(candidate, ask("sm_86")) == "gcc-13"
    assert choose_compiler(candidate, ask("sm_86", distro="ubuntu 18.04")) == "gcc-13", (
        "its gcc 7 is too old for the sources"
    )
    assert choose_compiler(candidate, ask("sm_86", os="windows")) == "msvc-19.44", (
        "official builds are made with 2022 from 2.7"
    )
    assert choose_compiler(build("2.7.0", cuda="11.8"), ask("sm_86", os="windows")) == "msvc-19.39", (
        "CUDA 11.8 ends there"
    )
    assert choose_compiler(build("2.6.0", cuda="12.6"), ask("sm_86", os="windows")) == "msvc-19.29"
    assert choose_compiler(candidate, ask("sm_86", compiler="gcc-12")) == "gcc-12"
    assert choose_compiler(candidate, ask("sm_86", compiler="clang-17")) == "clang-17"
    assert choose_compiler(build("2.9.0", cuda="11.8"), ask("sm_86", compiler="gcc-13")) == "gcc-11"
    assert choose_compiler(build("2.9.0", cuda="11.8"), ask("sm_86", compiler="gcc-5")) == "gcc-11"
    had = (Compiler(kind="clang", version="17.0.1"), Compiler(kind="gcc", version="12.2.0"))
    assert choose_compiler(candidate, with_(ask("sm_86"), compilers=had)) == "gcc-12.2.0"
    assert choose_compiler(candidate, with_(ask("sm_86"), compilers=had[:1])) == "clang-17.0.1"


@pytest.mark.parametrize(
    ("version", "year"),
    [("19.0", "2015"), ("19.16", "2017"), ("19.29", "2019"), ("19.30", "2022"), ("19.44", "2022"), ("19", "2015")],
)
def test_visual_studio_by_its_compiler(version: str, year: str) -> None:
    assert visual_studio(version) == year


def test_pythons_are_chosen_by_wish_then_machine_then_liking() -> None:
    newest = build("2.9.0", cuda="12.8")
    assert choose_python(newest, ask("sm_86")) == "3.12"
    assert choose_python(newest, ask("sm_86", python="3.11")) == "3.11"
    assert choose_python(newest, ask("sm_86", python="3.9")) == "3.10"
    assert choose_python(newest, ask("sm_86", python="3.99")) == "3.14"
    assert choose_python(newest, ask("sm_86", python="3.13t")) == "3.13t"
    assert choose_python(build("2.3.1", cuda="12.1"), ask("sm_86", python="3.13t")) == "3.12"
    assert choose_python(newest, with_(ask("sm_86"), pythons=(Python(version="3.13.1"),))) == "3.13"
    assert choose_python(newest, with_(ask("sm_86"), pythons=(Python(version="3.8.1"),))) == "3.12"
    assert choose_python(build("2.1.2", cuda="11.4"), ask("Jetson Xavier NX")) == "3.8"


def test_toolkits_are_tried_in_order_of_what_is_known() -> None:
    def kits(question: Question, torch: str) -> list[str | None]:
        return [each.cuda for each in source_builds(question, (torch,))][:3]

    assert kits(ask("sm_35"), "2.0.1")[:2] == ["11.4", "11.8"]
    assert kits(ask("sm_35", cuda="11.6"), "2.0.1")[:2] == ["11.6", "11.8"]
    assert kits(ask("sm_86"), "2.0.1")[:2] == ["11.8", "11.7"]
    here = with_(ask("sm_86"), toolkits=(Toolkit(kind="cuda", version="11.6"), Toolkit(kind="cuda", version="11.7.1")))
    assert kits(here, "2.0.1") == ["11.7.1", "11.6", "11.8"]
    assert kits(ask("Jetson Orin NX"), "2.3.1")[0] == "12.6"
    assert [each.cuda for each in source_builds(ask("none"), ("2.0.1",))] == [None]
    assert next(iter(source_builds(ask("gfx1100", rocm="6.1"), ("2.4.1",)))).rocm == "6.1"
    assert len(list(source_builds(ask("sm_86"), ("2.0.1", "2.1.2"), kits=1))) == 2


def test_releases_near_the_wish_are_built_first() -> None:
    assert buildable_releases(ask("sm_86")) == FACTS.releases
    near = buildable_releases(ask("sm_86", torch="2.3.1"))
    assert near[:3] == ("2.3.1", "2.4.0", "2.4.1")
    assert near[1:].index("2.3.0") == 12, "twelve above, then those below"


def test_a_cpu_that_can_do_less_than_one_that_crashed_is_not_said_to_start() -> None:
    def seen(cpu: str) -> str:
        return wheel_starts("2.6.0", ask("none", cpu=cpu).cpu_features, FACTS).kind

    assert seen("nehalem") == "partly" and seen("silvermont") == "partly"
    assert seen("core2") == "partly" and seen("k10") == "unknown"
    assert seen("ivybridge") == "yes"


@pytest.mark.parametrize(
    ("argv", "mark", "words"),
    [
        (["--gpu", "none", "--cpu", "Phenom II X4 955"], "!", "cannot tell whether it starts on this CPU"),
        (["--gpu", "none", "--cpu", "Core 2 Duo E8400"], "!", "it starts, but not all of it works on this CPU"),
        (["--gpu", "GTX 1080", "--os", "macos"], "!", "it runs on the CPU, since nothing can use this GPU"),
        (["--gpu", "RX 580", "--os", "linux"], "!", "Build torch"),
        (
            ["--gpu", "sm_35", "--python", "3.12", "--os", "windows"],
            "!",
            "for Python 3.11, with changes (evidence: reported)",
        ),
    ],
)
def test_headlines_of_doubtful_machines(
    argv: list[str], mark: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *argv]) == 0
    head = capsys.readouterr().out.splitlines()[0]
    assert head.startswith(mark) and words in head


def test_reasons_are_sentences_about_the_nearest_wheel() -> None:
    made = plan("RTX 3090", torch="1.12.1", python="3.11")
    texts = [reason.text for reason in made.because]
    assert not any("cu102" in text for text in texts), "a wheel without code for the card is not the nearest"
    assert all(text[0].isupper() or text.startswith(("torch ", "ivybridge")) for text in texts)


def test_where_windows_wheels_of_old_and_new_are() -> None:
    def place(torch: str) -> str:
        made = plan("sm_61", os="windows", torch=torch)
        return next(reason.text for reason in made.because if reason.code == "windows-index")

    assert "(-f)" in place("1.10.2") and "(--index-url)" in place("1.11.0")


def test_rocm_beside_the_wheels_own() -> None:
    codes = [reason.code for reason in plan("gfx942", rocm="6.2").because]
    assert "wheel-brings-rocm" in codes
    assert "wheel-brings-rocm" not in [reason.code for reason in plan("gfx942", rocm="6.4").because]
    assert said("R005", build("2.8.0", rocm="6.4"), ask("gfx942", rocm="6.4")) == []


def test_a_toolkit_older_than_the_card_builds_for_its_sibling() -> None:
    assert emits_for("11.7", parse_sm("sm_89"), FACTS) == parse_sm("sm_86")
    assert emits_for("11.8", parse_sm("sm_89"), FACTS) == parse_sm("sm_89")
    assert emits_for("12.8", parse_sm("sm_121"), FACTS) == parse_sm("sm_120")
    assert emits_for("12.6", parse_sm("sm_120"), FACTS) is None
    assert emits_for("11.0", parse_sm("sm_86"), FACTS) == parse_sm("sm_80")
    assert emits_for("12.0", parse_sm("sm_35"), FACTS) is None
    assert emits_for("99.0", parse_sm("sm_35"), FACTS) == parse_sm("sm_35")
    made = plan("sm_61", "sm_89", torch="1.13.1", cuda="11.7", build=True)
    assert made.as_asked and made.arch_list == ("6.1", "8.6")
    assert "cuda-targets-sibling" in [reason.code for reason in made.because]
    assert made.evidence == "compiled"


@pytest.mark.parametrize(
    ("distro", "side"),
    [("wsl2-ubuntu-22.04", "windows"), ("WSL Ubuntu", "windows"), ("ubuntu 22.04", "linux"), ("newslinux 1", "linux")],
)
def test_whose_driver_a_linux_inside_windows_has(distro: str, side: str) -> None:
    assert ask("sm_86", distro=distro).side == side


@pytest.mark.parametrize(
    ("cpu", "arch"),
    [("cortex-a76", "aarch64"), ("Raspberry Pi 5", "aarch64"), ("AMD Ryzen 11 9999X", "x86_64"), (None, "x86_64")],
)
def test_an_arm_cpu_that_no_table_knows_is_still_one(cpu: str | None, arch: str) -> None:
    assert ask("none", cpu=cpu).arch == arch


def test_a_32_bit_python_that_is_there_is_not_taken() -> None:
    narrow = Python(version="3.13.1", path="C:/Python313-32/python.exe", note="32 bit: no torch is published for it")
    wide = Python(version="3.11.9", path="C:/Python311/python.exe")
    question = ask("sm_86", os="windows")
    both = make_plan(with_(question, pythons=(narrow, wide)).machine, question.wish, FACTS)
    assert both.python == "3.11"
    alone = make_plan(with_(question, pythons=(narrow,)).machine, question.wish, FACTS)
    assert alone.python == "3.12" and "python-missing" in [warning.code for warning in alone.warnings]


@pytest.mark.parametrize(("cpu", "told"), [("Core 2 Duo", True), ("Core 2 Duo E8400", False), (None, False)])
def test_a_cpu_whose_name_says_too_little_is_told(cpu: str | None, told: bool) -> None:
    made = make_plan(machine_from_flags(gpu=["none"], cpu=cpu, os="linux", python="3.12"))
    assert any("was not judged" in reason.text for reason in made.warnings) is told


def test_a_board_of_unknown_jetpack_gets_one_of_the_age_of_the_sources() -> None:
    board = ask("Jetson Orin NX")
    assert [row.name for row in board.jetpacks] == ["JetPack 7.2", "JetPack 6.2", "JetPack 6.0", "JetPack 5.1"]
    assert next(row for row in board.jetpacks if row.torch).name == "JetPack 6.2"
    old, new = build("2.3.1", cuda="12.6"), build("2.15.0", cuda="13.2")
    assert (choose_python(old, board), choose_compiler(old, board)) == ("3.10", "gcc-11"), (
        "Ubuntu 22.04 comes with JetPack 6"
    )
    assert (choose_python(new, board), choose_compiler(new, board)) == ("3.12", "gcc-13"), (
        "Ubuntu 24.04 comes with JetPack 7"
    )
    assert planned_cudnn(old, board) == "9.3.0"
    assert planned_cudnn(build("2.9.0", cuda="13.0"), ask("Jetson Thor")) == "9.12.0"
    newest = ask("Jetson Orin NX", cuda="13.2")
    assert not any(row.torch for row in newest.jetpacks), (
        "from JetPack 7 on the boards take the wheels of any Arm server"
    )
    assert newest.jetpack is not None and newest.jetpack.cudnn is None
