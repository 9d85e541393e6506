"""More kernel families for any device: linear algebra, random numbers, sparse matrices, gradients; and where fast
arithmetic shows: infinities, not-a-number, signed zero, the smallest and the largest numbers."""

import math

from rekindle_checks import reference as ref
from rekindle_checks.families import each_dtype, tensor
from rekindle_checks.framework import Failed, computable, read_table, widest
from rekindle_checks.reference import UNIT, rounding


def needs_lapack(error):
    text = str(error).lower()
    return "lapack" in text or "magma" in text or "cusolver" in text and "compil" in text


def linear_algebra(t, torch, device):
    """Each factorisation is checked by what defines it: A x = b, Q R = A, U S V = A, L L' = A."""
    t.require(getattr(torch, "linalg", None), "solve", "1.8", "torch.linalg.solve")
    size = 24
    # A heavy diagonal: errors stay errors of the solver.
    flat = [v + (size if i // size == i % size else 0.0) for i, v in enumerate(ref.rough(size * size, 3))]
    right = ref.rough(size * 3, 8)
    done = []
    for name in computable(t, ("float64", "float32")):
        slack = ref.factoring(name, size)
        a = tensor(t, flat, (size, size), device, name)
        b = tensor(t, right, (size, 3), device, name)
        try:
            t.step("solve " + name)
            t.close(a @ torch.linalg.solve(a, b), right, slack, slack, "A x = b")
        except RuntimeError as error:
            if not needs_lapack(error):
                raise
            message = "this build has no linear algebra library (%s)" % str(error).splitlines()[0][:120]
            raise Failed(message, "install OpenBLAS or MKL (CPU), MAGMA or cuSOLVER (GPU) before building")
        t.step("inverse " + name)
        t.close(a @ torch.linalg.inv(a), ref.identity(size), 0.0, slack, "A inv(A) = 1")
        t.step("QR " + name)
        q, r = torch.linalg.qr(a)
        t.close(q @ r, flat, slack, slack, "Q R = A")
        t.close(q.t() @ q, ref.identity(size), 0.0, slack, "Q is orthogonal")
        t.step("SVD " + name)
        u, s, v = torch.linalg.svd(a)
        t.close(u @ torch.diag(s) @ v, flat, slack, slack, "U S V = A")
        gram = a @ a.t()
        t.step("Cholesky " + name)
        low = torch.linalg.cholesky(gram)
        t.close(low @ low.t(), gram, slack, slack * size, "L L' = A")
        t.step("eigh " + name)
        values, vectors = torch.linalg.eigh(gram)
        t.close(vectors @ torch.diag(values) @ vectors.t(), gram, slack, slack * size, "V D V' = A")
        t.step("determinant " + name)
        t.close(torch.linalg.det(tensor(t, [2, 1, 1, 3], (2, 2), device, name)), 5.0, slack, slack, "det")
        done.append(name)
    t.step("batch")
    stack = torch.stack([tensor(t, flat, (size, size), device, widest(t))] * 3)
    slack = ref.factoring(widest(t), size)
    t.close((stack @ torch.linalg.inv(stack))[2], ref.identity(size), 0.0, slack, "batched inverse")
    if hasattr(torch.linalg, "eigvals"):
        t.step("eig")
        turn = tensor(t, [0, -1, 1, 0], (2, 2), device, widest(t))
        try:
            roots = sorted(root.imag for root in torch.linalg.eigvals(turn).tolist())
            t.close(roots, [-1.0, 1.0], 0.0, 1e-6, "eigenvalues of a rotation")
        except RuntimeError as error:
            if not needs_lapack(error):
                raise
            done.append("(no eig: MAGMA is missing)")
    return "solve, inverse, QR, SVD, Cholesky, eigh in " + " ".join(done)


def random_numbers(t, torch, device):
    """Means, variances and tails within six standard deviations: one false alarm in 500 million."""
    count = 200000

    def near(what, got, want, deviation):
        t.ensure(abs(got - want) <= 6 * deviation, "%s is %.6g, %.6g was to be expected" % (what, got, want))

    torch.manual_seed(20240229)
    t.step("uniform")
    u = torch.rand(count, device=device).cpu().double()
    near("mean of rand", float(u.mean()), 0.5, math.sqrt(1 / 12.0 / count))
    near("variance of rand", float(u.var()), 1 / 12.0, math.sqrt(1 / 180.0 / count))
    t.ensure(float(u.min()) >= 0.0 and float(u.max()) < 1.0, "rand leaves [0, 1)")
    t.step("normal")
    g = torch.randn(count, device=device).cpu().double()
    near("mean of randn", float(g.mean()), 0.0, math.sqrt(1.0 / count))
    near("variance of randn", float(g.var()), 1.0, math.sqrt(2.0 / count))
    near("kurtosis of randn", float((g ** 4).mean()), 3.0, math.sqrt(96.0 / count))
    near("share beyond 2 sigma", float((g.abs() > 2).double().mean()), 0.0455003, math.sqrt(0.0455 * 0.9545 / count))
    t.step("integers")
    k = torch.randint(0, 10, (count,), device=device).cpu()
    for i in range(10):
        near("share of %d in randint(10)" % i, float((k == i).double().mean()), 0.1, math.sqrt(0.09 / count))
    t.step("permutation")
    t.equal(sorted(torch.randperm(1000, device=device).tolist()), list(range(1000)), "randperm")
    t.step("bernoulli")
    ones = torch.bernoulli(torch.full((count,), 0.3, device=device)).cpu().double().mean()
    near("share of bernoulli(0.3)", float(ones), 0.3, math.sqrt(0.21 / count))
    t.step("dropout")
    thinned = torch.nn.functional.dropout(torch.ones(count, device=device), 0.25)
    near("mean after dropout", float(thinned.cpu().double().mean()), 1.0, math.sqrt(0.25 / 0.75 / count))
    t.step("seed")
    torch.manual_seed(7)
    first = torch.randn(64, device=device)
    torch.manual_seed(7)
    t.equal(torch.randn(64, device=device).tolist(), first.tolist(), "the same seed gives the same numbers")
    t.ensure(torch.randn(64, device=device).tolist() != first.tolist(), "the generator stands still")
    return "uniform, normal, integers, permutation, bernoulli, dropout over %d draws" % count


def sparse_matrices(t, torch, device):
    where = torch.tensor([[0, 1, 2, 3, 3], [1, 0, 2, 0, 3]])
    values = tensor(t, [1.5, -2.0, 0.5, 3.0, 1.0], (5,), device, "float32")
    matrix = torch.sparse_coo_tensor(where.to(device), values, (4, 4))
    dense = [0, 1.5, 0, 0, -2.0, 0, 0, 0, 0, 0, 0.5, 0, 3.0, 0, 0, 1.0]
    other = tensor(t, ref.grid(12), (4, 3), device, "float32")
    want = ref.matmul(dense, ref.grid(12), 4, 4, 3)
    t.step("to_dense")
    t.close(matrix.to_dense(), dense, 0.0, 1e-9)
    t.step("sparse times dense")
    t.close(torch.sparse.mm(matrix, other), want, 1e-6, 1e-6)
    if not hasattr(matrix, "to_sparse_csr"):
        return "COO"
    t.step("CSR")
    try:
        t.close(matrix.to_dense().to_sparse_csr() @ other, want, 1e-6, 1e-6)
    except RuntimeError as error:
        if "MKL" not in str(error) and "not supported" not in str(error):
            raise
        return "COO (CSR products need MKL here)"
    return "COO, CSR"


def gradients(t, torch, device):
    """Backward against central differences in float64: error of order h^2, so 1e-6 at h = 1e-5. In float32, on a GPU
    that has no other, the rounding of the network's value allows no step below 1e-2, and three digits."""
    F = torch.nn.functional
    kind = widest(t)
    step, slack, near = (1e-5, 1e-5, 1e-12) if kind == "float64" else (1e-2, 1e-2, 1e-5)
    x = tensor(t, ref.rough(2 * 3 * 6 * 6, 2), (2, 3, 6, 6), device, kind).requires_grad_()
    w = tensor(t, ref.rough(4 * 3 * 9, 4), (4, 3, 3, 3), device, kind).requires_grad_()
    m = tensor(t, ref.rough(16 * 5, 6), (16, 5), device, kind).requires_grad_()

    def network():
        hidden = torch.tanh(F.conv2d(x, w, padding=1))
        hidden = F.avg_pool2d(hidden, 3).reshape(2, 16)
        return (F.log_softmax(hidden @ m, 1)[:, 1] ** 2).sum() + torch.logsumexp(hidden, 1).sum()

    network().backward()
    for name, leaf in (("x", x), ("w", w), ("m", m)):
        t.step("gradient of " + name)
        flat = leaf.data.reshape(-1)
        for index in (0, 7, flat.numel() // 2, flat.numel() - 1):
            before = float(flat[index])
            flat[index] = before + step
            up = float(network().detach())
            flat[index] = before - step
            down = float(network().detach())
            flat[index] = before
            t.close(leaf.grad.reshape(-1)[index], (up - down) / (2 * step), slack, slack / 100, "d/d%s[%d]" % (name, index))
    t.step("second derivative")
    z = tensor(t, [0.3, -0.7], (2,), device, kind).requires_grad_()
    first = torch.autograd.grad((z ** 3).sum(), z, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), z)[0]
    t.close(second, [1.8, -4.2], near, near, "second derivative of z^3")
    return "conv, pool, matmul, log_softmax against central differences"


def training(t, torch, device):
    """Least squares by gradient descent has a closed form; a small network must fit what it can represent."""
    t.step("least squares")
    x = tensor(t, ref.rough(120, 5), (40, 3), device, widest(t))
    y = x @ tensor(t, [1.0, -2.0, 0.5], (3, 1), device, widest(t))
    w = torch.zeros(3, 1, dtype=x.dtype, device=device, requires_grad=True)
    for _ in range(400):
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.5 * w.grad
            w.grad.zero_()
    slack = 1e-6 if widest(t) == "float64" else 1e-4
    t.close(w, [1.0, -2.0, 0.5], slack, slack, "weights of the least squares fit")
    t.step("network")
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
    points = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]).to(device)
    targets = torch.tensor([[0.0], [1.0], [1.0], [0.0]]).to(device)
    start = float(((net(points) - targets) ** 2).mean())
    velocity = [torch.zeros_like(p) for p in net.parameters()]
    # Momentum by hand: torch.optim imports torch._dynamo, which costs minutes on an emulated CPU.
    for _ in range(600):
        loss = ((net(points) - targets) ** 2).mean()
        grads = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for p, v, g in zip(net.parameters(), velocity, grads):
                v.mul_(0.9).add_(g)
                p.sub_(0.1 * v)
        last = float(loss.detach())
        if last < 1e-4:
            break
    t.ensure(last < 1e-3, "the exclusive or was not learnt: loss %.3g after 600 steps (from %.3g)" % (last, start))
    return "least squares to %g; exclusive or from %.3g to %.1e" % (slack, start, last)


