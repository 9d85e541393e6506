"""CPU names and the emulator's models for them: what needs no emulator to be right."""

from __future__ import annotations

import json

import pytest

from rekindle.emulate.qemu import ARM, X86, find_emulated_cpu, machine_of_cpu
from rekindle.errors import BadInput
from rekindle.verify.target import CHECKS


@pytest.mark.parametrize("name", sorted(X86.models))
def test_every_known_cpu_says_what_it_has_and_lacks(name: str) -> None:
    cpu = find_emulated_cpu(name)
    assert cpu.has is not None and cpu.lacks is not None
    assert cpu.has | cpu.lacks == X86.probed and not cpu.has & cpu.lacks


@pytest.mark.parametrize(
    ("asked", "model"),
    [("Xeon E5 v2", "IvyBridge"), ("ivy bridge", "IvyBridge"), ("x86-64-v2", "Nehalem"), ("HASWELL", "Haswell")],
)
def test_people_may_say_it_their_way(asked: str, model: str) -> None:
    assert find_emulated_cpu(asked).model == model


def test_ivy_bridge_has_avx_and_f16c_but_neither_avx2_nor_fma() -> None:
    cpu = find_emulated_cpu("ivybridge")
    assert cpu.has is not None and {"avx", "f16c"} <= cpu.has and cpu.lacks is not None and {"avx2", "fma"} <= cpu.lacks


def test_a_model_only_the_emulator_knows_is_taken_without_promises() -> None:
    assert find_emulated_cpu("Snowridge-v1", ("Snowridge-v1",)).has is None


@pytest.mark.parametrize("asked", ["Snowridge-v1", "snowridge-V1", "  Snowridge-v1\n"])
def test_of_the_emulators_own_models_the_one_of_that_name_is_meant(asked: str) -> None:
    cpu = find_emulated_cpu(asked, ("Haswell-v1", "Snowridge-v1", "Snowridge-v10"))
    assert (cpu.name, cpu.model, cpu.has, cpu.lacks) == ("Snowridge-v1", "Snowridge-v1", None, None)
    for models in ((), ("Haswell-v1", "Snowridge-v10"), ("Snowridge",)):
        with pytest.raises(BadInput) as refused:
            find_emulated_cpu(asked, models)
        assert "Emulated are x86_64, nocona" in (refused.value.remedy or "")


def test_an_unknown_cpu_is_one_line_with_the_nearest() -> None:
    with pytest.raises(BadInput) as error:
        find_emulated_cpu("ivybrige")
    assert "ivybridge" in (error.value.remedy or "")


def test_each_kind_has_its_own_cpus_and_a_name_of_the_other_is_told() -> None:
    small, large = find_emulated_cpu("Cortex-A72", emulated=ARM), find_emulated_cpu("neoverse n1", emulated=ARM)
    assert (small.model, large.model) == ("cortex-a72", "neoverse-n1")
    assert small.lacks is not None and large.has is not None
    assert "atomics" in small.lacks and "atomics" in large.has
    assert (small.has or set()) | small.lacks == ARM.probed
    for name, emulated, words in (("cortex-a72", X86, "no x86-64 CPU"), ("nehalem", ARM, "no AArch64 CPU")):
        with pytest.raises(BadInput, match=words):
            find_emulated_cpu(name, emulated=emulated)
    assert [machine_of_cpu(name) for name in ("cortex-a72", "A64FX", "nehalem", "no such")] == [ARM, ARM, X86, X86]


def test_the_probed_instructions_are_what_they_are_called() -> None:
    """Each probe, read by another reader: the instruction named beside it."""
    capstone = pytest.importorskip("capstone")
    features = json.loads((CHECKS / "features.json").read_text(encoding="utf-8"))
    readers = {
        "x86_64": capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64),
        "aarch64": capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    }

    for emulated in (X86, ARM):
        assert {name for name, *_ in features[emulated.machine]} == emulated.probed
        for _, _, code, words in features[emulated.machine]:
            assert next(readers[emulated.machine].disasm(bytes.fromhex(code), 0)).mnemonic == words.split()[0]
