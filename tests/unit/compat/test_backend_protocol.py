"""Each backend module really satisfies the Protocol, and the rules of what runs where hold."""

from __future__ import annotations

import inspect

import pytest

from rekindle.compat import BACKENDS, Backend, backend_of
from rekindle.compat.cuda import code_runs_on
from rekindle.facts import load_facts
from rekindle.model.arch import Gfx, parse_sm
from rekindle.model.machine import Gpu

METHODS = [name for name, value in vars(Backend).items() if inspect.isfunction(value) and not name.startswith("_")]


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_has_every_function_with_the_same_parameters(name: str) -> None:
    backend = BACKENDS[name]  # type: ignore[index]
    assert name == backend.NAME
    for method in METHODS:
        wanted = list(inspect.signature(getattr(Backend, method)).parameters)[1:]
        assert list(inspect.signature(getattr(backend, method)).parameters) == wanted


def test_a_vendor_has_at_most_one_backend() -> None:
    assert backend_of("nvidia") == "cuda" and backend_of("amd") == "rocm" and backend_of("intel") is None


@pytest.mark.parametrize(
    ("code", "device", "cuda", "runs"),
    [
        ("8.6", "8.9", "11.8", True),
        ("8.9", "8.6", "11.8", False),
        ("8.6", "12.0", "12.8", False),
        ("12.0", "12.1", "12.8", True),
        ("5.0", "5.3", "12.6", False),
        ("8.0", "8.7", "13.0", False),
        ("8.0", "8.7", "13.2", True),
        ("7.0", "7.2", "10.2", False),
        ("8.7", "8.7", "11.4", True),
        ("8.7", "8.9", "12.6", False),
        ("10.1", "11.0", "12.8", True),
        ("10.0", "11.0", "13.0", False),
        ("3.7", "3.5", "11.8", False),
        ("3.5", "3.7", "11.8", True),
        ("9.0a", "9.0", "12.0", True),
    ],
)
def test_machine_code_runs_within_a_generation(code: str, device: str, cuda: str, runs: bool) -> None:
    assert code_runs_on(parse_sm(code), parse_sm(device), cuda) is runs


def test_a_listed_target_without_math_library_is_not_served() -> None:
    facts = load_facts()
    card = Gpu(vendor="amd", name="MI50", arch=Gfx("gfx906"))
    rows = {row.name: row for version in ("2.7.1", "2.8.0") for row in facts.flavours(version) if row.rocm}
    assert BACKENDS["rocm"].covers(rows["rocm6.3"], "linux_x86_64", card, facts).kind == "native"
    gone = BACKENDS["rocm"].covers(rows["rocm6.4"], "linux_x86_64", card, facts)
    assert gone.kind == "none" and "rocBLAS" in gone.text
