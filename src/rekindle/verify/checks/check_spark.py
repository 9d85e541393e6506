"""The miniature's checks: through its C functions, which needs no matching Python, then through its Python face."""

import ctypes
import struct

from rekindle_checks.framework import CHECKS, check, load_library, planned_settings

ILLEGAL = "the library uses instructions this CPU lacks outside dispatched code; build with flags for this CPU"
FLOATS = [((7 * i) % 23 - 11) / 8.0 for i in range(67)]
OTHERS = [((5 * i) % 19 - 9) / 4.0 for i in range(67)]
CAPABILITIES = ("DEFAULT", "AVX2", "AVX512", "ASIMD", "SVE")


class _Core(object):
    """The C functions under the names of the Python face."""

    def __init__(self, t):
        self.library = load_library(t, "lib/libspark_core.so")

    def call(self, name, kind, *arguments):
        function = getattr(self.library, name)
        function.restype = kind
        return function(*arguments)

    def axpy(self, a, x, y):
        out = _array([0.0] * len(x))
        self.call("spark_axpy", None, ctypes.c_float(a), _array(x), _array(y), out, ctypes.c_size_t(len(x)))
        return list(out)

    def dot(self, x, y):
        return self.call("spark_dot", ctypes.c_double, _array(x), _array(y), ctypes.c_size_t(len(x)))

    def checksum(self, x):
        return self.call("spark_checksum", ctypes.c_uint64, _array(x), ctypes.c_size_t(len(x)))

    def cpu_capability(self):
        return self.call("spark_cpu_capability", ctypes.c_char_p).decode("ascii")


def _array(values):
    return (ctypes.c_float * len(values))(*values)


def _also_in_c(run):
    """The check that was registered last, of the C functions too and before the import."""
    asked = CHECKS[-1]
    CHECKS.append(asked._replace(id="core." + asked.id, scope="bare", run=lambda t: run(t, _Core(t))))


@check("version", package="spark", level="smoke", remedy="rebuild: the wheel is not the one the plan describes")
def _version(t, spark):
    want = t.plan.get("version")
    if want:
        t.equal(spark.__version__, want, "version")
    return spark.__version__ + (" as planned" if want else "")


@check("settings", package="spark", level="smoke", remedy="rebuild with the plan's settings")
def _settings(t, spark):
    text = spark.config()
    _, agreed = planned_settings(t, text)
    t.ensure("BUILD_TYPE=" in text, "config() names no build type")
    return " ".join(text.split()) + ("; %d settings as planned" % agreed if agreed else "")


@_also_in_c
@check("capability", package="spark", level="smoke")
def _capability(t, spark):
    name = spark.cpu_capability()
    t.ensure(name in CAPABILITIES, "unknown capability %r" % name)
    return name


@_also_in_c
@check("axpy", package="spark", level="smoke", remedy=ILLEGAL)
def _axpy(t, spark):
    # Every value is a small multiple of 1/16: float32 holds the exact answer.
    t.close(spark.axpy(1.5, FLOATS, OTHERS), [1.5 * x + y for x, y in zip(FLOATS, OTHERS)], rtol=0.0, atol=1e-12)
    return "%d elements, exact" % len(FLOATS)


@_also_in_c
@check("dot", package="spark", level="smoke", remedy=ILLEGAL)
def _dot(t, spark):
    got = spark.dot(FLOATS, OTHERS)
    t.close(got, sum(x * y for x, y in zip(FLOATS, OTHERS)), rtol=1e-12, atol=1e-12)
    return "%.6g" % got


@_also_in_c
@check("checksum", package="spark", level="smoke", remedy=ILLEGAL)
def _checksum(t, spark):
    """The sum of the values' float32 bit patterns."""
    count = len(FLOATS)
    want = sum(struct.unpack("<%dI" % count, struct.pack("<%df" % count, *FLOATS)))
    t.equal(spark.checksum(FLOATS), want, "checksum")
    return "%d bit patterns" % count


@check("operators", package="spark", level="full")
def _operators(t, spark):
    count = spark.op_count()
    t.ensure(count > 0, "no generated operators")
    for which in range(count):
        t.step("operator %d" % which)
        value = spark.apply_op(which, 1.5)
        t.ensure(value == value, "operator %d gives NaN" % which)
    return "%d operators" % count


@check("errors", package="spark", level="full")
def _errors(t, spark):
    try:
        spark.dot([1.0], [1.0, 2.0])
    except ValueError:
        return "a length mismatch is a ValueError"
    t.ensure(False, "vectors of different length were accepted")


@check("cuda", package="spark", level="smoke", remedy="rekindle plan names the architectures this GPU needs")
def _cuda(t, spark):
    t.absent_where(not spark.cuda_arch_list(), "built without CUDA")
    t.untried_where(not spark.cuda_available(), "built for %s; no GPU here" % " ".join(spark.cuda_arch_list()))
    want = [0.25 * x + y for x, y in zip(FLOATS, OTHERS)]
    t.close(spark.cuda_axpy(0.25, FLOATS, OTHERS), want, rtol=0.0, atol=1e-12)
    return "axpy on the GPU, exact"
