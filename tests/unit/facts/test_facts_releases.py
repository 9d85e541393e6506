"""Releases of torch, of CUDA and of what belongs to them, by their numbers; orders are newest first."""

from __future__ import annotations

import pytest

from rekindle.facts import load_facts
from rekindle.facts.tables import Facts
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.version import compare, key

FACTS = load_facts()


def test_releases_and_toolkits_come_newest_first() -> None:
    facts = Facts()
    for versions in (facts.releases, facts.toolkits):
        assert list(versions) == sorted(versions, key=key, reverse=True) and key(versions[0]) > key(versions[-1])
    assert FACTS.releases.index("2.10.0") < FACTS.releases.index("2.9.1") < FACTS.releases.index("1.13.1")


def test_minor_releases_know_their_place_in_time() -> None:
    places = Facts().minors
    assert places["2.0"] == places["1.13"] + 1 and places["2.10"] == places["2.9"] + 1
    assert sorted(places.values()) == list(range(len(places)))


@pytest.mark.parametrize(
    ("asked", "found"),
    [("11.4", "11.4"), ("11.4.4", "11.4"), ("12", "12.9"), ("11", "11.8"), ("99", None), ("9.9", None), ("0", None)],
)
def test_a_toolkit_is_found_by_its_release_or_as_the_newest_of_a_number(asked: str, found: str | None) -> None:
    assert FACTS.toolkit(asked) is (FACTS.cuda.toolkit[found] if found else None)


@pytest.mark.parametrize(
    ("torch", "vision", "audio"),
    [("2.7.1", "0.22.1", "2.7.1"), ("2.7.1+cu126", "0.22.1", "2.7.1"), ("9.9", None, None), (None, None, None)],
)
def test_what_belongs_to_a_torch(torch: str | None, vision: str | None, audio: str | None) -> None:
    assert FACTS.companion_release("torchvision", torch) == vision
    assert FACTS.companion_release("torchaudio", torch) == audio


def test_sources_want_what_the_newest_era_before_them_says() -> None:
    for release in FACTS.releases:
        before = [era.since for era in FACTS.torch.era if compare(era.since, release) <= 0]
        if before:
            assert FACTS.era(release).since == max(before, key=key)
    oldest = min(FACTS.torch.era, key=lambda era: key(era.since))
    assert FACTS.era("0.0.1") is oldest and FACTS.era(oldest.since) is oldest


def test_an_intel_gpu_has_the_row_of_its_generation() -> None:
    for row in FACTS.intel.generation:
        assert FACTS.xe_generation(row.arch) is row
    assert FACTS.xe_generation(parse_gpu_arch("sm_61")) is FACTS.xe_generation(None) is None


def test_a_plain_install_depends_on_the_python() -> None:
    row = FACTS.release("2.6.0")
    assert row is not None and FACTS.release("9.9") is None
    for python in ("3.8", *row.pythons["linux_x86_64"]):
        given = FACTS.is_pypi_default("2.6.0", "cu124", "linux_x86_64", python)
        assert given is (python in row.pythons["linux_x86_64"])
    assert FACTS.is_pypi_default("9.9", "cpu", "linux_x86_64") is False


def test_a_hazard_that_needs_a_python_says_which() -> None:
    kept = Facts().python_hazards
    assert kept and all(row.python for row in kept)
    assert {row.id for row in FACTS.hazards.hazard if not row.python}.isdisjoint(row.id for row in kept)


def test_a_flavour_of_some_releases_alone_is_none_of_the_others() -> None:
    limited = [row for row in FACTS.wheels.flavour if row.only]
    assert limited
    for row in limited:
        for release in (version for version in FACTS.releases if version.startswith(f"{row.torch}.")):
            assert (row in FACTS.flavours(release)) is (release in row.only)
