"""From the instructions that code uses to the CPUs that have them: levels, oldest ones, what is beyond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.compat.processor import CHOOSING, FEATURES, beyond, choosing, missing, oldest, runs_from, wheel_starts
from rekindle.facts import load_facts
from rekindle.facts.cpus import archspec_microarchitectures

TABLE = archspec_microarchitectures()
X86 = (
    "sse3",
    "ssse3",
    "sse4.1",
    "sse4.2",
    "popcnt",
    "avx",
    "f16c",
    "avx2",
    "fma",
    "bmi1",
    "bmi2",
    "aes",
    "avx512",
    "amx",
)
ARM = ("lse", "fp16", "dotprod", "sve", "i8mm", "bf16")


@pytest.mark.parametrize(
    ("isa", "level", "cpus"),
    [
        ((), "x86-64", ("nocona", "k10")),
        (("sse3",), "nocona", ("nocona", "bulldozer")),
        (("ssse3",), "core2", ("core2", "bulldozer")),
        (("sse4.1",), "x86-64-v2", ("nehalem", "bulldozer")),
        (("sse4.2", "popcnt"), "x86-64-v2", ("nehalem", "bulldozer")),
        (("aes",), "westmere", ("westmere", "bulldozer")),
        (("avx",), "sandybridge", ("sandybridge", "bulldozer")),
        (("f16c",), "ivybridge", ("ivybridge", "piledriver")),
        (("avx2", "fma", "bmi2"), "x86-64-v3", ("haswell", "excavator")),
        (("avx512",), "x86-64-v4", ("mic_knl", "zen4")),
        (("amx",), "sapphirerapids", ("sapphirerapids",)),
        (("fma4",), None, ("bulldozer",)),
        (("no-such-set",), "x86-64", ("nocona", "k10")),
    ],
)
def test_from_which_cpus_on_code_runs(isa: tuple[str, ...], level: str | None, cpus: tuple[str, ...]) -> None:
    assert runs_from(isa, "x86_64") == level
    assert oldest(isa, "x86_64") == cpus


@pytest.mark.parametrize(
    ("isa", "level", "cpus"),
    [
        ((), "armv8-a", ("cortex_a72", "thunderx2", "a64fx", "ampere1")),
        (("lse",), "armv8-a+lse", ("neoverse_n1", "thunderx2", "a64fx", "ampere1")),
        (("sve", "lse"), "armv8-a+lse+sve", ("neoverse_v1", "a64fx")),
        (("i8mm",), "armv8-a+i8mm", ("neoverse_v1", "ampere1")),
    ],
)
def test_on_arm_it_is_the_features_by_name(isa: tuple[str, ...], level: str, cpus: tuple[str, ...]) -> None:
    assert runs_from(isa, "aarch64") == level
    assert oldest(isa, "aarch64") == cpus


def test_processors_of_other_kinds_are_not_judged() -> None:
    assert runs_from(("avx",), "ppc64le") is None
    assert runs_from((), "riscv64") is None


@pytest.mark.parametrize(
    ("isa", "level", "machine", "more"),
    [
        (("avx", "sse4.2"), "x86-64-v2", "x86_64", {"avx"}),
        (("avx2", "avx512"), "x86-64-v3", "x86_64", {"avx512"}),
        (("sse3", "avx"), "x86-64", "x86_64", {"sse3", "avx"}),
        (("ssse3", "avx"), "core2", "x86_64", {"avx"}),
        (("avx", "sse3"), None, "x86_64", {"avx", "sse3"}),
        (("avx",), "sandybridge", "x86_64", set()),
        (("lse", "sve"), "armv8-a+lse", "aarch64", {"sve"}),
        (("lse",), "armv8-a", "aarch64", {"lse"}),
        (("lse",), None, "aarch64", {"lse"}),
        ((), None, "x86_64", set()),
    ],
)
def test_what_lies_beyond_a_level(isa: tuple[str, ...], level: str | None, machine: str, more: set[str]) -> None:
    found = beyond(isa, level, machine)
    assert isinstance(found, frozenset) and found == more


@given(st.sets(st.sampled_from(X86)))
def test_code_runs_on_every_cpu_that_is_named_for_it(isa: set[str]) -> None:
    level, cpus = runs_from(isa, "x86_64"), oldest(isa, "x86_64")
    assert level is not None and beyond(isa, level, "x86_64") == frozenset()
    for name in cpus:
        assert not missing(isa, TABLE[name].features)
    assert len({TABLE[name].vendor for name in cpus}) == len(cpus), "one of each maker"


@given(st.sets(st.sampled_from(ARM)))
def test_on_arm_too(isa: set[str]) -> None:
    assert beyond(isa, runs_from(isa, "aarch64"), "aarch64") == frozenset()
    assert all(not missing(isa, TABLE[name].features) for name in oldest(isa, "aarch64"))


@given(st.sets(st.sampled_from(sorted({name for names in FEATURES.values() for name in names}))))
def test_kernels_are_chosen_by_what_is_there(features: set[str]) -> None:
    assert choosing(features) == {isa for isa in CHOOSING if not missing([isa], features)}


def test_what_was_seen_of_the_nearest_older_release_is_told() -> None:
    ivy = load_facts().cpu.microarchitecture["ivybridge"].features

    def seen(torch: str) -> str:
        return wheel_starts(torch, ivy, load_facts()).text

    assert seen("1.13.1").endswith("torch 1.13.1") and seen("2.15.0").endswith("torch 2.15.0")
    assert seen("1.13.0").endswith("torch 1.12.1"), "an older one, and a newer one too"
    assert seen("2.5.1").endswith("torch 2.0.1") and seen("2.14.0").endswith("torch 2.6.0")
    assert "nobody" in seen("1.12.0") and "nobody" in seen("2.15.1")
