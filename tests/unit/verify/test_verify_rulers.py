"""The references of the checks by closed forms, how wrong a right answer may be, and the bench that compares: of
reference and framework, without any torch."""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_the_grid_holds_every_eighth_in_no_simple_order(ref: Any) -> None:
    assert ref.grid(6) == [-1.375, -0.5, 0.375, 1.25, -0.75, 0.5]
    assert ref.grid(20)[11:13] == [0.375, 1.25], "77 + 6 and 84 + 6 over 23 leave 14 and 21"
    assert set(ref.grid(257)) == {eighths / 8 for eighths in range(-11, 12)}
    assert ref.grid(40, 7) == ref.grid(47)[7:]


def test_rough_numbers_are_knuths_generator_scaled(ref: Any) -> None:
    """MMIX's multiplier and increment; the upper 53 bits of the state are what is told."""
    state, want = 12345 + 7919 * 3, []
    for _ in range(5):
        state = (0x5851F42D4C957F2D * state + 0x14057B7EF767814F) % 2**64
        want.append((state // 2**11) / 2**52 - 1)
    assert ref.rough(5, 3) == want and ref.rough(5) == ref.rough(5, 1) != ref.rough(5, 2)
    many = ref.rough(4000)
    assert -1 < min(many) < -0.99 and 0.99 < max(many) < 1 and abs(math.fsum(many)) < 100


def test_products_and_convolutions_by_hand(ref: Any) -> None:
    assert ref.matmul([1, 2, 3, 4, 5, 6], [1, 0, 2, 1, 0, 1], 2, 3, 2) == [5, 5, 14, 11]
    image = list(range(1, 17))  # four rows of four
    middle = [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert ref.conv2d(image, middle, 1, 4, 4, 1, 3) == [6, 7, 10, 11]
    assert ref.conv2d(image, middle, 1, 4, 4, 1, 3, padding=1) == image
    assert ref.conv2d(image, middle, 1, 4, 4, 1, 3, stride=2, padding=1) == [1, 3, 9, 11]
    assert ref.conv2d(image, [1] * 9, 1, 4, 4, 1, 3, stride=2, padding=1) == [14, 30, 57, 99]
    corner = [1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert ref.conv2d(image, corner, 1, 4, 4, 1, 3, padding=1) == [0, 0, 0, 0, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11]
    # Two channels and two outputs, a window of one: a small product.
    assert ref.conv2d([1, 2, 3, 4, 5, 6], [1, 10, 0, 1], 2, 1, 3, 2, 1) == [41, 52, 63, 4, 5, 6]
    wide = list(range(1, 11))  # two rows of five
    assert ref.conv2d(wide, [1, 0, 0, 1], 1, 2, 5, 1, 2) == [8, 10, 12, 14]


def test_windows_means_and_powers_by_hand(ref: Any) -> None:
    image = [*range(12), *range(100, 112)]  # two channels, two rows of six
    assert ref.pool2d(image, 2, 2, 6, 2, max) == [7, 9, 11, 107, 109, 111]
    assert ref.pool2d(image, 2, 2, 6, 2, ref.mean) == [3.5, 5.5, 7.5, 103.5, 105.5, 107.5]
    assert ref.pool2d(list(range(16)), 1, 4, 4, 2, min) == [0, 2, 8, 10]
    assert ref.mean([1, 2, 6]) == 3 and ref.rows([1, 2, 3, 4, 5, 6], 2) == [[1, 2], [3, 4], [5, 6]]
    assert ref.identity(2) == [1, 0, 0, 1] and ref.identity(3, 5.0) == [5, 0, 0, 0, 5, 0, 0, 0, 5]
    assert ref.softmax([1000.0, 1000.0]) == [0.5, 0.5]
    assert ref.softmax([math.log(1), math.log(3)]) == pytest.approx([0.25, 0.75], rel=1e-15)


def test_the_transform_of_waves(ref: Any) -> None:
    wave = [math.cos(2 * math.pi * 2 * n / 9) + 3 * math.sin(2 * math.pi * n / 9) for n in range(9)]
    want = [0.0] * 18
    want[4] = want[14] = 4.5  # the cosine, there and back
    want[3], want[17] = -13.5, 13.5  # the sine, in the imaginary part
    assert ref.dft(wave) == pytest.approx(want, abs=1e-13)


TORCH = SimpleNamespace(__version__="2.13.0")
NEW = SimpleNamespace(torch=lambda: TORCH)
KINDS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "complex128": 53, "complex64": 24}


def old(version: str) -> Any:
    return SimpleNamespace(torch=lambda: SimpleNamespace(__version__=version))


def test_units_are_half_the_distance_of_neighbours(ref: Any) -> None:
    assert {name: -math.log2(unit) for name, unit in ref.UNIT.items()} == KINDS
    assert math.ulp(1.0) / 2 == ref.UNIT["float64"]
    assert {name: ref.rounding(name) / ref.UNIT[name] for name in KINDS} == {
        **dict.fromkeys(KINDS, 16), "float16": 4, "bfloat16": 4,
    }  # fmt: skip


def test_in_what_sums_of_short_types_are_added_up(ref: Any) -> None:
    for name in ("float16", "bfloat16"):
        assert ref.accumulates_in(NEW, name, "cpu") == ref.accumulates_in(old("1.8.0"), name, "cuda:0") == "float32"
        assert ref.accumulates_in(old("2.6.0"), name, "cpu") == "float32"
        assert ref.accumulates_in(old("2.5.1"), name, "cpu") == name
    others = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}
    assert {name: ref.accumulates_in(old("1.8.0"), name, "cpu") for name in others} == others


def test_how_far_a_sum_may_be_off(ref: Any) -> None:
    assert ref.summing(NEW, "float32", "cpu", 1000, 50.0) == 16 * 2.0**-24
    assert ref.summing(NEW, "float16", "cpu", 100, 8.0) == 100 * 2.0**-24 * 8
    assert ref.summing(old("1.13.1"), "bfloat16", "cpu", 100, 8.0) == 10 * 2.0**-8 * 8
    assert ref.summing(old("1.13.1"), "bfloat16", "cuda:0", 100, 8.0) == 100 * 2.0**-24 * 8
    assert ref.factoring("float32", 24) == 16 * 24 * 24 * 2.0**-24


def test_a_variance_on_gpus_before_2_0_combines_counts_in_float32(ref: Any) -> None:
    fine, coarse = 160 * 2.0**-53, 2.0**-24
    assert ref.variance(NEW, "float64", "cuda:0", 1073) == ref.variance(old("1.13.1"), "float64", "cpu", 1073) == fine
    assert ref.variance(old("2.0.0"), "float64", "cuda:0", 1073) == fine
    counts = {1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 1024: 10, 1025: 11, 1073: 11}
    got = {count: ref.variance(old("1.13.1"), "float64", "cuda:0", count) / coarse for count in counts}
    assert got == counts
    assert ref.variance(old("1.13.1"), "float32", "cuda:0", 1073) == 160 * coarse


# The bench.


def bench(frame: Any, **more: Any) -> Any:
    request = {"package": "torch", **more.pop("request", {})}
    made = frame.Bench(request, **more)
    made.torch = lambda: TORCH
    return made


@given(
    want=st.floats(-1e6, 1e6),
    rtol=st.sampled_from([0.0, 1e-9, 1e-3]),
    atol=st.sampled_from([1e-12, 1e-6, 0.5]),
    share=st.floats(-3, 3),
)
def test_within_the_sum_of_both_errors_and_not_beyond(want: float, rtol: float, atol: float, share: float) -> None:
    with loaded_checks() as load:
        frame = load("framework")
        t = frame.Bench({})
        allowed = atol + rtol * abs(want)
        got = want + share * allowed
        real = abs(got - want) / allowed  # as far as float64 holds the sum
        if real <= 1:
            t.close(got, want, rtol, atol)
            assert t.worst == pytest.approx(real)
        else:
            with pytest.raises(frame.Failed, match=r"result: element 0 is"):
                t.close(got, want, rtol, atol)


def test_the_worst_number_is_named_and_kept(frame: Any) -> None:
    t = bench(frame)
    t.step("part")
    with pytest.raises(
        frame.Failed, match=r"^part: element 2 is 3.5, the reference is 3 \(allowed: 0.1 absolute \+ 0 "
    ):
        t.close([1.0, 2.1, 3.5, 4.2], [1.0, 2.0, 3.0, 4.0], 0.0, 0.1)
    with pytest.raises(frame.Failed, match=r"^whole: 2 numbers instead of 1"):
        t.close([1.0, 2.0], [1.0], 0.0, 1.0, "whole")
    with pytest.raises(frame.Failed, match=r"nothing to compare"):
        t.close([], [], 0.0, 1.0)
    for wrong in (math.nan, math.inf, -math.inf):
        with pytest.raises(frame.Failed, match=r"element 1 is"):
            t.close([1.0, wrong, 2.0], [1.0, 2.0, 2.0], 0.0, 1.0)
        with pytest.raises(frame.Failed, match=r"element 0 is 1,"):
            t.close([1.0], [math.nan], 1.0, 1.0)
    assert t.worst is None, "nothing was right yet"
    t.close([1.5, math.inf], [1.0, math.inf], 0.0, 1.0)
    assert t.worst == 0.5
    t.close([1.25], [1.0], 0.0, 1.0)
    assert t.worst == 0.5
    t.close([0.0], [0.0], 0.0, 1.0)
    t.close([1.75], [1.0], 0.5, 0.5)
    assert t.worst == 0.75


def test_what_a_failure_is_called_by(frame: Any) -> None:
    said: list[dict[str, str]] = []
    t = bench(frame, tell=said.append)
    with pytest.raises(frame.Failed, match=r"^result: 1 instead of 2$"):
        t.equal(1, 2)
    t.equal(2, 2)
    with pytest.raises(frame.Failed, match=r"^no$"):
        t.ensure(False, "no")
    t.ensure(True, "yes")
    t.step("second")
    assert said == [{"event": "step", "name": "second"}] and t.where() == "second: "
    with pytest.raises(frame.Failed, match=r"^second: 'a' instead|^second: a instead of b"):
        t.equal("a", "b")
    with pytest.raises(frame.Failed, match=r"^named: 1 instead of 2"):
        t.equal(1, 2, "named")
    with pytest.raises(frame.Failed, match=r"^second: no$"):
        t.ensure(0, "no")
    for name, kind in (("absent_where", "absent"), ("untried_where", "untried")):
        getattr(t, name)(False, "why")
        with pytest.raises(frame.Skip, match=r"^why$") as caught:
            getattr(t, name)(True, "why")
        assert caught.value.kind == kind and frame.Skip.kind == "untried"


def test_a_missing_part_is_absent_in_older_releases_and_lost_in_newer(frame: Any) -> None:
    t, owner = bench(frame), SimpleNamespace(one=1)
    t.require(owner, "one", "99.0")
    with pytest.raises(frame.Absent, match=r"torch 2.13.0 is older than torch.two, which came with 2.14"):
        t.require(owner, "two", "2.14")
    with pytest.raises(frame.Absent, match=r"older than it, which came with 3.0"):
        t.require(owner, "one two", "3.0", "it")
    for release in ("2.13", "2.9"):
        with pytest.raises(frame.Failed, match=r"has no torch.two, which every release from") as caught:
            t.require(owner, "two", release)
        assert "build again" in caught.value.remedy


def test_words_of_settings(frame: Any) -> None:
    assert frame.numbered("2.6.0+cu124") == (2, 6) == frame.numbered("2.6") and frame.numbered("2.10.1") == (2, 10)
    yes, no = ("ON", " 1 ", "true", "Yes", True, 1), ("off", "0", "FALSE", "no", False)
    assert all(frame.truth(word) is True for word in yes) and all(frame.truth(word) is False for word in no)
    assert frame.truth("2") is None and frame.truth("") is None
    t = bench(frame, request={"expect": {"settings": {"USE_A": "1", "BLAS": "mkl", "UNKNOWN": "ON"}}})
    built, agreed = frame.planned_settings(t, "x: USE_A=ON, BLAS=mkl, -DNOT_ME=5 lower=1 B2_C=a.b\n")
    assert built == {"USE_A": "ON", "BLAS": "mkl", "B2_C": "a.b"} and agreed == 2
    for text in ("USE_A=OFF", "USE_A=5, BLAS=mkl", "BLAS=open"):
        with pytest.raises(frame.Failed, match=r"was planned$"):
            frame.planned_settings(t, text)
    assert frame.planned_settings(bench(frame), "USE_A=ON") == ({"USE_A": "ON"}, 0)


def test_numbers_of_whatever_holds_some(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    assert frame.numbers(3) == [3.0] and frame.numbers((1, True)) == [1.0, 1.0] and frame.numbers([2.5]) == [2.5]
    assert all(type(number) is float for number in frame.numbers(np.arange(3)))
    assert frame.numbers(np.array([[1, 2], [3, 4]])) == [1, 2, 3, 4]
    assert frame.numbers(np.array([1 + 2j, 3 - 4j])) == frame.numbers(np.array([1 + 2j, 3 - 4j], "c8")) == [1, 2, 3, -4]

    class Tensor:
        """As much of one as is asked for."""

        def __init__(self, values: Any, log: list[str]) -> None:
            self.values, self.log = np.asarray(values), log
            self.dtype = SimpleNamespace(is_floating_point=self.values.dtype.kind == "f")

        def __getattr__(self, name: str) -> Any:
            def same(*words: Any) -> Any:
                self.log.append(" ".join([name, *map(str, words)]))
                return self

            if name in ("detach", "to", "double", "reshape", "resolve_conj"):
                return same
            raise AttributeError(name)

        def is_complex(self) -> bool:
            return bool(self.values.dtype.kind == "c")

        def tolist(self) -> Any:
            return self.values.tolist()

    log: list[str] = []
    assert frame.numbers(Tensor([1.5, 2.5], log)) == [1.5, 2.5]
    assert log == ["detach", "to cpu", "double", "reshape -1"]
    log.clear()
    assert frame.numbers(Tensor([1, 2], log)) == [1.0, 2.0] and "double" not in log
    parts = SimpleNamespace(view_as_real=lambda one: Tensor(one.values.view("f8"), log))
    monkeypatch.setitem(sys.modules, "torch", parts)
    log.clear()
    assert frame.numbers(Tensor([1 + 2j], log)) == [1.0, 2.0] and "resolve_conj" in log


@given(st.text(), st.integers(4, 40))
def test_brief_words_keep_to_their_limit(text: str, limit: int) -> None:
    with loaded_checks() as load:
        said = load("framework").brief(text, limit)
        assert said == text if len(text) <= limit else said == text[: limit - 3] + "..." and len(said) == limit


def test_what_is_no_text_is_shown_as_python_writes_it(frame: Any) -> None:
    assert frame.brief(["a"]) == "['a']" and len(frame.brief(["a" * 500])) == 160


def test_a_scratch_folder_is_gone_whatever_happens(frame: Any) -> None:
    with pytest.raises(RuntimeError), frame.scratch("näme ") as folder:
        (Path(folder) / "deep").mkdir()
        (Path(folder) / "deep" / "file").touch()
        assert Path(folder).name.startswith("rekindle-näme ")
        raise RuntimeError
    assert not Path(folder).exists()
    with frame.scratch("x") as folder:
        Path(folder).rmdir()  # no complaint where it is gone already


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the C functions are called on Linux only")
def test_a_library_inside_the_package_under_test(frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "underneath"
    (package / "lib").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('it is not to be imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    t = frame.Bench({"package": "underneath"})
    with pytest.raises(frame.Absent, match=r"this build has no lib/libx.so"):
        frame.load_library(t, "lib/libx.so")
    (package / "lib" / "libx.so").write_bytes(b"no library")
    with pytest.raises(frame.Failed, match=r"cannot load libx.so: ") as caught:
        frame.load_library(t, "lib/libx.so")
    assert "rekindle inspect" in caught.value.remedy
    (tmp_path / "single.py").touch()
    for name in ("nowhere_at_all", "single"):
        with pytest.raises(frame.Failed, match=r"no package"):
            frame.load_library(frame.Bench({"package": name}), "lib/libx.so")
    seen: list[Any] = []

    def load(path: str, mode: int) -> str:
        seen.append((path, mode))
        return "loaded"

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert frame.load_library(t, "lib/libx.so") == frame.load_library(t, "lib/libx.so", 5) == "loaded"
    assert [mode for _, mode in seen] == [ctypes.DEFAULT_MODE, 5]
    assert seen[0][0] == str(package / "lib" / "libx.so")
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(frame.Untried, match=r"on Linux only"):
        frame.load_library(t, "lib/libx.so")


def card(frame: Any, *, hip: str | None = None, xpu: bool = False, major: int = 9, minor: int = 0, **about: Any) -> Any:
    torch = SimpleNamespace(
        version=SimpleNamespace(hip=hip),
        cuda=SimpleNamespace(get_device_capability=lambda number: (major, minor) if number == 1 else None),
        xpu=SimpleNamespace(_is_compiled=lambda: xpu, get_device_properties=lambda number: SimpleNamespace(**about)),
    )
    t = frame.Bench({}, device=1)
    t.torch = lambda: torch
    return t


def test_what_a_card_computes_in(frame: Any) -> None:
    nvidia, amd = card(frame), card(frame, hip="6.4")
    arc, max_ = card(frame, xpu=True, has_fp64=False), card(frame, xpu=True, has_fp64=True)
    assert [frame.capability(t) for t in (nvidia, amd, arc)] == [(9, 0), None, None]
    assert [frame.is_rocm(t.torch()) for t in (nvidia, amd, arc)] == [False, True, False]
    assert [frame.accelerator(t.torch())[0] for t in (nvidia, amd, arc)] == ["cuda", "cuda", "xpu"]
    assert frame.accelerator(SimpleNamespace(cuda="its module")) == ("cuda", "its module")
    unknown = card(frame, xpu=True)
    assert [frame.has_doubles(t) for t in (nvidia, amd, arc, max_, unknown)] == [True, True, False, True, True]
    arc.device = None
    assert frame.has_doubles(arc), "the CPU beside it"
    arc.device = 1
    assert [frame.widest(t) for t in (nvidia, arc)] == ["float64", "float32"]
    names = ("float64", "float32", "complex128", "complex64")
    assert frame.computable(nvidia, names) == names and frame.computable(arc, names) == ("float32", "complex64")
    both = ("float16", "bfloat16")
    assert [frame.halves(t) for t in (nvidia, amd, arc)] == [both] * 3
    assert frame.halves(card(frame, major=8)) == both and frame.halves(card(frame, major=7, minor=5)) == ("float16",)


def test_at_least_that_compute_capability(frame: Any) -> None:
    frame.at_least(card(frame, major=8, minor=9), 8, 9, "it")
    frame.at_least(card(frame), 8, 9, "it")
    with pytest.raises(frame.Absent, match=r"it needs compute capability 8.9, this GPU has 8.6"):
        frame.at_least(card(frame, major=8, minor=6), 8, 9, "it")
    with pytest.raises(frame.Absent, match=r"it is checked on NVIDIA GPUs only"):
        frame.at_least(card(frame, hip="6.4"), 8, 9, "it")


def test_tf32_is_off_meanwhile_and_back_afterwards(frame: Any) -> None:
    cudnn, products = SimpleNamespace(allow_tf32=True), SimpleNamespace(allow_tf32="what it was")
    torch = SimpleNamespace(backends=SimpleNamespace(cudnn=cudnn, cuda=SimpleNamespace(matmul=products)))
    t = frame.Bench({})
    t.torch = lambda: torch
    with pytest.raises(RuntimeError), frame.exact(t):
        assert cudnn.allow_tf32 is products.allow_tf32 is False
        raise RuntimeError
    assert (cudnn.allow_tf32, products.allow_tf32) == (True, "what it was")
    torch.backends = SimpleNamespace(cudnn=SimpleNamespace(), cuda=SimpleNamespace())
    with frame.exact(t):
        pass
    assert not hasattr(torch.backends.cudnn, "allow_tf32")


def test_a_check_is_called_with_what_its_scope_gives_it(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    module = SimpleNamespace(cuda=SimpleNamespace(set_device=chosen.append))
    monkeypatch.setitem(sys.modules, "pretended", module)
    t = frame.Bench({}, device=2)

    def asked(**more: Any) -> Any:
        frame.check("x", package="pretended", **more)(lambda *words: words)
        return frame.perform(frame.CHECKS.pop(), t)

    for scope in ("preload", "bare", "import"):
        assert asked(scope=scope) == (t,)
    assert asked() == asked(scope="gpus") == (t, module) and not chosen
    assert asked(scope="gpu") == (t, module, "cuda:2") and chosen == [2]
    frame.check("y", package="any", scope="gate")(lambda *words: words)
    assert frame.perform(frame.CHECKS.pop(), t) == (t,)


def test_tables_beside_the_checks_are_read_as_they_are(frame: Any, checks: Any) -> None:
    table = frame.read_table("families")
    assert json.loads((Path(os.fspath(checks("framework").__file__)).parent / "families.json").read_text()) == table
