"""CPU names, stub libraries and instruction names: what needs no emulator to be right."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from rekindle.emulate.qemu import (
    EMULATED,
    Emulator,
    find_emulated_cpu,
)
from rekindle.emulate.root import EmulatedPython
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.interpreters.other_machine import OtherMachine
from rekindle.verify import prove
from rekindle.verify.crash import describe_crash
from rekindle.verify.target import Subject, Target, read_subject


class Quiet:
    def stage(self, name: str, detail: str = "") -> None: ...
    def step(self, done: float, total: float | None, detail: str = "") -> None: ...
    def note(self, text: str) -> None: ...


def laid_out(tmp_path: Path, tag: str = "cp311-cp311-manylinux_2_28_x86_64", requires: str = "") -> Subject:
    path = tmp_path / f"torch-2.6.0-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch/__init__.py", "")
        archive.writestr("torch-2.6.0.dist-info/METADATA", f"Name: torch\nVersion: 2.6.0\n{requires}")
    return read_subject(path)


def target_for(subject: Subject, python: EmulatedPython) -> Target:
    emulator = Emulator(path="/usr/bin/qemu-x86_64", version="7.2", models=("IvyBridge",))
    env = {"ATEN_CPU_CAPABILITY": "avx2"}
    return prove.emulated_target(emulator, find_emulated_cpu("ivybridge"), python, Path("/f"), subject, env)


@pytest.mark.skipif(sys.platform == "win32", reason="emulation is of Linux machines")
def test_on_an_x86_machine_the_own_python_runs_without_a_root(tmp_path: Path) -> None:
    subject = laid_out(tmp_path)
    target = target_for(subject, EmulatedPython(path=Path("/usr/bin/python3.11"), version=(3, 11)))
    assert target.command[:3] == ("/usr/bin/qemu-x86_64", "-cpu", "IvyBridge") and "-L" not in target.command
    assert target.command[-1] == "/usr/bin/python3.11" and target.no_import is None
    settings = dict(word.split("=", 1) for word in target.command if "=" in word)
    assert settings["ATEN_CPU_CAPABILITY"] == "avx2" and "PYTHONHOME" not in settings
    assert target.cpu_features is not None and "avx2" in target.cpu_features["lacks"]


def test_a_wheel_for_another_python_is_tried_without_importing_it(tmp_path: Path) -> None:
    python = EmulatedPython(path=tmp_path / "usr/bin/python3.13", version=(3, 13), root=tmp_path)
    target = target_for(laid_out(tmp_path), python)
    assert target.no_import is not None and "3.11" in target.no_import and "3.13" in target.no_import
    assert "-L" in target.command
    assert target.no_import_remedy is not None and "cpython-3.11-linux-x86_64-gnu" in target.no_import_remedy


def test_dependencies_leave_out_what_only_gpus_use(tmp_path: Path) -> None:
    requires = (
        "Requires-Dist: filelock\n"
        "Requires-Dist: nvidia-cublas-cu12 (==12.4.5.8) ; platform_system == 'Linux' and platform_machine == 'x86_64'\n"
        "Requires-Dist: triton==3.2.0; platform_system == 'Linux'\n"
        "Requires-Dist: setuptools ; python_version >= '3.12'\n"
        "Requires-Dist: sympy (==1.13.1) ; python_version >= '3.9'\n"
        "Requires-Dist: optree>=0.13.0; extra == 'optree'\n"
        "Requires-Dist: not a requirement at all!!\n"
    )
    subject = laid_out(tmp_path, requires=requires)
    assert prove.wanted_dependencies(subject, OtherMachine(system="linux", arch="x86_64", python="3.11")) == [
        "filelock",
        "sympy==1.13.1",
    ]


def test_a_wheel_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "torch-2.6.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch-2.6.0.dist-info/METADATA", "Name: torch\n")
        archive.writestr("../outside.txt", "gotcha")
    (tmp_path / "site").mkdir()
    with pytest.raises(BadInput, match="outside"):
        prove.unpack_for_emulation(read_subject(path), tmp_path / "site", Quiet())
    assert not (tmp_path / "outside.txt").exists()


def test_it_is_laid_out_as_an_installer_does_it(tmp_path: Path) -> None:
    path = tmp_path / "torch-2.6.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch-2.6.0.dist-info/METADATA", "Name: torch\n")
        archive.writestr("torch-2.6.0.data/platlib/torch/_C.so", "x")
    (tmp_path / "site").mkdir()
    prove.unpack_for_emulation(read_subject(path), tmp_path / "site", Quiet())
    assert (tmp_path / "site/torch/_C.so").read_text() == "x"


@pytest.mark.parametrize("tag", ["cp311-cp311-win_amd64", "cp311-cp311-manylinux2014_i686", "py3-none-any"])
def test_only_code_for_linux_of_two_kinds_can_be_emulated(tmp_path: Path, tag: str) -> None:
    with pytest.raises(BadInput, match="x86-64 or AArch64"):
        prove.machine_for(laid_out(tmp_path, tag))


@pytest.mark.parametrize("machine", sorted(EMULATED))
def test_the_emulated_machine_is_the_one_the_wheel_is_for(tmp_path: Path, machine: str) -> None:
    subject = laid_out(tmp_path, f"cp311-cp311-manylinux_2_28_{machine}")
    assert prove.machine_for(subject) is EMULATED[machine]


@pytest.mark.parametrize(
    ("machine", "code", "name"),
    [
        ("aarch64", "1600f6f8df1240f1", "lse"),  # ldadd: seen in _mi_options_init of torch 2.10.0 on a Cortex-A72
        ("arm64", "e0e31825", "sve"),
        ("aarch64", "c0035fd6", None),  # ret
        ("aarch64", "e0e318", None),
        ("x86_64", "c5fdfec0", "avx2"),
        ("riscv64", "c5fdfec0", None),
    ],
)
def test_a_refused_instruction_is_called_by_its_set_on_each_machine(machine: str, code: str, name: str | None) -> None:
    for signal, isa in (("SIGILL", name), ("SIGSEGV", None)):
        assert describe_crash(LiveHost(), {"name": signal, "code": code}, machine).isa == isa
