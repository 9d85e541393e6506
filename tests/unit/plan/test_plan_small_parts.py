"""Small parts of the planner asked directly: distances, folders, words, steps and guesses at their edges."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from planning import FACTS, ask, build, plan, recipe_of, wheel

from rekindle.errors import BadInput
from rekindle.model.arch import parse_sm
from rekindle.model.machine import Toolkit
from rekindle.model.plan import Step
from rekindle.plan.assess import (
    assess,
    newest_wanted,
    preference,
    releases_behind,
    steps_between,
    toolkit_order,
)
from rekindle.plan.describe import machine_from_flags, machine_name
from rekindle.plan.evidence import KnownBuild, anybody_built, tried_kits, weakest
from rekindle.plan.question import Question, check_wish, find_obstacle
from rekindle.plan.steps import front_end, interpreter_words, rocm_folder, toolkit_folder
from rekindle.plan.supply import plan_blas
from rekindle.plan.whynot import why_not
from rekindle.plan.wording.because import choice_reasons
from rekindle.scripts.spell import spell

NEWEST = FACTS.releases[0]


def with_(question: Question, **values: Any) -> Question:
    return Question(msgspec.structs.replace(question.machine, **values), question.wish, question.facts)


def test_how_far_behind() -> None:
    assert releases_behind(NEWEST, ask("sm_86")) == 0
    assert releases_behind("2.13.0", ask("sm_86")) == FACTS.minors["2.15"] - FACTS.minors["2.13"] == 2
    old = ask("sm_86", python="3.7")
    assert newest_wanted(old) == "1.13.1"
    assert releases_behind("2.6.0", old) == 0, "newer than anyone with that Python could have"
    assert releases_behind("1.12.1", old) == 1
    assert steps_between("2.6.0", "2.8.0", old) == steps_between("2.8.0", "2.6.0", old) == 2


@pytest.mark.parametrize(
    ("version", "order"), [("12.4", (-12, -4)), ("12", (-12, 0)), ("11.8.0", (-11, -8)), (None, (0, 0))]
)
def test_newest_toolkit_first(version: str | None, order: tuple[int, int]) -> None:
    assert toolkit_order(version) == order


def test_among_equals_the_wheel_of_the_index_everybody_uses() -> None:
    question = ask("sm_86", torch="2.6.0")
    ranks = {name: preference(assess(wheel("2.6.0", name), question), question) for name in ("cu124", "cu118", "cu126")}
    assert min(ranks, key=lambda name: ranks[name]) == "cu124"
    late = ask("sm_86", torch="2.6.0", driver="530.30.02")
    ranks = {name: preference(assess(wheel("2.6.0", name), late), late) for name in ("cu124", "cu118")}
    assert min(ranks, key=lambda name: ranks[name]) == "cu118", "whose own driver is there"


def test_the_weakest_of_several_cards() -> None:
    near = KnownBuild("untried", "near", near=True)
    untried, proven, told = KnownBuild("untried", "no"), KnownBuild("proven", "yes"), KnownBuild("reported", "said")
    assert weakest([proven, told, near, untried]) is untried
    assert weakest([near, proven]) is near
    assert weakest([proven, told]) is told
    assert weakest([]) is None


def test_whether_anybody_built_it() -> None:
    assert anybody_built("2.6.0", parse_sm("sm_90"), FACTS), "an official wheel has it"
    assert anybody_built("1.13.1", parse_sm("sm_35"), FACTS), "a row of evidence names it"
    assert not anybody_built("2.6.0", parse_sm("sm_35"), FACTS)
    assert tried_kits("1.13.1", (), "linux", FACTS) == ()


@pytest.mark.parametrize(
    ("cuda", "words"),
    [
        ("99.0", "newer than the facts know"),
        ("12.7", "there is no CUDA 12.7"),
        ("11.9", "there is no CUDA 11.9"),
        ("11.9.1", "there is no CUDA 11.9"),
    ],
)
def test_toolkits_that_never_were(cuda: str, words: str) -> None:
    with pytest.raises(BadInput, match=words) as refused:
        check_wish(ask("sm_86", cuda=cuda))
    near = {"12.7": ("12.6", "12.8"), "11.9": ("11.8",), "11.9.1": ("11.8",)}.get(cuda)
    assert near is None or (refused.value.remedy or "").startswith(tuple(f"the nearest is {one}" for one in near))


@pytest.mark.parametrize(
    ("variant", "hint"),
    [("rcom6.4", "did you mean rocm6.4?"), ("qqq", "flavours look like cu126, rocm6.4 or cpu"), ("cu999", None)],
)
def test_flavours_that_never_were(variant: str, hint: str | None) -> None:
    if hint is None:
        check_wish(ask("sm_86", variant=variant))
        return
    with pytest.raises(BadInput) as refused:
        check_wish(ask("sm_86", variant=variant))
    assert refused.value.remedy == hint


def test_wishes_that_contradict_themselves() -> None:
    with pytest.raises(BadInput, match="contradict"):
        check_wish(ask("sm_86", cuda="12.4", rocm="6.2"))
    with pytest.raises(BadInput, match="Windows on ARM"):
        check_wish(ask(os="windows", arch="arm64"))
    check_wish(ask(os="linux", arch="arm64"))


def test_why_not_reads_the_tables_by_itself() -> None:
    question = ask("RTX 3060")
    assert why_not(question.machine, question.wish, "torch=2.14.1") == why_not(
        question.machine, question.wish, "torch=2.14.1", FACTS
    )


@pytest.mark.parametrize("text", ["torch", "torch=", "=2.15", "colour=red"])
def test_why_not_of_nothing(text: str) -> None:
    question = ask("RTX 3060")
    with pytest.raises(BadInput, match="is not understood"):
        why_not(question.machine, question.wish, text, FACTS)


def test_why_not_tells_eight_at_most() -> None:
    question = ask("RTX 3060")
    assert len(why_not(question.machine, question.wish, "python=3.11", FACTS).considered) == 8


def kits(question: Question, *rows: tuple[str, str | None, str | None]) -> Question:
    return with_(question, toolkits=tuple(Toolkit(kind=k, version=v, path=p) for k, v, p in rows))


def test_where_a_toolkit_is() -> None:
    bare = ask("sm_86")
    assert toolkit_folder("11.8.0", bare) == "/usr/local/cuda-11.8"
    windows = ask("sm_86", os="windows")
    assert toolkit_folder("11.8", windows) == "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v11.8"
    found = kits(bare, ("rocm", "11.8", "/no"), ("cuda", "12.4", "/other"), ("cuda", "11.8.89", "/mine"))
    assert toolkit_folder("11.8", found) == "/mine"
    assert toolkit_folder("11.7", found) == "/usr/local/cuda-11.7"
    assert toolkit_folder("11.8", kits(bare, ("cuda", None, "/unread"))) == "/usr/local/cuda-11.8"


def test_where_rocm_is() -> None:
    bare = ask("gfx1100")
    assert rocm_folder("6.2", bare) == "/opt/rocm"
    assert rocm_folder("6.2", ask("gfx1100", os="windows")) is None
    found = kits(bare, ("cuda", "6.2", "/no"), ("rocm", "6.1", "/older"), ("rocm", "6.2.4", "/mine"))
    assert rocm_folder("6.2", found) == "/mine"
    assert rocm_folder("6.3", found) == "/opt/rocm"


def test_how_python_is_started() -> None:
    assert interpreter_words("3.12", "windows") == ("py", "-3.12")
    assert interpreter_words(None, "windows") == ("py",)
    assert interpreter_words("3.12", "linux") == ("python3.12",)
    assert interpreter_words(None, "linux") == ("python3",)


def test_the_front_end_of_a_release_is_the_newest_that_is_not_newer() -> None:
    rows = sorted(FACTS.sources.front, key=lambda row: [int(part) for part in row.since.split(".")])
    for row in rows[1:]:
        assert front_end(row.since, FACTS) == row
    assert front_end("0.1", FACTS) == FACTS.sources.front[0]
    assert front_end(NEWEST, FACTS) == rows[-1]


def test_a_machine_in_a_few_words() -> None:
    assert machine_name(machine_from_flags(FACTS)) == "no GPU, linux"
    named = machine_from_flags(FACTS, gpu=["RTX 3060", "sm_90"], cpu="haswell", distro="debian 12")
    assert machine_name(named).endswith(", haswell, debian 12")
    assert machine_name(named).count(",") == 3


@pytest.mark.parametrize(
    ("os", "arch", "platform"),
    [
        ("linux", "arm64", "linux_aarch64"),
        ("macos", "arm64", "macos_arm64"),
        ("macos", None, "macos_x86_64"),
        ("windows", None, "windows"),
        ("linux", "amd64", "linux_x86_64"),
    ],
)
def test_platforms_by_any_spelling(os: str, arch: str | None, platform: str) -> None:
    assert ask(os=os, arch=arch).platform == platform


@pytest.mark.parametrize(
    ("given", "torch", "flavour"),
    [
        ("2.8.0+cu128", "2.8.0", "cu128"),
        ("torch2.8.0", "2.8.0", None),
        (">=2.5,<2.7", ">=2.5,<2.7", None),
        ("torch>=2.5", ">=2.5", None),
        (None, None, None),
    ],
)
def test_a_wish_taken_apart(given: str | None, torch: str | None, flavour: str | None) -> None:
    question = ask("sm_86", torch=given)
    assert (question.torch, question.flavour) == (torch, flavour)


@pytest.mark.parametrize(
    ("gpus", "flags", "backend"),
    [
        ((), {}, "cpu"),
        ((), {"cuda": "12.4"}, "cuda"),
        ((), {"cudnn": "9.1"}, "cuda"),
        ((), {"rocm": "6.2"}, "rocm"),
        ((), {"variant": "rocm6.2"}, "rocm"),
        ((), {"driver": "550.54.14"}, "cuda"),
        (("sm_86",), {"variant": "cpu"}, "cpu"),
        (("sm_86",), {"rocm": "6.2"}, "cuda"),
        (("gfx1100",), {"cuda": "12.4"}, "rocm"),
        (("sm_86", "gfx1100"), {"rocm": "6.2"}, "rocm"),
        (("gfx1100", "sm_86"), {}, "cuda"),
        (("sm_20",), {"driver": "390.157"}, "cpu"),
        (("sm_86",), {"os": "macos"}, "cpu"),
    ],
)
def test_which_backend(gpus: tuple[str, ...], flags: dict[str, Any], backend: str) -> None:
    assert ask(*gpus, **flags).backend == backend


@pytest.mark.parametrize(("threads", "jobs"), [(4, "4"), (None, "8")])
def test_jobs_of_a_build(threads: int | None, jobs: str) -> None:
    question = ask(memory=512.0)
    question = with_(question, cpu=msgspec.structs.replace(question.machine.cpu, threads=threads))
    made = recipe_of(build("2.6.0", compiler="gcc-13"), question)
    assert made.env["MAX_JOBS"] == jobs
    assert "MAX_JOBS" not in recipe_of(build("2.6.0", compiler="gcc-13"), ask()).env


def test_a_build_is_never_promised_in_less_than_five_minutes() -> None:
    question = ask(memory=4096.0)
    question = with_(question, cpu=msgspec.structs.replace(question.machine.cpu, threads=4000))
    assert recipe_of(build("2.6.0", compiler="gcc-13"), question).minutes == (5, 10)


def test_cmake_four_came_late() -> None:
    def pinned(torch: str) -> str:
        return recipe_of(build(torch, compiler="gcc-13"), ask()).pins["cmake"]

    assert pinned("2.7.1").endswith(",<4")
    assert "<4" not in pinned("2.8.0")


def test_what_the_lines_of_a_plan_hold() -> None:
    made = plan("gfx803", torch="1.13.1", build=True)
    assert ("python", "tools/amd_build/build_amd.py") in [step.argv for step in made.steps]
    cuda = plan("sm_86", torch="2.0.1", build=True)
    assert ("python", "tools/amd_build/build_amd.py") not in [step.argv for step in cuda.steps]
    assert cuda.steps[-1] == Step(kind="install-built", folder="dist")


@pytest.mark.parametrize(
    ("step", "shell", "lines"),
    [
        (Step(kind="cd"), "sh", ("cd .",)),
        (Step(kind="cd", folder="a b"), "sh", ("cd 'a b'",)),
        (Step(kind="cd", folder="a b"), "cmd", ('cd "a b"',)),
        (Step(kind="cd", folder="a b"), "powershell", ("cd 'a b'",)),
        (Step(kind="vcvars", argv=("14.3",)), "sh", ()),
        (Step(kind="install-built"), "sh", ("python -m pip install --force-reinstall dist/*.whl",)),
        (Step(kind="keep", env={"A": "1"}), "sh", ("export A=1",)),
        (Step(kind="keep", env={"A": "1"}), "cmd", ("setx A 1",)),
        (Step(kind="write", folder="f", argv=("a", "b")), "cmd", (">f echo a", ">>f echo b")),
        (Step(kind="write", folder="f", argv=("a'b",)), "powershell", ("Set-Content -Encoding ascii f 'a''b'",)),
        (Step(kind="set", env={"A": "x'y"}), "powershell", ("$env:A = 'x''y'",)),
        (Step(kind="run", argv=("pip", "")), "powershell", ("pip ''",)),
    ],
)
def test_steps_spelled(step: Step, shell: Any, lines: tuple[str, ...]) -> None:
    assert spell([step], shell) == lines


def test_a_system_without_glibc_is_answered_as_that() -> None:
    found = find_obstacle(ask("RTX 3060", distro="alpine 3.20"))
    assert found is not None and found.code == "libc-musl" and "glibc" in found.instead
    assert find_obstacle(ask("RTX 3060", distro="debian 12")) is None
    made = plan("RTX 3060", distro="alpine 3.20")
    assert [reason.code for reason in made.because] == ["libc-musl"]


@pytest.mark.parametrize(
    ("gpus", "rocm", "code", "words"),
    [
        ((), None, "build-asked", "torch 2.6.0 is built from source for the CPU."),
        (("gfx803",), "6.2", "rocm-targets-arch", "Built from source for gfx803: PYTORCH_ROCM_ARCH=gfx803."),
        ((), "6.2", "rocm-targets-arch", "No card is named, so PYTORCH_ROCM_ARCH is left out and the build takes"),
    ],
)
def test_what_a_build_is_made_for(gpus: tuple[str, ...], rocm: str | None, code: str, words: str) -> None:
    question = ask(*gpus, rocm=rocm)
    reasons = list(choice_reasons(assess(build("2.6.0", rocm=rocm, compiler="gcc-13"), question), question))
    assert [one.code for one in reasons] == [code]
    assert reasons[0].text.startswith(words)
    assert "ARCH=." not in reasons[0].text, "an empty list is no list"


def test_where_linear_algebra_comes_from() -> None:
    arm = ask(arch="aarch64")
    assert plan_blas(arm).where == "OpenBLAS: apt install libopenblas-dev"
    assert plan_blas(kits(arm, ("openblas", "0.3", None))).where == "OpenBLAS, found on the machine"
    assert plan_blas(kits(ask(), ("openblas", "0.3", None))).name == "OpenBLAS"
    assert plan_blas(kits(ask(), ("openblas", "0.3", None), ("mkl", "2024", None))).where == "MKL, found on the machine"
    assert (plan_blas(ask()).prefix, plan_blas(ask(os="windows")).prefix) == (".", "Library")


def test_why_not_names_what_stands_instead_as_it_is() -> None:
    kepler, fermi = ask("Tesla K40c"), ask("sm_20")
    proposed = plan("Tesla K40c")
    answer = why_not(kepler.machine, kepler.wish, "torch=2.14.1", FACTS)
    assert (proposed.answer, answer.instead) == ("build", f"build torch {proposed.torch}")
    assert why_not(fermi.machine, fermi.wish, "torch=2.14.1", FACTS).instead is None
