"""The miniature package in plain Python, good as it is: tests append what is to be wrong with it."""

from __future__ import annotations

GOOD = """
import struct
__version__ = "0.3.0"
def config(): return "spark\\n - BUILD_TYPE=Release\\n - USE_CUDA=OFF"
def cpu_capability(): return "DEFAULT"
def axpy(a, x, y): return [a * u + v for u, v in zip(x, y)]
def dot(x, y):
    if len(x) != len(y): raise ValueError("lengths")
    return sum(u * v for u, v in zip(x, y))
def checksum(x): return sum(struct.unpack("<%dI" % len(x), struct.pack("<%df" % len(x), *x)))
def op_count(): return 3
def apply_op(which, x): return x + which
def cuda_arch_list(): return []
def cuda_available(): return False
"""
