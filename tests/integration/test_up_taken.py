"""``up --wheel``: a torch that is built already; its torchvision fetched, built against it, proven together with it.

The torch is a miniature, so that the way is tried and not the compiler; git serves the sources from a folder. The
checks of a real torch cannot pass on it: they are left out, and what they were asked for is kept.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

import needs
from tiny_wheels import make_wheel

pytestmark = [
    pytest.mark.integration,
    needs.tool("g++", "git", "cmake", "ninja"),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux"),
]
LONG = pytest.mark.skipif(not os.environ.get("REKINDLE_LONG"), reason="three whole runs: a minute (REKINDLE_LONG=1)")
TAG = f"cp{sys.version_info[0]}{sys.version_info[1]}"
EXTENSION = """\
from setuptools import Extension
from setuptools.command.build_ext import build_ext

class BuildExtension(build_ext):
    @classmethod
    def with_options(cls, **_):
        return cls

def CppExtension(name, sources):
    import os, torch
    include = os.path.join(os.path.dirname(torch.__file__), "include")
    return Extension(name, sources, language="c++", include_dirs=[include])

CUDAExtension = CppExtension
"""
SETUP = """\
import os, pathlib, time
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

class Slow(BuildExtension):
    def build_extension(self, ext):
        hold = pathlib.Path(@HOLD@)
        if hold.exists():
            hold.with_name("reached").touch()
            time.sleep(60)
        super().build_extension(ext)

setup(
    name="torchvision", version=os.getenv("BUILD_VERSION") or "0.21.0", packages=["torchvision"], zip_safe=False,
    install_requires=["torch==" + os.environ["PYTORCH_VERSION"]],
    ext_modules=[CppExtension("torchvision._C", ["torchvision/csrc/a.cpp"])], cmdclass={"build_ext": Slow},
)
"""
# Like TORCH_CHECK, it says where it stands.
HEADER = "static const char* where() { return __FILE__; }\n"
MODULE = """\
#include <Python.h>
#include <where.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", where(), -1, nullptr};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
"""
# The command line, with two places at which it can be shot, and without the checks that only a real torch can pass.
DRIVER = """\
import os, signal, sys
from rekindle.journey import from_source, up
from rekindle.cli.main import main
from rekindle.model.verify import VerifyReport

def verify(**asked):
    said = os.environ["SAID"]
    with open(said, "w") as file:
        file.write(repr((asked["companions"], asked["gpu"])))
    return VerifyReport(verdict="proven", passed=1)

def shot(where, call):
    def instead(*args, **more):
        if os.environ.get("SHOT") == where:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **more)
    return instead

up.verify = verify
fetch = from_source.source_fetch
from_source.source_fetch = shot("before the companion", fetch)
up._PlannedUp._installed = shot("after the companion", up._PlannedUp._installed)
raise SystemExit(main(sys.argv[1:]))
"""


class World:
    """A folder with a torch's wheel, a git server's repositories, and nothing else."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hold = root / "hold"
        files = {
            "torch/__init__.py": b"from torch import version\n__version__ = version.__version__\n",
            "torch/version.py": b"__version__ = '2.6.0+rekindle.cpu'\ncuda = None\nhip = None\n",
            "torch/utils/__init__.py": b"",
            "torch/include/where.h": HEADER.encode(),
            "torch/utils/cpp_extension.py": EXTENSION.encode(),
        }
        tag = f"{TAG}-{TAG}-linux_{os.uname().machine}"
        self.torch = make_wheel(root / "night", "torch", "2.6.0+rekindle.cpu", tag=tag, files=files)
        tree = root / "served/pytorch/vision.git"
        for name, text in {
            "version.txt": "0.21.0a0\n",
            "setup.py": SETUP.replace("@HOLD@", repr(str(self.hold))),
            "torchvision/__init__.py": "import torch\nfrom torchvision import _C\n",
            "torchvision/csrc/a.cpp": MODULE,
        }.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"], ["tag", "v0.21.0"]):
            subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=tree, check=True)
        (root / ".gitconfig").write_text(f'[url "file://{root}/served/"]\n\tinsteadOf = https://github.com/\n')

    def start(self, workspace: str = "ws", *words: str, shot: str = "") -> subprocess.Popen[str]:
        env = {**os.environ, "HOME": str(self.root), "SAID": str(self.root / "said"), "SHOT": shot}
        env |= {"XDG_DATA_HOME": str(self.root / "data"), "GIT_CONFIG_GLOBAL": str(self.root / ".gitconfig")}
        told = ["up", "--wheel", str(self.torch), "--offline", "--yes", "--json", "--workspace", workspace]
        told += ["--set", "TORCHVISION_USE_PNG=0", "--set", "TORCHVISION_USE_JPEG=0", "--jobs", "1", *words]
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, *told], cwd=self.root, env=env, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, workspace: str = "ws", *words: str, shot: str = "") -> tuple[int, dict[str, Any]]:
        process = self.start(workspace, *words, shot=shot)
        out, err = process.communicate(timeout=300)
        assert process.returncode in (0, -signal.SIGKILL), err[-3000:]
        return process.returncode, json.loads(out) if out else {}

    def stop_in_compile(self, how: signal.Signals, workspace: str = "ws") -> int:
        self.hold.touch()
        process = self.start(workspace)
        end = time.monotonic() + 200
        while not self.hold.with_name("reached").exists() and time.monotonic() < end and process.poll() is None:
            time.sleep(0.1)
        assert self.hold.with_name("reached").exists(), process.communicate()[1][-3000:]
        (os.killpg if how == signal.SIGKILL else os.kill)(process.pid, how)
        process.communicate(timeout=60)
        self.hold.unlink()
        self.hold.with_name("reached").unlink()
        return process.returncode


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("empty"))


