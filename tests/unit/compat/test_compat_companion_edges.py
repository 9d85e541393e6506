"""A companion's ways in their order, what is said of those that were refused, and where a version ends."""

from typing import Any

import msgspec
import pytest

from rekindle.compat.companions import (
    CompanionFinding,
    TorchSurroundings,
    accepted_arch,
    chosen_version,
    judge,
    near_packages,
    refusals,
)
from rekindle.compat.driver import toolkit_driver
from rekindle.facts import Facts, load_facts
from rekindle.facts.tables import CompanionPackagesFile
from rekindle.model.arch import Gfx, parse_gpu_arch, parse_sm
from rekindle.model.companion import Bounds, CompanionFork, CompanionSource
from tiny_companions import ABOUT, KNOWN, at, tables, wheel

SM_80 = parse_sm("sm_80")


def source(version: str = "3", **fields: Any) -> CompanionSource:
    return CompanionSource(**{"package": "tiny", "version": version, "platforms": ("linux_x86_64",), **fields}, **KNOWN)


def fork(version: str = "2", **fields: Any) -> CompanionFork:
    values = {"package": "tiny", "version": version, "name": "theirs", "url": "https://example.org", "state": "alive"}
    return CompanionFork(**{**values, **fields}, **KNOWN)


def found(where: TorchSurroundings, *rows: Bounds, version: str = "") -> CompanionFinding:
    return judge("tiny", where, tables(*rows), version=version)


def texts(row: Bounds, where: TorchSurroundings, version: str = "") -> list[str]:
    return [no.text for no in refusals(row, where, load_facts(), version)]


NO_WHEEL = wheel(pythons={"windows": ("3.11",)})


def test_rows_of_another_package_are_not_looked_at() -> None:
    others = (wheel("9", package="huge"), source("9", package="huge"), fork("9", package="huge", first=True))
    assert found(at("sm_80"), *others).kind == "unknown"
    stand_in = fork("9", package="huge", stands_in=True)
    assert found(at("sm_80"), wheel(), stand_in).stand_ins == ()


def test_a_stand_in_must_run_there_too() -> None:
    other = fork(stands_in=True, sm_min=SM_80)
    assert found(at("sm_80"), wheel(), other).stand_ins == (other,)
    assert found(at("sm_75"), wheel(), other).stand_ins == ()
    assert found(at("sm_80"), wheel(), fork()).stand_ins == ()


def test_newest_first_by_number_not_by_spelling() -> None:
    assert found(at("sm_80"), wheel("2.9"), wheel("2.10")).version == "2.10"


def test_a_newer_one_is_newer_only_if_it_is() -> None:
    # The same version in another build, or an older one, takes nothing away from the one chosen.
    same = wheel("2", sm_min=SM_80)
    assert found(at("sm_75"), same, wheel("2", name="other")).kind == "runs"
    assert found(at("sm_75"), wheel("2"), wheel("1", sm_min=SM_80)).kind == "runs"
    assert found(at("sm_75"), wheel("2.5", sm_min=SM_80), wheel("2")).kind == "last"


def test_one_newer_version_by_choice_is_enough() -> None:
    rows = (wheel("3", sm_min=SM_80), wheel("2.5", torch="==2.7.0"), wheel("2"))
    assert found(at("sm_75"), *rows).kind == "runs"


def test_another_makers_build_is_no_newer_version() -> None:
    assert found(at("sm_75"), wheel("2.5", backends=("rocm",)), wheel("2")).kind == "runs"


def test_the_last_there_is_is_never_called_the_last_that_runs() -> None:
    assert found(at("sm_75"), wheel("4", sm_min=SM_80), wheel("3")).kind == "runs"
    assert found(at("sm_75"), NO_WHEEL, source("4", sm_min=SM_80), source("3")).kind == "build"


def test_an_older_source_is_the_last_where_the_machine_forbids_newer_ones() -> None:
    got = found(at("sm_75"), source("3", sm_min=SM_80), source("2"))
    assert (got.kind, got.version) == ("last", "2")
    got = found(at("sm_75"), source("3", torch="==2.7.0"), source("2"))
    assert (got.kind, got.version, got.pulls) == ("build", "2", ("==2.7.0",))


def test_a_version_asked_for_is_never_answered_by_a_fork() -> None:
    assert found(at("sm_75"), NO_WHEEL, fork(first=True)).kind == "alternative"
    assert found(at("sm_75"), NO_WHEEL, fork(first=True), version="==2").kind == "none"
    assert found(at("sm_75"), NO_WHEEL, fork(), version="==2").kind == "none"
    assert found(at("sm_75"), NO_WHEEL, fork()).version == "2"


