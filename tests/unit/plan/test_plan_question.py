"""What a machine and a wish mean, and what ends a question at once."""

from __future__ import annotations

from typing import Any

import pytest
from planning import FACTS, ask, plan, with_machine

from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.model.machine import Gpu
from rekindle.model.plan import Wish
from rekindle.plan.question import Question, check_wish
from rekindle.plan.rules_toolchain import find_obstacle
from rekindle.plan.solve import make_plan


def test_an_unknown_release_is_told_the_newest() -> None:
    with pytest.raises(BadInput, match=FACTS.releases[0].replace(".", r"\.")):
        _ = ask(torch="9.9").wanted_releases


def test_the_names_of_all_cards_are_not_read_for_a_plan_by_architecture() -> None:
    facts = Facts()
    asked = ask("sm_86", arch="x86_64")
    assert make_plan(asked.machine, asked.wish, facts).torch is not None
    assert "wheels" in vars(facts) and "nvidia" not in vars(facts)


def test_cards_of_unknown_kind_are_kept_apart_by_name() -> None:
    cards = (Gpu(vendor="amd", name="Radeon One"), Gpu(vendor="amd", name="Radeon Two"))
    question = with_machine(ask("gfx1100"), gpus=cards)
    assert [gpu.name for gpu in question.gpus] == ["Radeon One", "Radeon Two"] and question.gfxs == ()


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


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"cuda": "99.0"}, "newer than the facts know"),
        ({"cuda": "12.7"}, "there is no CUDA 12.7"),
        ({"cuda": "twelve"}, "--cuda wants a version number"),
        ({"rocm": "x"}, "--rocm wants a version number"),
        ({"cudnn": "x"}, "--cudnn wants a version number"),
        ({"cuda": "12.6", "rocm": "6.3"}, "contradict"),
        ({"variant": "cpux"}, "no wheel flavour is called 'cpux'"),
        ({"torch": "2.x"}, "--torch"),
        ({"torch": "9.9"}, "no torch 9.9 is known"),
        ({"compiler": "tcc-1"}, "is not understood"),
        ({"compiler": "gcc-x"}, "is not understood"),
    ],
)
def test_wishes_for_what_never_was(flags: dict[str, Any], says: str) -> None:
    wish = Wish(**flags)
    with pytest.raises(BadInput) as caught:
        check_wish(Question(ask("sm_86").machine, wish, FACTS))
    assert says in caught.value.message


def test_the_nearest_toolkit_is_named() -> None:
    with pytest.raises(BadInput) as caught:
        check_wish(Question(ask("sm_86").machine, Wish(cuda="12.7"), FACTS))
    assert caught.value.remedy in ("the nearest is 12.6", "the nearest is 12.8")
    check_wish(Question(ask("sm_86").machine, Wish(cuda="12.6", compiler="gcc-13", variant="cu999"), FACTS))


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
    check_wish(ask(os="windows", arch="arm64"))
    check_wish(ask(os="linux", arch="arm64"))


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


def test_a_system_without_glibc_is_answered_as_that() -> None:
    found = find_obstacle(ask("RTX 3060", distro="alpine 3.20"))
    assert found is not None and found.code == "libc-musl" and "with glibc" in found.text
    assert find_obstacle(ask("RTX 3060", distro="debian 12")) is None
    made = plan("RTX 3060", distro="alpine 3.20")
    assert [reason.code for reason in made.because] == ["libc-musl"]
