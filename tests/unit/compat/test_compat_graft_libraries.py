"""The closed libraries beside a graft, against rows made for the purpose: judged, exchanged, switched off, named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rekindle.compat.graft import judge_closed_libraries, judge_linked_libraries, stays_without
from rekindle.facts import Facts, load_facts
from rekindle.model.arch import parse_sm
from rekindle.model.graft import ClosedLibrary, LibraryBeside

KNOWN: dict[str, Any] = {"date": "2026-11-19", "how": "measured"}
FACTS = load_facts()


def library(version: str | None, *sass: str, **fields: Any) -> ClosedLibrary:
    values = {"name": "Lib", "package": "lib-cu12", "cuda": "12.4", "source": (f"read of {version}", "another")}
    return ClosedLibrary(version=version, sass=sass, **{**values, **fields}, **KNOWN)


def linked(name: str, *sass: str, torch: str = ">=2.6,<2.7", **fields: Any) -> ClosedLibrary:
    return library(None, *sass, name=name, package=None, torch=torch, **fields)


def tables(*rows: ClosedLibrary) -> Facts:
    class Made(Facts):
        graft = msgspec.structs.replace(FACTS.graft, library=rows)
        cudnn = msgspec.structs.replace(FACTS.cudnn, cudnn={})

    return Made()


def judged(requires: str | tuple[str, ...], card: str, *rows: ClosedLibrary) -> tuple[LibraryBeside, ...]:
    wanted = (requires,) if isinstance(requires, str) else requires
    return judge_closed_libraries(wanted, "2.6.0", [parse_sm(card)], tables(*rows))


def one(requires: str, card: str, *rows: ClosedLibrary) -> LibraryBeside:
    (found,) = judged(requires, card, *rows)
    return found


OLD = library("12.1.3", "sm_70", "sm_80", operators=("torch.matmul",))


def test_code_that_is_there_is_left_as_it_is() -> None:
    found = one("lib-cu12==12.1.3", "sm_86", OLD, library("12.4.5", "sm_70", "sm_80", "sm_86"))
    assert (found.code, found.version, found.exchanged, found.off) == ("native", "12.1.3", None, False)
    assert (found.name, found.package, found.arch, found.inside, found.operators) == (
        "Lib", "lib-cu12", "sm_86", False, (),
    )  # fmt: skip
    assert found.why == "Lib 12.1.3 holds sm_80 code, which runs on sm_86"
    assert found.source == "read of 12.1.3"


def test_the_newest_of_the_same_soname_that_serves_the_card_comes_in_its_place() -> None:
    rows = (OLD, library("12.3.1", "sm_70", "sm_80", "sm_90"), library("12.4.5", "sm_70", "sm_80", "sm_90"))
    found = one("lib-cu12==12.1.3", "sm_90", *rows, library("13.0.1", "sm_70", "sm_80", "sm_90"))
    assert (found.code, found.version, found.exchanged) == ("native", "12.1.3", "12.4.5.*")
    assert found.why.startswith("Lib 12.4.5.* holds sm_90; 12.1.3 has code for sm_70 sm_80, none of which runs")
    assert one("lib-cu12==12.1.3", "sm_90", *reversed(rows)).exchanged == "12.4.5.*", "in whatever order they stand"


def test_machine_code_comes_before_a_newer_one_that_must_be_compiled() -> None:
    own, ptx = library("12.3.1", "sm_70", "sm_80", "sm_90"), library("12.4.5", "sm_70", "sm_80", ptx=("compute_80",))
    assert one("lib-cu12==12.1.3", "sm_90", OLD, ptx, own).exchanged == "12.3.1.*"
    late = one("lib-cu12==12.1.3", "sm_90", OLD, ptx)
    assert (late.code, late.exchanged, late.operators) == ("jit", "12.4.5.*", ())
    both = library("12.1.3", "sm_70", ptx=("compute_70",))
    assert one("lib-cu12==12.1.3", "sm_90", both, library("12.4.5", "sm_70", ptx=("compute_70",))).exchanged is None


def test_none_that_lost_a_card_its_own_serves_comes_in_its_place() -> None:
    assert one("lib-cu12==12.1.3", "sm_90", OLD, library("12.4.5", "sm_80", "sm_90")).exchanged is None
    assert one("lib-cu12==12.1.3", "sm_90", OLD, library("12.4.5", "sm_70", "sm_80", "sm_90")).exchanged is not None


def test_a_version_with_a_build_number_is_exchanged_for_that_very_one() -> None:
    assert one("lib-cu12==12.1.3", "sm_90", OLD, library("12.4.5.8", "sm_70", "sm_80", "sm_90")).exchanged == "12.4.5.8"
    assert one("lib-cu12==12.1.3", "sm_90", OLD, library("12.4", "sm_70", "sm_80", "sm_90")).exchanged == "12.4"


def test_what_nothing_serves_is_switched_off_or_its_operators_are_named() -> None:
    named = one("lib-cu12==12.1.3", "sm_90", OLD)
    assert (named.code, named.off, named.switch, named.operators) == ("none", False, None, ("torch.matmul",))
    off = one("lib-cu12==12.1.3", "sm_90", msgspec.structs.replace(OLD, switch="lib"))
    assert (off.code, off.off, off.switch, off.operators) == ("none", True, "lib", ())
    served = one("lib-cu12==12.1.3", "sm_80", msgspec.structs.replace(OLD, switch="lib"))
    assert (served.code, served.off, served.switch) == ("native", False, "lib")


@pytest.mark.parametrize(
    ("version", "code"),
    [("12.1.3", "native"), ("12.1.3.9", "native"), ("12.1.30", "unknown"), ("12.1", "unknown"), ("12.9.0", "unknown")],
)
def test_a_version_is_known_by_its_first_numbers(version: str, code: str) -> None:
    found = one(f"lib-cu12=={version}", "sm_80", library("12.0.1", "sm_50"), OLD)
    assert found.code == code
    if code == "unknown":
        assert found.version == version
        assert found.why == f"which cards lib-cu12 {version} has code for is not in our tables"
        assert (found.name, found.package, found.arch) == ("Lib", "lib-cu12", "sm_80")


@pytest.mark.parametrize(
    "requires",
    [
        "lib-cu12>=12.1.3",
        "lib-cu12",
        "lib-cu12==12.1.3,==12.1.*",
        "other-cu12==12.1.3",
        "no requirement ]",
        "lib==12.1.3",
    ],
)
def test_only_a_library_that_is_required_in_one_version_is_judged(requires: str) -> None:
    assert judged(requires, "sm_80", OLD) == ()
    assert [row.version for row in judged((requires, "Lib_CU12 == 12.1.3"), "sm_80", OLD)] == ["12.1.3"]


def test_every_card_is_judged() -> None:
    rows = tables(OLD, linked("Inner", "sm_80"))
    cards = [parse_sm("sm_80"), parse_sm("sm_90")]
    found = judge_closed_libraries(("lib-cu12==12.1.3",), "2.6.0", cards, rows)
    assert [(row.name, row.arch, row.code) for row in found] == [
        ("Lib", "sm_80", "native"), ("Inner", "sm_80", "native"), ("Lib", "sm_90", "none"), ("Inner", "sm_90", "none"),
    ]  # fmt: skip


def test_what_is_linked_into_a_release_stays_as_it_is() -> None:
    rows = tables(OLD, linked("Inner", "sm_80", operators=("torch.fft",)), linked("Later", "sm_80", torch=">=2.7"))
    ((row, found),) = judge_linked_libraries("2.6.0+cu124", parse_sm("sm_90"), rows)
    assert row.name == found.name == "Inner"
    assert (found.code, found.inside, found.exchanged, found.operators) == ("none", True, None, ("torch.fft",))
    assert found.why.startswith("Inner inside the wheel has code for sm_80")


def losses(card: str, *rows: ClosedLibrary, cuda: str = "12.4") -> str:
    return "\n".join(stays_without("2.6.0", cuda, None, parse_sm(card), tables(*rows)))


MAGMA = "MAGMA and other parts whose code names no source file stay without code for the card"


def test_what_a_graft_cannot_serve_is_said_of_what_is_inside() -> None:
    rows = (
        linked("Inner", "sm_80", operators=("torch.fft", "x")),
        linked("Late", ptx=("compute_80",), operators=("y",)),
    )
    told = losses("sm_90", *rows).splitlines()
    assert told[0].startswith("Inner inside the wheel has") and told[0].endswith(": torch.fft, x fail")
    assert told[1].startswith("Late inside the wheel holds only PTX") and told[1].endswith("at first use: y start late")
    assert told[2:] == [MAGMA]
    assert losses("sm_80", *rows[:1]) == MAGMA
    assert losses("sm_80", linked("MAGMA", "sm_80")) == "", "nothing is lost, and it was looked into"


def test_libraries_beside_the_wheel_that_are_older_or_newer_than_the_card() -> None:
    assert "of CUDA 12.4 are older than sm_120" in losses("sm_120")
    assert "of CUDA 13.0 are newer than sm_61" in losses("sm_61", cuda="13.0")
    assert "newer than" in losses("sm_72", cuda="13.0") and "older than" in losses("sm_87", cuda="11.0")
    assert losses("sm_86") == losses("sm_90") == MAGMA, "machine code of it runs there"
    assert "CUDA" not in losses("sm_120", linked("Inner", "sm_120")), "what is inside was looked into"
    assert "cuBLAS" not in losses("sm_120", cuda="99.0"), "a toolkit nobody knows"
