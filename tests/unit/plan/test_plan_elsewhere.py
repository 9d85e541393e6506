"""A torch built here and meant for other hardware, or without what is not here."""

from __future__ import annotations

import msgspec
import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.model.machine import Cpu, Drivers, Gpu, Machine, Os, Toolkit
from rekindle.model.plan import Plan, Wish
from rekindle.plan.absent import without_absent_cudnn

HERE = Machine(
    os=Os(system="linux", distro="debian 12", glibc="2.36", arch="x86_64"),
    cpu=Cpu(name="Xeon", microarchitecture="sapphirerapids", features=("avx", "avx2", "fma"), cores=8, threads=16),
    memory_gib=128.0,
    gpus=(Gpu(vendor="nvidia", name="H200", arch=api.machine_from_flags(gpu=["H200"]).gpus[0].arch),),
    drivers=Drivers(nvidia="580.95"),
)


def kepler_plan(**more: str) -> Plan:
    other = api.with_hardware(HERE, gpu=["sm_35", "sm_90"], cpu="ivybridge")
    return api.plan(other, Wish(torch="1.13.1", build=True, cuda="11.8", origin="debian", settings=tuple(more.items())))


def test_cards_given_by_hand_take_the_place_of_those_here_and_of_their_driver() -> None:
    other = api.with_hardware(HERE, gpu=["sm_35"])
    assert [str(gpu.arch) for gpu in other.gpus] == ["sm_35"]
    assert other.drivers.nvidia is None, "580 drives no Kepler, but the Kepler is not in this machine"
    assert other.cpu == HERE.cpu
    assert other.os == HERE.os
    assert api.with_hardware(HERE) == HERE


def test_no_card_may_be_said_too() -> None:
    other = api.with_hardware(HERE, gpu=["none"])
    assert other.gpus == ()
    assert other.no_gpu is True


def test_another_cpu_keeps_the_number_of_threads_that_compile() -> None:
    other = api.with_hardware(HERE, cpu="ivybridge")
    assert other.cpu.microarchitecture == "ivybridge"
    assert "avx2" not in other.cpu.features
    assert (other.cpu.cores, other.cpu.threads) == (8, 16)
    assert other.drivers == HERE.drivers


@pytest.mark.parametrize(("cpu", "says"), [("neoverse_n1", "aarch64"), ("Xeon Unheard-Of 99", "not known")])
def test_a_cpu_that_cannot_be_built_for_here_is_refused(cpu: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        api.with_hardware(HERE, cpu=cpu)


def test_the_plan_is_for_the_cards_given() -> None:
    made = kepler_plan()
    assert made.arch_list == ("3.5", "9.0")
    assert made.build
    assert made.build.env["TORCH_CUDA_ARCH_LIST"] == "3.5;9.0"
    assert made.build.env["CXXFLAGS"] == "-march=ivybridge"


def test_without_a_cudnn_here_the_build_goes_without_and_says_so() -> None:
    made = kepler_plan()
    assert made.build
    assert made.build.asserts["USE_CUDNN"] == "ON"
    bare = without_absent_cudnn(made, HERE)
    assert bare.build
    assert bare.build.env["USE_CUDNN"] == "0"
    assert "USE_CUDNN" not in bare.build.asserts
    assert bare.cudnn is None
    assert any(loss.startswith("cuDNN: there is none") for loss in bare.build.losses)
    (warning,) = [one for one in bare.warnings if one.code == "no-cudnn-here"]
    assert made.cudnn
    assert made.cudnn in warning.text
    assert "CUDNN_ROOT" in warning.text


def test_a_cudnn_here_is_used() -> None:
    made = kepler_plan()
    there = msgspec.structs.replace(HERE, toolkits=(Toolkit(kind="cudnn", version="8.5.0"),))
    assert without_absent_cudnn(made, there) == made
    other = msgspec.structs.replace(HERE, toolkits=(Toolkit(kind="cuda", version="11.8"),))
    assert without_absent_cudnn(made, other) != made


def test_what_was_said_about_cudnn_by_hand_stays() -> None:
    for name, value in (("USE_CUDNN", "1"), ("CUDNN_ROOT", "/opt/cudnn")):
        made = kepler_plan(**{name: value})
        assert without_absent_cudnn(made, HERE) == made


def test_a_build_for_the_cpu_has_no_cudnn_to_lose() -> None:
    made = api.plan(HERE, Wish(torch="2.6.0", build=True, variant="cpu"))
    assert made.build
    assert without_absent_cudnn(made, HERE) == made
