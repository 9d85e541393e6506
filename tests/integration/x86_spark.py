"""spark compiled for x86-64, also on a machine that is not: the wheel that emulated CPUs are tried with."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import rekindle.spark

VERSION = "0.3.0"
TREE = Path(rekindle.spark.__file__).parent / "tree"
PREFIX = "" if platform.machine() == "x86_64" else "x86_64-linux-gnu-"
COMPILERS = (f"{PREFIX}gcc", f"{PREFIX}g++")


def wheel_for(folder: Path, python: tuple[int, int], **settings: str) -> Path:
    """Configure, compile and pack; ``settings`` are spark's CMake options."""
    build = folder / "build"
    build.mkdir(parents=True)
    definitions = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "x86_64",
        "CMAKE_CXX_COMPILER": COMPILERS[1],
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
        "CMAKE_INSTALL_PREFIX": str(folder / "spark"),
        # Python.h of this Python: the parts spark uses are the same on every 64-bit Linux.
        "PYTHON_INCLUDE_DIR": sysconfig.get_paths()["include"],
        "PYTHON_EXECUTABLE": sys.executable,
        "SPARK_VERSION": VERSION,
        "SPARK_OPS": "2",
        "USE_HEAVY": "OFF",
        **settings,
    }
    arguments = [f"-D{name}={value}" for name, value in definitions.items()]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for argv in (["cmake", "-GNinja", *arguments, str(TREE)], ["cmake", "--build", ".", "--target", "install"]):
        done = subprocess.run(argv, cwd=build, env={**os.environ, "PATH": path}, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    include = f"-I{sysconfig.get_paths()['include']}"
    stub = [COMPILERS[0], "-shared", "-fPIC", "-O2", include, "-o", str(folder / "spark" / "_C.so")]
    link = [f"-L{folder / 'spark' / 'lib'}", "-lspark_python", "-Wl,-rpath,$ORIGIN/lib"]
    subprocess.run([*stub, str(TREE / "spark/csrc/python/stub.c"), *link], check=True)
    shutil.copy(TREE / "spark" / "__init__.py", folder / "spark" / "__init__.py")
    (folder / "spark" / "version.py").write_text(f"__version__ = {VERSION!r}\ngit_version = None\ncuda = None\n")
    tag = f"cp{python[0]}{python[1]}"
    wheel = folder / f"spark_miniature-{VERSION}-{tag}-{tag}-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((folder / "spark").rglob("*")):
            if file.is_file():
                archive.write(file, Path("spark") / file.relative_to(folder / "spark"))
        about = f"Metadata-Version: 2.1\nName: spark-miniature\nVersion: {VERSION}\n"
        archive.writestr(f"spark_miniature-{VERSION}.dist-info/METADATA", about)
    return wheel
