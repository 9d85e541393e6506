"""Where fast arithmetic shows: infinities, not-a-number, signed zero, the smallest and the largest numbers."""

import math

from rekindle_checks import reference as ref
from rekindle_checks.families import each_dtype, tensor
from rekindle_checks.tolerance import UNIT, rounding

INF, NAN = float("inf"), float("nan")
TINY = {"float32": 1e-41, "float64": 1e-310}
LARGEST = {"float16": 60000.0}
# argument sizes for which a wrong constant in the reduction or a short polynomial shows
WIDE = [-87.0, -30.25, -9.5, -3.75, -1.125, -0.5, -0.0625, -1e-4, 1e-6, 0.03125, 0.3, 0.7, 1.3, 2.9, 6.1, 17.5, 55.0, 88.0]
POSITIVE = [1e-30, 1e-8, 0.0009765625, 0.1, 0.5, 0.75, 1.0, 1.0000001, 1.5, 2.718281828, 10.0, 1234.5, 1e8, 1e30]
ANGLES = [-1000.5, -100.0, -31.4, -6.3, -3.2, -1.6, -0.8, -1e-3, 1e-5, 0.4, 0.785, 1.57, 2.4, 3.1, 4.8, 9.9, 47.0, 512.25]
SMALL = [-3.9, -2.2, -1.4, -0.9, -0.47, -0.2, -0.03, -1e-5, 1e-7, 0.011, 0.15, 0.33, 0.6, 0.99, 1.2, 1.9, 2.8, 4.2]
UNARY = (
    ("exp", math.exp, WIDE), ("expm1", math.expm1, SMALL), ("log", math.log, POSITIVE), ("log2", math.log2, POSITIVE),
    ("log10", math.log10, POSITIVE), ("log1p", math.log1p, POSITIVE), ("sqrt", math.sqrt, POSITIVE),
    ("rsqrt", lambda v: 1 / math.sqrt(v), POSITIVE), ("reciprocal", lambda v: 1 / v, POSITIVE),
    ("sin", math.sin, ANGLES), ("cos", math.cos, ANGLES), ("tan", math.tan, ANGLES), ("atan", math.atan, WIDE),
    ("asin", math.asin, [v / 5 for v in SMALL]), ("acos", math.acos, [v / 5 for v in SMALL]),
    ("sinh", math.sinh, SMALL), ("cosh", math.cosh, SMALL), ("tanh", math.tanh, SMALL), ("erf", math.erf, SMALL),
    ("erfc", math.erfc, SMALL), ("lgamma", ref.lgamma, [v for v in POSITIVE if v > 1e-9 and v < 1e9]),
    ("sigmoid", lambda v: 1 / (1 + math.exp(-v)), SMALL), ("floor", math.floor, ANGLES), ("ceil", math.ceil, ANGLES),
    ("trunc", math.trunc, ANGLES), ("round", round, [v + 0.5 for v in range(-9, 9)]),
)


def functions(t, torch, device):
    """Every elementary function over its range, against the C library's in float64, on enough numbers to fill vectors."""

    def work(name):
        short = name in ("float16", "bfloat16")
        for function, right, points in UNARY:
            if not hasattr(torch, function):
                continue
            pairs = [pair for pair in held_pairs(t, name, points, right) if abs(pair[1]) <= LARGEST.get(name, INF)]
            # The vector code and the rest at its end, in one tensor; each point as the type holds it.
            count = len(pairs) * 4 + 3
            x = tensor(t, [point for point, _ in pairs * 5][:count], (-1,), device, name)
            want = [value for _, value in pairs * 5][:count]
            slack = rounding(name)
            try:
                got = getattr(torch, function)(x)
            except RuntimeError as error:
                # Older releases have few functions in half types on the CPU; what they must have is asked elsewhere.
                if short and "not implemented" in str(error):
                    continue
                raise
            # tan, lgamma and differences near a zero crossing magnify the argument's own unit.
            t.close(got, want, slack, slack * 0.25, function)

    return each_dtype(t, ("float32", "float64", "float16", "bfloat16"), work) + ": %d functions" % len(UNARY)