def built(journey: dict[str, Any]) -> dict[str, str | None]:
    return {one["name"]: one.get("wheel_sha256") for one in journey["companions"]}


def statuses(journey: dict[str, Any]) -> dict[str, str]:
    return {leg["name"]: leg["status"] for leg in journey["legs"]}


def test_a_torch_built_before_gets_its_companion_however_often_it_is_cut(world: World) -> None:
    assert world.stop_in_compile(signal.SIGKILL) == -signal.SIGKILL
    code, journey = world.run()
    assert code == 0 and journey["arrived"]
    assert journey["wheel"] == str(world.torch)
    names = "torch 2.6.0 and torchvision 0.21.0 run on this machine: 1 checks passed; torchaudio 2.6.0 was not built: "
    assert journey["verdict"].startswith(names), "what could not be had is said, and the torch is good without it"
    assert statuses(journey)["torchvision"] == "done" and "fetch" not in statuses(journey)
    assert (world.root / "said").read_text() == "(('torchvision',), False)", "proven together, in one environment"
    vision = next(one for one in journey["companions"] if one["name"] == "torchvision")
    with zipfile.ZipFile(vision["wheel"]) as inside:
        metadata = next(name for name in inside.namelist() if name.endswith("METADATA"))
        assert b"Requires-Dist: torch==2.6.0+rekindle.cpu\n" in inside.read(metadata), "exactly this torch"
        library = inside.read(next(name for name in inside.namelist() if name.endswith(".so")))
        assert b"torch/include/where.h" in library and str(world.root).encode() not in library, (
            "names no folder of ours"
        )
    said = subprocess.run([journey["python"], "-c", "import torchvision, torch; print(torch.__version__)"],
                          capture_output=True, text=True)  # fmt: skip
    assert said.stdout.strip() == "2.6.0+rekindle.cpu", said.stderr


@LONG
def test_shot_anywhere_it_yields_the_same_wheels(world: World) -> None:
    shutil.rmtree(world.root / "ws", ignore_errors=True)
    whole = built(world.run("another workspace, untouched")[1])
    assert world.run(shot="before the companion")[0] == -signal.SIGKILL
    assert world.stop_in_compile(signal.SIGINT) == 3
    assert world.stop_in_compile(signal.SIGKILL) == -signal.SIGKILL
    assert world.run(shot="after the companion")[0] == -signal.SIGKILL
    code, journey = world.run()
    assert code == 0 and statuses(journey)["torchvision"] == "kept", "what was done before the shot is not done again"
    assert built(journey) == whole and whole["torchvision"]
    again = world.run()[1]
    assert {statuses(again)[name] for name in ("torchvision", "install", "verify")} == {"kept"}
    assert built(again) == whole
