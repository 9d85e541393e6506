"""libtorch_cpu.so alone, by the C functions it exports for ahead-of-time compiled models (from torch 2.2 or so on): no
import of torch and no matching Python, so an answer in seconds where an emulated import takes minutes."""

import ctypes
import itertools
import operator

from rekindle_checks import reference as ref
from rekindle_checks.framework import Absent, Failed, check, load_library

ILLEGAL = "code outside torch's dispatch uses instructions this CPU lacks: build from source for it (rekindle plan --cpu NAME --build)"
FLOAT32, CPU = 6, 0
I64, I32, HANDLE = ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p


class _Shim(object):
    """The few C functions, with tensors over memory of ours."""

    def __init__(self, t):
        self.library = load_library(t, "lib/libtorch_cpu.so", ctypes.RTLD_GLOBAL)
        self.kept = []

    def function(self, name):
        try:
            symbol = getattr(self.library, name)
        except AttributeError:
            raise Absent("this torch exports no %s" % name)
        symbol.restype = I32
        return symbol

    def call(self, name, *arguments):
        if self.function(name)(*arguments):
            raise Failed("%s reports an error" % name)

    def tensor(self, values, shape):
        data = (ctypes.c_float * len(values))(*values)
        self.kept.append(data)
        strides = list(itertools.accumulate((1,) + shape[:0:-1], operator.mul))[::-1]
        layout = (I64(len(shape)), _longs(shape), _longs(strides), I64(0))
        return self.result("aoti_torch_create_tensor_from_blob", data, *(layout + (I32(FLOAT32), I32(CPU), I32(0))))

    def result(self, name, *arguments):
        """The tensor that a function gives as the last of its arguments."""
        handle = HANDLE()
        self.call(name, *(arguments + (ctypes.byref(handle),)))
        return handle

    def values(self, handle, count):
        place = ctypes.c_void_p()
        self.call("aoti_torch_get_data_ptr", handle, ctypes.byref(place))
        return list((ctypes.c_float * count).from_address(place.value))


def _longs(values):
    return (I64 * len(values))(*values)


@check("core.load", scope="preload", level="smoke", remedy="rekindle inspect WHEEL names the libraries that are missing")
def _load(t):
    _Shim(t).function("aoti_torch_create_tensor_from_blob")
    return "libtorch_cpu.so loads by itself"


@check("core.matmul", scope="bare", level="smoke", remedy=ILLEGAL)
def _matmul(t):
    shim = _Shim(t)
    n, k, m = 17, 33, 19
    x, y = ref.grid(n * k), ref.grid(k * m, 2)
    want = ref.matmul(x, y, n, k, m)
    a, b = shim.tensor(x, (n, k)), shim.tensor(y, (k, m))
    out = shim.tensor([0.0] * (n * m), (n, m))
    t.step("mm")
    shim.call("aoti_torch_cpu_mm_out", out, a, b)
    t.close(shim.values(out, n * m), want, 1e-6, 1e-6, "mm")
    t.step("bmm")
    a3, b3 = shim.tensor(x + x, (2, n, k)), shim.tensor(y + y, (2, k, m))
    out3 = shim.tensor([0.0] * (2 * n * m), (2, n, m))
    shim.call("aoti_torch_cpu_bmm_out", out3, a3, b3)
    t.close(shim.values(out3, 2 * n * m), want + want, 1e-6, 1e-6, "bmm")
    return "mm and bmm"


@check("core.cumsum", scope="bare", level="smoke", remedy=ILLEGAL)
def _cumsum(t):
    """The function whose AVX2 copy crashes first when ATEN_CPU_CAPABILITY=avx2 is forced on an older CPU."""
    shim = _Shim(t)
    x = ref.grid(96)
    result = shim.result("aoti_torch_cpu_cumsum", shim.tensor(x, (96,)), I64(0), None)
    t.close(shim.values(result, 96), list(itertools.accumulate(x)), 1e-6, 1e-6, "cumsum")
    return "96 sums"


@check("core.conv", scope="bare", level="smoke", remedy=ILLEGAL)
def _conv(t):
    shim = _Shim(t)
    x, w = ref.grid(3 * 9 * 9), ref.grid(4 * 3 * 9, 5)
    a, b = shim.tensor(x, (1, 3, 9, 9)), shim.tensor(w, (4, 3, 3, 3))
    ones, zeros, two = _longs((1, 1)), _longs((0, 0)), I64(2)
    around = (ones, two, zeros, two, ones, two, I32(0), zeros, two, I64(1))
    result = shim.result("aoti_torch_cpu_convolution", a, b, None, *around)
    t.close(shim.values(result, 4 * 49), ref.conv2d(x, w, 3, 9, 9, 4, 3), 1e-6, 1e-6, "convolution")
    return "3 x 9 x 9 with 4 kernels"


@check("core.fft", scope="bare", level="smoke", remedy=ILLEGAL)
def _fft(t):
    shim = _Shim(t)
    x = ref.grid(32)
    result = shim.result("aoti_torch_cpu__fft_r2c", shim.tensor(x, (32,)), _longs((0,)), I64(1), I64(0), I32(0))
    t.close(shim.values(result, 64), ref.dft(x), 1e-5, 1e-5, "fft")
    return "length 32 against the definition"


@check("core.topk", scope="bare", level="smoke", remedy=ILLEGAL)
def _topk(t):
    shim = _Shim(t)
    x = ref.rough(64)
    a = shim.tensor(x, (64,))
    best, where = HANDLE(), HANDLE()
    shim.call("aoti_torch_cpu_topk", a, I64(5), I64(0), I32(1), I32(1), ctypes.byref(best), ctypes.byref(where))
    t.close(shim.values(best, 5), sorted(x, reverse=True)[:5], 1e-6, 1e-6, "topk")
    return "the 5 largest of 64"
