"""The kernel families on the CPU."""

from rekindle_checks import families, families_more, families_special
from rekindle_checks.framework import Absent, Untried, check

WRONG = "wrong numbers from compiled code: compare with ATEN_CPU_CAPABILITY=default, and with another compiler"


@check("ops.elementwise", level="smoke", remedy=WRONG)
def elementwise(t):
    return families.elementwise(t, "cpu")


@check("ops.functions", level="smoke", remedy=WRONG)
def functions(t):
    return families_special.functions(t, "cpu")


@check("ops.special", level="smoke", remedy="compiled with fast-math, or numbers near zero are flushed: build without -ffast-math and -Ofast")
def special(t):
    return families_special.special(t, "cpu")


@check("ops.reductions", level="smoke", remedy=WRONG)
def reductions(t):
    return families.reductions(t, "cpu")


@check("ops.matmul", level="smoke", remedy=WRONG + "; check which BLAS was linked")
def products(t):
    return families.products(t, "cpu")


@check("ops.conv", level="smoke", remedy=WRONG + "; try with torch.backends.mkldnn off")
def convolutions(t):
    return families.convolutions(t, "cpu")


@check("ops.conv-native", level="full", remedy=WRONG)
def convolutions_native(t):
    torch = t.torch()
    if not torch.backends.mkldnn.is_available():
        raise Absent("built without oneDNN: ops.conv already took the native path")
    if not hasattr(torch.backends.mkldnn, "flags"):
        raise Absent("this torch cannot switch oneDNN off")
    with torch.backends.mkldnn.flags(enabled=False):
        return families.convolutions(t, "cpu") + ", without oneDNN"


@check("ops.pooling", level="smoke", remedy=WRONG)
def pooling(t):
    return families.pooling(t, "cpu")


@check("ops.activations", level="smoke", remedy=WRONG)
def activations(t):
    return families.activations(t, "cpu")


@check("ops.indexing", level="smoke", remedy=WRONG)
def indexing(t):
    return families.indexing(t, "cpu")


@check("ops.sort", level="smoke", remedy=WRONG)
def sorting(t):
    return families.sorting(t, "cpu")


@check("ops.fft", level="smoke", remedy="build with MKL, or with USE_POCKETFFT left on")
def fourier(t):
    return families.fourier(t, "cpu")


@check("ops.linalg", level="smoke", remedy=WRONG + "; check the LAPACK that was linked")
def linear_algebra(t):
    return families_more.linear_algebra(t, "cpu")


@check("ops.random", level="smoke", remedy=WRONG)
def random_numbers(t):
    return families_more.random_numbers(t, "cpu")


@check("ops.sparse", level="full", remedy=WRONG)
def sparse_matrices(t):
    return families_more.sparse_matrices(t, "cpu")


@check("autograd", level="smoke", remedy=WRONG)
def gradients(t):
    return families_more.gradients(t, "cpu")


@check("training", level="smoke", timeout=120, remedy=WRONG)
def training(t):
    return families_more.training(t, "cpu")


@check("ops.recurrent", level="full", remedy=WRONG)
def recurrent(t):
    torch = t.torch()
    torch.manual_seed(1)
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        t.step(kind.__name__)
        layer = kind(5, 7, batch_first=True).double()
        x = torch.randn(2, 6, 5, dtype=torch.float64)
        whole = layer(x)[0]
        state, steps = None, []
        for index in range(6):
            out, state = layer(x[:, index : index + 1], state)
            steps.append(out)
        t.close(torch.cat(steps, 1), whole, 1e-10, 1e-10, "step by step = all at once")
    return "LSTM and GRU: step by step = all at once"


@check("ops.quantized", level="full", timeout=90, remedy="this engine needs instructions the CPU lacks: set torch.backends.quantized.engine to another")
def quantized(t):
    """Dynamic quantised linear in each engine: the one path known to crash official wheels on CPUs without AVX."""
    torch = t.torch()
    engines = [name for name in torch.backends.quantized.supported_engines if name != "none"]
    if not engines:
        raise Absent("built without quantised engines")
    x = torch.tensor([[1.0, -1.0, 0.5, 0.25, -0.75, 1.5, 2.0, -2.0]] * 3)
    weight = torch.tensor([[0.5] * 8, [-0.25] * 8, [1.0] * 8, [0.125] * 8])
    want = (x.double() @ weight.double().t()).float()
    done, absent = [], []
    for engine in engines:
        t.step(engine)
        torch.backends.quantized.engine = engine
        scaled = torch.quantize_per_tensor(weight, 1.0 / 127, 0, torch.qint8)
        try:
            packed = torch.ops.quantized.linear_prepack(scaled, None)
            got = torch.ops.quantized.linear_dynamic(x, packed)
        except RuntimeError as error:
            absent.append("%s (%s)" % (engine, str(error).splitlines()[0][:60]))
            continue
        # Eight products, each with two values rounded to 8 bits of a range of 4 and 2.
        t.close(got, want, 0.02, 0.1, "linear_dynamic in " + engine)
        done.append(engine)
    if not done:
        raise Untried("no engine runs on this CPU: " + "; ".join(absent))
    return "engines " + " ".join(done) + ("; refused: " + "; ".join(absent) if absent else "")
