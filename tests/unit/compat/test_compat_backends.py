"""Each backend goes by its name, and machine code runs where NVIDIA says."""

from __future__ import annotations

import pytest

from rekindle.compat import BACKENDS, backend_of
from rekindle.compat.toolkit import sass_runs
from rekindle.facts import load_facts
from rekindle.model.arch import Gfx, parse_sm
from rekindle.model.machine import Gpu


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_knows_its_name(name: str) -> None:
    assert BACKENDS[name].name == name  # type: ignore[index]


def test_a_vendor_has_at_most_one_backend() -> None:
    assert backend_of("nvidia") == "cuda" and backend_of("amd") == "rocm" and backend_of("intel") == "xpu"


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
    assert sass_runs(parse_sm(code), parse_sm(device), cuda, load_facts()) is runs


def test_a_listed_target_without_math_library_is_not_served() -> None:
    facts = load_facts()
    card = Gpu(vendor="amd", name="MI50", arch=Gfx("gfx906"))
    rows = {row.name: row for version in ("2.7.1", "2.8.0") for row in facts.flavours(version) if row.rocm}
    assert BACKENDS["rocm"].covers(rows["rocm6.3"], "linux_x86_64", card, facts).kind == "native"
    gone = BACKENDS["rocm"].covers(rows["rocm6.4"], "linux_x86_64", card, facts)
    assert gone.kind == "none" and "rocBLAS" in gone.text
