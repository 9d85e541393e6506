"""Costs of building: a row for every release and backend, never less for newer code or with a GPU part."""

from __future__ import annotations

from rekindle.compat.resources import build_cost
from rekindle.facts import load_facts
from rekindle.model.version import key


def test_every_release_has_its_cost_and_newer_ones_cost_no_less() -> None:
    facts = load_facts()
    for gpu in (False, True):
        costs = [build_cost(version, "cuda" if gpu else "cpu", facts) for version in sorted(facts.releases, key=key)]
        assert [cost.cpu_minutes for cost in costs] == sorted(cost.cpu_minutes for cost in costs)
        assert all((cost.backend == "gpu") == gpu for cost in costs)


def test_a_gpu_part_costs_more_in_every_way() -> None:
    facts = load_facts()
    for version in facts.releases:
        plain, more = build_cost(version, "cpu", facts), build_cost(version, "cuda", facts)
        assert (more.disk_gib, more.memory_gib, more.job_gib) > (plain.disk_gib, plain.memory_gib, plain.job_gib)
        assert more.cpu_minutes > plain.cpu_minutes
        assert more.arch_minutes > plain.arch_minutes == 0


def test_a_row_counts_from_its_release_on() -> None:
    facts = load_facts()
    assert build_cost("2.0.1", "cpu", facts) is not build_cost("2.1.0", "cpu", facts)
    assert build_cost("2.1.0", "cpu", facts) == build_cost("2.15.0", "cpu", facts)
