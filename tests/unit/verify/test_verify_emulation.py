"""CPU names, stub libraries and instruction names: what needs no emulator to be right."""

from __future__ import annotations

import io
import re
import sys
import zipfile
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.verify import emulated_layout
from rekindle.verify.cpus import PROBED, PROBED_ARM, find_cpu, known_names, machine_of_cpu
from rekindle.verify.crash import describe_crash
from rekindle.verify.emulated_layout import serves_gpu
from rekindle.verify.emulated_machine import ARM, EMULATED, X86
from rekindle.verify.emulated_python import EmulatedPython
from rekindle.verify.emulator import Emulator
from rekindle.formats.x86 import instruction_set
from rekindle.verify.root import Root
from rekindle.verify.stubs import elf_hash, stub_library
from rekindle.verify.subject import Subject, read_subject
from rekindle.verify.target import CHECKS, Target


@pytest.mark.parametrize("name", known_names())
def test_every_known_cpu_says_what_it_has_and_lacks(name: str) -> None:
    cpu = find_cpu(name)
    assert cpu.has is not None and cpu.lacks is not None
    assert cpu.has | cpu.lacks == set(PROBED) and not cpu.has & cpu.lacks


@pytest.mark.parametrize(
    ("asked", "model"),
    [("Xeon E5 v2", "IvyBridge"), ("ivy bridge", "IvyBridge"), ("x86-64-v2", "Nehalem"), ("HASWELL", "Haswell")],
)
def test_people_may_say_it_their_way(asked: str, model: str) -> None:
    assert find_cpu(asked).model == model


def test_ivy_bridge_has_avx_and_f16c_but_neither_avx2_nor_fma() -> None:
    cpu = find_cpu("ivybridge")
    assert cpu.has is not None and {"avx", "f16c"} <= cpu.has and cpu.lacks is not None and {"avx2", "fma"} <= cpu.lacks


def test_a_model_only_the_emulator_knows_is_taken_without_promises() -> None:
    assert find_cpu("Snowridge-v1", ("Snowridge-v1",)).has is None


def test_an_unknown_cpu_is_one_line_with_the_nearest() -> None:
    with pytest.raises(BadInput) as error:
        find_cpu("ivybrige")
    assert "ivybridge" in (error.value.remedy or "")


# bytes: what an assembler makes of the instruction in the comment
@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("c4e27d354c87f0", "avx2"),  # vpmovzxdq ymm1, [rdi+rax*4-16]: measured in spark's checksum
        ("c4e26da80c06", "fma"),  # vfmadd213ps ymm1, ymm2, [rsi+rax]: measured in spark's axpy
        ("c4e37d38c101", "avx2"),  # vinserti128: measured in torch 2.15.0 with ATEN_CPU_CAPABILITY=avx2
        ("c5fa1017", "avx"),  # vmovss xmm2, [rdi]: measured in fbgemm::FindMinMax
        ("c5fc58c0", "avx"),  # vaddps ymm0, ymm0, ymm0
        ("c5fdfec0", "avx2"),  # vpaddd ymm0, ymm0, ymm0
        ("c5f9fec0", "avx"),  # vpaddd xmm0, xmm0, xmm0
        ("c5fd6f07", "avx"),  # vmovdqa ymm0, [rdi]
        ("c4e27913c0", "f16c"),  # vcvtph2ps
        ("c4e278f2c0", "bmi1"),  # andn
        ("c4e27bf5c0", "bmi2"),  # pdep
        ("62f17c4858c0", "avx512"),  # vaddps zmm
        ("660f3800c0", "ssse3"),
        ("660f3840c0", "sse4.1"),
        ("660f3837c0", "sse4.2"),
        ("f30fb8c0", "popcnt"),
        ("f3480fb8c0", "popcnt"),
        ("660f38dcc0", "aes"),
        ("f20f7cc0", "sse3"),
        ("0f38f00424", "movbe"),
        ("f20f38f0c0", "sse4.2"),  # crc32
        ("c4e26df8c0", None),  # no instruction has this opcode
        ("4889c3c3", None),  # mov rbx, rax
        ("0f0b9090", None),  # ud2
        ("", None),
    ],
)
def test_instructions_are_called_by_their_set(code: str, name: str | None) -> None:
    assert instruction_set(bytes.fromhex(code)) == name


names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,20}", fullmatch=True)


@given(st.dictionaries(names, st.one_of(st.none(), st.sampled_from(["libx.so.1", "libx.so.2"])), max_size=40))
def test_a_stub_is_read_back_by_another_reader(symbols: dict[str, str | None]) -> None:
    elf = ELFFile(io.BytesIO(stub_library("libx.so.1", symbols)))
    dynamic = next(part for part in elf.iter_segments() if isinstance(part, DynamicSegment))
    assert [getattr(tag, "soname", None) for tag in dynamic.iter_tags("DT_SONAME")] == ["libx.so.1"]
    read = {symbol.name for symbol in dynamic.iter_symbols() if symbol.name}
    assert read == set(symbols)
    assert elf.header.e_machine == "EM_X86_64" and elf.header.e_type == "ET_DYN"


def test_the_hash_is_the_one_of_the_abi() -> None:
    # System V ABI, "Hash Table": the reference function gives these.
    assert elf_hash("") == 0 and elf_hash("printf") == 0x077905A6 and elf_hash("syscall") == 0x0B09985C


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