INF, NAN = float("inf"), float("nan")
TINY = {"float32": 1e-41, "float64": 1e-310}
LARGEST = {"float16": 60000.0}
# The functions with the arguments for which a wrong constant in the reduction or a short polynomial shows; these stand
# in Python's math under another name, or not.
TABLE = read_table("families")
OTHERS = {
    "rsqrt": lambda v: 1 / math.sqrt(v),
    "reciprocal": lambda v: 1 / v,
    "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
    "lgamma": ref.lgamma,
    "round": round,
}


def functions(t, torch, device):
    """Every elementary function over its range, against the C library's in float64, on enough numbers to fill vectors."""

    def work(name):
        short = name in ("float16", "bfloat16")
        for function, points in TABLE["functions"]:
            if not hasattr(torch, function):
                continue
            pairs = list(held_pairs(t, name, TABLE["points"][points], OTHERS.get(function) or getattr(math, function)))
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

    done = each_dtype(t, ("float32", "float64", "float16", "bfloat16"), work)
    return done + ": %d functions" % len(TABLE["functions"])


def held_pairs(t, name, points, right):
    """(point, value) for the points as the type holds them, where the function has a value there that it holds."""
    torch = t.torch()
    for point in torch.tensor(points, dtype=torch.float64).to(getattr(torch, name)).double().tolist():
        try:
            value = float(right(point))
        except (ValueError, OverflowError, ZeroDivisionError):
            continue  # rounded to zero, or to infinity
        if abs(value) <= LARGEST.get(name, INF):
            yield point, value


def special(t, torch, device):
    """What fast arithmetic gets wrong: each number here has only one right answer."""

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
