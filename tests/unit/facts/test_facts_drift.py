"""Comparing a new measurement with the tables: equal agrees, different is drift, unknown is new."""

from __future__ import annotations

import facts_drift as drift
from rekindle.facts import load_facts

FACTS = load_facts()


def test_an_unknown_release_is_reported_and_not_ignored() -> None:
    rows = drift.releases(FACTS, ["2.15.0", "2.16.0"])
    assert [(row.what, row.outcome) for row in rows] == [("torch 2.16.0", "new")]
    assert drift.releases(FACTS, ["2.14.1", "2.15.0"])[0].outcome == "agrees"


def test_architectures_are_compared_as_sets() -> None:
    listed = ["sm_120", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100"]
    assert drift.architectures(FACTS, "2.15.0", "linux_x86_64", listed).outcome == "agrees"
    changed = drift.architectures(FACTS, "2.15.0", "linux_x86_64", ["sm_70", *listed])
    assert changed.outcome == "drift" and "sm_70" in (changed.found or "") and "sm_70" not in (changed.facts or "")


def test_pythons_toolkits_targets_and_cudnn() -> None:
    known = FACTS.torch.release["2.6.0"].pythons["windows"]
    found = drift.pythons(FACTS, "2.6.0", "windows", known)
    assert found is not None and found.outcome == "agrees"
    fewer = drift.pythons(FACTS, "2.6.0", "windows", known[:-1])
    assert fewer is not None and fewer.outcome == "drift"
    assert drift.toolkits(FACTS, ["13.4.92", "14.0.1"])[0].outcome == "new"
    assert drift.targets(FACTS, "12.8", [str(sm) for sm in FACTS.cuda.toolkit["12.8"].sass]).outcome == "agrees"
    assert drift.targets(FACTS, "12.8", ["sm_50"]).outcome == "drift"
    assert drift.cudnns(FACTS, {"nvidia-cudnn-cu13": "9.99.0.1"})[0].outcome == "new"


def test_the_summary_counts() -> None:
    rows = [*drift.releases(FACTS, ["2.16.0"]), drift.targets(FACTS, "12.8", ["sm_50"])]
    check = drift.summary(rows)
    assert (check.agrees, check.drift, check.new, check.skipped) == (0, 1, 1, 0)


def test_companions_are_compared_per_platform() -> None:
    row = next(r for r in FACTS.companions.companion if (r.package, r.version) == ("torchvision", "0.21.0"))
    found = {("0.21.0", platform): set(pythons) for platform, pythons in row.pypi.items()}
    assert {each.outcome for each in drift.companions(FACTS, "torchvision", found)} == {"agrees"}
    found["0.21.0", "windows"] = {"3.9"}
    assert [e.what for e in drift.companions(FACTS, "torchvision", found) if e.outcome == "drift"] == [
        "torchvision 0.21.0 windows Pythons"
    ]
    later = drift.companions(FACTS, "torchvision", {("99.0", "windows"): {"3.12"}})
    assert [(each.what, each.outcome) for each in later] == [("torchvision 99.0", "new")]
