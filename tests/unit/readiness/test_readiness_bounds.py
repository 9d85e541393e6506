"""Where a verdict turns: just enough disk, a short enough path, a cuDNN that says nothing of itself or is for another
CUDA, programs that hold torch."""

from __future__ import annotations

import pytest

from rekindle.facts import load_facts
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.machine import Check, Drivers, Gpu, Machine, Os, Toolkit
from rekindle.readiness.case import Cards, ExaminedMachine, Graphics
from rekindle.readiness.cuda import driver_misfit
from rekindle.readiness.register import check_machine
from rekindle.readiness.space import build_needs

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
    check = table(users=("a.exe", "b.exe"))["file-locks"]
    assert (check.status, check.found, check.needed_for) == ("warn", "a.exe, b.exe", ("use",)) and check.fix


@pytest.mark.parametrize(("less", "status"), [(0.0, "ok"), (0.1, "fail")])
def test_just_enough_disk_to_build_is_enough(less: float, status: str) -> None:
    check = table(disk_free_gib=build_needs().disk_gib - less)["disk"]
    assert (check.status, check.fix is None) == (status, status == "ok")


@pytest.mark.parametrize(("length", "status"), [(60, "ok"), (61, "warn")])
def test_a_path_leaves_just_enough_room_for_the_tree(length: int, status: str) -> None:
    place = "C:\\".ljust(length, "x")
    subject = Machine(os=Os(system="windows", arch="x86_64", long_paths=False))
    case = ExaminedMachine(machine=subject, graphics=Graphics(), managers=(), workspace=place)
    (check,) = [check for check in check_machine(case)[0] if check.id == "workspace-path"]
    assert check.status == status and (f"{length} characters long" in (check.why or "")) is (status == "warn")


def misfits_of(kind: str, *kits: Toolkit, gpus: tuple[Gpu, ...] = (CARD,)) -> dict[str, Check]:
    return {name: check for name, check in table(gpus=gpus, toolkits=kits).items() if name.startswith(kind)}


def test_a_toolkit_that_makes_only_an_older_siblings_code_is_good_with_a_remark() -> None:
    card = Gpu(vendor="nvidia", name="RTX 4090", arch=parse_gpu_arch("sm_89"))
    found = misfits_of("cuda", Toolkit(kind="cuda", version="11.4", path="/c"), gpus=(card,))
    assert (found["cuda-toolkit"].status, found["cuda-toolkit"].found) == ("ok", "11.4")
    assert found["cuda-11.4"].status == "skip" and "its sm_86 code runs there too" in (found["cuda-11.4"].why or "")


def test_an_older_driver_of_the_same_cuda_runs_ready_code_but_translates_none() -> None:
    subject = Machine(os=Os(system="linux", arch="x86_64"), gpus=(CARD,), drivers=Drivers(nvidia="525.60.13"))
    assert driver_misfit(subject, "12.4") is None
    assert "525.60.13" in (driver_misfit(subject, "12.4", ptx=True) or "")


KIT = Toolkit(kind="cuda", version="12.4.1", path="/c")


def test_the_half_of_a_cudnn_that_is_for_another_cuda_is_no_trouble() -> None:
    fits, other = (Toolkit(kind="cudnn", version="9.1.0", path=f"/{v}", note=f"for CUDA {v}") for v in ("12.4", "11.8"))
    assert list(misfits_of("cudnn", KIT, fits, other)) == ["cudnn"]
    assert set(misfits_of("cudnn", KIT, other)) == {"cudnn", "cudnn-9.1.0"}, "alone it is of no use"


def test_of_two_cudnns_each_is_told_its_own_trouble() -> None:
    older = Toolkit(kind="cudnn", version="8.9.7", path="/a", note="for CUDA 11.8")
    newer = Toolkit(kind="cudnn", version="9.27.0", path="/b", note="for CUDA 13.0")
    found = misfits_of("cudnn", KIT, older, newer)
    assert (found["cudnn-8.9.7"].found, found["cudnn-9.27.0"].found) == ("/a", "/b")
    here = "; the toolkit here is CUDA 12.4.1"
    assert found["cudnn-8.9.7"].why == f"cuDNN 8.9.7 is made for CUDA 11.8{here}"
    assert found["cudnn-9.27.0"].why == f"cuDNN 9.27.0 is made for CUDA 13.0{here}"


def test_a_cudnn_is_judged_by_the_release_of_cuda_that_it_is_made_for() -> None:
    card = Gpu(vendor="nvidia", name="K40c", arch=parse_gpu_arch("sm_35"))
    cudnn = Toolkit(kind="cudnn", version="8.8.0", path="/a", note="for CUDA 12.0")
    found = misfits_of("cudnn", Toolkit(kind="cuda", version="12.0", path="/c"), cudnn, gpus=(card,))
    assert "starts at sm_50 with CUDA 12.0" in (found["cudnn-8.8.0"].why or "")
