"""The third answer: the official wheel with code for a card it lacks, between an official wheel and a build."""

from __future__ import annotations

import pytest

from rekindle.errors import BadInput
from rekindle.model.document import decode, encode
from rekindle.model.graft import GraftRow
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan, Wish
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.solve import make_plan, why_not
from rekindle.scripts.recipe import make_recipe


def turing(**more: str) -> Machine:
    """A Turing card in an aarch64 server: its wheels begin at sm_80, those for x86-64 at sm_75."""
    return machine_from_flags(gpu=["Tesla T4"], os="linux", arch="aarch64", **more)  # type: ignore[arg-type]


TORCH = Wish(torch="2.12.1")


def test_a_graft_comes_before_a_build() -> None:
    plan = make_plan(turing(), TORCH)
    assert (plan.answer, plan.torch, plan.variant, plan.evidence) == ("graft", "2.12.1", "cu130", "compiled")
    assert plan.as_asked and plan.graft is not None and plan.build is None
    assert plan.graft.archs == ("sm_75",) and plan.graft.toolkit == "13.0" and plan.graft.minutes
    assert any("ABI" in kept for kept in plan.graft.keeps) and plan.graft.losses
    assert [reason.code for reason in plan.because[:3]] == ["no-wheel-serves", "graft", "evidence-compiled"]
    assert "it takes a graft" in plan.because[0].text
    assert any(other.answer == "build" for other in plan.alternatives), "the build is still named"
    assert decode(encode(plan), Plan, origin="plan") == plan


def test_its_commands_graft_and_install() -> None:
    plan = make_plan(turing(), TORCH)
    assert plan.commands[0].startswith("rekindle graft torch==2.12.1 --gpu sm_75 --python 3.12")
    assert "--platform linux_aarch64" in plan.commands[0] and "pip install" in plan.commands[1]
    assert plan.requests[0].name == "torch" and plan.requests[0].version == "2.12.1"


def test_an_official_wheel_that_runs_beats_a_graft() -> None:
    plan = make_plan(machine_from_flags(gpu=["Tesla T4"], os="linux", arch="x86_64"), TORCH)
    assert plan.answer == "install" and plan.graft is None
    assert all(other.answer != "graft" for other in plan.alternatives)


def test_build_insists_on_a_build() -> None:
    plan = make_plan(turing(), Wish(torch="2.12.1", build=True))
    assert plan.answer == "build" and plan.graft is None
    assert all(other.answer != "graft" for other in plan.alternatives)


def test_a_card_that_no_toolkit_of_the_wheels_cuda_knows_cannot_be_grafted() -> None:
    volta = machine_from_flags(gpu=["V100"], os="linux", arch="aarch64")
    plan = make_plan(volta, Wish(torch="2.12.1+cu130"))
    assert plan.answer != "graft" or plan.variant != "cu130"
    asked = why_not(volta, Wish(variant="cu130"), "torch=2.12.1")
    refusals = [no for each in asked.considered if each.answer == "graft" for no in each.refusals]
    assert any(no.rule == "R104" and "no toolkit of CUDA 13" in no.reason for no in refusals)
    assert any("torch 2.12.1+cu126 can be grafted" in (no.remedy or "") for no in refusals), "which one could be"


def test_a_graft_that_nobody_ran_comes_after_a_build_that_is_known() -> None:
    kepler = machine_from_flags(gpu=["Tesla K40c"], os="linux", arch="x86_64")
    assert make_plan(kepler, Wish(torch="1.13.1")).answer == "build"


def test_libraries_older_than_the_card_are_a_doubt() -> None:
    both = machine_from_flags(gpu=["GTX 1080", "RTX 5090"], os="linux", arch="x86_64")
    plan = make_plan(both, TORCH)
    assert (plan.answer, plan.variant) == ("graft", "cu129"), "whose libraries know both cards"
    grafts = [other for other in plan.alternatives if other.answer == "graft"]
    assert len(grafts) == 1 and grafts[0].variant == "cu126"
    assert "made without sm_120" in grafts[0].why


def test_minutes_are_of_this_machines_cores() -> None:
    few, many = (make_plan(_with_threads(n), TORCH).graft for n in (2, 16))
    assert few and many and few.minutes and many.minutes
    assert (few.jobs, many.jobs) == (2, 16)
    assert few.minutes[0] == pytest.approx(8 * many.minutes[0], rel=0.25)
    assert few.cpu_minutes == many.cpu_minutes


