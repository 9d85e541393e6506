"""The plan's GPU toolkit against the machine's, and its host compiler against the facts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.build.toolkits import check_toolkit, cuda_home, headers_beside_torch
from rekindle.errors import BadInput, MissingTool
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.host.venv import python_of
from rekindle.model.plan import Plan


class Machine(BareHost):
    def __init__(self, **says: str) -> None:
        super().__init__()
        self.says = says

    def which(self, name: str) -> str | None:
        return f"/bin/{name}" if name in self.says else None

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        text = self.says.get(argv[0].rsplit("/", 1)[-1])
        return Completed(argv=tuple(argv), code=None if text is None else 0, out=text or "")


NVCC = "Cuda compilation tools, release 11.8, V11.8.89"


def plan(**how: str) -> Plan:
    return Plan(answer="build", **how)  # type: ignore[arg-type]


def test_a_cpu_build_needs_none() -> None:
    assert check_toolkit(Machine(), plan(), {}, "g++") == {}


def test_missing_toolkits() -> None:
    with pytest.raises(MissingTool, match=r"wants CUDA 11\.8, but there is no nvcc"):
        check_toolkit(Machine(), plan(cuda="11.8"), {}, "g++")
    with pytest.raises(MissingTool, match=r"wants ROCm 6\.2, but there is no hipcc"):
        check_toolkit(Machine(), plan(rocm="6.2"), {}, "g++")


def test_another_toolkit() -> None:
    with pytest.raises(BadInput, match=r"wants CUDA 12\.1, but /bin/nvcc is 11\.8"):
        check_toolkit(Machine(nvcc=NVCC), plan(cuda="12.1"), {}, "g++")


def test_a_compiler_too_new_for_the_toolkit() -> None:
    machine = Machine(nvcc=NVCC, **{"g++": "g++ (Debian) 12.2.0", "g++-11": "g++-11 (Debian) 11.3.0"})
    with pytest.raises(BadInput, match=r"CUDA 11\.8 cannot use gcc 12\.2 .*; it takes gcc 6 to 11") as refused:
        check_toolkit(machine, plan(cuda="11.8"), {}, "/usr/bin/g++")
    assert refused.value.remedy == "the same command with --set CUDAHOSTCXX=g++-11", "the newest it takes is here"
    bare = Machine(**{"nvcc": NVCC, "g++": "g++ (Debian) 12.2.0", "apt-get": ""})
    with pytest.raises(BadInput) as refused:
        check_toolkit(bare, plan(cuda="11.8"), {}, "/usr/bin/g++")
    line, _, then = (refused.value.remedy or "").partition("   # then ")
    assert line.endswith("apt-get install -y --no-install-recommends g++-11"), "a line to paste, not a circle"
    assert then == "the same command with --set CUDAHOSTCXX=g++-11"
    assert (
        "11.8"
        in check_toolkit(machine, plan(cuda="11.8.0"), {"CUDAHOSTCXX": "/usr/bin/g++-11"}, "/usr/bin/g++")["nvcc"]
    )


class Toolkits(Machine):
    """``files`` are there; /bin/nvcc is a link to the first toolkit."""

    def __init__(self, *files: str, real: str = "/bin/nvcc") -> None:
        super().__init__(nvcc=NVCC)
        self.files, self.real = files, real

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(name for name in self.files if name == pattern)

    def realpath(self, path: str) -> str:
        return self.real if path == "/bin/nvcc" else path


HEADER = "include/cuda_runtime.h"


@pytest.mark.parametrize(
    ("host", "settings", "home"),
    [
        (Toolkits("/usr/local/cuda/bin/nvcc", f"/usr/local/cuda/{HEADER}"), {}, "/usr/local/cuda"),
        (Toolkits("/opt/c/bin/nvcc", f"/opt/c/{HEADER}"), {"CUDA_HOME": "/opt/c"}, "/opt/c"),
        (Toolkits(f"/opt/d/{HEADER}", real="/opt/d/bin/nvcc"), {}, "/opt/d"),
        (Toolkits(f"/{HEADER}"), {}, "/"),
        (Toolkits(), {}, None),
    ],
    ids=["usual place", "as planned", "link on PATH", "packaged by the system", "nvcc without headers"],
)
def test_the_toolkit_that_extensions_are_told(host: Toolkits, settings: dict[str, str], home: str | None) -> None:
    assert cuda_home(host, settings) == home


def test_headers_that_came_with_torch(tmp_path: Path) -> None:
    """A toolkit of the compiler alone; what lies beside torch has the rest. Asked of a real Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = python_of(tmp_path / "env")
    home = tmp_path / "cuda"
    (home / "include").mkdir(parents=True)
    host = LiveHost()
    assert headers_beside_torch(host, str(python), str(home)) == (), "no packages: nothing is made up"
    site = next((tmp_path / "env").rglob("site-packages"))
    for folder, names in (("cu13", ("cusparse.h", "cublas_v2.h", "cublasLt.h", "cusolverDn.h")), ("nccl", ("nccl.h",))):
        (site / "nvidia" / folder / "include").mkdir(parents=True)
        for name in names:
            (site / "nvidia" / folder / "include" / name).touch()
    beside = (str(site / "nvidia" / "cu13" / "include"),)
    assert headers_beside_torch(host, str(python), str(home)) == beside
    for name in ("cublas_v2.h", "cublasLt.h", "cusolverDn.h"):
        (home / "include" / name).touch()
    assert headers_beside_torch(host, str(python), str(home)) == beside, "one is still missing"
    (home / "include" / "cusparse.h").touch()
    assert headers_beside_torch(host, str(python), str(home)) == ()