def test_why_a_fork_does_not_do_is_told_unless_a_version_was_asked_for() -> None:
    bad = fork(sm_min=SM_80)
    assert [no.axis for no in found(at("sm_75"), bad).nos] == ["card"]
    assert found(at("sm_75"), bad, version="==2").nos == ()
    assert found(at("sm_75"), bad, version="==2").kind == "unknown"


@pytest.mark.parametrize(
    ("version", "exists"), [("==0.9", False), ("==1", True), ("==3", True), ("==3.1", False), ("==9.*", True)]
)
def test_versions_that_do_not_exist(version: str, exists: bool) -> None:
    got = found(at("sm_80"), wheel(since="1"), version=version)
    assert any("There is no tiny" in no.text for no in got.nos) is not exists
    if not exists:
        assert (got.kind, got.nos[0].axis, got.nos[0].source) == ("none", "version", "a test")
        assert "versions go from 1 to 3 (2026-11-16)." in got.nos[0].text


@pytest.mark.parametrize(
    ("wanted", "version"),
    [("", "3"), ("==2.5", "2.5"), ("== 2.5", "2.5"), (">=2.5", "3"), ("==2.*", "3"), ("==x", "3")],
)
def test_the_version_proposed(wanted: str, version: str) -> None:
    assert chosen_version(wheel(), wanted) == version


@pytest.mark.parametrize(
    ("version", "inside"),
    [("==1.9", False), ("==2", True), ("==2.5", True), ("==3", True), ("==3.0.1", False), (">=3", True), (">3", False)],
)
def test_the_span_of_a_row(version: str, inside: bool) -> None:
    got = texts(wheel(since="2"), at("sm_80"), version)
    assert got == ([] if inside else [f"tiny 3 is not {version}."])


def test_a_row_without_a_first_version_is_that_one_alone() -> None:
    assert texts(wheel(), at("sm_80"), "==2.9") == ["tiny 3 is not ==2.9."]
    assert texts(wheel(), at("sm_80"), "==3") == []


def test_the_strongest_reason_of_the_newest_and_of_the_nearest() -> None:
    rows = (wheel("3", sm_min=SM_80, torch="==2.7.0"), wheel("2", torch="==2.7.0", pythons={"linux_x86_64": ("3.9",)}))
    assert [no.axis for no in found(at("sm_75"), *rows).nos] == ["card", "python"]
    # An older one that is further away adds nothing; the same reason is told once.
    rows = (wheel("3", torch="==2.7.0"), wheel("2", sm_min=SM_80))
    assert [no.axis for no in found(at("sm_75"), *rows).nos] == ["torch"]


def test_versions_nobody_asked_for_are_no_obstacle() -> None:
    rows = (wheel("3"), wheel("2", sm_min=SM_80))
    assert [no.text for no in found(at("sm_75"), *rows, version="<3").nos] == [
        "tiny 2 needs sm_80 or newer, and this card is sm_75."
    ]
    assert [no.axis for no in found(at("sm_75"), wheel("3"), version="<3").nos] == ["version"]


def test_only_what_another_torch_could_change_pulls() -> None:
    assert found(at("sm_75"), wheel(torch="==2.7.0", pythons={"linux_x86_64": ("3.9",)})).pulls == ("==2.7.0",)
    assert found(at("sm_75"), wheel(torch="==2.7.0", sm_min=SM_80)).pulls == ()
    assert found(at("sm_75", python="3.9"), wheel()).pulls == ()
    assert found(at("sm_75"), wheel("3", torch="==2.7.0"), wheel("2", torch="==2.7.0")).pulls == ("==2.7.0",)
    assert found(at("sm_75"), wheel(torch=">=2", cuda=("11",))).pulls == (">=2",)
    all_three = wheel(torch="==2.7.0", cuda=("11",), pythons={"linux_x86_64": ("3.9",)})
    assert found(at("sm_75"), all_three).pulls == ("==2.7.0",)


