"""What a companion meets decides: just inside and just outside of every limit, against rows made for the purpose."""

from typing import Any

import msgspec
import pytest

from rekindle.compat.companions import TorchSurroundings, find_package, judge, near_packages, refusals
from rekindle.facts import load_facts
from rekindle.model.arch import parse_gpu_arch, parse_sm
from rekindle.model.companion import (
    CompanionFork,
    CompanionPackageWheel,
    CompanionSource,
)
from tiny_companions import KNOWN, at, tables, wheel


def axes(row: Any, where: TorchSurroundings) -> set[str]:
    return {no.axis for no in refusals(row, where, load_facts())}


@pytest.mark.parametrize(
    ("row", "where", "wanted"),
    [
        (wheel(sm_min="sm_80"), at("sm_80"), set()),
        (wheel(sm_min="sm_80"), at("sm_75"), {"card"}),
        (wheel(sm_max="sm_90"), at("sm_90"), set()),
        (wheel(sm_max="sm_90"), at("sm_100"), {"card"}),
        (wheel(targets={"any": ("sm_80",)}), at("sm_89"), set()),
        (wheel(targets={"any": ("sm_80",)}), at("sm_90"), {"card"}),
        (wheel(targets={"any": ("sm_80", "compute_80")}), at("sm_90"), set()),
        (wheel(targets={"windows": ("sm_90",), "any": ("sm_80",)}), at("sm_80"), set()),
        (wheel(sm_min="sm_80"), at("sm_80", "sm_75"), {"card"}),
        (wheel(backends=("cpu",)), at("sm_80"), {"backend"}),
        (wheel(backends=("cuda",)), at(), {"backend"}),
        (wheel(backends=("rocm",), gfx=(parse_gpu_arch("gfx90a"),)), at("gfx90a"), set()),
        (wheel(backends=("rocm",), gfx=(parse_gpu_arch("gfx90a"),)), at("gfx906"), {"card"}),
        (wheel(glibc={"linux_x86_64": "2.31"}), at("sm_80"), set()),
        (wheel(glibc={"linux_x86_64": "2.32"}), at("sm_80"), {"libc"}),
        (wheel(), at("sm_80", python="3.12"), {"python"}),
        (wheel(pythons={"linux_x86_64": ("any",)}), at("sm_80", python="3.12"), set()),
        (wheel(pythons={"windows": ("3.11",)}), at("sm_80"), {"platform"}),
        (wheel(torch="==2.6.0"), at("sm_80", torch="2.6.0+cu124"), set()),
        (wheel(torch=">=2.7"), at("sm_80"), {"torch"}),
        (wheel(torch=">=2.0"), at("sm_80", torch=None), {"torch"}),
        (wheel(cuda=("12",)), at("sm_80"), set()),
        (wheel(cuda=("12",)), at("sm_80", cuda="13.0"), {"cuda"}),
        (wheel(toolkit="12.4", sm_min="sm_35"), at("sm_35"), {"card"}),  # no driver of a Kepler reaches CUDA 12
        (wheel(sm_min="sm_80", torch=">=2.7"), at("sm_75", python="3.9"), {"card", "torch", "python"}),
    ],
)
def test_each_limit_at_its_edge(row: CompanionPackageWheel, where: TorchSurroundings, wanted: set[str]) -> None:
    if isinstance(row.sm_min, str) or isinstance(row.sm_max, str):
        row = msgspec.structs.replace(
            row,
            sm_min=parse_gpu_arch(row.sm_min) if row.sm_min else None,
            sm_max=parse_gpu_arch(row.sm_max) if row.sm_max else None,
        )
    assert axes(row, where) == wanted


NEEDS_80 = parse_sm("sm_80")
SOURCE = CompanionSource(package="tiny", version="3", platforms=("linux_x86_64",), sm_min=parse_sm("sm_60"), **KNOWN)
FORK = CompanionFork(package="tiny", version="2", name="their-tiny", url="https://example.org", state="alive", **KNOWN)


def test_newest_that_fits_runs() -> None:
    found = judge("tiny", at("sm_80"), tables(wheel("3"), wheel("2")))
    assert (found.kind, found.version) == ("runs", "3")


def test_older_one_is_the_last_only_where_the_machine_forbids_the_newer() -> None:
    found = judge("tiny", at("sm_75"), tables(wheel("3", sm_min=NEEDS_80), wheel("2")))
    assert (found.kind, found.version) == ("last", "2")
    found = judge("tiny", at("sm_75"), tables(wheel("3", torch="==2.7.0"), wheel("2")))
    assert (found.kind, found.version, found.pulls) == ("runs", "2", ("==2.7.0",))


def test_no_wheel_then_source_then_fork_then_no() -> None:
    refused = wheel("3", pythons={"windows": ("3.11",)})
    assert judge("tiny", at("sm_75"), tables(refused, SOURCE, FORK)).kind == "build"
    first = msgspec.structs.replace(FORK, first=True)
    assert judge("tiny", at("sm_75"), tables(refused, SOURCE, first)).kind == "alternative"
    assert judge("tiny", at("sm_52"), tables(refused, SOURCE, FORK)).kind == "alternative"
    assert judge("tiny", at("sm_52"), tables(refused, SOURCE)).kind == "none"
    assert judge("tiny", at("sm_52"), tables()).kind == "unknown"


def test_another_package_stands_in_but_never_answers() -> None:
    other = msgspec.structs.replace(FORK, stands_in=True, name="other")
    found = judge("tiny", at("sm_75"), tables(wheel("3", sm_min=NEEDS_80), other))
    assert found.kind == "none"
    assert found.stand_ins[0].name == "other"


def test_a_version_asked_for_is_kept_or_refused() -> None:
    rows = tables(wheel("3"), wheel("2", since="1.5"))
    assert judge("tiny", at("sm_80"), rows, version="==1.8").version == "1.8"
    assert judge("tiny", at("sm_80"), rows, version="==1.4").kind == "none"
    assert judge("tiny", at("sm_80"), rows, version="<3").version == "2"


def test_names_as_people_write_them() -> None:
    facts = load_facts()
    assert find_package("Flash_Attention", facts) == "flash-attn"
    assert find_package("bnb", facts) == "bitsandbytes"
    assert find_package("flash-atn", facts) is None
    assert near_packages("flash-atn", facts)[0] == "flash-attn"


def test_every_package_has_rows_a_first_and_a_last_version() -> None:
    facts = load_facts()
    assert len(facts.packages.package) >= 20
    paired = {"torchvision", "torchaudio"}
    named = {row.package for row in (*facts.packages.wheel, *facts.packages.source)}
    assert named | paired == set(facts.packages.package)
    for row in (*facts.packages.wheel, *facts.packages.source, *facts.packages.fork):
        assert row.source and row.date and row.how
