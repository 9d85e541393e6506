"""Real shared libraries, made here: a management library that answers, fails or hangs, and torches of all kinds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import needs
from rekindle.doctor.examine import examine
from rekindle.doctor.pythons import find_torches, probe_pythons
from rekindle.host.asking import Asking
from rekindle.host.live import LiveHost
from rekindle.model.machine import InstalledTorch

pytestmark = [
    pytest.mark.integration,
    needs.tool("gcc"),
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's loader"),
]

NVML = """
#include <string.h>
#include <unistd.h>
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
typedef struct { unsigned long long total, free, used; } memory_t;
int nvmlInit_v2(void) { %s }
const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "470.256.02", size); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 11040; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    static char cards[2]; *handle = &cards[index]; return index == 1 ? 15 : 0; }
int nvmlDeviceGetName(void *handle, char *text, unsigned size) { strncpy(text, "Tesla K40c", size); return 0; }
int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) { *major = 3; *minor = 5; return 0; }
int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) { memory->total = 12003049472ull; return 0; }
int nvmlDeviceGetPciInfo_v3(void *handle, pci_t *pci) {
    memset(pci, 0, sizeof *pci); pci->id = 0x102410DE; strcpy(pci->bus_id, "00000000:03:00.0"); return 0; }
"""


def library(path: Path, source: str, *arguments: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.with_suffix(".c")
    code.write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", path, code, *arguments], check=True)


def managed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, init: str) -> LiveHost:
    library(tmp_path / "libnvidia-ml.so.1", NVML % init)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    return LiveHost()


def test_the_management_library_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = managed(tmp_path, monkeypatch, "return 0;").nvml(timeout=20)
    assert answer is not None
    assert (answer["driver"], answer["cuda"]) == ("470.256.02", "11.4")
    first, second = answer["devices"]
    assert first["name"] == "Tesla K40c" and first["compute_capability"] == "3.5"
    assert first["pci_id"] == "10de:1024" and first["memory"] == 12003049472
    # A card that fell off the bus is named with its error and does not take the other away.
    assert second["error"] == "Unknown Error"


def test_a_mismatch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = managed(tmp_path, monkeypatch, "return 18;").nvml(timeout=20)
    assert answer == {"error": "Driver/library version mismatch", "code": 18}


def test_a_library_that_hangs_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = managed(tmp_path, monkeypatch, "sleep(60); return 0;").nvml(timeout=1.0)
    assert answer is not None and answer["timed_out"]


def test_a_library_that_crashes_takes_nothing_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = managed(tmp_path, monkeypatch, "*(volatile int *)0 = 1; return 0;").nvml(timeout=20)
    assert answer is not None and answer["exit_code"] == -11


def torch_in(tmp_path: Path, source: str, *arguments: str, version: str = "2.3.1+cu121") -> InstalledTorch:
    """A virtual environment with a torch whose native library is ours, as the doctor finds and tries it."""
    home = tmp_path / "ünï cödé"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    site = next((home / "lib").glob("python*/site-packages"))
    (site / "torch-2.3.1.dist-info").mkdir()
    (site / "torch").mkdir()
    (site / "torch/version.py").write_text(f"__version__ = '{version}'\ncuda: Optional[str] = '12.1'\nhip = None\n")
    (site / "torch/include/ATen").mkdir(parents=True)
    (site / "torch/include/ATen/Config.h").write_text("#define AT_MKL_ENABLED() 1\n#define AT_NNPACK_ENABLED() 0\n")
    library(site / "torch/lib/libtorch_cpu.so", source, *arguments)
    bindings = 'const char *noise = "sm_", *archs = "sm_50 sm_60 sm_90a compute_90";'
    library(site / "torch/lib/libtorch_python.so", bindings)
    asking = Asking(LiveHost(), "test", deadline=float("inf"))
    python = str(home / "bin/python")
    found = find_torches(asking, {python: _about(asking, python)}, try_it=False)
    assert len(found) == 1
    return found[0]


def _about(asking: Asking, python: str):  # type: ignore[no-untyped-def]
    from rekindle.interpreters.search import ask_interpreter

    answer = ask_interpreter(asking, python)
    assert answer.is_environment and answer.packages["torch"].version == "2.3.1"
    return answer


def test_a_torch_that_loads(tmp_path: Path) -> None:
    torch = torch_in(tmp_path, "int at_version(void) { return 1; }")
    assert (torch.version, torch.cuda, torch.works, torch.why) == ("2.3.1+cu121", "12.1", True, None)
    assert torch.archs == ("sm_50", "sm_60", "sm_90a", "compute_90")
    assert torch.built_with == ("mkl",)


def test_a_torch_whose_library_is_missing_says_which(tmp_path: Path) -> None:
    library(tmp_path / "libcudart.so.12", "int cuda(void) { return 1; }", "-Wl,-soname,libcudart.so.12")
    source = "int cuda(void); int at_version(void) { return cuda(); }"
    torch = torch_in(tmp_path, source, str(tmp_path / "libcudart.so.12"))
    assert torch.works is False
    assert "libcudart.so.12: cannot open shared object file" in (torch.why or "")


ILLEGAL = """
__attribute__((constructor)) static void begin(void) {
#ifdef __aarch64__
    __asm__ volatile(".inst 0");
#else
    __asm__ volatile("ud2");
#endif
}
"""


def test_a_torch_for_a_newer_processor_says_so(tmp_path: Path) -> None:
    torch = torch_in(tmp_path, ILLEGAL)
    assert torch.works is False
    assert torch.why == "illegal instruction: it was built for a newer processor"


def test_the_doctor_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_in(tmp_path, "int at_version(void) { return 1; }")
    monkeypatch.setenv("VIRTUAL_ENV", str(Path(torch.python).parents[1]))
    document = examine(LiveHost()).examination
    assert any(found.version == "2.3.1+cu121" for found in document.torches)


def test_pythons_of_this_machine_answer() -> None:
    pythons, answers = probe_pythons(Asking(LiveHost(), "test", deadline=float("inf")))
    assert pythons and set(answers) == {python.path for python in pythons}
    assert all(python.abi and python.kind for python in pythons)