def target_for(subject: Subject, layout: emulated_layout.EmulatedLayout) -> Target:
    emulator = Emulator(path="/usr/bin/qemu-x86_64", version="7.2", models=("IvyBridge",))
    return emulated_layout.emulated_target(
        emulator, find_cpu("ivybridge"), layout, site=Path("/s"), stubs=Path("/t"), subject=subject,
        stubbed=["libx.so"],
        env={"ATEN_CPU_CAPABILITY": "avx2"},
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="emulation is of Linux machines")
def test_on_an_x86_machine_the_own_python_runs_without_a_root(tmp_path: Path) -> None:
    subject = laid_out(tmp_path)
    layout = emulated_layout.EmulatedLayout(python=Path("/usr/bin/python3.11"), version=(3, 11), root=None)
    target = target_for(subject, layout)
    assert target.command[:3] == ("/usr/bin/qemu-x86_64", "-cpu", "IvyBridge") and "-L" not in target.command
    assert target.command[-1] == "/usr/bin/python3.11" and target.no_import is None
    settings = dict(word.split("=", 1) for word in target.command if "=" in word)
    assert settings["ATEN_CPU_CAPABILITY"] == "avx2" and "PYTHONHOME" not in settings
    assert target.cpu_features is not None and "avx2" in target.cpu_features["lacks"]


def test_a_wheel_for_another_python_is_tried_without_importing_it(tmp_path: Path) -> None:
    root = Root(path=tmp_path, python=tmp_path / "usr/bin/python3.13", version=(3, 13), packages=40)
    target = target_for(
        laid_out(tmp_path), emulated_layout.layout_in(EmulatedPython(path=root.python, version=root.version, root=root))
    )
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
    assert emulated_layout.wanted_dependencies(subject, (3, 11)) == ["filelock", "sympy==1.13.1"]


def test_a_wheel_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "torch-2.6.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch-2.6.0.dist-info/METADATA", "Name: torch\n")
        archive.writestr("../outside.txt", "gotcha")
    (tmp_path / "site").mkdir()
    with pytest.raises(BadInput, match="outside"):
        emulated_layout.unpack(read_subject(path), tmp_path / "site", Quiet())
    assert not (tmp_path / "outside.txt").exists()


@pytest.mark.parametrize("tag", ["cp311-cp311-win_amd64", "cp311-cp311-manylinux2014_i686", "py3-none-any"])
def test_only_code_for_linux_of_two_kinds_can_be_emulated(tmp_path: Path, tag: str) -> None:
    with pytest.raises(BadInput, match="x86-64 or AArch64"):
        emulated_layout.machine_for(laid_out(tmp_path, tag))


@pytest.mark.parametrize("machine", sorted(EMULATED))
def test_the_emulated_machine_is_the_one_the_wheel_is_for(tmp_path: Path, machine: str) -> None:
    subject = laid_out(tmp_path, f"cp311-cp311-manylinux_2_28_{machine}")
    assert emulated_layout.machine_for(subject) is EMULATED[machine]


def test_each_kind_has_its_own_cpus_and_a_name_of_the_other_is_told() -> None:
    small, large = find_cpu("Cortex-A72", emulated=ARM), find_cpu("neoverse n1", emulated=ARM)
    assert (small.model, large.model) == ("cortex-a72", "neoverse-n1")
    assert small.lacks is not None and large.has is not None
    assert "atomics" in small.lacks and "atomics" in large.has
    assert (small.has or set()) | small.lacks == set(PROBED_ARM)
    for name, emulated, words in (("cortex-a72", X86, "no x86-64 CPU"), ("nehalem", ARM, "no AArch64 CPU")):
        with pytest.raises(BadInput, match=words):
            find_cpu(name, emulated=emulated)
    assert [machine_of_cpu(name) for name in ("cortex-a72", "A64FX", "nehalem", "no such")] == [ARM, ARM, X86, X86]


def test_a_stand_in_is_for_the_machine_of_the_wheel() -> None:
    for emulated in (X86, ARM):
        made = ELFFile(io.BytesIO(stub_library("libcuda.so.1", {"cuInit": None}, emulated)))
        assert made["e_machine"] == {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[emulated.machine]
        segments = [one for one in made.iter_segments() if one["p_type"] == "PT_LOAD"]
        assert all(one["p_vaddr"] % one["p_align"] == one["p_offset"] % one["p_align"] for one in segments)


def test_the_probed_instructions_are_what_they_are_called() -> None:
    """Each AArch64 probe, read by another reader: the instruction named beside it."""
    capstone = pytest.importorskip("capstone")
    text = (CHECKS / "check_cpu.py").read_text(encoding="utf-8")
    rows = re.findall(r'\("(\w+)", \d+, "([0-9a-f]{8})"\),  # (\w+)', text)

    assert {name for name, _, _ in rows} == set(PROBED_ARM)
    reader = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    for _, code, word in rows:
        assert next(reader.disasm(bytes.fromhex(code), 0)).mnemonic == word


@pytest.mark.parametrize(
    ("name", "serves"),
    [
        ("libcuda.so.1", True),
        ("libcudart.so.12", True),
        ("libcublasLt.so.11", True),
        ("libcudnn.so.9", True),
        ("libnvrtc.so.12", True),
        ("libnccl.so.2", True),
        ("libamdhip64.so.6", True),
        ("libhsa-runtime64.so.1", True),
        ("libMIOpen.so.1", True),
        ("libze_loader.so.1", True),
        ("libcurl.so.4", False),
        ("libopenblas.so.0", False),
        ("libtorch_cpu.so", False),
        ("libspark_core.so", False),
        ("libgomp.so.1", False),
        ("libmpi.so.40", False),
    ],
)
def test_only_what_serves_a_gpu_gets_a_stand_in(name: str, serves: bool) -> None:
    assert serves_gpu(name) == serves


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
