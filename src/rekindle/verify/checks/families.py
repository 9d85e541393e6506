"""The kernel families, each against a reference, on any device: the CPU checks and the GPU checks share them."""

import itertools
import math

from rekindle_checks import reference as ref
from rekindle_checks.framework import Absent, Failed, capability, computable, numbered, widest
from rekindle_checks.reference import rounding

ABSENT = ("not implemented for", "not supported", "not currently supported", "unsupported", "no implementation")


def tensor(t, values, shape, device, dtype="float64"):
    """The values as float64 first: then every type rounds them the same way on every device."""
    torch = t.torch()
    return torch.tensor(values, dtype=torch.float64).reshape(shape).to(dtype=getattr(torch, dtype)).to(device)


def each_dtype(t, names, work):
    """Run ``work(name)`` for each type this torch has; what it says it lacks is listed, wrong answers fail.

    Older releases lack some types on the CPU. From 2.6 on every type named in these checks is there (measured with
    2.6.0 and 2.13.0; on a GPU with 2.11.0 and compute capability 9.0), so one that is missing was left out of the build.
    bfloat16 is left to GPUs that have it: compute capability 8.0, and no promise on ROCm.
    """
    torch, must = t.torch(), ("float32", "float64")
    if numbered(str(torch.__version__)) >= (2, 6):
        native = t.device is None or (capability(t) or (0, 0)) >= (8, 0)
        must = tuple(name for name in names if native or name != "bfloat16")
    able = [name for name in computable(t, names) if hasattr(torch, name)]
    done, absent = [], [name for name in names if name not in able]
    for name in able:
        t.step(name)
        try:
            work(name)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            if name in must or not any(word in str(error).lower() for word in ABSENT):
                raise
            absent.append(name)
        else:
            done.append(name)
    if not done:
        raise Failed("none of %s works" % ", ".join(names))
    return " ".join(done) + ("; not offered: " + " ".join(absent) if absent else "")


