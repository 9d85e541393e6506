"""What documents answer about themselves, and the words that are made of them."""

from __future__ import annotations

import re
import shlex
import sys
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle import errors
from rekindle.errors import RekindleError
from rekindle.model.build import spoken_targets
from rekindle.model.diagnosis import FewerJobs, FixAttempt, FixReport
from rekindle.model.facts import Probe
from rekindle.model.graft import GraftTime
from rekindle.model.guard import GuardReport, Replaced
from rekindle.model.matrix import BUSY_CODE, CellRow, CellState, MatrixStatus, Stage, slurm_text
from rekindle.model.plan import Companion, CompanionAnswer, Request, pip_arguments
from rekindle.model.source import AppliedPatch, PatchState, SourceTree, compiles_against_torch
from rekindle.model.spoken import GIB, gib
from rekindle.model.supply import FromIndex, ThirdParty
from rekindle.model.verify import (
    ProofCard,
    ProofCheck,
    ProofRecord,
    RecordReview,
    Standing,
    VerifyStatus,
    WeighedRecord,
    card_of,
)
from rekindle.model.wheel import Kernels, OperatorTrial, Outcome, WheelGpu

FACT: dict[str, Any] = {"source": ("x",), "date": "2026-01-01", "how": "measured"}


@pytest.mark.parametrize(
    ("target", "said"),
    [("c10", "c10"), ("a,b", "2 targets"), ("a, ,b,c,", "3 targets"), ("a,", "a,"), ("", ""), (" , ", " , ")],
)
def test_several_targets_are_counted(target: str, said: str) -> None:
    assert spoken_targets(target) == said


@pytest.mark.parametrize(
    ("code", "tries", "fixed"), [(0, 1, True), (0, 2, True), (0, 0, False), (1, 1, False), (1, 0, False)]
)
def test_only_what_failed_at_first_can_be_fixed(code: int, tries: int, fixed: bool) -> None:
    attempt = FixAttempt(cause="c", title="t", action=FewerJobs(), shown=(), outcome="fixed")
    assert FixReport(command=("make",), exit_code=code, attempts=(attempt,) * tries).fixed is fixed


def test_files_of_a_build_compiled_as_well_as_those_measured() -> None:
    rows: dict[str, Any] = {**FACT, "torch": "2.6", "cuda": "12.4", "level": "tree", "of": 9}
    kinds = {"compiled": {"a.cu": (1.0, 2.0)}, "built": ("b.cu",), "failed": {"c.cu": "error"}, "sm": "sm_90"}
    probe = msgspec.convert({**rows, **kinds}, Probe, dec_hook=lambda kind, text: kind(9, 0))
    assert probe.good == {"a.cu", "b.cu"}


@pytest.mark.parametrize(
    ("seconds", "minutes"),
    [(0.0, (1, 2)), (29.0, (1, 2)), (89.0, (1, 2)), (91.0, (2, 3)), (480.0, (8, 10)), (6000.0, (100, 125))],
)
def test_a_graft_takes_what_was_measured_to_a_quarter_more(seconds: float, minutes: tuple[int, int]) -> None:
    assert GraftTime(seconds, 1.0, 1, 1).minutes == minutes


@given(st.floats(0, 1e6))
def test_the_time_of_a_graft_is_a_range_from_a_minute_on(seconds: float) -> None:
    low, high = GraftTime(seconds, 1.0, 1, 1).minutes
    assert 1 <= low < high and abs(low * 60 - seconds) <= 60 and high <= max(low + 1, seconds / 48 + 1)


def test_a_guard_is_content_where_nothing_was_replaced() -> None:
    assert GuardReport(python="p").good is True
    assert GuardReport(python="p", replaced=(Replaced(name="torch", was="2.6"),)).good is False


@pytest.mark.parametrize("stage", typing.get_args(Stage))
def test_a_matrix_is_good_when_every_cell_is_built(stage: Stage) -> None:
    def row(stage: Stage) -> CellRow:
        return CellRow(cell="c", name="n", state=CellState(id="c", stage=stage), rebuild=False, because="b")

    good = stage in ("built", "proven")
    assert MatrixStatus(root="r", rows=(row("built"), row(stage))).good is good
    assert MatrixStatus(root="r", rows=(row(stage), row("proven"))).good is good


