"""The question scripts as other Pythons run them: what they say of packages, of a torch, of a driver's library."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import struct
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path
from typing import Any

import pytest

from rekindle.host.live import question_text


def ask(name: str, place: Path | None = None, *words: str, before: str = "", **env: str) -> dict[str, Any]:
    """The script's answer, with the packages in ``place`` before the others; ``before`` runs in its process first."""
    text = f"import sys; sys.path.insert(0, {str(place)!r})\n{before}\n{question_text(name)}" if place else before
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", text or question_text(name), *words],
        capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"], **env},
    )  # fmt: skip
    answer = json.loads(said.stdout.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Two packages: one asked for by its user, one that came along and was edited afterwards."""
    for name, version, notes in (
        ("torch", "2.7.1", {"REQUESTED": "", "INSTALLER": "pip\n", "direct_url.json": '{"url": "https://x/y"}'}),
        ("nvidia_cudnn_cu12", "9.5", {"INSTALLER": "uv", "direct_url.json": "[["}),
    ):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (tmp_path / name).mkdir()
        record = []
        for file in ("__init__.py", "core.py"):
            (tmp_path / name / file).write_text(f"# {name}/{file}\n")
            record.append(f"{name}/{file},sha256={digest((tmp_path / name / file).read_bytes())},9")
        record += [f"{folder.name}/METADATA,sha256=abc,1", f"{name}/core.pyc,sha256=abc,1", f"{folder.name}/RECORD,,"]
        record.append("../../bin/tool,sha256=abc,1")
        (folder / "RECORD").write_text("\n".join(record))
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: {version}\nRequires-Dist: numpy>=1.26\n")
        for note, text in notes.items():
            (folder / note).write_text(text)
    (tmp_path / "torch/version.py").write_text(
        "__version__ = '2.7.1+cu128'\ncuda: Optional[str] = '12.8'\nhip = None\n"
    )
    return tmp_path


def rows(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in answer["packages"]}


def test_packages_with_pip_s_own_notes(packages: Path) -> None:
    answer = ask("packages", packages)
    torch, cudnn = rows(answer)["torch"], rows(answer)["nvidia_cudnn_cu12"]
    assert (torch["version"], torch["asked"], torch["installer"], torch["url"]) == ("2.7.1", True, "pip", "https://x/y")
    assert (cudnn["version"], cudnn["asked"], cudnn["installer"], cudnn["url"]) == ("9.5", False, "uv", None)
    assert torch["requires"] == ["numpy>=1.26"] and Path(torch["folder"]) == packages
    assert torch["edited"] == [] and torch["contents"] != cudnn["contents"]
    date = (packages / "torch-2.7.1.dist-info/INSTALLER").stat().st_mtime
    assert torch["when"] == pytest.approx(date)
    assert answer["torch"] == {"__version__": "2.7.1+cu128", "cuda": "12.8", "hip": None}


def test_files_that_differ_from_what_was_installed_are_named(packages: Path) -> None:
    before = rows(ask("packages", packages, "digests=torch,numpy"))
    assert before["torch"]["edited"] == []
    (packages / "torch/core.py").write_text("# other\n")
    (packages / "nvidia_cudnn_cu12/core.py").unlink()
    unread = rows(ask("packages", packages))
    after = rows(ask("packages", packages, "digests=torch,nvidia_cudnn_cu12"))
    assert unread["torch"]["edited"] == [], "only packages that were named are read"
    assert after["torch"]["edited"] == ["torch/core.py"]
    assert after["nvidia_cudnn_cu12"]["edited"] == ["nvidia_cudnn_cu12/core.py"]
    assert before["torch"]["contents"] == unread["torch"]["contents"] != after["torch"]["contents"]


def test_what_the_wheel_brought_is_the_same_whoever_installed_it(packages: Path) -> None:
    first = rows(ask("packages", packages))["torch"]
    record = packages / "torch-2.7.1.dist-info/RECORD"
    record.write_text(record.read_text().replace("sha256=abc", "sha256=def"))
    second = rows(ask("packages", packages))["torch"]
    assert first["contents"] == second["contents"] and first["record"] != second["record"]
    record.unlink()
    assert rows(ask("packages", packages))["torch"]["contents"] == ""


def test_the_files_of_a_torch_have_one_digest(packages: Path) -> None:
    def files() -> str:
        return str(ask("packages", packages, "files")["torch"]["files"])

    first = files()
    (packages / "torch/__pycache__").mkdir()
    (packages / "torch/__pycache__/x.pyc").write_text("made by running it")
    assert files() == first
    (packages / "torch/core.py").write_text("longer than it was")
    assert files() != first


def test_without_a_torch_there_is_nothing_to_say_of_it(tmp_path: Path) -> None:
    assert ask("packages", tmp_path)["torch"] is None
    (tmp_path / "torch.py").write_text("")
    assert ask("packages", tmp_path)["torch"] is None, "a file of that name is no package"


def test_a_python_about_itself(packages: Path) -> None:
    for name in ("requests-2.0", "rocm_sdk-6.4", "Torchvision-0.22-py3.11", "numpy"):
        (packages / f"{name}.egg-info").mkdir()
    (packages / "torchaudio-2.7.txt").write_text("")
    answer = ask("python", packages)
    assert answer["version"] == ".".join(map(str, sys.version_info[:3])) and answer["executable"]
    assert answer["bits"] == (64 if sys.maxsize > 2**32 else 32) and answer["gil_disabled"] is False
    found = {name: row["version"] for name, row in answer["packages"].items()}
    assert found == {"torch": "2.7.1", "nvidia_cudnn_cu12": "9.5", "rocm_sdk": "6.4", "torchvision": "0.22"}
    assert answer["packages"]["torch"]["path"] == str(packages)
    assert answer["headers"] == Path(answer["include"], "Python.h").is_file()


@pytest.mark.parametrize(
    ("prefix", "base", "managed"), [("/usr", "/usr", True), ("/venv", "/usr", False), ("conda", "conda", False)]
)
def test_only_the_system_s_own_python_is_managed_by_others(
    tmp_path: Path, prefix: str, base: str, managed: bool
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/EXTERNALLY-MANAGED").write_text("")
    (tmp_path / "conda/conda-meta").mkdir(parents=True)
    where = [str(tmp_path / "conda") if word == "conda" else word for word in (prefix, base)]
    before = (
        f"import sys, sysconfig; sysconfig.get_config_vars(); sys.prefix, sys.base_prefix = {where!r}\n"
        f"sysconfig.get_paths = lambda *_, **__: {{'stdlib': {str(tmp_path / 'lib')!r}, 'include': '/none'}}"
    )
    answer = ask("python", tmp_path, before=before)
    assert answer["externally_managed"] is managed and answer["headers"] is False


TORCH = """
__version__ = "2.7.1"
class Number:
    def __init__(self, value): self.value = value
    def __add__(self, other): return Number(self.value + other)
    def sum(self): return self
    def item(self): return 2.0 * self.value
    def add_(self, other): return self
    def cpu(self):
        import os
        if "BROKEN" in os.environ: raise RuntimeError("no kernel image")
def ones(count, device=None): return Number(1)
class version: cuda = CUDA; hip = None
class backends:
    class cudnn:
        version = staticmethod(lambda: 90500)
class cuda:
    is_available = staticmethod(lambda: True)
    init = staticmethod(lambda: None)
    get_arch_list = staticmethod(lambda: ["sm_50"])
    device_count = staticmethod(lambda: 2)
    get_device_name = staticmethod(lambda number: "card %d" % number)
    get_device_capability = staticmethod(lambda number: (5, number))
"""


def test_a_torch_that_is_used(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(TORCH.replace("CUDA", "'12.8'", 1))
    answer = ask("torch", tmp_path, REKINDLE_DEEP="1")
    assert answer["works"] is True and answer["gpu_works"] is True and answer["available"] is True
    assert answer["version"] == "2.7.1" and answer["cudnn"] == 90500 and answer["arch_list"] == ["sm_50"]
    assert answer["devices"] == [{"name": "card 0", "capability": [5, 0]}, {"name": "card 1", "capability": [5, 1]}]
    broken = ask("torch", tmp_path, REKINDLE_DEEP="1", BROKEN="1")
    assert broken["works"] is True and broken["gpu_works"] is False and broken["gpu_error"] == "no kernel image"
    (tmp_path / "torch.py").write_text(TORCH.replace("CUDA", "None", 1))
    assert "gpu_works" not in ask("torch", tmp_path, REKINDLE_DEEP="1"), "a torch for CPUs asks no card"


def test_a_torch_that_is_not_imported_still_names_its_cards(tmp_path: Path) -> None:
    lib = tmp_path / "torch/lib"
    lib.mkdir(parents=True)
    (tmp_path / "torch/version.py").write_text("cuda = '12.8'\n")
    (lib / "libtorch_python.so").write_bytes(b"\0sm_xx\0 other \0sm_50 sm_60 compute_90\0gfx906\0")
    answer = ask("torch", tmp_path)
    assert answer["arch_list"] == ["sm_50", "sm_60", "compute_90"] and answer["works"] is False
    (lib / "libtorch_python.so").write_bytes(b"\0sm_xx\0 other \0gfx\0")
    assert ask("torch", tmp_path)["arch_list"] == []
    (tmp_path / "torch/version.py").write_text("cuda = None\n")
    assert "arch_list" not in ask("torch", tmp_path)
    (lib / "libtorch_cpu.so").write_bytes(b"no library")
    assert ask("torch", tmp_path)["error"].startswith("OSError")


def test_a_torch_in_a_folder_with_a_percent_sign(tmp_path: Path) -> None:
    """What CUDA libraries lie beside it is looked for by a pattern that the folder's name must not become a part of."""
    lib = tmp_path / "100%d mine/torch/lib"
    lib.mkdir(parents=True)
    (lib / "libtorch_cpu.so").write_bytes(b"no library")
    assert ask("torch", tmp_path / "100%d mine")["error"].startswith("OSError")


def test_a_python_2_finds_no_torch_either(tmp_path: Path) -> None:
    """There filter() gives a list, which is no iterator."""
    old = "import builtins; plain = builtins.filter; builtins.filter = lambda *words: list(plain(*words))"
    assert ask("torch", tmp_path, before=old)["error"] == "ImportError: there is no torch/lib in this Python"


def test_no_torch_is_said(tmp_path: Path) -> None:
    answer = ask("torch", tmp_path)
    assert answer["works"] is False and answer["error"] == "ImportError: there is no torch/lib in this Python"


NVML = """
import ctypes
def put(pointer, value): pointer._obj.value = value; return 0
class Error:
    restype = None
    def __call__(self, code): return b"driver mismatch"
class Nvml:
    def nvmlInit_v2(self): return INIT
    nvmlErrorString = Error()
    def nvmlSystemGetDriverVersion(self, buffer, size): buffer.value = b"550.54"; return 0
    def nvmlSystemGetCudaDriverVersion_v2(self, at): return put(at, 12040)
    def nvmlDeviceGetCount_v2(self, at): return put(at, 2)
    def nvmlDeviceGetHandleByIndex_v2(self, index, at): return 15 if index else put(at, 77)
    def nvmlDeviceGetName(self, handle, buffer, size): buffer.value = b"Tesla K40c"; return 0
    def nvmlDeviceGetCudaComputeCapability(self, handle, major, minor): put(major, 3); return put(minor, 5)
    def nvmlDeviceGetMemoryInfo(self, handle, at): at._obj.total = 12 << 30; return 0
    def nvmlDeviceGetPciInfo_v3(self, handle, at):
        at._obj.pci_device_id, at._obj.bus_id = 0x102410DE, b"00000000:0A:00.0"; return 0
    def nvmlDeviceGetDriverModel(self, handle, current, pending): return put(current, 1)
ctypes.CDLL = lambda place: LIBRARY
"""


def test_nvidia_s_library_about_its_cards(tmp_path: Path) -> None:
    answer = ask("nvml", tmp_path, before=NVML.replace("INIT", "0").replace("LIBRARY", "Nvml()"))
    assert (answer["driver"], answer["cuda"]) == ("550.54", "12.4")
    assert answer["devices"] == [
        {
            "index": 0, "name": "Tesla K40c", "compute_capability": "3.5", "memory": 12 << 30, "pci_id": "10de:1024",
            "pci_slot": "00000000:0a:00.0", "driver_model": "TCC",
        },
        {"index": 1, "error": "driver mismatch", "code": 15},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("platform", "places"),
    [
        ("linux", ["libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"]),
        ("win32", ["nvml.dll", r"C:\Program Files\NVIDIA Corporation\NVSMI\nvml.dll"]),
    ],
)
def test_nvidia_s_library_is_looked_for_where_the_system_has_it(
    platform: str, places: list[str], tmp_path: Path
) -> None:
    note = tmp_path / "asked.txt"
    refused = f"import ctypes, sys; sys.platform = {platform!r}\ndef refuse(place):\n"
    refused += f"    open({str(note)!r}, 'a').write(place + '\\n'); raise OSError(place)\nctypes.CDLL = refuse"
    assert ask("nvml", tmp_path, before=refused) == {"missing": True}
    assert note.read_text().splitlines() == places


def test_a_library_that_does_not_start_or_is_not_there(tmp_path: Path) -> None:
    failed = ask("nvml", tmp_path, before=NVML.replace("INIT", "18").replace("LIBRARY", "Nvml()"))
    assert failed == {"error": "driver mismatch", "code": 18}
    refused = "import ctypes\ndef refuse(place): raise OSError(place)\nctypes.CDLL = refuse"
    assert ask("nvml", tmp_path, before=refused) == {"missing": True}


def adopted(tmp_path: Path, argv: list[str], code: int = 1, *, why: str = "kept for the card", **env: str) -> Any:
    """A Python of an adopted environment that ends with ``code``: what it says, and its variables."""
    (tmp_path / "rekindle").mkdir(exist_ok=True)
    note = {"env": {"PIP_CONSTRAINT": "c.txt", "MINE": "theirs"}, "why": why}
    (tmp_path / "rekindle/adopted.json").write_text(json.dumps(note))
    (tmp_path / "torch.py").write_text("class backends:\n    class cudnn: enabled = True\n")
    text = textwrap.dedent(f"""
        import sys; sys.prefix = {str(tmp_path)!r}; sys.orig_argv = {["python", *argv]!r}
        sys.path.insert(0, sys.prefix)
        exec({question_text("adopted")!r})
        import os, torch; print(os.environ["PIP_CONSTRAINT"], os.environ["MINE"], torch.backends.cudnn.enabled)
        sys.exit({code})
    """)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", text],
        capture_output=True,
        text=True,
        env={"MINE": "own", **env},
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def test_an_adopted_environment_sets_its_variables_and_leaves_the_user_s(tmp_path: Path) -> None:
    assert adopted(tmp_path, []).stdout.split() == ["c.txt", "own", "True"]
    assert adopted(tmp_path, [], REKINDLE_CUDNN="off").stdout.split()[-1] == "False"
    assert adopted(tmp_path, [], REKINDLE_CUDNN="on").stdout.split()[-1] == "True"


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["-m", "pip", "install", "x"], True),
        (["/venv/bin/pip3", "install", "x"], True),
        (["/x/pip/__main__.py", "install"], True),
        (["-m", "pip", "list"], False),
        (["-m", "venv", "install"], False),
        (["tool", "a", "b", "pip", "install"], False),
    ],
)
def test_only_a_pip_that_failed_to_install_is_told_why(tmp_path: Path, argv: list[str], told: bool) -> None:
    assert adopted(tmp_path, argv).stderr == ("rekindle: kept for the card\n" if told else "")
    assert adopted(tmp_path, argv, 0).stderr == ""
    assert adopted(tmp_path, argv, why="").stderr == ""


def test_a_python_says_what_it_is_and_what_it_holds(packages: Path) -> None:
    for name in (
        "Torch-2.6.0.egg-info",
        "nvidia_cublas-12.1.dist-info",
        "requests-2.0.dist-info",
        "torchvision.dist-info",
    ):
        (packages / name).mkdir()
    said = ask("python", packages)
    suffix = sysconfig.get_config_var("SOABI") or sysconfig.get_config_var("EXT_SUFFIX")
    assert said["soabi"] == suffix and said["bits"] == struct.calcsize("P") * 8
    assert said["version"] == platform.python_version() and said["machine"] == platform.machine()
    assert said["gil_disabled"] == bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    held = {name: row["version"] for name, row in said["packages"].items() if row["path"] == str(packages)}
    assert held == {"torch": held["torch"], "nvidia_cudnn_cu12": "9.5", "nvidia_cublas": "12.1"}
    assert held["torch"] in ("2.7.1", "2.6.0")