def held_pairs(t, name, points, right):
    """(point, value) for the points as the type holds them, where the function has a value there."""
    torch = t.torch()
    pairs = []
    for point in torch.tensor(points, dtype=torch.float64).to(getattr(torch, name)).double().tolist():
        try:
            pairs.append((point, float(right(point))))
        except (ValueError, OverflowError, ZeroDivisionError):
            continue  # rounded to zero, or to infinity
    return pairs


def special(t, torch, device):

    def make(values, name):
        return torch.tensor(values, dtype=torch.float64).to(getattr(torch, name)).to(device)

    def same(got, want, what):
        got = [float(v) for v in got.to("cpu").double().tolist()]
        for a, b in zip(got, want):
            alike = (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
            t.ensure(alike, "%s: %r instead of %r" % (what, got, want))

    def work(name):
        odd = make([INF, -INF, NAN, 0.0, -0.0, 1.0] * 3, name)  # 18 numbers: past one vector of any CPU
        t.step(name + " not a number")
        t.equal(torch.isnan(odd).tolist()[:6], [False, False, True, False, False, False], "isnan")
        t.equal(torch.isinf(odd).tolist()[:6], [True, True, False, False, False, False], "isinf")
        t.equal((odd == odd).tolist()[:6], [True, True, False, True, True, True], "x == x")
        for what, result in (("max", odd.max()), ("min", odd.min()), ("sum", odd.sum()), ("mean", odd.mean())):
            t.ensure(math.isnan(float(result)), "%s of numbers with a NaN is %r" % (what, float(result)))
        same(torch.where(torch.isnan(odd), make([7.0] * 18, name), odd)[:6], [INF, -INF, 7.0, 0.0, -0.0, 1.0], "where")
        same((odd - odd)[:6], [NAN, NAN, NAN, 0.0, 0.0, 0.0], "x - x")
        same((odd * 0)[:6], [NAN, NAN, NAN, 0.0, -0.0, 0.0], "x * 0")
        t.step(name + " infinity")
        same((1 / odd)[:6], [0.0, -0.0, NAN, INF, -INF, 1.0], "1 / x")
        same(torch.exp(odd)[:6], [INF, 0.0, NAN, 1.0, 1.0, math.e], "exp") if name == "float64" else None
        same(torch.sqrt(make([-1.0, 0.0, -0.0, INF, 4.0] * 4, name))[:5], [NAN, 0.0, -0.0, INF, 2.0], "sqrt")
        same(torch.log(make([0.0, -1.0, INF, 1.0] * 5, name))[:4], [-INF, NAN, INF, 0.0], "log")
        soft = torch.softmax(make([-INF, 1000.0, 1000.0, -1000.0], name), 0)
        t.close(soft, [0.0, 0.5, 0.5, 0.0], 0.0, 4 * UNIT[name], "softmax of large numbers")
        t.close(torch.logsumexp(make([1000.0, 1000.0], name), 0), 1000.0 + math.log(2), 4 * UNIT[name], 0.0, "logsumexp")
        t.step(name + " smallest numbers")
        tiny = make([TINY[name]] * 19, name)
        t.ensure(bool((tiny > 0).all()) and bool((tiny * 2 > tiny).all()), "numbers near zero are flushed to zero")
        t.step(name + " rounding")
        same(torch.round(make([0.5, 1.5, 2.5, -0.5, -1.5] * 4, name))[:5], [0.0, 2.0, 2.0, -0.0, -2.0], "round")
        ones = make([1.0] * 17, name)
        unit = UNIT[name]
        t.ensure(bool((ones + unit == ones).all()) and bool((ones + 3 * unit != ones).all()), "1 + u is not rounded to even")
        # Added in another order, as fast arithmetic likes to, this loses the small number.
        t.close((make([1e9], "float32") + 1 - make([1e9], "float32")), [0.0], 0.0, 1e-9, "(x + 1) - x in float32")

    return each_dtype(t, ("float32", "float64"), work) + ": NaN, infinity, signed zero, subnormal, rounding"