def test_who_finds_a_cell_busy_says_so_by_a_code_that_workers_of_any_version_know() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RekindleError)]
    assert BUSY_CODE == 75 and len(kinds) > 5
    assert BUSY_CODE not in {kind.exit_code for kind in kinds}, "it is no failure"


def test_a_script_for_slurm_has_every_place_filled(tmp_path: Path) -> None:
    (tmp_path / "slurm.sh").write_text("@HEAD@\nroot=@ROOT@ @PYTHON@ a@b.c @lower@ $HOME\n", encoding="utf-8")
    text = slurm_text(str(tmp_path / "module.py"), {"ROOT": "'a b'"}, job="j", cores=1, memory_gib=2, hours=3, log="l")
    head, last = text.rsplit("\n", 2)[:2]
    assert head.startswith("#!/bin/bash\n#SBATCH --job-name=j\n") and not re.search("@[A-Z]+@", text)
    assert last == f"root='a b' {shlex.quote(sys.executable)} a@b.c @lower@ $HOME"


INDEX, PAGE = "https://example.org/cu128", "https://example.org/all.html"


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (Request(name="torch"), "torch"),
        (Request(name="torch", version="2.7.1"), "torch==2.7.1"),
        (Request(name="torch", version="2.7.1+cu128", index=INDEX), "torch==2.7.1"),
        (Request(name="torch", version="2.7.1+cu128", links=PAGE), "torch==2.7.1+cu128"),
        (Request(name="numpy", specifier="<2"), "numpy<2"),
        (Request(name="a", extras=("x", "y"), version="1"), "a[x,y]==1"),
        (Request(name="a", extras=("x",), specifier=">=1"), "a[x]>=1"),
        (Request(name="torch", version="2.7.1", url="/w/torch.whl"), "/w/torch.whl"),
    ],
)
def test_what_pip_is_asked_for(request_: Request, word: str) -> None:
    assert request_.requirement == word


def test_pip_is_called_once_for_each_place_and_for_limits_apart() -> None:
    torch = Request(name="torch", version="2.7.1+cu128", index=INDEX)
    vision = Request(name="torchvision", version="0.22+cu128", index=INDEX)
    linked = Request(name="geo", version="1+cu128", links=PAGE)
    limit, other = Request(name="numpy", specifier="<2"), Request(name="six", version="1.16")
    assert pip_arguments([torch, limit, linked, vision, other]) == (
        ("torch==2.7.1", "torchvision==0.22", "--index-url", INDEX),
        ("numpy<2",),
        ("geo==1+cu128", "-f", PAGE),
        ("six==1.16",),
    )
    assert pip_arguments([]) == ()


@pytest.mark.parametrize("answer", typing.get_args(CompanionAnswer))
def test_a_companion_comes_where_a_wheel_runs(answer: CompanionAnswer) -> None:
    wheel = (Request(name="xformers", version="0.0.30"),)
    assert Companion(name="xformers", answer=answer, why="w", requests=wheel).comes is (answer in ("runs", "last"))
    assert Companion(name="xformers", answer=answer, why="w").comes is False


@pytest.mark.parametrize("state", typing.get_args(PatchState))
def test_only_what_fits_neither_way_is_a_conflict(state: PatchState) -> None:
    patches = (AppliedPatch(id="a", state="clean"), AppliedPatch(id="b", state=state))
    found = SourceTree(project="torch", version="1", root="", patches=patches).conflicts
    assert [patch.id for patch in found] == ["b"] * (state == "conflict")


def test_all_but_torch_and_the_miniature_compile_against_torch() -> None:
    names = ("torch", "spark", "torchvision", "torchaudio", "xformers")
    assert [compiles_against_torch(name) for name in names] == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("count", "size"), [(None, None), (0, 0.0), (GIB, 1.0), (1.25 * GIB, 1.2), (1.26 * GIB, 1.3), (64 * GIB, 64.0)]
)
def test_gibibytes_have_one_decimal(count: float | None, size: float | None) -> None:
    assert gib(count) == size


