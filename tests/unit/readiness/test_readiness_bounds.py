"""Where a verdict turns: just enough disk, a cuDNN that says nothing of itself, programs that hold torch."""

from __future__ import annotations

import pytest

from rekindle.facts import load_facts
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.machine import Check, Gpu, Machine, Os, Toolkit
from rekindle.readiness.case import Cards, ExaminedMachine, Graphics
from rekindle.readiness.register import check_machine

CARD = Gpu(vendor="nvidia", name="card", arch=parse_gpu_arch("sm_86"))


def table(*, users: tuple[str, ...] = (), gpus: tuple[Gpu, ...] = (), **parts: object) -> dict[str, Check]:
    subject = Machine(os=Os(system="linux", arch="x86_64", glibc="2.35"), gpus=gpus, **parts)  # type: ignore[arg-type]
    graphics = Graphics(nvidia=Cards(gpus=gpus), amd=Cards(gpus=()))
    case = ExaminedMachine(machine=subject, graphics=graphics, managers=(), workspace="/x", torch_users=users)
    return {check.id: check for check in check_machine(case)[0]}


@pytest.mark.parametrize(("less", "needed"), [(0.0, ("build",)), (0.1, ("use", "build"))])
def test_just_enough_disk_to_use_torch_is_enough_for_that(less: float, needed: tuple[str, ...]) -> None:
    check = table(disk_free_gib=load_facts().costs.use["cpu"].disk_gib - less)["disk"]
    assert (check.status, set(check.needed_for)) == ("fail", set(needed))


@pytest.mark.parametrize(("note", "status"), [(None, "ok"), ("no headers", "warn")])
def test_a_cudnn_counts_unless_it_has_no_headers(note: str | None, status: str) -> None:
    kit = Toolkit(kind="cudnn", version="9.1.0", path="/usr", note=note)
    assert table(gpus=(CARD,), toolkits=(kit,))["cudnn"].status == status


def test_programs_that_hold_torch_are_named_where_there_are_any() -> None:
    assert "file-locks" not in table()
    assert table(users=("a.exe", "b.exe"))["file-locks"].found == "a.exe, b.exe"