def _with_threads(count: int) -> Machine:
    import msgspec

    machine = turing()
    return msgspec.structs.replace(machine, cpu=msgspec.structs.replace(machine.cpu, cores=count, threads=count))


def test_windows_and_other_cards_get_no_graft() -> None:
    for machine in (
        machine_from_flags(gpu=["sm_110"], os="windows", arch="x86_64"),
        machine_from_flags(gpu=["gfx1010"], os="linux"),
    ):
        plan = make_plan(machine, TORCH)
        assert plan.answer != "graft" and all(other.answer != "graft" for other in plan.alternatives)


def test_a_graft_file_that_exists_is_applied_instead() -> None:
    file = GraftRow(
        file="torch.sm_75.graft",
        url="/house/torch.sm_75.graft",
        project="torch",
        wheel="torch-2.12.1-cp312-cp312-manylinux_2_28_aarch64.whl",
        wheel_sha256="0" * 64,
        version="2.12.1+cu130.sm75",
        archs=("sm_75",),
        bytes=1,
        sha256="1" * 64,
        added="",
    )
    plan = make_plan(turing(), TORCH, wheelhouse=[file])
    assert plan.answer == "graft" and plan.graft is not None
    assert plan.graft.file == file.url and plan.graft.toolkit is None and plan.graft.minutes is None
    assert plan.commands[0].startswith("rekindle graft apply torch==2.12.1 /house/torch.sm_75.graft")
    for other in ("2.12.1+cu130.sm70", "2.12.0+cu130.sm75", "2.12.1+cu126.sm75"):
        import msgspec

        made = make_plan(turing(), TORCH, wheelhouse=[msgspec.structs.replace(file, version=other)])
        assert made.graft is not None and made.graft.file is None, other


def test_a_graft_is_no_script() -> None:
    with pytest.raises(BadInput, match="made by Rekindle itself"):
        make_recipe(make_plan(turing(), TORCH), {})


def test_an_official_wheel_one_step_up_beats_even_a_graft_that_was_run() -> None:
    hopper = machine_from_flags(gpu=["H100"], os="linux", arch="x86_64")
    plan = make_plan(hopper, Wish(torch="1.13.1", python="3.10"))
    assert plan.answer == "install" and plan.torch == "2.0.1"
    graft = next(other for other in plan.alternatives if other.answer == "graft")
    assert (graft.torch, graft.variant) == ("1.13.1", "cu117"), "the very wheel that was grafted and run"
    assert "evidence: proven" in graft.why and "CUDA 11.8" in graft.why


def test_another_torch_than_asked_is_not_grafted() -> None:
    plan = make_plan(machine_from_flags(gpu=["RTX 5090"], os="linux", arch="x86_64"), Wish(torch="1.12.1"))
    assert all(other.answer != "graft" for other in plan.alternatives)


def test_an_untried_graft_of_a_release_nobody_asked_for_only_stands_beside() -> None:
    plan = make_plan(machine_from_flags(gpu=["Tesla K40c"], os="linux", arch="x86_64"), Wish(python="3.12"))
    assert plan.answer == "build"
    asked = make_plan(machine_from_flags(gpu=["Tesla K40c"], os="linux", arch="x86_64"), Wish(torch="2.6.0"))
    assert any(other.answer == "graft" and "untried" in other.why for other in asked.alternatives)


def test_for_a_box_of_two_cards_the_graft_stands_beside_the_build() -> None:
    both = machine_from_flags(gpu=["GTX 1080", "RTX 5090"], os="linux", arch="x86_64")
    plan = make_plan(both, Wish())
    assert plan.answer in ("build", "install")
    assert any(other.answer == "graft" for other in plan.alternatives)


def test_a_graft_that_keeps_a_cudnn_without_the_card_is_in_doubt() -> None:
    plan = make_plan(machine_from_flags(gpu=["Tesla K40c"], os="linux", arch="x86_64"), Wish(python="3.12"))
    assert (plan.answer, plan.torch) == ("build", "2.6.0"), "a build with cuDNN comes before a graft that lost it"
    assert any(other.answer == "graft" for other in plan.alternatives)