def elementwise(t, torch, device):
    """Arithmetic, functions of one number, choosing, and whole numbers' division."""
    x, y = ref.grid(257), ref.grid(257, 3)

    def work(name):
        a, b = tensor(t, x, (257,), device, name), tensor(t, y, (257,), device, name)
        slack = rounding(name)
        t.close(a * b + a, [u * v + u for u, v in zip(x, y)], slack, slack, "multiply-add")
        wide = name in ("float32", "float64")
        for function in ("exp", "tanh", "erf", "sin") if wide else ("exp", "tanh"):
            t.close(getattr(torch, function)(a), list(map(getattr(math, function), x)), slack, slack, function)
        for function in ("sqrt", "log1p") if wide else ("sqrt",):
            right = [getattr(math, function)(abs(u)) for u in x]
            t.close(getattr(torch, function)(a.abs()), right, slack, slack, function)
        t.close(torch.where(a > b, a, b), [max(u, v) for u, v in zip(x, y)], 0.0, 1e-12, "where")
        if wide:
            t.close(torch.pow(a.abs() + 1, 2.5), [(abs(u) + 1) ** 2.5 for u in x], slack, slack, "pow")

    detail = each_dtype(t, ("float64", "float32", "float16", "bfloat16"), work)
    t.step("integers")
    whole = torch.arange(-20, 21, dtype=torch.int64).to(device)
    # Not "//", which rounded towards zero before torch 1.13.
    t.equal(torch.div(whole * 3, 2, rounding_mode="floor").tolist(), [i * 3 // 2 for i in range(-20, 21)], "division")
    t.equal((whole % 7).tolist(), [i % 7 for i in range(-20, 21)], "remainder")
    t.equal((whole & 5).tolist(), [i & 5 for i in range(-20, 21)], "bitwise and")
    return detail


def reductions(t, torch, device):
    width, height = 37, 29
    x = ref.grid(width * height)
    lines = ref.rows(x, width)

    def work(name):
        a = tensor(t, x, (height, width), device, name)
        slack = rounding(name)
        t.close(a.sum(), math.fsum(x), slack, slack * 40, "sum")
        t.close(a.sum(1), [math.fsum(line) for line in lines], slack, slack * 4, "sum of rows")
        t.close(a.mean(0), [ref.mean(x[i::width]) for i in range(width)], slack, slack, "mean of columns")
        t.close(a.max(), max(x), 0.0, 1e-12, "max")
        t.close(a.amin(1) if hasattr(a, "amin") else a.min(1)[0], [min(line) for line in lines], 0.0, 1e-12, "min")
        if name in ("float32", "float64"):
            spread = math.fsum((v - ref.mean(x)) ** 2 for v in x) / (len(x) - 1)
            t.close(a.var(), spread, ref.variance(t, name, device, len(x)), 0.0, "variance")
            t.close(torch.logsumexp(a, 1), [math.log(math.fsum(map(math.exp, line))) for line in lines], slack * 4, slack)
            t.close(a.norm(), math.sqrt(math.fsum(v * v for v in x)), slack * 4, slack, "norm")

    detail = each_dtype(t, ("float64", "float32", "float16", "bfloat16"), work)
    t.step("argmax")
    a = tensor(t, lines[0], (width,), device, "float32")
    t.equal(lines[0][int(a.argmax())], max(lines[0]), "argmax")
    t.step("any, all")
    t.equal([bool((a > 9).any()), bool((a < 9).all())], [False, True], "any and all")
    return detail


def products(t, torch, device, dtypes=("float64", "float32", "bfloat16", "float16", "complex64", "complex128", "int64")):
    """matmul, batched, with bias, and dot, in every type."""
    n, k, m = 33, 47, 29
    x, y, bias = ref.grid(n * k), ref.grid(k * m, 2), ref.grid(n * m, 4)
    want = ref.matmul(x, y, n, k, m)

    def work(name):
        if name == "int64":
            a = tensor(t, [8 * v for v in x], (n, k), device, name)
            b = tensor(t, [8 * v for v in y], (k, m), device, name)
            t.close(a @ b, [64 * v for v in want], 0.0, 1e-9, "integer matmul")
            return
        a, b, c = (tensor(t, v, s, device, name) for v, s in ((x, (n, k)), (y, (k, m)), (bias, (n, m))))
        slack = rounding(name)
        # No partial sum of these inputs is larger than 10.9.
        loose = ref.summing(t, name, device, k, 10.9)
        if name.startswith("complex"):
            pair = (a + 1j * a) @ b
            t.close(torch.view_as_real(pair)[..., 1], want, slack, slack * 10, "complex matmul")
            return
        t.close(a @ b, want, slack, loose, "matmul")
        t.close(torch.addmm(c, a, b), [u + v for u, v in zip(bias, want)], slack, loose, "addmm")
        t.close(b.t() @ a.t(), transposed(want, n, m), slack, loose, "matmul of transposed matrices")
        batch = torch.bmm(torch.stack([a, -a]), torch.stack([b, b]))
        t.close(batch, want + [-v for v in want], slack, loose, "bmm")
        t.close(torch.mv(a, b[:, 0].contiguous()), want[::m], slack, loose, "matrix times vector")

    return each_dtype(t, dtypes, work)


def transposed(values, height, width):
    return [values[i * width + j] for j in range(width) for i in range(height)]


def convolutions(t, torch, device):
    """One and two dimensions, strides, padding, channels last, depthwise, and the transpose as the adjoint."""
    F = torch.nn.functional
    channels, size, outputs, kernel = 3, 11, 4, 3
    x = ref.grid(channels * size * size)
    w = ref.grid(outputs * channels * kernel * kernel, 5)
    plain = ref.conv2d(x, w, channels, size, size, outputs, kernel)
    strided = ref.conv2d(x, w, channels, size, size, outputs, kernel, stride=2, padding=1)

    def work(name):
        a = tensor(t, x, (1, channels, size, size), device, name)
        b = tensor(t, w, (outputs, channels, kernel, kernel), device, name)
        slack = rounding(name)
        loose = ref.summing(t, name, device, channels * kernel * kernel, 9.9)  # the largest partial sum
        t.close(F.conv2d(a, b), plain, slack, loose, "conv2d")
        t.close(F.conv2d(a, b, stride=2, padding=1), strided, slack, loose, "conv2d with stride and padding")
        last = a.contiguous(memory_format=torch.channels_last)
        t.close(F.conv2d(last, b), plain, slack, loose, "conv2d, channels last")
        if name in ("float32", "float64"):
            line = F.conv1d(a[0, :, 0].unsqueeze(0), b[:, :, 0].contiguous())
            rows = [v for c in range(channels) for v in x[c * size * size : c * size * size + size]]
            taps = [w[(o * channels + c) * 9 + v] for o in range(outputs) for c in range(channels) for v in range(3)]
            inside = list(itertools.product(range(channels), range(3)))
            want = [
                math.fsum(rows[c * size + i + v] * taps[(o * channels + c) * 3 + v] for c, v in inside)
                for o in range(outputs)
                for i in range(size - 2)
            ]
            t.close(line, want, slack, slack, "conv1d")
            deep = F.conv2d(a, b[:channels, :1].contiguous(), groups=channels)
            images = [x[c * size * size : (c + 1) * size * size] for c in range(channels)]
            kernels = [w[c * channels * 9 : c * channels * 9 + 9] for c in range(channels)]
            want = [v for pair in zip(images, kernels) for v in ref.conv2d(*pair, 1, size, size, 1, kernel)]
            t.close(deep, want, slack, slack, "depthwise conv2d")
            back = F.conv_transpose2d(F.conv2d(a, b), b)
            t.equal(tuple(back.shape), (1, channels, size, size), "shape of conv_transpose2d")
            # <conv(a), c> = <a, conv_transpose(c)>: the transpose is the adjoint.
            left = (F.conv2d(a, b) * F.conv2d(a, b)).sum()
            t.close((a * back).sum(), float(left), slack * 100, slack, "conv_transpose2d as adjoint")

    return each_dtype(t, ("float32", "float64", "bfloat16", "float16"), work)


def pooling(t, torch, device):
    F = torch.nn.functional
    channels, size = 2, 12
    x = ref.grid(channels * size * size)

    def work(name):
        a = tensor(t, x, (1, channels, size, size), device, name)
        slack = rounding(name)
        t.close(F.max_pool2d(a, 3), ref.pool2d(x, channels, size, size, 3, max), 0.0, 1e-12, "max_pool2d")
        t.close(F.avg_pool2d(a, 2), ref.pool2d(x, channels, size, size, 2, ref.mean), slack, slack, "avg_pool2d")
        whole = [ref.mean(x[c * size * size : (c + 1) * size * size]) for c in range(channels)]
        t.close(F.adaptive_avg_pool2d(a, 1), whole, slack * 4, slack, "adaptive_avg_pool2d")

    return each_dtype(t, ("float32", "float64", "bfloat16"), work)


def activations(t, torch, device):
    """What networks put between their products, layer norm and attention included."""
    F = torch.nn.functional
    width, height = 19, 7
    x = ref.grid(width * height)

    def work(name):
        a = tensor(t, x, (height, width), device, name)
        slack = rounding(name)
        want = [v for line in ref.rows(x, width) for v in ref.softmax(line)]
        t.close(F.softmax(a, 1), want, slack, slack, "softmax")
        t.close(F.log_softmax(a, 1), [math.log(v) for v in want], slack, slack, "log_softmax")
        t.close(F.relu(a), [max(v, 0.0) for v in x], 0.0, 1e-12, "relu")
        t.close(torch.sigmoid(a), [1 / (1 + math.exp(-v)) for v in x], slack, slack, "sigmoid")
        t.close(F.gelu(a), [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x], slack, slack, "gelu")
        normal = []
        for line in ref.rows(x, width):
            middle = ref.mean(line)
            spread = math.sqrt(ref.mean([(v - middle) ** 2 for v in line]) + 1e-5)
            normal += [(v - middle) / spread for v in line]
        t.close(F.layer_norm(a, (width,)), normal, slack * 4, slack * 4, "layer_norm")

    detail = each_dtype(t, ("float32", "float64", "bfloat16"), work)
    if hasattr(F, "scaled_dot_product_attention"):
        t.step("attention")
        q = tensor(t, ref.grid(2 * 5 * 8), (1, 2, 5, 8), device, "float32")
        got = F.scaled_dot_product_attention(q, q, q)
        weights = F.softmax((q @ q.transpose(-1, -2)) / math.sqrt(8), -1)
        t.close(got, weights @ q, 1e-4, 1e-5, "attention against its definition")
        detail += ", attention"
    return detail


def indexing(t, torch, device):
    """Picking, scattering, masks, slices, embeddings."""
    x = tensor(t, ref.grid(60), (6, 10), device, "float32")
    values = ref.rows(ref.grid(60), 10)
    pick = torch.tensor([5, 0, 5, 2]).to(device)
    t.step("index_select")
    t.close(x.index_select(0, pick), [v for i in (5, 0, 5, 2) for v in values[i]], 0.0, 1e-12)
    t.step("gather")
    t.close(x.gather(1, pick.repeat(6, 1)), [line[i] for line in values for i in (5, 0, 5, 2)], 0.0, 1e-12)
    t.step("mask")
    t.close(x[x > 0], [v for line in values for v in line if v > 0], 0.0, 1e-12)
    t.step("scatter_add")
    sums = torch.zeros(3, device=device).scatter_add_(0, torch.tensor([0, 1, 0, 2, 1]).to(device), x[0, :5])
    want = [values[0][0] + values[0][2], values[0][1] + values[0][4], values[0][3]]
    t.close(sums, want, 1e-6, 1e-6)
    t.step("index_put")
    y = torch.zeros(6, 10, device=device)
    y[pick[:2], pick[2:]] = 5.0
    t.equal([float(y[5, 5]), float(y[0, 2]), float(y.sum())], [5.0, 5.0, 10.0])
    t.step("cat and slices")
    t.close(torch.cat([x[:, ::3], x[1:2].expand(6, 10)], 1).sum(), sum(sum(v[::3]) for v in values) + 6 * sum(values[1]), 1e-5, 1e-5)
    t.step("embedding")
    t.close(torch.nn.functional.embedding(pick, x), [v for i in (5, 0, 5, 2) for v in values[i]], 0.0, 1e-12)
    t.step("embedding_bag")
    bags = torch.nn.functional.embedding_bag(pick.reshape(2, 2), x, mode="sum")
    want = [a + b for i, j in ((5, 0), (5, 2)) for a, b in zip(values[i], values[j])]
    t.close(bags, want, 1e-6, 1e-6)
    return "select, gather, mask, scatter, put, slices, embeddings"


def sorting(t, torch, device):
    """Order, the largest, running sums, searching, counting."""
    x = ref.rough(1000)

    def work(name):
        # int64 and half hold other numbers than float64: sort what the type made of them.
        a = tensor(t, [v * 1000 for v in x], (1000,), device, name)
        values = [float(v) for v in a.to("cpu").double().tolist()]
        t.close(a.sort()[0], sorted(values), 0.0, 1e-12, "sort")
        t.close(a.topk(17)[0], sorted(values, reverse=True)[:17], 0.0, 1e-12, "topk")
        if name != "float16":
            t.equal(len(a.unique()), len(set(values)), "unique")

    detail = each_dtype(t, ("float32", "float64", "int64", "int32", "float16"), work)
    t.step("argsort")
    held = tensor(t, x, (1000,), device, widest(t))
    t.equal(held.argsort().tolist(), sorted(range(1000), key=x.__getitem__), "argsort")
    t.step("cumsum")
    want = list(itertools.accumulate(x))
    slack = 1e-12 if widest(t) == "float64" else 1e-5
    t.close(held.cumsum(0), want, slack, slack * 100)
    t.step("searchsorted")
    if hasattr(torch, "searchsorted"):
        edges = torch.tensor([1.0, 3.0, 5.0]).to(device)
        t.equal(torch.searchsorted(edges, torch.tensor([0.0, 3.0, 4.0, 9.0]).to(device)).tolist(), [0, 1, 2, 3])
    t.step("histogram")
    t.equal(torch.bincount(torch.tensor([0, 2, 2, 5]).to(device)).tolist(), [1, 0, 2, 0, 0, 1])
    return detail + ", argsort, cumsum, bincount"


def fourier(t, torch, device):
    """Lengths with small, large and mixed factors, and two dimensions."""
    t.require(getattr(torch, "fft", None), "fft", "1.8", "torch.fft")
    if device == "cpu" and not torch.backends.mkl.is_available():
        try:
            torch.fft.fft(torch.zeros(4))
        except RuntimeError:
            raise Absent("built without an FFT library")
    for size in (16, 15, 17, 64):
        t.step("length %d" % size)
        x = ref.grid(size)
        want = ref.dft(x)
        for name in computable(t, ("float64", "float32")):
            slack = 1e-11 if name == "float64" else 1e-5
            a = tensor(t, x, (size,), device, name)
            t.close(torch.fft.fft(a), want, slack, slack * 10, "fft of %d in %s" % (size, name))
            t.close(torch.fft.rfft(a), want[: 2 * (size // 2 + 1)], slack, slack * 10, "rfft of %d in %s" % (size, name))
            t.close(torch.fft.irfft(torch.fft.rfft(a), n=size), x, slack, slack * 10, "irfft(rfft(x)) = x")
    t.step("two dimensions")
    plane = tensor(t, ref.grid(72), (8, 9), device, widest(t))
    turned = torch.fft.fft(torch.fft.fft(plane, dim=0), dim=1)
    slack = 1e-11 if widest(t) == "float64" else 1e-5
    t.close(torch.view_as_real(torch.fft.fft2(plane)), torch.view_as_real(turned), slack, slack * 10, "fft2")
    return "lengths 16, 15, 17, 64 against the definition"
