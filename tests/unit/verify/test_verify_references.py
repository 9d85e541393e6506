"""What the checks hold torch against, itself held against closed forms; and which types a build must offer."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loaded_checks import loaded_checks


@pytest.fixture(scope="module")
def checks() -> Iterator[Any]:
    with loaded_checks() as load:
        yield load


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (1.0, 0.0),
        (2.0, 0.0),
        (3.0, math.log(2)),
        (10.0, math.log(362880)),
        (0.5, math.log(math.pi) / 2),
        (1.5, math.log(math.pi) / 2 - math.log(2)),
        (29.0, math.log(math.factorial(28))),
        (30.0, math.log(math.factorial(29))),
        (31.0, math.log(math.factorial(30))),
        (171.0, math.log(math.factorial(170))),
    ],
)
def test_the_logarithm_of_gamma_by_closed_forms(checks: Any, value: float, want: float) -> None:
    assert checks("reference").lgamma(value) == pytest.approx(want, rel=3e-16, abs=1e-20)


def test_near_its_zero_it_follows_the_series(checks: Any) -> None:
    """log gamma(1 + h) = -c h + pi^2 h^2 / 12 - …, with Euler's constant c; Python's own is off in the ninth digit."""
    h = 1.0000001 - 1.0
    series = -0.5772156649015329 * h + math.pi**2 / 12 * h * h
    assert checks("reference").lgamma(1.0000001) == pytest.approx(series, rel=1e-13, abs=0.0)
    assert math.lgamma(1.0000001) != pytest.approx(series, rel=1e-9, abs=0.0)
    assert checks("reference").lgamma(math.inf) == math.inf
    with pytest.raises(ValueError, match=r"."):
        checks("reference").lgamma(0.0)


NAMES = ("float32", "float16", "bfloat16")


def bench(version: str, capability: tuple[int, int] | None, *, gpu: bool) -> Any:
    torch = SimpleNamespace(
        __version__=version,
        version=SimpleNamespace(hip=None if capability else "6.4"),
        cuda=SimpleNamespace(get_device_capability=lambda _: capability),
        **dict.fromkeys(NAMES, True),
    )
    return SimpleNamespace(torch=lambda: torch, device=0 if gpu else None, step=lambda _: None)


@pytest.mark.parametrize(
    ("version", "capability", "gpu", "owed"),
    [
        ("2.6.0", None, False, {"float32", "float16", "bfloat16"}),
        ("2.5.1", None, False, {"float32"}),
        ("2.11.0+cu130", (9, 0), True, {"float32", "float16", "bfloat16"}),
        ("2.11.0+cu130", (8, 0), True, {"float32", "float16", "bfloat16"}),
        ("2.11.0+cu126", (7, 5), True, {"float32", "float16"}),
        ("2.9.0+rocm6.4", None, True, {"float32", "float16"}),
        ("2.5.1+cu121", (9, 0), True, {"float32"}),
    ],
)
def test_a_type_left_out_of_the_build_is_a_fault_where_every_build_has_it(
    checks: Any, version: str, capability: tuple[int, int] | None, gpu: bool, owed: set[str]
) -> None:
    """A kernel without half on the GPU was once only listed as not offered."""

    def without(lacking: str) -> Any:
        def work(name: str) -> None:
            if name == lacking:
                raise RuntimeError("\"addmm_cuda\" not implemented for 'Half'")

        return work

    for name in NAMES:
        if name in owed:
            with pytest.raises(RuntimeError, match="not implemented"):
                checks("families").each_dtype(bench(version, capability, gpu=gpu), NAMES, without(name))
        else:
            said = checks("families").each_dtype(bench(version, capability, gpu=gpu), NAMES, without(name))
            assert said.endswith(f"; not offered: {name}")


def test_whether_an_extension_can_name_a_folder_with_a_blank(checks: Any, tmp_path: Path) -> None:
    """As 1.13.1 and as 2.6.0 write it."""
    source = tmp_path / "cpp_extension.py"
    for text, quotes in (("[f'-I{include}' for", False), ("[f'-I{shlex.quote(include)}' for", True)):
        source.write_text(text)
        assert checks("check_compile").quotes_paths(str(source)) is quotes


@pytest.mark.skipif(sys.platform == "win32", reason="programs are shell scripts")
def test_a_numbered_compiler_alone_is_a_compiler(checks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's g++-11 brings neither g++ nor c++; torch takes what CXX names."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{tmp_path / 'nowhere'}")
    monkeypatch.setenv("CXX", "")
    names = ("c++", "g++", "clang++")
    assert not checks("framework").find_compiler("CXX", names)
    for name in ("g++-9", "g++-11", "clang++-10", "g++-11.wrapper", "xg++-12"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "g++-13").write_text("not executable for anyone")
    assert checks("framework").find_compiler("CXX", names) == os.environ["CXX"] == "g++-11"
    monkeypatch.setenv("CXX", "")
    (tmp_path / "g++").write_text("#!/bin/sh\n")
    (tmp_path / "g++").chmod(0o755)
    assert checks("framework").find_compiler("CXX", names) == "g++" and os.environ["CXX"] == "", "nothing to be told"
