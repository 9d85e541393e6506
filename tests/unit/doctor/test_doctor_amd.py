"""AMD's cards as the kernel and rocminfo describe them, and which ROCm or CUDA an installed torch is for."""

from __future__ import annotations

import pytest

from rekindle.doctor import amd
from rekindle.doctor.pythons import code_of
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Completed
from rekindle.model.machine import InstalledTorch, Machine, Os


def test_only_a_card_s_own_memory_counts_as_its_memory() -> None:
    banks = "/sys/class/kfd/kfd/topology/nodes/1/mem_banks"
    files = {
        f"{banks}/0/properties": b"heap_type 1\nsize_in_bytes 4294967296\n",
        f"{banks}/1/properties": b"heap_type 2\nsize_in_bytes 4294967296\n",
        f"{banks}/2/properties": b"heap_type 0\nsize_in_bytes 8589934592\n",
        f"{banks}/3/properties": b"heap_type 1\nsize_in_bytes none\n",
    }
    record = Record(files=dict(files), paths=dict.fromkeys(files), system="linux", machine="x86_64")
    properties = "/sys/class/kfd/kfd/topology/nodes/1/properties"
    assert amd._bank_memory(Asking(RecordedHost(record)), properties) == 8.0
    assert amd._bank_memory(Asking(RecordedHost(Record(system="linux", machine="x86_64"))), properties) is None


ROCMINFO = """ROCk module is loaded
*******
Agent 1
*******
  Name:                    AMD Ryzen
  Device Type:             CPU
*******
Agent 2
*******
  Name:                    gfx1031
  Marketing Name:          AMD Radeon RX 6700 XT
  Device Type:             GPU
  Chip ID:                 29663(0x73df)
  Pool Info:
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    12566528(0xbfc000) KB
"""


@pytest.mark.parametrize(
    ("done", "cards", "gaps"),
    [
        (Completed(argv=("/opt/rocm/bin/rocminfo",), code=0, out=ROCMINFO), 1, []),
        (Completed(argv=("/opt/rocm/bin/rocminfo",), code=1, err="no /dev/kfd\n"), 0, ["no /dev/kfd"]),
        (Completed(argv=("/opt/rocm/bin/rocminfo",), code=3), 0, ["exit 3"]),
        (Completed(argv=("/opt/rocm/bin/rocminfo",), timed_out=True), 0, ["it did not answer in time"]),
    ],
)
def test_rocminfo_about_its_cards(done: Completed, cards: int, gaps: list[str]) -> None:
    host = Asking(RecordedHost(Record(runs=[done], system="linux", machine="x86_64")))
    found = amd._ask_rocminfo(host)
    assert len(found) == cards and [gap.why for gap in host.gaps] == gaps
    for card in found:
        assert (card.name, str(card.arch), card.pci_id) == ("AMD Radeon RX 6700 XT", "gfx1031", "1002:73df")
        assert card.memory_gib == pytest.approx(12.0, abs=0.1)


@pytest.mark.parametrize(
    ("torch", "cuda", "rocm"),
    [
        (InstalledTorch(version="2.6.0+rocm6.2.4", python="p", rocm="6.2"), None, "6.2"),
        (InstalledTorch(version="2.6.0+rocm6.2.4", python="p"), None, "6.2.4"),
        (InstalledTorch(version="2.6.0+cu124", python="p"), "12.4", None),
    ],
)
def test_what_a_torch_says_of_itself_comes_before_the_table(
    torch: InstalledTorch, cuda: str | None, rocm: str | None
) -> None:
    machine = Machine(os=Os(system="linux", arch="x86_64"))
    code = code_of(machine, torch)
    assert (code.cuda, code.rocm) == (cuda, rocm)
