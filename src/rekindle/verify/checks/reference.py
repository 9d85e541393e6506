"""Right answers in plain Python: float64, no NumPy, no BLAS, nothing that could share a mistake with torch.

The inputs are small multiples of 1/8, which every floating-point type down to bfloat16 holds exactly; an error in
the result is then the operation's own.
"""

import cmath
import math


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
    for o in range(outputs):
        for i in range(high):
            for j in range(wide):
                terms = []
                for c in range(channels):
                    for u in range(kernel):
                        for v in range(kernel):
                            y, z = i * stride + u - padding, j * stride + v - padding
                            if 0 <= y < height and 0 <= z < width:
                                at = ((o * channels + c) * kernel + u) * kernel + v
                                terms.append(x[(c * height + y) * width + z] * w[at])
                out.append(math.fsum(terms))
    return out


def pool2d(x, channels, height, width, kernel, pick):
    """Windows side by side; ``pick`` is max or a mean."""
    out = []
    for c in range(channels):
        for i in range(height // kernel):
            for j in range(width // kernel):
                corner = (c * height + i * kernel) * width + j * kernel
                out.append(pick([x[corner + u * width + v] for u in range(kernel) for v in range(kernel)]))
    return out


_PI = "3.14159265358979323846264338327950288419716939937510"
# Bernoulli's numbers B2, B4, … over 2k (2k - 1): Stirling's series.
_STIRLING = ((1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156))


def lgamma(value):
    """log(gamma(value)) for a positive value, to the last digit of float64.

    Python's own is off by four units near its zeros at 1 and 2, more than the libraries it is to judge.
    """
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