@pytest.mark.parametrize(
    ("row", "where", "text"),
    [
        (wheel(backends=("rocm",)), at("sm_80"), "tiny 3 is made for AMD cards, not for NVIDIA cards."),
        (
            wheel(backends=("cuda", "rocm")),
            at(),
            "tiny 3 is made for NVIDIA cards and AMD cards, not for a machine without a GPU.",
        ),
        (
            wheel(pythons={"linux_x86_64": ("3.8", "3.9", "3.10")}),
            at("sm_80"),
            "tiny 3 has no wheel for Python 3.11 (it has 3.8 to 3.10).",
        ),
        (wheel(), at("sm_80", platform="windows"), "tiny 3 has no wheel for Windows."),
        (wheel(lacks={"windows": "It is Linux only."}), at("sm_80", platform="windows"), "It is Linux only."),
        (source(), at("sm_80", platform="linux_aarch64"), "tiny 3 is not known to work on Linux aarch64."),
        (source(), at("sm_80", platform="windows_arm64"), "tiny 3 is not known to work on Windows on Arm."),
        (fork(platforms=("windows",)), at("sm_80"), "tiny 2 is not known to work on Linux x86-64."),
        (wheel(python=">=3.12"), at("sm_80"), "tiny 3 wants Python >=3.12."),
        (wheel(torch="==2.7.0"), at("sm_80"), "tiny 3 was made for torch ==2.7.0, not for 2.6.0."),
        (wheel(torch="==2.7.0"), at("sm_80", torch="2.6.0+cu124"), "tiny 3 was made for torch ==2.7.0, not for 2.6.0."),
        (
            wheel(cuda=("11", "13")),
            at("sm_80"),
            "tiny 3 goes with a torch for CUDA 11 or 13, and this one is for CUDA 12.4.",
        ),
        (
            wheel(rocm=("5.7", "6.1"), backends=("rocm",)),
            at("gfx90a"),
            "tiny 3 goes with a torch for ROCm 5.7 or 6.1, and this one is for ROCm 6.2.",
        ),
        (source(cuda_min="12.5"), at("sm_80"), "tiny 3 compiles with CUDA 12.5 or newer, and torch's is 12.4."),
        (
            wheel(glibc={"linux_x86_64": "2.34"}),
            at("sm_80"),
            "tiny 3 needs glibc 2.34 or newer, and this system has 2.31.",
        ),
        (wheel(sm_max=SM_80), at("sm_90"), "tiny 3 ends at sm_80, and this card is sm_90."),
    ],
)
def test_what_is_said(row: Bounds, where: TorchSurroundings, text: str) -> None:
    assert texts(row, where) == [text]


@pytest.mark.parametrize(
    ("row", "where"),
    [
        (source(cuda_min="12.4"), at("sm_80")),
        (source(cuda_min="12.4"), at("sm_80", cuda=None)),
        (source(cuda_min="12.5", backends=("cuda", "cpu")), at(cuda="11.8")),
        (wheel(cuda=("12.4",)), at("sm_80")),
        (wheel(cuda=("11",)), at("sm_80", cuda=None)),
        (wheel(cuda=("11",), backends=("cpu",)), at(cuda="12.4")),
        (wheel(rocm=("6.1", "6.2"), backends=("rocm",)), at("gfx90a")),
        (wheel(rocm=("6",), backends=("rocm",)), at("gfx90a")),
        (wheel(rocm=("5.7",), backends=("rocm",)), at("gfx90a", rocm=None)),
        (wheel(rocm=("5.7",), backends=("cuda", "rocm")), at("sm_80", rocm="6.2")),
        (wheel(), at("sm_80", python=None)),
        (wheel(), at("sm_80", python="3.11t")),
        (wheel(python=">=3.11"), at("sm_80", python="3.11t")),
        (wheel(python=">=3.12"), at("sm_80", python=None)),
        (wheel(glibc={"linux_x86_64": "2.34"}), at("sm_80", glibc=None)),
        (wheel(glibc={"linux_aarch64": "2.34"}), at("sm_80")),
        (wheel(), at("sm_80", torch=None)),
        (fork(), at("sm_80", platform="windows")),
        (wheel(backends=("rocm",)), at("gfx90a")),
        (wheel(targets={"windows": ("sm_90",)}), at("sm_80")),
        (wheel(toolkit="12.4"), at("sm_80", driver="550.54.14")),
        (wheel(toolkit="12.4"), at("sm_80")),
        (wheel(toolkit="12.4", backends=("rocm",)), at("gfx90a", driver="450.80.02")),
        (wheel(toolkit="12.4", backends=("cpu",)), at(driver="450.80.02")),  # a driver, but no card to use it for
    ],
)
def test_what_is_not_said_or_not_known_is_no_limit(row: Bounds, where: TorchSurroundings) -> None:
    assert texts(row, where) == []


def test_a_driver_too_old_for_the_toolkit_inside() -> None:
    (said,) = texts(wheel(toolkit="12.4"), at("sm_80", driver="450.80.02"))
    assert said.startswith("tiny 3 brings CUDA 12.4. ")
    (no,) = refusals(wheel(toolkit="12.4"), at("sm_80", driver="450.80.02"), load_facts())
    assert (no.axis, no.source) == ("card", toolkit_driver("12.4", "linux", load_facts()).source)
    assert "450.80.02" in said
    assert texts(wheel(), at("sm_80", driver="450.80.02")) == []


