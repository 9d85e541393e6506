"""The miniature's checks through its Python face."""

from rekindle_checks.check_core_spark import FLOATS, ILLEGAL, OTHERS, bit_sum
from rekindle_checks.framework import Absent, Untried, check, planned_settings

CAPABILITIES = ("DEFAULT", "AVX2", "AVX512", "ASIMD", "SVE")


@check("version", package="spark", level="smoke", remedy="rebuild: the wheel is not the one the plan describes")
def version(t, spark):
    want = t.plan.get("version")
    if want:
        t.equal(spark.__version__, want, "version")
    return spark.__version__ + (" as planned" if want else "")


@check("settings", package="spark", level="smoke", remedy="rebuild with the plan's settings")
def settings(t, spark):
    text = spark.config()
    _, agreed = planned_settings(t, text)
    t.ensure("BUILD_TYPE=" in text, "config() names no build type")
    return " ".join(text.split()) + ("; %d settings as planned" % agreed if agreed else "")


@check("capability", package="spark", level="smoke")
def capability(t, spark):
    name = spark.cpu_capability()
    t.ensure(name in CAPABILITIES, "unknown capability %r" % name)
    return name


@check("axpy", package="spark", level="smoke", remedy=ILLEGAL)
def axpy(t, spark):
    want = [1.5 * x + y for x, y in zip(FLOATS, OTHERS)]
    t.close(spark.axpy(1.5, FLOATS, OTHERS), want, rtol=0.0, atol=1e-12)
    return "%d elements, exact" % len(want)


@check("dot", package="spark", level="smoke", remedy=ILLEGAL)
def dot(t, spark):
    got = spark.dot(FLOATS, OTHERS)
    t.close(got, sum(x * y for x, y in zip(FLOATS, OTHERS)), rtol=1e-12, atol=1e-12)
    return "%.6g" % got


@check("checksum", package="spark", level="smoke", remedy=ILLEGAL)
def checksum(t, spark):
    t.equal(spark.checksum(FLOATS), bit_sum(FLOATS), "checksum")
    return "%d bit patterns" % len(FLOATS)


@check("operators", package="spark", level="full")
def operators(t, spark):
    count = spark.op_count()
    t.ensure(count > 0, "no generated operators")
    for which in range(count):
        t.step("operator %d" % which)
        value = spark.apply_op(which, 1.5)
        t.ensure(value == value, "operator %d gives NaN" % which)
    return "%d operators" % count


@check("errors", package="spark", level="full")
def errors(t, spark):
    try:
        spark.dot([1.0], [1.0, 2.0])
    except ValueError:
        return "a length mismatch is a ValueError"
    t.ensure(False, "vectors of different length were accepted")


@check("cuda", package="spark", level="smoke", remedy="rekindle plan names the architectures this GPU needs")
def cuda(t, spark):
    if not spark.cuda_arch_list():
        raise Absent("built without CUDA")
    if not spark.cuda_available():
        raise Untried("built for %s; no GPU here" % " ".join(spark.cuda_arch_list()))
    want = [0.25 * x + y for x, y in zip(FLOATS, OTHERS)]
    t.close(spark.cuda_axpy(0.25, FLOATS, OTHERS), want, rtol=0.0, atol=1e-12)
    return "axpy on the GPU, exact"
