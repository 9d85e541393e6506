"""Each question rules ask, just inside and just outside its border."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.explain import conditions as ask
from rekindle.explain.ranking import CONDITIONS
from rekindle.explain.scene import Scene
from rekindle.model.arch import Sm
from rekindle.model.machine import Cpu, Machine, Os
from rekindle.model.wheel import WheelReport
from scenes import event, scene, wheel


def test_a_condition_is_called_as_rules_name_it() -> None:
    assert CONDITIONS["card-is-blackwell"] is ask._card_is_blackwell
    assert ask.CONDITIONS["in-triton"] is ask._in_triton


@pytest.mark.parametrize(
    ("card", "archs", "newer", "older", "between"),
    [
        ("sm_90", "sm_80 sm_90", False, False, True),
        ("sm_100", "sm_80 sm_90", True, False, False),
        ("sm_80", "sm_80 sm_90", False, False, True),
        ("sm_75", "sm_80 sm_90", False, True, False),
        ("sm_86", "sm_80 sm_90", False, False, True),
        ("sm_80", "sm_80", False, False, True),
        (None, "sm_80 sm_90", None, None, False),
        ("sm_80", "", None, None, False),
    ],
)
def test_a_card_before_in_and_behind_a_list(
    card: str | None, archs: str, newer: bool | None, older: bool | None, between: bool
) -> None:
    values = {"supported": archs, **({"capability": card} if card else {})}
    here = event(values=values)
    assert ask.CONDITIONS["card-newer-than-wheel"](here, scene()) is newer
    assert ask.CONDITIONS["card-older-than-wheel"](here, scene()) is older
    assert ask.CONDITIONS["card-between"](here, scene()) is between


@pytest.mark.parametrize(
    ("report", "told_by_torch", "newer"),
    [
        (wheel("sm_80", ptx=("compute_80",)), False, False),  # the driver compiles it: the card is served
        (wheel("sm_80"), False, True),
        (wheel("sm_80", ptx=("compute_80",)), True, True),  # torch itself said it is not compatible
        (wheel("sm_80"), True, True),
    ],
)
def test_an_installed_torch_that_has_the_card_is_not_too_old_unless_torch_says_so(
    report: WheelReport, told_by_torch: bool, newer: bool
) -> None:
    here = event(capability="9.0") if told_by_torch else event()
    assert ask.CONDITIONS["card-newer-than-wheel"](here, scene(wheel=report, capability="9.0")) is newer


@pytest.mark.parametrize(
    ("card", "archs", "torch", "answer"),
    [
        ("sm_61", "sm_70 sm_120", "2.9.1", True),  # the flavour for CUDA 12.6 has it
        ("sm_37", "sm_70 sm_120", "2.9.1", False),
        ("sm_37", "sm_50 sm_90", "2.6.0", True),
        ("sm_86", "sm_90 sm_100", "9.9.9", True),  # no such release: the newest decides
        ("sm_86", "sm_90 sm_100", None, True),
        ("sm_86", "sm_80 sm_90", None, False),
        ("sm_50", "sm_90 sm_100", None, True),
        ("sm_37", "sm_90 sm_120", None, False),  # some old wheel has it, none of the new ones
        ("sm_20", "sm_90 sm_120", None, False),
        (None, "sm_90 sm_120", "2.9.1", False),
        ("sm_86", "", None, False),
    ],
)
def test_another_flavour_of_the_release(card: str | None, archs: str, torch: str | None, answer: bool) -> None:
    here = event(values={"supported": archs, **({"capability": card} if card else {})})
    there = scene(values={"torch_version": torch} if torch else {})
    assert ask.CONDITIONS["other-flavour-has-it"](here, there) is answer
    assert ask.CONDITIONS["no-other-flavour-has-it"](here, there) is (not answer)


@pytest.mark.parametrize(("card", "answer"), [("sm_90", False), ("sm_100", True), (None, None)])
def test_blackwell(card: str | None, answer: bool | None) -> None:
    here = event(values={"capability": card} if card else {})
    assert ask.CONDITIONS["card-is-blackwell"](here, scene()) is answer
    assert ask.CONDITIONS["card-is-before-blackwell"](here, scene()) is (None if answer is None else not answer)


@pytest.mark.parametrize(
    ("report", "card", "known", "has"),
    [
        (wheel("sm_80"), "sm_80", True, True),
        (wheel("sm_80"), "sm_86", True, True),
        (wheel("sm_80"), "sm_90", True, False),
        (wheel("sm_80"), None, False, False),
        (wheel(), "sm_80", False, False),
        (None, "sm_80", False, False),
    ],
)
def test_the_installed_torch(report: WheelReport | None, card: str | None, known: bool, has: bool) -> None:
    here = event(values={"capability": card} if card else {})
    assert ask.CONDITIONS["installed-torch-known"](here, scene(wheel=report)) is known
    assert ask.CONDITIONS["installed-torch-has-card"](here, scene(wheel=report)) is has


@pytest.mark.parametrize(
    ("report", "card", "answer"),
    [
        (wheel("sm_50", static=("sm_35", "sm_50")), "sm_35", True),
        (wheel("sm_50", partial=("sm_35",)), "sm_35", True),
        (wheel("sm_50", static=("sm_50",)), "sm_35", False),
        (wheel("sm_35"), "sm_35", False),
        (wheel("sm_50", static=("sm_35",)), None, False),
        (None, "sm_35", False),
    ],
)
def test_static_libraries(report: WheelReport | None, card: str | None, answer: bool) -> None:
    here = event(values={"capability": card} if card else {})
    assert ask.CONDITIONS["card-in-static-libraries"](here, scene(wheel=report)) is answer
    assert ask.CONDITIONS["card-not-in-static-libraries"](here, scene(wheel=report)) is (not answer)


def flags(*numbers: int) -> str:
    return "nvcc " + " ".join(f"-gencode arch=compute_{number}" for number in numbers)


@pytest.mark.parametrize(
    ("arch", "around", "known", "older", "told"),
    [
        ("compute_75", "", {"toolkit": "13.0"}, False, True),  # its oldest: neither dropped nor new
        ("compute_72", "", {"toolkit": "13.0"}, True, True),
        ("compute_80", "", {"toolkit": "13.0"}, False, True),
        ("compute_70", "", {"toolkit": "99.9"}, True, None),  # a toolkit the facts do not know tells nothing
        ("compute_74", "", {}, True, None),
        ("compute_75", "", {}, False, True),
        ("compute_60", flags(60, 72), {}, True, None),
        ("compute_60", flags(60, 75), {}, True, True),
        ("compute_60", "", {"arch_flags": flags(60, 75)}, True, True),
        ("compute_49", "", {}, True, True),
        ("compute_50", "", {}, True, None),
        ("", "", {}, None, True),
    ],
)
def test_dropped_or_not_known_yet(
    arch: str, around: str, known: dict[str, str], older: bool | None, told: bool | None
) -> None:
    here = event(around=around, arch=arch)
    assert ask.CONDITIONS["arch-is-older-than-toolkit"](here, scene(values=known)) is older
    assert ask.CONDITIONS["arch-is-newer-than-toolkit"](here, scene(values=known)) is (
        None if older is None else not older
    )
    assert ask.CONDITIONS["toolkit-or-arch-tells"](here, scene(values=known)) is told


@pytest.mark.parametrize(
    ("arch", "module", "older"),
    [("compute_50", True, False), ("compute_49", True, True), ("compute_50", False, True), ("compute_61", True, False)],
)
def test_builds_of_findcuda_are_of_a_time_when_the_middle_was_new(arch: str, module: bool, older: bool) -> None:
    here = scene(["find-cuda-module"] if module else [])
    assert ask.CONDITIONS["arch-is-older-than-toolkit"](event(arch=arch), here) is older


class NewestDropped(Scene):
    """As if the newest toolkit had dropped what its forerunner still takes."""

    @property
    def facts(self) -> Any:
        class Facts:
            toolkits = ("15.0", "14.0")

        return Facts()

    def toolkit_archs(self, version: str | None) -> tuple[Sm, ...]:
        return {"15.0": (Sm(9, 0), Sm(12, 0)), "14.0": (Sm(8, 0), Sm(9, 0))}.get(version or "", ())


def test_the_newest_toolkit_says_what_was_dropped() -> None:
    here = NewestDropped(reading=scene().reading)
    assert ask.CONDITIONS["arch-is-older-than-toolkit"](event(arch="compute_80"), here) is True
    assert ask.CONDITIONS["toolkit-or-arch-tells"](event(arch="compute_80"), here) is None
    assert ask.CONDITIONS["arch-is-older-than-toolkit"](event(arch="compute_90"), here) is False


def machine(system: str = "linux", **parts: Any) -> Machine:
    cpu = Cpu(features=parts.pop("features", ()))
    return Machine(os=Os(system=system, **parts), cpu=cpu)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "avx", "avx2"),
    [
        (None, True, True),
        (machine(), True, True),
        (machine(features=("sse4_2",)), True, True),
        (machine(features=("avx",)), False, True),
        (machine(features=("avx", "avx2")), False, False),
    ],
)
def test_only_a_processor_known_to_have_it_is_innocent(given: Machine | None, avx: bool, avx2: bool) -> None:
    assert ask.CONDITIONS["cpu-lacks-avx"](event(), scene(machine=given)) is avx
    assert ask.CONDITIONS["cpu-lacks-avx2"](event(), scene(machine=given)) is avx2


@pytest.mark.parametrize(
    ("name", "sse4", "avx", "avx2"),
    [
        ("Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", False, False, True),
        ("Intel(R) Core(TM) i7 CPU 920 @ 2.67GHz", False, True, True),
        ("Intel(R) Core(TM) i7-4770K CPU @ 3.50GHz", False, False, False),
        ("a processor of nobody", True, True, True),
    ],
)
def test_a_processor_that_the_log_names_answers_for_what_it_has(name: str, sse4: bool, avx: bool, avx2: bool) -> None:
    here = scene(values={"cpu_name": name})
    asked = ("cpu-lacks-sse4", "cpu-lacks-avx", "cpu-lacks-avx2")
    assert tuple(ask.CONDITIONS[key](event(), here) for key in asked) == (sse4, avx, avx2)


@pytest.mark.parametrize(
    ("given", "signals", "arm"),
    [
        (None, [], False),
        (None, ["arm"], True),
        (None, ["jetson"], True),
        (machine(arch="aarch64"), [], True),
        (machine(arch="x86_64"), ["arm"], False),
        (machine(), ["arm"], True),
        (machine(), [], False),
    ],
)
def test_the_machine_counts_before_the_log(given: Machine | None, signals: list[str], arm: bool) -> None:
    here = scene(signals, machine=given)
    assert ask.CONDITIONS["machine-is-arm"](event(), here) is arm
    assert ask.CONDITIONS["machine-is-not-arm"](event(), here) is (not arm)


WHEEL = "torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("values", "given", "answer"),
    [
        ({"tag": "manylinux_2_28_x86_64"}, None, True),
        ({"tag": "manylinux_2_28_x86_64"}, machine(glibc="2.31"), True),  # pip itself refused this tag
        ({"tag": "linux_x86_64"}, machine(glibc="2.17"), False),
        ({"wheel": WHEEL}, machine(glibc="2.27"), True),
        ({"wheel": WHEEL}, machine(glibc="2.28"), False),
        ({"wheel": WHEEL}, machine(libc="musl"), True),
        ({"wheel": WHEEL}, machine("windows"), None),
        ({"wheel": WHEEL}, machine(), None),
        ({"wheel": WHEEL}, None, None),
        ({"wheel": "torch-2.9.1-cp312-cp312-win_amd64.whl"}, None, False),
        ({}, machine(glibc="2.17"), False),
    ],
)
def test_a_wheel_for_a_newer_c_library(values: dict[str, str], given: Machine | None, answer: bool | None) -> None:
    assert ask.CONDITIONS["wheel-tag-newer-than-glibc"](event(values=values), scene(machine=given)) is answer


@pytest.mark.parametrize(
    ("versions", "around", "python", "answer"),
    [
        ("none", "", None, None),
        ("none", "", "3.12", True),
        ("2.6.0", "", None, True),
        ("2.6.0", "", "3.12", True),
        ("", "ERROR: torch (from versions: none)", None, None),
        ("", "ERROR: torch (from versions: none)", "3.12", True),
        ("", "ERROR: torch (from versions: 2.6.0)", None, True),
    ],
)
def test_an_index_without_versions_may_not_have_answered(
    versions: str, around: str, python: str | None, answer: bool | None
) -> None:
    here = scene(values={"python_version": python} if python else {})
    assert ask.CONDITIONS["index-answered"](event(around=around, versions=versions), here) is answer


@pytest.mark.parametrize(
    ("signals", "around", "answer"),
    [(["triton"], "", True), ([], "/opt/Triton/x.py", True), ([], "torch/x.py", False), (["triton"], "triton", True)],
)
def test_triton_is_seen_anywhere_or_nearby(signals: list[str], around: str, answer: bool) -> None:
    assert ask.CONDITIONS["in-triton"](event(around=around), scene(signals)) is answer