def test_third_parties_have_their_place_and_pins_their_form() -> None:
    need: dict[str, Any] = {**FACT, "name": "fmt", "torch": ">=2", "way": "submodule"}
    assert ThirdParty(**need).folder == "third_party/fmt"
    assert ThirdParty(**need, path="third_party/deep/fmt").folder == "third_party/deep/fmt"
    assert FromIndex(package="p", version="1.2", file="f", sha256="0", take={}).pin == "p==1.2"


def record(*statuses: VerifyStatus, **more: Any) -> ProofRecord:
    checks = tuple(ProofCheck(id=f"c{number}", status=status) for number, status in enumerate(statuses))
    fields: dict[str, Any] = {"package": "torch", "version": "2.6", "wheel_sha256": "0" * 64, "verdict": "proven"}
    fields |= {"level": "smoke", "claims": ("cpu",), "system": "linux", "arch": "x86_64", **more}
    return ProofRecord(checks=checks, **fields)


def test_checks_and_records_are_counted_by_how_they_ended() -> None:
    told = record("passed", "failed", "passed", "skipped", "passed")
    assert {status: told.count(status) for status in typing.get_args(VerifyStatus)} == {
        "passed": 3, "failed": 1, "skipped": 1
    }  # fmt: skip
    assert record("passed").count("failed") == 0
    weighed = [WeighedRecord(place="p", standing=standing) for standing in typing.get_args(Standing)]
    review = RecordReview(place="p", good=False, records=(*weighed, weighed[0], weighed[0]))
    assert [review.count(standing) for standing in typing.get_args(Standing)] == [3, 1, 1, 1]


def test_a_proof_is_told_by_its_cards_or_its_processor() -> None:
    h200, k40 = ProofCard(name="H200", arch="sm_90"), ProofCard(name="K40c", arch="sm_35")
    assert record("passed", cards=(h200, k40, h200), cpu="Xeon").where == "H200 (sm_90) and K40c (sm_35)"
    assert record("passed", cpu="Xeon").where == "Xeon"
    assert record("passed").where == "x86_64"


@pytest.mark.parametrize(
    ("text", "card"),
    [
        ("NVIDIA H200, sm_90, 139.8 GiB", ("NVIDIA H200", "sm_90")),
        ("AMD Radeon, gfx90a", ("AMD Radeon", "gfx90a")),
        ("Arc B580 , xe_bmg, 12 GiB", ("Arc B580", "xe_bmg")),
        ("H100 sm_90a", ("H100 sm_90a", "sm_90a")),
        ("NVIDIA H200, 139.8 GiB", None),
        ("", None),
    ],
)
def test_a_card_is_read_from_what_a_check_says(text: str, card: tuple[str, str] | None) -> None:
    found = card_of(text)
    assert (found and (found.name, found.arch)) == card


@pytest.mark.parametrize("length", [299, 300, 301, 5000])
def test_the_name_of_a_card_is_cut_to_what_a_record_takes(length: int) -> None:
    found = card_of(f"{'x' * length}, sm_90")
    assert found is not None and found.name == "x" * min(length, 300)


@pytest.mark.parametrize("outcome", typing.get_args(Outcome))
def test_an_operator_harms_where_its_process_died_or_never_answered(outcome: Outcome) -> None:
    assert OperatorTrial(operator="aten::mm", outcome=outcome).harms is (outcome in ("crashes", "no-answer"))


def test_an_operator_without_a_name_is_called_by_its_functions() -> None:
    assert OperatorTrial(operator="aten::mm", functions=("a",)).name == "aten::mm"
    assert OperatorTrial(operator=None, functions=("a", "b")).name == "a, b"


def test_kernels_have_one_name_for_every_package() -> None:
    own, torch = Kernels(sass=("sm_90",)), Kernels(sass=("sm_35",))
    assert WheelGpu(own_kernels=own).kernels == own
    assert WheelGpu(own_kernels=own, torch_kernels=torch).kernels == torch
