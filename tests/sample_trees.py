"""Small source trees in the manner of real ones, one per front end, written by the tests that build them.

All compile the same two libraries and a module; what differs is who drives CMake (or Ninja) and who makes the wheel.
"""

from __future__ import annotations

from pathlib import Path

CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(ember CXX)
option(USE_SPARKS "Throw sparks" ON)
option(USE_CUDA "CUDA" OFF)
set(EMBER_LEVEL "1" CACHE STRING "How hot")
if(USE_CUDA)
  message(WARNING "Not compiling with CUDA: no toolkit was found. Suppress this warning with -DUSE_CUDA=OFF.")
  set(USE_CUDA OFF)
endif()
if(DEFINED ENV{EMBER_DAMP})
  message(STATUS "USE_SPARKS turned off: the tinder is damp, sparks are not supported")
  set(USE_SPARKS OFF CACHE BOOL "" FORCE)
endif()
find_package(Python COMPONENTS Interpreter Development.Module REQUIRED)
add_subdirectory(csrc)
message(STATUS "******** Summary ********")
message(STATUS "  Build type            : ${CMAKE_BUILD_TYPE}")
message(STATUS "  USE_SPARKS            : ${USE_SPARKS}")
message(STATUS "  USE_CUDA              : ${USE_CUDA}")
message(STATUS "  EMBER_LEVEL           : ${EMBER_LEVEL}")
"""
CSRC = """\
foreach(number RANGE 1 6)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/op${number}.cpp CONTENT
    "#include <map>\\nint op${number}(int x) { std::map<int, int> m; m[1] = x; return m[1] + ${number}; }\\n")
  list(APPEND ops ${CMAKE_CURRENT_BINARY_DIR}/op${number}.cpp)
