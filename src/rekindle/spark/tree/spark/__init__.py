"""spark: a few numbers, computed the way PyTorch computes many."""
import os
import sys

if sys.platform == "win32":
    os.add_dll_directory(os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from spark import _C  # noqa: E402
from spark.version import __version__, cuda, git_version  # noqa: E402,F401

axpy = _C.axpy
dot = _C.dot
checksum = _C.checksum
apply_op = _C.apply_op
op_count = _C.op_count
ember = _C.ember
config = _C.config
cpu_capability = _C.cpu_capability
cuda_axpy = _C.cuda_axpy


def cuda_available():
    return _C.cuda_devices() > 0


def cuda_arch_list():
    return _C.cuda_arch_list().replace(";", " ").split()
