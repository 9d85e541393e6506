"""Right answers in plain Python (float64, no NumPy, no BLAS, nothing that could share a mistake with torch), and how
wrong a right answer may be: from the type that is added up in, not from what happened to pass.

The inputs are small multiples of 1/8, which every floating-point type down to bfloat16 holds exactly; an error in the
result is then the operation's own. One rounding is off by at most ``UNIT`` of the value; a sum of n terms added up in a
type with the unit u by at most n * u * (the sum of the terms' sizes), and is then rounded once to its own type.
"""

import cmath
import itertools
import math

from rekindle_checks.framework import numbered


def grid(count, seed=0):
    """``count`` numbers between -1.375 and 1.375 in steps of 1/8, in no simple order."""
    return [((7 * (i + seed) + (i + seed) // 5 * 3) % 23 - 11) / 8.0 for i in range(count)]


def rough(count, seed=1):
    """``count`` numbers in (-1, 1) with full float64 mantissas: a linear congruential generator."""
    state, out = 12345 + 7919 * seed, []
    for _ in range(count):
        state = (6364136223846793005 * state + 1442695040888963407) % (1 << 64)
        out.append((state >> 11) / float(1 << 52) - 1.0)
    return out


def matmul(a, b, rows, inner, columns):
    return [
        math.fsum(a[i * inner + k] * b[k * columns + j] for k in range(inner))
        for i in range(rows)
        for j in range(columns)
    ]


def conv2d(x, w, channels, height, width, outputs, kernel, stride=1, padding=0):
    """One image, square kernel, zero padding."""
    out = []
    high = (height + 2 * padding - kernel) // stride + 1
    wide = (width + 2 * padding - kernel) // stride + 1
    for o, i, j in itertools.product(range(outputs), range(high), range(wide)):
        terms = []
        for c, u, v in itertools.product(range(channels), range(kernel), range(kernel)):
            y, z = i * stride + u - padding, j * stride + v - padding
            if 0 <= y < height and 0 <= z < width:
                at = ((o * channels + c) * kernel + u) * kernel + v
                terms.append(x[(c * height + y) * width + z] * w[at])
        out.append(math.fsum(terms))
    return out


def pool2d(x, channels, height, width, kernel, pick):
    """Windows side by side; ``pick`` is max or a mean."""
    windows = itertools.product(range(channels), range(height // kernel), range(width // kernel))
    corners = [(c * height + i * kernel) * width + j * kernel for c, i, j in windows]
    return [pick([x[corner + u * width + v] for u in range(kernel) for v in range(kernel)]) for corner in corners]


_PI = "3.14159265358979323846264338327950288419716939937510"
# Bernoulli's numbers B2, B4, … over 2k (2k - 1): Stirling's series.
_STIRLING = ((1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156))


def lgamma(value):
    """log(gamma(value)) to the last digit: Python's own is off by four units near 1 and 2, too many for a judge."""
    import decimal

    if value <= 0 or value == float("inf"):
        return math.lgamma(value)  # infinity, or an error
    with decimal.localcontext() as context:
        context.prec = 45
        x, product = decimal.Decimal(value), decimal.Decimal(1)
        while x < 30:
            product *= x
            x += 1
        half = decimal.Decimal("0.5")
        total = (x - half) * x.ln() - x + (2 * decimal.Decimal(_PI)).ln() * half
        for k, (above, below) in enumerate(_STIRLING):
            total += decimal.Decimal(above) / below / x ** (2 * k + 1)
        return float(total - product.ln())


def mean(values):
    return math.fsum(values) / len(values)


def softmax(values):
    top = max(values)
    powers = [math.exp(v - top) for v in values]
    total = math.fsum(powers)
    return [p / total for p in powers]


def rows(values, width):
    return [values[i : i + width] for i in range(0, len(values), width)]


def dft(values):
    """The discrete Fourier transform by its definition, as real and imaginary parts in turn."""
    count, out = len(values), []
    for k in range(count):
        total = sum(v * cmath.exp(-2j * math.pi * k * n / count) for n, v in enumerate(values))
        out += [total.real, total.imag]
    return out


def identity(size, scale=1.0):
    return [scale if i == j else 0.0 for i in range(size) for j in range(size)]


# Half the distance between neighbouring numbers, as a share of the number: 2^-53, 2^-24, 2^-11, 2^-8.
UNIT = {"float64": 2.0 ** -53, "float32": 2.0 ** -24, "float16": 2.0 ** -11, "bfloat16": 2.0 ** -8}
UNIT["complex64"], UNIT["complex128"] = UNIT["float32"], UNIT["float64"]
# A function such as exp is good to a few units in every maths library torch uses (SLEEF promises 1.0 for u10).
FEW = 16


def rounding(name):
    """Relative error allowed to one operation whose result is rounded once: a few units of the type."""
    return (4 if name in ("float16", "bfloat16") else FEW) * UNIT[name]


def accumulates_in(t, name, device):
    """The type in which sums of products of ``name`` are added up. GPU: float32 for half and bfloat16 in every release
    (acc_type in AccumulateType.h). CPU: torch 1.8 to 1.13 add up in the type itself; 2.6.0 and 2.13.0 in float32
    (measured on AVX-512, AVX2 and without AVX: no error beyond the last rounding). What lies between was not measured
    and gets the wider bound."""
    if name not in ("float16", "bfloat16"):
        return {"complex64": "float32", "complex128": "float64"}.get(name, name)
    return "float32" if device != "cpu" or numbered(str(t.torch().__version__)) >= (2, 6) else name


def summing(t, name, device, terms, largest):
    """Absolute error allowed to a sum of ``terms`` products, besides the rounding of the result; ``largest`` is the
    greatest size a partial sum reaches. In float32 and float64 the sums of these inputs (multiples of 1/64 below 2^17)
    are exact in any order; a few units are left to transforms such as Winograd's. Half types added up in float32: n
    units of float32. Added up in themselves: roundings go up as often as down, so the root of n units (0.29 for the 47
    products of ops.matmul in bfloat16; 0.08 was measured with 1.8 to 1.13)."""
    if name not in ("float16", "bfloat16"):
        return rounding(name)
    inner = accumulates_in(t, name, device)
    return (terms ** 0.5 if inner == name else terms) * UNIT[inner] * largest


def factoring(name, size):
    """Error of solving or factoring a matrix of ``size`` rows whose norm is about its size and whose condition is near
    1. LU, QR, Cholesky and the like are backward stable: the error is a few units of the norm for each row. Measured: 4
    % of what is allowed on a CPU (2.13.0), 7 % on an H200 (2.11.0)."""
    return FEW * size * size * UNIT[name]


def variance(t, name, device, count):
    """Relative error of Welford's way over ``count`` numbers. Up to 1.13 CUDA combines partial results with a count
    kept in float32 (WelfordOps<scalar_t, scalar_t, int32_t, float, ...> in ReduceMomentKernel.cu), also for float64:
    each of the log2(count) combinations is off by one unit of float32. Measured for a right torch 1.13.1 on an H200:
    2.9e-9. From 2.0 on the count has the accumulation type."""
    old = device != "cpu" and numbered(str(t.torch().__version__)) < (2, 0)
    return max(10 * FEW * UNIT[name], max(1, (count - 1).bit_length()) * UNIT["float32"] if old else 0.0)
