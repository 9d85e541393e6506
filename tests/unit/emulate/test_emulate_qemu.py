"""The emulator on PATH: found, asked, and turned into a command; on a machine that answers as qemu 7.2 does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.emulate.qemu import ARM, X86, EmulatedMachine, Emulator, choose_cpu, find_emulated_cpu, find_emulator
from rekindle.errors import BadInput, MissingTool
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed

LISTED = {
    "qemu-x86_64": "Available CPUs:\nx86 Haswell   (alias)\nx86 IvyBridge  Intel\nx86 \n\nRecognized flags:\n  aes\n",
    "qemu-aarch64": "Available CPUs:\n  a64fx\n  cortex-a72\n\n",
}


class WithQemu(BareHost):
    """``name`` is the program that is there, ``version`` what it says first."""

    def __init__(self, name: str, version: str = "qemu-x86_64 version 7.2.22 (Debian 1:7.2)\nCopyright\n") -> None:
        super().__init__()
        self.name, self.version = name, version

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name == self.name else None

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        listed = LISTED[self.name.removesuffix("-static")]
        return Completed(argv=tuple(argv), code=0, out=self.version if argv[1] == "--version" else listed)


@pytest.mark.parametrize("name", ["qemu-x86_64", "qemu-x86_64-static"])
def test_the_emulator_says_its_version_and_its_models(name: str) -> None:
    found = find_emulator(WithQemu(name))
    assert found == Emulator(path=f"/usr/bin/{name}", version="7.2.22", models=("Haswell", "IvyBridge"))


def test_the_models_of_aarch64_stand_alone_on_their_lines() -> None:
    found = find_emulator(WithQemu("qemu-aarch64"), ARM)
    assert (found.models, found.emulated) == (("a64fx", "cortex-a72"), ARM)


@pytest.mark.parametrize(
    ("said", "version"), [("", "unknown"), ("qemu version", "unknown"), ("qemu 7.2", "unknown"), ("version 8", "8")]
)
def test_a_version_that_is_not_said_is_unknown(said: str, version: str) -> None:
    assert find_emulator(WithQemu("qemu-x86_64", said)).version == version


def test_elsewhere_than_on_linux_and_without_qemu_the_reason_is_told() -> None:
    with pytest.raises(BadInput, match="needs Linux"):
        find_emulator(BareHost("windows"))
    with pytest.raises(MissingTool, match="qemu-aarch64"):
        find_emulator(WithQemu("qemu-x86_64"), ARM)


def test_the_command_sets_variables_for_the_emulated_program_alone() -> None:
    emulator, cpu = find_emulator(WithQemu("qemu-x86_64")), find_emulated_cpu("Xeon E5 v2")
    start = ["/usr/bin/qemu-x86_64", "-cpu", "IvyBridge"]
    assert emulator.command(cpu, root=None, env={}) == start
    settings = ["-E", "LD_LIBRARY_PATH=/s", "-E", "A=b"]
    said = emulator.command(cpu, root=Path("/r"), env={"LD_LIBRARY_PATH": "/s", "A": "b"})
    assert said == [*start, "-L", str(Path("/r")), *settings]


def test_a_model_that_this_emulator_lacks_is_refused() -> None:
    emulator = find_emulator(WithQemu("qemu-x86_64"))
    assert choose_cpu(emulator, "x86-64-v3").model == "Haswell,-aes"
    assert choose_cpu(emulator, "haswell").emulated is X86
    with pytest.raises(BadInput, match=r"qemu 7\.2\.22 has no model Nehalem for nehalem"):
        choose_cpu(emulator, "i7-920")
    silent = Emulator(path="qemu", version="unknown", models=())
    assert choose_cpu(silent, "i7-920").model == "Nehalem"


def test_a_cpu_that_has_no_model_at_all_is_refused_with_all_that_have() -> None:
    with pytest.raises(BadInput, match="qemu has no model") as error:
        find_emulated_cpu("neoverse_v2", emulated=ARM)
    assert error.value.remedy == "--cpu neoverse_n1 is the nearest that can do no more; known: " + (
        "cortex_a72, neoverse_n1, a64fx"
    )


def test_the_nearest_has_nothing_that_the_cpu_lacks() -> None:
    """Zen 4 has AVX-512, but not all of what Intel's models with it have."""
    with pytest.raises(BadInput, match="known as zen4") as error:
        find_emulated_cpu("Ryzen 9 7950X")
    assert (error.value.remedy or "").startswith("--cpu zen3 ")


@pytest.mark.parametrize("emulated", [X86, ARM], ids=lambda emulated: emulated.machine)
def test_a_machine_knows_whether_it_is_this_one(emulated: EmulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr(LiveHost, "machine", machine)
        assert emulated.is_here == (machine == emulated.machine)
    assert emulated.library_folders(Path("/r"))[0] == Path(f"/r/lib/{emulated.triplet}")
