"""The plan's GPU toolkit against the machine's, and its host compiler against the facts."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import needs
from bare_host import BareHost
from rekindle.build.environment import chosen_cuda, headers_beside_torch
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.interpreters.environment import python_of
from rekindle.model.plan import Plan
from rekindle.readiness.cuda import find_toolkit
from rekindle.toolkits.cuda import cuda_home, every_nvcc, find_nvcc, nvcc_release


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
@needs.posix()
def test_the_toolkit_that_extensions_are_told(host: Toolkits, settings: dict[str, str], home: str | None) -> None:
    assert cuda_home(host, settings) == home


class Several(BareHost):
    """Toolkits by folder, each with its release; ``path`` is what PATH has first, and /usr/bin/nvcc a script."""

    def __init__(self, kits: Mapping[str, str], path: str | None = None, env: Mapping[str, str] | None = None) -> None:
        super().__init__(env=dict(env or {}))
        self.kits, self.path = dict(kits), path

    def which(self, name: str) -> str | None:
        return self.path if name == "nvcc" else f"/usr/bin/{name}"

    def realpath(self, path: str) -> str:
        return path.replace("/usr/local/cuda/", "/usr/local/cuda-13.0/")

    def glob(self, pattern: str) -> tuple[str, ...]:
        files = [*self.kits, *(f"{home}/{name}" for home in self.kits for name in ("bin/nvcc", HEADER))]
        return tuple(sorted(file for file in files if fnmatch.fnmatchcase(file, pattern)))

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        release = self.kits.get(self.realpath(argv[0]).removesuffix("/bin/nvcc"))
        out = f"Cuda compilation tools, release {release}, V{release}.1" if release else "g++ (Debian) 11.3.0"
        return Completed(argv=tuple(argv), code=0, out=out)


FOUR = {
    "/usr": "11.8",
    "/usr/lib/nvidia-cuda-toolkit": "11.8",
    "/usr/local/cuda-9.2": "9.2",
    "/usr/local/cuda-12.4": "12.4",
    "/usr/local/cuda": "13.0",
    "/usr/local/cuda-13.0": "13.0",
}


@needs.posix()
def test_every_toolkit_is_found_once() -> None:
    assert every_nvcc(Several(FOUR, "/usr/bin/nvcc")) == (
        "/usr/local/cuda/bin/nvcc",
        "/usr/bin/nvcc",
        "/usr/local/cuda-12.4/bin/nvcc",
        "/usr/local/cuda-9.2/bin/nvcc",
    ), "the usual one first; the link and Debian's second place are no toolkits of their own"
    assert every_nvcc(Several({})) == ()


@pytest.mark.parametrize(
    ("cuda", "home"),
    [
        ("13.0", "/usr/local/cuda"),
        ("12.4", "/usr/local/cuda-12.4"),
        ("12.4.1", "/usr/local/cuda-12.4"),
        ("11.8", "/usr"),
    ],
)
@pytest.mark.parametrize("env", [{}, {"CUDA_HOME": "/usr/local/cuda-9.2"}], ids=["", "the shell names another"])
@needs.posix()
def test_the_one_that_the_plan_names_is_taken_and_told(cuda: str, home: str, env: dict[str, str]) -> None:
    host = Several(FOUR, "/usr/local/cuda/bin/nvcc", env)
    nvcc = f"{home}/bin/nvcc"
    assert find_nvcc(host, {}, cuda) == nvcc
    assert find_toolkit(host, plan(cuda=cuda), {}, "g++")["nvcc"].endswith(f"({nvcc})")
    told = {"CUDACXX": nvcc, "CUDA_HOME": home, "CUDA_PATH": home, "CUDAToolkit_ROOT": home}
    assert chosen_cuda(host, plan(cuda=cuda), {}) == told


@needs.posix()
def test_none_of_them_is_the_planned_one() -> None:
    with pytest.raises(BadInput, match=r"wants CUDA 12\.6, but /usr/local/cuda/bin/nvcc is 13\.0, .*12\.4.* is 9\.2"):
        find_toolkit(Several(FOUR), plan(cuda="12.6"), {}, "g++")


@needs.posix()
def test_a_single_toolkit_is_told_nothing_unless_named() -> None:
    alone = Several({"/usr": "12.4", "/usr/lib/nvidia-cuda-toolkit": "12.4"}, "/usr/bin/nvcc")
    assert chosen_cuda(alone, plan(cuda="12.4"), {}) == {}
    assert chosen_cuda(Several(FOUR), plan(), {}) == {}, "a build for the CPU"
    named = chosen_cuda(Several(FOUR), plan(cuda="12.4"), {"CUDA_HOME": "/usr/local/cuda-12.4"})
    assert named == {
        "CUDACXX": "/usr/local/cuda-12.4/bin/nvcc",
        "CUDA_PATH": "/usr/local/cuda-12.4",
        "CUDAToolkit_ROOT": "/usr/local/cuda-12.4",
    }, "what the plan names is told by all its names, and wins over its release"
    compiler = {"CMAKE_CUDA_COMPILER": "/usr/local/cuda-9.2/bin/nvcc"}
    assert "CUDACXX" not in chosen_cuda(Several(FOUR), plan(cuda="9.2"), compiler)


REAL = Path("/usr/local/cuda/bin/nvcc")


@pytest.mark.skipif(not REAL.exists(), reason="no nvcc in /usr/local/cuda")
@needs.posix()
def test_a_real_nvcc_beside_another(tmp_path: Path) -> None:
    """CMake itself takes the nvcc that we choose, not the first that it would find."""
    live = LiveHost()
    release = nvcc_release(live, str(REAL))
    assert release is not None
    other = tmp_path / "cuda-1.0/bin/nvcc"
    other.parent.mkdir(parents=True)
    other.write_text("#!/bin/sh\necho 'release 1.0, V1.0.1'\n")
    other.chmod(0o755)

    class Two(LiveHost):
        env: Mapping[str, str] = {**os.environ, "CUDA_HOME": str(tmp_path / "cuda-1.0")}

        def which(self, name: str) -> str | None:
            return str(other) if name == "nvcc" else super().which(name)

    host = Two()
    assert every_nvcc(host)[0] == str(other)
    assert chosen_cuda(host, plan(cuda="1.0"), {})["CUDACXX"] == str(other)
    told = chosen_cuda(host, plan(cuda=release), {})
    assert Path(told["CUDACXX"]).resolve() == REAL.resolve()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nset(CMAKE_CUDA_COMPILER_WORKS 1)\n"
        "project(p LANGUAGES CUDA)\nfind_program(at nvcc PATHS ENV CUDA_PATH PATH_SUFFIXES bin NO_DEFAULT_PATH)\n"
        'message(STATUS "taken ${CMAKE_CUDA_COMPILER} ${at}")\n'
    )
    env = {**host.env, **told, "PATH": f"{other.parent}{os.pathsep}{os.environ['PATH']}"}
    argv = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "b"), "-DCMAKE_CUDA_ARCHITECTURES=75"]
    said = subprocess.run(argv, env=env, text=True, capture_output=True, check=False)
    assert f"taken {told['CUDACXX']} {told['CUDACXX']}" in said.stdout, said.stdout + said.stderr


@needs.posix()
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
