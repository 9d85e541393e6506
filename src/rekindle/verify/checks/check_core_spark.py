"""spark's C functions through ctypes, before spark is imported: needs no matching Python, only the library."""

import ctypes
import struct

from rekindle_checks.framework import check
from rekindle_checks.library import load_library

LIBRARY = "lib/libspark_core.so"
ILLEGAL = "the library uses instructions this CPU lacks outside dispatched code; build with flags for this CPU"
FLOATS = [((7 * i) % 23 - 11) / 8.0 for i in range(67)]
OTHERS = [((5 * i) % 19 - 9) / 4.0 for i in range(67)]


def array(values):
    return (ctypes.c_float * len(values))(*values)


def bit_sum(values):
    """The sum of the values' float32 bit patterns: what checksum() promises."""
    return sum(struct.unpack("<%dI" % len(values), struct.pack("<%df" % len(values), *values)))


@check("core.axpy", package="spark", level="smoke", scope="bare", remedy=ILLEGAL)
def axpy(t):
    library = load_library(t, LIBRARY)
    size = len(FLOATS)
    out = (ctypes.c_float * size)()
    library.spark_axpy(ctypes.c_float(0.5), array(FLOATS), array(OTHERS), out, ctypes.c_size_t(size))
    # Every value is a small multiple of 1/16: float32 holds the exact answer.
    t.close(list(out), [0.5 * x + y for x, y in zip(FLOATS, OTHERS)], rtol=0.0, atol=1e-12)
    return "%d elements, exact" % size


@check("core.dot", package="spark", level="smoke", scope="bare", remedy=ILLEGAL)
def dot(t):
    library = load_library(t, LIBRARY)
    library.spark_dot.restype = ctypes.c_double
    got = library.spark_dot(array(FLOATS), array(OTHERS), ctypes.c_size_t(len(FLOATS)))
    t.close(got, sum(x * y for x, y in zip(FLOATS, OTHERS)), rtol=1e-12, atol=1e-12)
    return "%.6g" % got


@check("core.checksum", package="spark", level="smoke", scope="bare", remedy=ILLEGAL)
def checksum(t):
    library = load_library(t, LIBRARY)
    library.spark_checksum.restype = ctypes.c_uint64
    got = library.spark_checksum(array(FLOATS), ctypes.c_size_t(len(FLOATS)))
    t.equal(got, bit_sum(FLOATS), "checksum")
    return str(got)


@check("core.capability", package="spark", level="smoke", scope="bare")
def capability(t):
    library = load_library(t, LIBRARY)
    library.spark_cpu_capability.restype = ctypes.c_char_p
    return library.spark_cpu_capability().decode("ascii")
