"""Companions per index, platform and Python: just inside and just outside of what exists."""

from __future__ import annotations

import pytest

from rekindle.facts import PAIRED_PACKAGES, load_facts, paired_companions
from rekindle.model.facts import Platform

FACTS = load_facts()


@pytest.mark.parametrize(
    ("torch", "flavour", "platform", "python", "pypi", "vision", "audio"),
    [
        ("2.15.0", "cu132", "windows", "3.12", False, True, False),
        ("2.15.0", "cu130", "windows", "3.12", False, True, True),
        ("2.15.0", "cu130", "windows", "3.15", False, True, False),
        ("2.15.0", "cu132", "linux_x86_64", "3.14", True, True, False),
        ("2.14.0", "cu130", "linux_x86_64", "3.14", True, True, True),
        ("2.14.0", "cu130", "linux_x86_64", "3.15", False, False, False),
        ("2.14.0", "rocm7.2", "linux_x86_64", "3.12", False, True, True),
        ("2.14.0", "rocm7.14", "linux_x86_64", "3.12", False, True, None),
        ("2.14.0", "amd7.14", "windows", "3.12", False, None, None),
        ("2.5.1", "cu124", "linux_x86_64", "3.12", True, True, True),
        ("2.5.1", "cu124", "linux_x86_64", "3.13", True, False, False),
        ("2.6.0", "cu124", "linux_x86_64", "3.13", True, True, True),
        ("1.10.1", "cu111", "windows", "3.8", False, False, True),
        ("1.10.1", "cu113", "windows", "3.8", False, True, True),
        ("1.7.1", "cu110", "windows", "3.8", False, True, True),
        ("1.7.1", "cpu", "windows", "3.8", True, False, False),
        ("1.1.0", "cu90", "linux_x86_64", "3.6", True, True, False),
        ("9.9.0", "cpu", "linux_x86_64", "3.12", True, None, None),
    ],
)
def test_what_exists(
    torch: str, flavour: str, platform: Platform, python: str, pypi: bool, vision: bool | None, audio: bool | None
) -> None:
    found = paired_companions(FACTS, torch, flavour, platform, python, pypi=pypi)
    assert [each.exists for each in found] == [vision, audio]
    for each in found:
        assert (each.why is None) == (each.exists is True)


def test_where_a_companion_is_missing_is_said() -> None:
    index = paired_companions(FACTS, "1.0.0", "cpu", "linux_aarch64", "3.7")[0]
    pypi = paired_companions(FACTS, "1.0.0", "cpu", "linux_aarch64", "3.7", pypi=True)[0]
    assert index.why == "The cpu index has no torchvision 0.2.1 for linux aarch64."
    assert pypi.why == "PyPI has no torchvision 0.2.1 for linux aarch64."


def test_an_index_is_meant_unless_pypi_is_said() -> None:
    found = paired_companions(FACTS, "1.0.0", "cu118", "linux_x86_64", "3.7")[0]
    assert (found.exists, found.why) == (None, "Whether the cu118 index has torchvision 0.2.1 is not known.")
    assert paired_companions(FACTS, "1.0.0", "cu118", "linux_x86_64", "3.7", pypi=True)[0].exists


def test_the_versions_are_those_of_the_release_and_every_release_finds_its_row() -> None:
    for torch, release in FACTS.torch.release.items():
        found = {each.package: each.version for each in paired_companions(FACTS, torch, "cpu", "linux_x86_64", "3.9")}
        assert found == {name: getattr(release, name) for name in PAIRED_PACKAGES}, torch


def test_a_version_stands_in_one_row_and_no_index_is_both_there_and_absent() -> None:
    rows = FACTS.companions.companion
    assert len({(row.package, row.version) for row in rows}) == len(rows)
    flavours = {flavour.name for flavour in FACTS.wheels.flavour}
    for row in rows:
        assert not set(row.indexes) & set(row.absent), row.version
        assert set(row.indexes) | set(row.absent) <= flavours, row.version


def test_a_python_without_wheels_on_pypi_needs_the_index() -> None:
    assert FACTS.is_pypi_default("2.14.0", "cu130", "linux_x86_64", "3.14")
    assert not FACTS.is_pypi_default("2.14.0", "cu130", "linux_x86_64", "3.15")
    assert FACTS.is_pypi_default("2.15.0", "cu132", "linux_x86_64", "3.15")
