"""From functions that ask nothing of the CPU to what users call."""

from __future__ import annotations

import ast

import pytest

from rekindle.compat.processor import FEATURES, describe_trials, features_of, load_operators, suspicions, usual_suspects
from rekindle.facts import load_facts
from rekindle.model.machine import Cpu
from rekindle.model.wheel import CodeEvidence, OperatorTrial

LINEAR = "torch.ao.nn.quantized.dynamic.Linear (quantised engine onednn)"


def evidence(function: str, *isa: str, callers: tuple[str, ...] = ()) -> CodeEvidence:
    return CodeEvidence(function=function, file="torch/lib/libtorch_cpu.so", isa=isa, why="", callers=callers)


ONEDNN = evidence("fbgemm::FindMinMax", "avx", "avx2", callers=("PackedLinearWeightsOnednn::apply_dynamic_impl<…>",))


def of(cpu: str) -> frozenset[str]:
    features = features_of(Cpu(microarchitecture=cpu), load_facts())
    assert features
    return features


@pytest.mark.parametrize("row", load_operators(), ids=lambda row: row.id)
def test_a_row_can_be_run_by_the_oldest_python_and_names_what_it_needs(row) -> None:  # type: ignore[no-untyped-def]
    ast.parse(row.call, feature_version=(3, 6))
    assert row.source and row.isa and row.arch in ("x86_64", "aarch64") and set(row.isa) <= set(FEATURES)
    assert row.operator.startswith(f"{row.package}."), "as users call it"


def test_ids_are_unique() -> None:
    ids = [row.id for row in load_operators()]
    assert len(set(ids)) == len(ids)


def test_a_function_becomes_the_operator_that_reaches_it() -> None:
    (found,) = suspicions([ONEDNN], of("nehalem"))
    assert found.call is not None and found.call.operator == LINEAR
    assert found.functions == ("fbgemm::FindMinMax",) and found.isa == ("avx", "avx2")
    assert found.trial().outcome == "suspected"


@pytest.mark.parametrize(("cpu", "isa"), [("ivybridge", ("avx2",)), ("haswell", None), ("nehalem", ("avx", "avx2"))])
def test_only_what_the_cpu_lacks_is_suspected(cpu: str, isa: tuple[str, ...] | None) -> None:
    found = suspicions([ONEDNN], of(cpu))
    assert [one.isa for one in found] == ([isa] if isa else [])
    assert bool(usual_suspects("torch", "x86_64", of(cpu))) == bool(isa)


def test_another_way_to_the_same_function_is_not_taken_for_that_operator() -> None:
    (found,) = suspicions([evidence("fbgemm::FindMinMax", "avx2", callers=("other::caller",))], of("nehalem"))
    assert found.call is None, "the caller decides which operator it is"


def test_what_no_call_is_known_for_is_said_plainly() -> None:
    found = suspicions([evidence("somebody::fresh", "avx2"), ONEDNN], of("nehalem"))
    assert [one.call is None for one in found] == [False, True], "what can be tried comes first"
    trial = found[-1].trial()
    assert trial.outcome == "not-tried" and trial.operator is None
    assert "not tried, no known call reaches it: somebody::fresh" in describe_trials([trial])


def test_wrong_numbers_are_no_crash() -> None:
    assert suspicions([evidence("counts", "lzcnt")], of("nehalem")) == []
    assert suspicions([evidence("counts", "lzcnt", "tzcnt")], of("nehalem")) == []


def test_a_processor_is_not_suspected_of_lacking_what_its_kind_never_has() -> None:
    assert {one.call.arch for one in usual_suspects("torch", "x86_64", of("nehalem")) if one.call} == {"x86_64"}
    on_arm = [one.call.id for one in usual_suspects("torch", "aarch64", of("neoverse_n1")) if one.call]
    assert "stack" in on_arm and "linear-dynamic-onednn" not in on_arm
    assert "mv-half" not in on_arm, "it has half arithmetic"
    assert usual_suspects("torch", "aarch64", of("neoverse_v1")) == []


def test_the_table_is_for_torch() -> None:
    assert usual_suspects("spark", "x86_64", of("nehalem")) == []


def test_the_sentence_names_operators_by_what_came_of_them() -> None:
    trials = [
        OperatorTrial(operator="torch.a", outcome="crashes"),
        OperatorTrial(operator="torch.b", outcome="runs"),
        OperatorTrial(operator="torch.c", outcome="refuses"),
        OperatorTrial(operator=None, functions=("f::g",), outcome="not-tried"),
    ]
    assert describe_trials(trials) == (
        "runs; these operators crash: torch.a; these operators refuse with an error: torch.c; "
        "looked unguarded, tried, and run: torch.b; not tried, no known call reaches it: f::g"
    )
    assert describe_trials([]) == ""
    assert describe_trials(trials[3:]).startswith("should run; "), "nobody tried"
    assert describe_trials([OperatorTrial(operator="torch.a")]) == "should run; these operators should crash: torch.a"
    many = [OperatorTrial(operator=f"torch.f{n}", outcome="crashes") for n in range(7)]
    assert describe_trials(many).endswith("torch.f5 and 1 more") and "torch.f6" not in describe_trials(many)
    assert "more" not in describe_trials(many[:6])
