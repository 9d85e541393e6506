"""A machine answers for itself: where its toolkits lie, and what it is without the doctor's verdicts."""

from __future__ import annotations

import msgspec
import pytest

from rekindle.model.arch import Sm
from rekindle.model.document import decode, encode
from rekindle.model.machine import Check, Cpu, Examination, Gpu, Machine, Os, Ready, Toolkit

KITS = (
    Toolkit(kind="cuda", version="11.8.89", path="/usr/local/cuda-11.8"),
    Toolkit(kind="cuda", version="12.8.93", path="/opt/cuda"),
    Toolkit(kind="cudnn", version="12.8", path="/opt/cudnn"),
    Toolkit(kind="cuda", version="12.8.61", path="/home/a/cuda"),
    Toolkit(kind="cuda", version="12.8.93"),
    Toolkit(kind="cuda", path="/somewhere/cuda"),
)


@pytest.mark.parametrize(
    ("version", "folders"),
    [
        ("11.8", ("/usr/local/cuda-11.8",)),
        ("11.8.89", ("/usr/local/cuda-11.8",)),
        ("12.8", ("/opt/cuda", "/home/a/cuda")),
        ("12.8.93", ("/opt/cuda",)),
        ("12", ("/opt/cuda", "/home/a/cuda")),
        ("12.80", ()),
        ("1", ()),
    ],
)
def test_toolkits_are_found_by_as_much_of_their_version_as_is_told(version: str, folders: tuple[str, ...]) -> None:
    assert Machine(os=Os(system="linux"), toolkits=KITS).cuda_folders(version) == folders
    assert Machine(os=Os(system="linux")).cuda_folders(version) == ()


def test_a_machine_is_the_same_without_its_verdicts() -> None:
    machine = Machine(
        os=Os(system="linux"), cpu=Cpu(cores=4), gpus=(Gpu(vendor="nvidia", arch=Sm(9, 0)),), toolkits=KITS
    )
    told = {name: getattr(machine, name) for name in Machine.__struct_fields__}
    seen = Examination(**told, checks=(Check(id="a", status="ok"),), ready=Ready(build=True, use=True), seconds=1.5)
    assert seen.machine == machine and type(seen.machine) is Machine
    assert decode(encode(seen), Examination).machine == machine
    bare = Examination(os=Os(system="windows"))
    assert (bare.ready.build, bare.ready.use) == (False, False), "what was not examined is not ready"
    assert msgspec.structs.replace(bare, seconds=2.0).machine == bare.machine
