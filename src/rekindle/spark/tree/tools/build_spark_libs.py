"""Runs CMake and the native build tool, as setup.py asks."""
import os
import platform
import subprocess
import sys
import sysconfig

from distutils import msvccompiler

PREFIXES = ("BUILD_", "USE_", "CMAKE_", "SPARK_")


def architecture():
    if sys.platform == "win32":
        return msvccompiler.get_build_architecture()
    return platform.machine()


def cmake_definitions(version):
    """Environment variables with our prefixes become -D settings; nothing else reaches CMake."""
    definitions = {
        "CMAKE_BUILD_TYPE": "Release",
        "SPARK_VERSION": version,
        "PYTHON_EXECUTABLE": sys.executable,
        "PYTHON_INCLUDE_DIR": sysconfig.get_paths()["include"],
    }
    for name, value in os.environ.items():
        if name.startswith(PREFIXES) and name not in ("CMAKE_PREFIX_PATH", "CMAKE_GENERATOR", "SPARK_BUILD_VERSION"):
            definitions[name] = value
    return definitions


def build(root, version, cmake_only):
    build_dir = os.path.join(root, "build")
    if not os.path.isdir(build_dir):
        os.makedirs(build_dir)
    cmake = os.environ.get("CMAKE_COMMAND", "cmake")
    configure = [cmake, "-GNinja", "-DCMAKE_INSTALL_PREFIX=" + os.path.join(root, "spark")]
    configure += ["-D%s=%s" % item for item in sorted(cmake_definitions(version).items())]
    configure.append(root)
    print("Building spark %s for %s" % (version, architecture()))
    subprocess.check_call(configure, cwd=build_dir)
    if cmake_only:
        return
    command = [cmake, "--build", ".", "--target", "install", "--config", "Release"]
    if os.environ.get("MAX_JOBS"):
        command += ["--", "-j", os.environ["MAX_JOBS"]]
    subprocess.check_call(command, cwd=build_dir)
