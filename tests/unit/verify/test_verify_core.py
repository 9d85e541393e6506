"""The checks of libtorch_cpu.so alone (check_core_torch), whose C functions are played by Python here."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from typing import Any

import pytest

from loaded_checks import loaded_checks


@pytest.fixture(scope="module")
def checks() -> Iterator[Any]:
    with loaded_checks() as load:
        yield load


@pytest.fixture(scope="module")
def ref(checks: Any) -> Any:
    return checks("reference")


@pytest.fixture(scope="module")
def frame(checks: Any) -> Any:
    return checks("framework")


class _Library:
    """Tensors by number, and the functions the checks call; ``wrong`` names one that computes something else."""

    def __init__(self, ref: Any, wrong: str = "", missing: str = "", failing: str = "") -> None:
        self.ref, self.wrong, self.failing, self.kept = ref, wrong, failing, []  # type: ignore[var-annotated]
        for name in ("create_tensor_from_blob", "get_data_ptr", "cpu_mm_out", "cpu_bmm_out", "cpu_cumsum",
                     "cpu_convolution", "cpu__fft_r2c", "cpu_topk"):  # fmt: skip
            if name != missing:
                setattr(self, f"aoti_torch_{name}", self._function(name))

    def _function(self, name: str) -> Any:
        class Function:
            restype = None

            def __call__(_, *arguments: Any) -> int:
                assert _.restype is ctypes.c_int32
                return 7 if name == self.failing else int(getattr(self, name)(*arguments) or 0)

        return Function()

    def of(self, handle: Any) -> Any:
        return self.kept[handle.value - 1]

    def give(self, place: Any, values: Any, shape: tuple[int, ...]) -> None:
        if place is not None:
            self.kept.append((values, shape))
            place._obj.value = len(self.kept)

    def result(self, place: Any, name: str, values: list[float]) -> None:
        off = 1e-4 if name == self.wrong else 0.0
        self.give(place, (ctypes.c_float * len(values))(*[v + off for v in values]), (len(values),))

    def create_tensor_from_blob(self, data: Any, count: Any, sizes: Any, strides: Any, *more: Any) -> None:
        shape = tuple(sizes)
        want = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
        assert (count.value, list(strides)) == (len(shape), want) and [one.value for one in more[:4]] == [0, 6, 0, 0]
        assert math.prod(shape) == len(data)
        self.give(more[4], data, shape)

    def get_data_ptr(self, handle: Any, place: Any) -> None:
        place._obj.value = ctypes.addressof(self.of(handle)[0])

    def _products(self, name: str, out: Any, a: Any, b: Any) -> None:
        (into, _), (x, left), (y, right) = self.of(out), self.of(a), self.of(b)
        (n, k), m, batch = left[-2:], right[-1], len(into) // (left[-2] * right[-1])
        for number in range(batch):
            part = self.ref.matmul(x[number * n * k :], y[number * k * m :], n, k, m)
            for at, value in enumerate(part):
                into[number * n * m + at] = value + (1e-4 if name == self.wrong else 0)

    def cpu_mm_out(self, *handles: Any) -> None:
        self._products("mm", *handles)

    def cpu_bmm_out(self, *handles: Any) -> None:
        self._products("bmm", *handles)

    def cpu_cumsum(self, a: Any, dimension: Any, kind: Any, place: Any) -> None:
        assert dimension.value == 0 and kind is None
        values = self.of(a)[0]
        self.result(place, "cumsum", [sum(values[: at + 1]) for at in range(len(values))])

    def cpu_convolution(self, a: Any, b: Any, bias: Any, *words: Any) -> None:
        plain = [list(one) if hasattr(one, "__len__") else one.value for one in words[:-1]]
        assert bias is None and plain == [[1, 1], 2, [0, 0], 2, [1, 1], 2, 0, [0, 0], 2, 1]
        (x, image), (w, kernels) = self.of(a), self.of(b)
        self.result(words[-1], "conv", self.ref.conv2d(x, w, *image[1:], kernels[0], kernels[2]))

    def cpu__fft_r2c(self, a: Any, dimensions: Any, count: Any, norm: Any, onesided: Any, place: Any) -> None:
        assert [list(dimensions), count.value, norm.value, onesided.value] == [[0], 1, 0, 0]
        self.result(place, "fft", self.ref.dft(list(self.of(a)[0])))

    def cpu_topk(self, a: Any, count: Any, dimension: Any, largest: Any, in_order: Any, best: Any, where: Any) -> None:
        assert [dimension.value, largest.value, in_order.value] == [0, 1, 1]
        values = sorted(self.of(a)[0], reverse=True)[: count.value]
        self.result(best, "topk", values)
        self.result(where, "", values)


CORE = {
    "core.load": ("create_tensor_from_blob", "libtorch_cpu.so loads by itself"),
    "core.matmul": ("cpu_bmm_out", "mm and bmm"),
    "core.cumsum": ("cpu_cumsum", "96 sums"),
    "core.conv": ("cpu_convolution", "3 x 9 x 9 with 4 kernels"),
    "core.fft": ("cpu__fft_r2c", "length 32 against the definition"),
    "core.topk": ("cpu_topk", "the 5 largest of 64"),
}


@pytest.mark.parametrize("id", CORE)
def test_the_c_functions_alone(id: str, checks: Any, frame: Any, ref: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    core = checks("check_core_torch")
    run = next(check.run for check in frame.CHECKS if check.id == id)
    modes: list[Any] = []

    def ended(library: Any) -> str:
        def load(_: Any, name: str, mode: int) -> Any:
            modes.append((name, mode))
            return library

        monkeypatch.setattr(core, "load_library", load)
        try:
            return str(run(frame.Bench({})))
        except (frame.Failed, frame.Absent) as error:
            return f"{type(error).__name__}: {error}"

    called, said = CORE[id]
    assert ended(_Library(ref)) == said and modes == [("lib/libtorch_cpu.so", ctypes.RTLD_GLOBAL)]
    assert ended(_Library(ref, missing=called)) == f"Absent: this torch exports no aoti_torch_{called}"
    if id != "core.load":
        assert ended(_Library(ref, failing=called)) == f"Failed: aoti_torch_{called} reports an error"
        for wrong in ("mm", "bmm") if id == "core.matmul" else (id.removeprefix("core."),):
            assert ended(_Library(ref, wrong=wrong)).startswith(f"Failed: {wrong}"[:11])
