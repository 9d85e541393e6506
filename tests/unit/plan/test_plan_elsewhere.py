"""A torch built here and meant for other hardware, or without what is not here."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.journey import up
from rekindle.model.document import encode
from rekindle.model.machine import Cpu, Drivers, Examination, Gpu, Machine, Os, Toolkit
from rekindle.model.plan import Plan, Wish

HERE = Machine(
    os=Os(system="linux", distro="debian 12", glibc="2.36", arch="x86_64"),
    cpu=Cpu(name="Xeon", microarchitecture="sapphirerapids", features=("avx", "avx2", "fma"), cores=8, threads=16),
    memory_gib=128.0,
    gpus=(Gpu(vendor="nvidia", name="H200", arch=api.machine_from_flags(gpu=["H200"]).gpus[0].arch),),
    drivers=Drivers(nvidia="580.95"),
)


TOOLKIT = Toolkit(kind="cuda", version="11.8.89", path="/usr/local/cuda-11.8")


def having(*kits: Toolkit) -> Machine:
    return msgspec.structs.replace(HERE, toolkits=kits)


def kepler_plan(*kits: Toolkit, **more: str) -> Plan:
    other = api.with_hardware(having(*kits), gpu=["sm_35", "sm_90"], cpu="ivybridge")
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
    bare = kepler_plan(TOOLKIT)
    assert bare.build
    assert bare.build.env["USE_CUDNN"] == "0"
    assert "USE_CUDNN" not in bare.build.asserts
    assert bare.cudnn is None
    assert any(loss.startswith("cuDNN: there is none") for loss in bare.build.losses)
    (warning,) = [one for one in bare.warnings if one.code == "no-cudnn-here"]
    assert made.cudnn
    assert made.cudnn in warning.text
    assert "CUDNN_ROOT" in warning.text


def test_the_lines_to_paste_leave_out_the_cudnn_that_the_plan_leaves_out() -> None:
    made = api.plan(having(TOOLKIT), Wish(torch="2.4.1", build=True, cuda="11.8"), wheelhouses=())
    assert made.build and made.build.env["USE_CUDNN"] == "0"
    assert "export USE_CUDNN=0" in made.commands
    assert not any("nvidia-cudnn" in line or "CUDNN_LIBRARY" in line for line in made.commands)
    assert not any(one.code == "cudnn-by-hand" for one in made.warnings)


@pytest.mark.parametrize(
    ("kits", "goes_without"),
    [
        ((TOOLKIT,), True),
        ((TOOLKIT, Toolkit(kind="nccl", version="2.15")), True),
        ((TOOLKIT, Toolkit(kind="cudnn", version="8.5.0")), False),
        ((Toolkit(kind="cuda", version="11.8"),), False),
        ((Toolkit(kind="cuda", version="11.80", path="/x"),), False),
        ((Toolkit(kind="cuda", version="12.4.1", path="/x"),), False),
        ((Toolkit(kind="cuda", path="/x"),), False),
        ((), False),
    ],
)
def test_cudnn_is_left_out_only_where_somebody_looked(kits: tuple[Toolkit, ...], goes_without: bool) -> None:
    """A toolkit that is still to be had, or that was only spoken of, says nothing about cuDNN."""
    made = kepler_plan(*kits)
    assert made.build
    assert (made.cudnn is None, made.build.env.get("USE_CUDNN") == "0") == (goes_without, goes_without)


def test_what_was_said_about_cudnn_by_hand_stays() -> None:
    for name, value in (("USE_CUDNN", "1"), ("CUDNN_ROOT", "/opt/cudnn")):
        made = kepler_plan(TOOLKIT, **{name: value})
        assert made.build and made.build.env[name] == value and made.cudnn


def test_a_build_for_the_cpu_has_no_cudnn_to_lose() -> None:
    made = api.plan(having(TOOLKIT), Wish(torch="2.6.0", build=True, variant="cpu"))
    assert made.build and "USE_CUDNN" not in made.build.env
    assert not any(one.code == "no-cudnn-here" for one in made.warnings)


def test_plan_and_up_say_the_same_of_the_same_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = having(TOOLKIT, Toolkit(kind="cuda", version="12.4", path="/usr/local/cuda-12.4"))
    (tmp_path / "machine.json").write_bytes(encode(machine))
    wish = Wish(torch="1.13.1", build=True, cuda="11.8", origin="debian")
    planned = api.plan(api.find_machine(str(tmp_path / "machine.json"))[0], wish)
    examined = Examination(**{name: getattr(machine, name) for name in Machine.__struct_fields__})
    monkeypatch.setattr(up, "doctor", lambda **_: examined)
    monkeypatch.setattr(up._PlannedUp, "check", lambda _: ())
    journey = api.up(wish, workspace=tmp_path / "ws", dry_run=True)
    assert journey.card is not None and journey.card.places == ("Debian's archive of sources",)
    assert journey.plan is not None and journey.plan.build is not None and planned.build is not None
    assert journey.plan == planned, "one answer, with its losses and its warnings"
    assert planned.cudnn is None and planned.build.env["USE_CUDNN"] == "0"