def test_where_nothing_but_what_is_unknown_stands_against_it_nobody_knows() -> None:
    odd = wheel(targets={"any": ("sm_banana",)})
    got = found(at("sm_80"), odd)
    assert (got.kind, [no.axis for no in got.nos]) == ("unknown", ["unknown"])
    assert got.nos[0].text.startswith("tiny 3: has code for sm_banana, which is not in our tables")
    assert found(at("sm_80"), odd, wheel("2", sm_min=parse_sm("sm_90"))).kind == "unknown", "the newest may run"
    older = found(at("sm_80"), odd, wheel("2", torch="==2.7.0"))
    assert (older.kind, [no.axis for no in older.nos]) == ("none", ["unknown", "torch"])


@pytest.mark.parametrize(
    ("targets", "card", "named"),
    [
        (("sm_80", "sm_90"), "sm_80", "sm_80"),
        (("sm_80", "sm_90"), "sm_86", "sm_80"),
        (("sm_80", "sm_86"), "sm_89", "sm_86"),
        (("sm_80", "compute_80"), "sm_120", "sm_80"),
        (("sm_80",), "sm_75", "sm_75"),
        ((), "sm_89", "sm_89"),
    ],
)
def test_the_architecture_a_build_is_told(targets: tuple[str, ...], card: str, named: str) -> None:
    row = source(targets={"any": targets} if targets else {})
    assert accepted_arch(parse_sm(card), row, load_facts()) == parse_sm(named)


def test_a_card_that_cannot_be_judged_by_code_stops_nothing() -> None:
    # The first card has no rows to be judged by, the second has.
    row = wheel(backends=("cuda", "rocm"), targets={"any": ("sm_80",)})
    mixed = at("sm_80")._replace(cards=(parse_gpu_arch("gfx90a"), parse_gpu_arch("sm_90")))
    assert len(texts(row, mixed)) == 1


def test_one_card_that_fails_is_enough_and_said_once() -> None:
    row = wheel(targets={"any": ("sm_80",)})
    assert len(texts(row, at("sm_80", "sm_90", "sm_75"))) == 1
    assert len(texts(wheel(sm_min=SM_80), at("sm_75", "sm_70"))) == 1
    assert len(texts(wheel(sm_max=SM_80), at("sm_90", "sm_120"))) == 1


def notes(row: Bounds, where: TorchSurroundings) -> tuple[str, ...]:
    got = found(where, row)
    assert got.row is row
    return got.notes


@pytest.mark.parametrize(
    ("limit", "where", "told"),
    [
        ("sm_80", at("sm_75"), True),
        ("sm_80", at("sm_80"), False),
        ("sm_80", at("sm_90", "sm_75"), True),
        ("gfx803", at("gfx803"), True),
        ("gfx803", at("gfx900"), False),
        ("gfx803", at("sm_75"), False),
        ("sm_80", at("gfx803"), False),
        ("cuda", at("sm_90"), True),
        ("rocm", at("sm_90"), False),
        ("linux_x86_64", at("sm_90"), True),
        ("linux_aarch64", at("sm_90"), False),
        ("linux", at("sm_90"), True),
        ("windows", at("sm_90"), False),
    ],
)
def test_limits_are_told_where_they_bite(limit: str, where: TorchSurroundings, told: bool) -> None:
    row = wheel(backends=("cuda", "rocm"), limits={limit: "No int8."})
    assert notes(row, where) == (("No int8.",) if told else ())


def test_code_made_ready_on_first_use_is_told() -> None:
    row = wheel(targets={"any": ("sm_80", "compute_80")})
    assert notes(row, at("sm_80")) == ()
    (told,) = notes(row, at("sm_90"))
    assert told.startswith("It ") and told.endswith(".")


def test_an_override_is_told() -> None:
    row = wheel(backends=("rocm",), gfx=(parse_gpu_arch("gfx1030"),))
    assert notes(row, at("gfx1030")) == ()
    (told,) = notes(row, at("gfx1031"))
    assert "HSA_OVERRIDE_GFX_VERSION" in told
    assert isinstance(row.gfx[0], Gfx)


def test_three_names_that_look_alike_at_most() -> None:
    names = {f"abcdef{letter}": ABOUT for letter in "ghijk"}

    class Made(Facts):
        packages = CompanionPackagesFile(schema=1, package=names, wheel=(), source=(), fork=())

    assert len(near_packages("abcdef", Made())) == 3
    assert near_packages("zzzz", Made()) == []


def test_a_name_and_its_other_spelling_are_offered_once() -> None:
    about = msgspec.structs.replace(ABOUT, names=("flashattn2", "flashattn3"))

    class Made(Facts):
        packages = CompanionPackagesFile(schema=1, package={"flash-attn": about}, wheel=(), source=(), fork=())

    assert near_packages("flashatn", Made()) == ["flash-attn"]