endforeach()
add_library(ember_core SHARED ${ops})
target_compile_definitions(ember_core PRIVATE EMBER_LEVEL=${EMBER_LEVEL})
Python_add_library(_C MODULE WITH_SOABI module.cpp)
target_link_libraries(_C PRIVATE ember_core)
set_target_properties(_C ember_core PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS _C ember_core LIBRARY DESTINATION @DESTINATION@ RUNTIME DESTINATION @DESTINATION@)
"""
MODULE = """\
#include <Python.h>
int op1(int);
static PyObject* glow(PyObject*, PyObject*) { return PyLong_FromLong(op1(41)); }
static PyMethodDef methods[] = {{"glow", glow, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
"""
SCIKIT = """\
[build-system]
requires = ["scikit-build-core>=1.0"]
build-backend = "scikit_build_core.build"

[project]
name = "ember"
dynamic = ["version"]

[tool.scikit-build]
build-dir = "build"
wheel.packages = ["spark"]

[tool.scikit-build.env]
CMAKE_BUILD_PARALLEL_LEVEL = { env = "MAX_JOBS" }

[[tool.dynamic-metadata]]
provider = { path = "tools", module = "version_provider" }
"""
PROVIDER = """\
import os, pathlib

def dynamic_metadata(settings, project):
    return {"version": os.environ.get("SPARK_BUILD_VERSION") or pathlib.Path("version.txt").read_text().strip()}
"""
PEP517 = """\
[build-system]
requires = ["setuptools>=61", "wheel", "cmake>=3.27", "ninja"]
build-backend = "setuptools.build_meta"
"""
SETUP = """\
import os, pathlib, subprocess, sys
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent
VERSION = os.environ.get("SPARK_BUILD_VERSION") or (ROOT / "version.txt").read_text().strip()


class CMakeFirst(build_ext):
    def run(self):
        build = ROOT / "build"
        build.mkdir(exist_ok=True)
        out = pathlib.Path(self.build_lib).resolve()
        forward = [
            "-D%s=%s" % item for item in os.environ.items() if item[0].startswith(("USE_", "BUILD_", "CMAKE_"))
        ]
        forward += ["-GNinja", "-DPython_EXECUTABLE=" + sys.executable, str(ROOT)]
        subprocess.check_call(["cmake", *forward], cwd=build)
        @STOP@
        jobs = ["-j", os.environ["MAX_JOBS"]] if "MAX_JOBS" in os.environ else []  # as torch's own does
        subprocess.check_call(["cmake", "--build", ".", *jobs], cwd=build)
        subprocess.check_call(["cmake", "--install", ".", "--prefix", str(out)], cwd=build)

    def get_outputs(self):
        return []


setup(
    name="ember", version=VERSION, packages=find_packages(include=["spark"]),
    ext_modules=[Extension("spark._C", [])], cmdclass={"build_ext": CMakeFirst}, zip_safe=False,
)
"""
ONLY = 'if os.environ.get("CMAKE_ONLY"):\n            sys.exit()'


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def _common(destination: str) -> dict[str, str]:
    return {
        "version.txt": "1.4.0\n",
        "CMakeLists.txt": CMAKE,
        "csrc/CMakeLists.txt": CSRC.replace("@DESTINATION@", destination),
        "csrc/module.cpp": MODULE,
        "spark/__init__.py": "from spark._C import glow\n",
    }


def scikit(root: Path) -> Path:
    """scikit-build-core, as torch since 2.14: version by a provider, MAX_JOBS forwarded, setup.py a signpost."""
    shim = 'raise SystemExit("use python -m build")\n'
    files = {"pyproject.toml": SCIKIT, "tools/version_provider.py": PROVIDER, "setup.py": shim}
    return _write(root, {**_common("spark"), **files})


def pep517(root: Path, *, stops: bool = True) -> Path:
    """setuptools' backend over a setup.py that drives CMake, as torch 2.8 to 2.13; ``stops``: knows CMAKE_ONLY."""
    setup = SETUP.replace("@STOP@", ONLY if stops else "pass")
    return _write(root, {**_common("spark"), "setup.py": setup, "pyproject.toml": PEP517})


def old_setup(root: Path) -> Path:
    """setup.py alone, as torch before 2.0."""
    return _write(root, {**_common("spark"), "setup.py": SETUP.replace("@STOP@", ONLY)})


VISION_SETUP = """\
import os
import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension

force = os.getenv("FORCE_CUDA", "0") == "1"
kind = CUDAExtension if force else CppExtension
version = os.getenv("BUILD_VERSION") or open("version.txt").read().strip()
print("building", version, "against", torch.__version__)
setup(
    name="torchvision", version=version, packages=["torchvision"], zip_safe=False,
    ext_modules=[kind("torchvision._C", ["torchvision/csrc/a.cpp", "torchvision/csrc/b.cpp"])],
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)},
)
"""
AUDIO_SETUP = """\
import os
import torch
from setuptools import find_packages, setup
from tools import setup_helpers

version = os.getenv("BUILD_VERSION") or open("version.txt").read().strip()
setup(
    name="torchaudio", version=version, packages=find_packages(where="src"), package_dir={"": "src"},
    ext_modules=setup_helpers.get_ext_modules(), cmdclass={"build_ext": setup_helpers.get_build_ext()}, zip_safe=False,
)
"""
AUDIO_HELPERS = """\
import os
from pathlib import Path
from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension

CSRC = Path(__file__).parent.parent.parent.resolve() / "src" / "libtorchaudio"

def get_build_ext():
    return BuildExtension.with_options(no_python_abi_suffix=False, use_ninja=True)

def get_ext_modules():
    kind = CUDAExtension if os.environ["USE_CUDA"] == "1" else CppExtension
    return [kind(name="torchaudio.lib.libtorchaudio", sources=[CSRC / "a.cpp", CSRC / "b.cpp"])]
"""
# As the real ones do, an operator is registered with torch; against another torch it would not load.
OPERATORS = {
    "a.cpp": '#include <Python.h>\nint b(int);\nextern "C" PyObject* PyInit_@NAME@() {\n'
    '  static PyModuleDef module = {PyModuleDef_HEAD_INIT, "@NAME@", nullptr, b(0) - 1, nullptr};\n'
    "  return PyModule_Create(&module);\n}\n",
    "b.cpp": '#include <c10/util/Exception.h>\nint b(int x) { TORCH_CHECK(x == 0, "no"); return 0; }\n',
}


def _operators(folder: str, name: str) -> dict[str, str]:
    return {f"{folder}/{file}": text.replace("@NAME@", name) for file, text in OPERATORS.items()}


def torchvision(root: Path, version: str) -> Path:
    """setup.py over torch's cpp_extension; pyproject.toml asks for "torch" but names no backend."""
    files = {
        "version.txt": f"{version}\n",
        "setup.py": VISION_SETUP,
        "pyproject.toml": '[build-system]\n\nrequires = ["setuptools", "torch", "wheel"]\n',
        "torchvision/__init__.py": "import torch\nfrom torchvision import _C\n",
    }
    return _write(root, {**files, **_operators("torchvision/csrc", "_C")})


def torchaudio(root: Path, version: str) -> Path:
    """The package in src/, helpers beside setup.py, no pyproject.toml that counts."""
    files = {
        "version.txt": f"{version}\n",
        "setup.py": AUDIO_SETUP,
        "tools/__init__.py": "",
        "tools/setup_helpers/__init__.py": "from .extension import *\n",
        "tools/setup_helpers/extension.py": AUDIO_HELPERS,
        "pyproject.toml": "[tool.black]\nline-length = 120\n",
        "src/torchaudio/__init__.py": "import torch\nfrom torchaudio.lib import libtorchaudio\n",
        "src/torchaudio/lib/__init__.py": "",
    }
    return _write(root, {**files, **_operators("src/libtorchaudio", "libtorchaudio")})
