"""CPUs: it starts, it starts but named operators crash, it does not start; and nobody knows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.compat.processor import FEATURES, code_starts, features_of, missing, wheel_starts
from rekindle.facts import load_facts
from rekindle.model.machine import Cpu
from rekindle.model.wheel import IsaUse

FACTS = load_facts()
NEHALEM = FACTS.cpu.microarchitecture["nehalem"].features
IVY = FACTS.cpu.microarchitecture["ivybridge"].features
HASWELL = FACTS.cpu.microarchitecture["haswell"].features


@pytest.mark.parametrize(
    ("isa", "features", "lacks"),
    [
        (["avx2"], ["avx"], ["avx2"]),
        (["avx2"], ["avx2"], []),
        (["sse3"], ["pni"], []),
        (["sse3"], ["sse3"], []),
        (["lzcnt"], ["abm"], []),
        (["avx", "fma"], ["avx"], ["fma"]),
        (["no-such-set"], [], []),
        (["sse4.1", "sse4.2"], ["sse4_1"], ["sse4.2"]),
    ],
)
def test_what_is_missing(isa: list[str], features: list[str], lacks: list[str]) -> None:
    assert missing(isa, features) == lacks


def use_of(isa: str, *functions: str) -> IsaUse:
    return IsaUse(isa=isa, functions=len(functions), examples=functions)


@pytest.mark.parametrize(
    ("required", "corners", "features", "kind", "code"),
    [
        ([], [], ["avx"], "yes", "cpu-isa"),
        (["avx"], [], ["avx"], "yes", "cpu-isa"),
        (["avx2"], [], ["avx"], "no", "cpu-isa"),
        (["avx2"], [use_of("fma", "f")], ["avx"], "no", "cpu-isa"),
        ([], [use_of("avx2", "f")], ["avx"], "partly", "cpu-corner"),
        ([], [use_of("avx2", "f")], ["avx", "avx2"], "yes", "cpu-isa"),
        (["avx2"], [], None, "unknown", "cpu-not-told"),
        (["avx2"], [], [], "no", "cpu-isa"),
    ],
)
def test_three_answers_and_unknown(
    required: list[str], corners: list[IsaUse], features: list[str] | None, kind: str, code: str
) -> None:
    found = code_starts(required, corners, features, "it")
    assert (found.kind, found.code) == (kind, code)
    assert "it" in found.text


def test_the_functions_that_crash_are_named() -> None:
    corners = [use_of("avx2", "a", "b"), use_of("fma", "b", "c", "d", "e"), use_of("avx", "z")]
    found = code_starts([], corners, ["avx"], "it")
    assert found.want == "avx2, fma" and "a, b, c, d would crash" in found.text and "z" not in found.text.split()
    assert "some functions would crash" in code_starts([], [use_of("avx2")], ["avx"]).text
    assert code_starts(["avx2", "fma"], [], ["avx"]).want == "avx2, fma"


def test_features_of_a_cpu() -> None:
    assert features_of(Cpu(features=("avx",), microarchitecture="haswell"), FACTS) == frozenset({"avx"})
    assert features_of(Cpu(microarchitecture="ivybridge"), FACTS) == frozenset(IVY)
    assert features_of(Cpu(microarchitecture="no-such"), FACTS) is None
    assert features_of(Cpu(), FACTS) is None


@pytest.mark.parametrize(
    ("torch", "features", "kind", "code"),
    [
        ("1.6.0", NEHALEM, "no", "avx-in-1.6.0"),
        ("1.6.0", IVY, "unknown", "cpu-not-seen"),
        ("1.7.0", NEHALEM, "unknown", "cpu-not-seen"),
        ("2.6.0", NEHALEM, "partly", "cpu-seen-crashing"),
        ("2.15.0", NEHALEM, "partly", "cpu-seen-crashing"),
        ("2.6.0", IVY, "yes", "cpu-seen-running"),
        ("2.6.0", HASWELL, "yes", "cpu-seen-running"),
        ("2.3.0", IVY, "yes", "cpu-seen-running"),
        ("2.3.0", NEHALEM, "partly", "cpu-seen-crashing"),
        ("2.99.0", IVY, "unknown", "cpu-not-seen"),
        ("1.0.0", IVY, "unknown", "cpu-not-seen"),
        ("2.6.0", None, "unknown", "cpu-not-told"),
    ],
)
def test_what_was_seen_of_a_published_wheel(torch: str, features: tuple[str, ...], kind: str, code: str) -> None:
    found = wheel_starts(torch, features, FACTS)
    assert (found.kind, found.code) == (kind, code)
    assert found.text
    assert kind == "unknown" or found.source


def test_the_evidence_is_that_of_a_cpu_that_can_do_no_more() -> None:
    assert "emulated ivybridge" in wheel_starts("2.6.0", IVY, FACTS).text
    assert "emulated ivybridge" in wheel_starts("2.6.0", HASWELL, FACTS).text
    assert "emulated nehalem" in wheel_starts("2.6.0", NEHALEM, FACTS).text
    hazard = next(row for row in FACTS.hazards.hazard if row.id == "avx-in-1.6.0")
    assert wheel_starts("1.6.0", NEHALEM, FACTS).source == hazard.source[0]


def test_other_processors_were_not_tried() -> None:
    assert wheel_starts("1.6.0", ("asimd",), FACTS, "aarch64").code == "cpu-not-seen"
    assert wheel_starts("2.6.0", IVY, FACTS, "aarch64").kind == "unknown"
    assert wheel_starts("2.6.0", IVY, FACTS, "x86_64").kind == "yes"


def test_a_board_without_avx_hears_of_the_crash() -> None:
    """The J1900 is Silvermont: SSE4.2, no AVX; quantised Linear stops there as on Nehalem."""
    silvermont = FACTS.cpu.microarchitecture.get("silvermont")
    features = silvermont.features if silvermont else NEHALEM
    found = wheel_starts("2.6.0", features, FACTS)
    assert found.kind == "partly" and "quantised Linear" in found.text


@given(st.sets(st.sampled_from(sorted(FEATURES))), st.sets(st.sampled_from(sorted(FEATURES))), st.data())
def test_more_features_never_make_it_worse(required: set[str], corner: set[str], data: st.DataObject) -> None:
    order = {"no": 0, "partly": 1, "yes": 2}
    spelled = sorted({name for names in FEATURES.values() for name in names})
    few = data.draw(st.sets(st.sampled_from(spelled)))
    more = few | data.draw(st.sets(st.sampled_from(spelled)))
    corners = [use_of(isa) for isa in sorted(corner)]
    less, better = (code_starts(sorted(required), corners, sorted(have)) for have in (few, more))
    assert order[better.kind] >= order[less.kind]


def test_every_instruction_set_that_is_read_can_be_asked_of_a_cpu() -> None:
    """The readers of code and the table of features speak of the same sets."""
    from rekindle.formats import arm64_scan, x86

    read = {*x86.CLASSES, *arm64_scan.CLASSES} - {"base", "bad", "exclusive"}
    assert read == set(FEATURES)


def test_a_cpu_between_two_that_were_seen_starts_and_crashes_where_the_better_one_does() -> None:
    facts = load_facts()

    def seen(cpu: str) -> tuple[str, str]:
        found = wheel_starts("2.15.0", facts.cpu.microarchitecture[cpu].features, facts)
        return found.kind, found.text

    assert "emulated nehalem, which can do more)" in seen("bobcat")[1]
    assert "emulated nehalem)" in seen("nehalem")[1]
    assert seen("core2")[0] == "partly" and "could not create a primitive" in seen("core2")[1]
    assert seen("penryn")[0] == "partly" and "could not create a primitive" not in seen("penryn")[1]
    assert seen("k10")[0] == "unknown", "it has no SSSE3, which the one that was seen has"
    assert seen("sandybridge")[0] == seen("bulldozer")[0] == "yes"
