"""How wrong a right answer may be: from the type that is added up in, not from what happened to pass.

The error of one rounding is at most ``UNIT`` of the value. A sum of ``n`` terms that is added up in a type with the
unit u is off by at most n * u * (the sum of the terms' sizes); the result is then rounded once to its own type.
Which type a release adds up in is looked up here, with where that was read or measured.
"""

from rekindle_checks.framework import numbered

# Half the distance between neighbouring numbers, as a share of the number: 2^-53, 2^-24, 2^-11, 2^-8.
UNIT = {"float64": 2.0 ** -53, "float32": 2.0 ** -24, "float16": 2.0 ** -11, "bfloat16": 2.0 ** -8}
UNIT["complex64"], UNIT["complex128"] = UNIT["float32"], UNIT["float64"]
# A function such as exp is good to a few units in every maths library torch uses (SLEEF promises 1.0 for u10).
FEW = 16


def rounding(name):
    """Relative error allowed to one operation whose result is rounded once: a few units of the type."""
    return (4 if name in ("float16", "bfloat16") else FEW) * UNIT[name]


def accumulates_in(t, name, device):
    """The type in which sums of products of ``name`` are added up.

    GPU: float32 for half and bfloat16 in every release (acc_type in AccumulateType.h). CPU: torch 1.8 to 1.13 add up
    in the type itself; 2.6.0 and 2.13.0 in float32 (measured on AVX-512, AVX2 and without AVX: no error beyond the
    last rounding). What lies between was not measured and gets the wider bound.
    """
    if name not in ("float16", "bfloat16"):
        return {"complex64": "float32", "complex128": "float64"}.get(name, name)
    if device != "cpu" or numbered(str(t.torch().__version__)) >= (2, 6):
        return "float32"
    return name


def summing(t, name, device, terms, largest):
    """Absolute error allowed to a sum of ``terms`` products, besides the rounding of the result.

    ``largest`` is the greatest size a partial sum reaches. In float32 and float64 the sums of these inputs (multiples
    of 1/64 below 2^17) are exact in any order; a few units are left to transforms such as Winograd's. Half types added
    up in float32: n units of float32. Added up in themselves: roundings go up as often as down, so the root of n
    units (0.29 for the 47 products of ops.matmul in bfloat16; 0.08 was measured with 1.8 to 1.13).
    """
    if name not in ("float16", "bfloat16"):
        return rounding(name)
    inner = accumulates_in(t, name, device)
    return (terms ** 0.5 if inner == name else terms) * UNIT[inner] * largest


def factoring(name, size):
    """Error of solving or factoring a matrix of ``size`` rows whose norm is about its size and whose condition is near 1.

    LU, QR, Cholesky and the like are backward stable: the error is a few units of the norm for each row. Measured: 4 %
    of what is allowed on a CPU (2.13.0), 7 % on an H200 (2.11.0).
    """
    return FEW * size * size * UNIT[name]


def variance(t, name, device, count):
    """Relative error of Welford's way over ``count`` numbers.

    Up to 1.13 CUDA combines partial results with a count kept in float32 (WelfordOps<scalar_t, scalar_t, int32_t,
    float, ...> in ReduceMomentKernel.cu), also for float64: each of the log2(count) combinations is off by one unit of
    float32. Measured for a right torch 1.13.1 on an H200: 2.9e-9. From 2.0 on the count has the accumulation type.
    """
    bound = 10 * FEW * UNIT[name]
    if device != "cpu" and numbered(str(t.torch().__version__)) < (2, 0):
        levels = max(1, (count - 1).bit_length())
        return max(bound, levels * UNIT["float32"])
    return bound
