# Environment variables that matter:
#   USE_CUDA, USE_DISPATCH, USE_HEAVY, BUILD_PYTHON ...   forwarded to CMake (as is everything that begins with
#   BUILD_, USE_, CMAKE_ or SPARK_)
#   SPARK_CUDA_ARCH_LIST       architectures such as "8.6;9.0+PTX"
#   SPARK_BUILD_VERSION        the version to write into the wheel
#   MAX_JOBS                   how many compilers at once
#   CMAKE_ONLY=1               stop after configure
import os
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, ROOT)

from tools import build_spark_libs  # noqa: E402


def read_version():
    with open(os.path.join(ROOT, "version.txt")) as file:
        return os.environ.get("SPARK_BUILD_VERSION") or file.read().strip()


def write_version(version):
    cuda = os.environ.get("USE_CUDA", "0").upper() in ("1", "ON", "YES", "TRUE", "Y")
    text = "__version__ = %r\ngit_version = None\ncuda = %r\n" % (
        version, os.environ.get("SPARK_CUDA_VERSION") if cuda else None)
    path = os.path.join(ROOT, "spark", "version.py")
    if not os.path.exists(path) or open(path).read() != text:
        with open(path, "w") as file:
            file.write(text)


class LibrariesFirst(build_py):
    """The libraries lie inside the package, so they must be there before the package is collected."""

    def run(self):
        build_spark_libs.build(ROOT, VERSION, cmake_only=bool(os.environ.get("CMAKE_ONLY")))
        if os.environ.get("CMAKE_ONLY"):
            print("Finished running cmake. Run 'cmake --build build' to go on.")
            sys.exit()
        build_py.run(self)


class Stub(build_ext):
    def build_extensions(self):
        for extension in self.extensions:
            extension.library_dirs.append(os.path.join(ROOT, "spark", "lib"))
        build_ext.build_extensions(self)


VERSION = read_version()
write_version(VERSION)

link = [] if sys.platform == "win32" else ["-Wl,-rpath,$ORIGIN/lib"]
setup(
    name="spark-miniature",
    version=VERSION,
    description="A miniature that is built the way PyTorch is built",
    packages=find_packages(include=["spark", "spark.*"], exclude=["spark.csrc*"]),
    package_data={"spark": ["lib/*.so", "lib/*.dll", "lib/*.dylib"]},
    ext_modules=[
        Extension("spark._C", ["spark/csrc/python/stub.c"], libraries=["spark_python"], extra_link_args=link)
    ],
    cmdclass={"build_py": LibrariesFirst, "build_ext": Stub},
    python_requires=">=3.6",
    zip_safe=False,
)
