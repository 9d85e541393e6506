"""What the checks hold a real torch against, comparison by comparison, and how much they allow; and worlds in which
something is a little wrong, missing or older. Of check_basics, check_compile, check_cpu_ops, check_gpu_kernels,
check_gpu_runtime, check_surroundings, families, families_more, framework and reference.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pretended_gpus
from torch_visits import PYTHON, TRUTH, WORLDS, Visit, read_truth, torch_process, written

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not Path(PYTHON).exists(), reason="needs a Python with torch (REKINDLE_TEST_TORCH=…)"),
    pytest.mark.skipif(sys.platform == "win32", reason="worlds are forks"),
]
ROWS: dict[str, Any] = tomllib.loads(TRUTH.with_suffix(".toml").read_text("utf-8"))
SKEWED: dict[str, str] = ROWS["skewed"]


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[str, Visit]]:
    with torch_process() as process:
        yield process


@pytest.fixture
def visit(started: tuple[str, Visit]) -> Visit:
    return started[1]


@pytest.mark.parametrize("world", WORLDS)
def test_every_comparison_and_what_it_allows_stand_written(world: str, started: tuple[str, Visit]) -> None:
    """Whoever allows more, compares less or leaves a type out changes tests/truth/verify_worlds.txt, too."""
    version, visit = started
    if not version.startswith("2.13."):
        pytest.skip(f"written down of torch 2.13, this is {version}")
    assert written(visit(*WORLDS[world])) == read_truth()[world]


def test_no_comparison_allows_an_error_that_is_seen_by_eye() -> None:
    """Whatever the checks compute it from: in float64 a hundred thousandth, elsewhere some hundredths."""
    rows = re.findall(r"^  (.*): (\S+) of it \+ (\S+), \d+ numbers", TRUTH.read_text("utf-8"), re.MULTILINE)
    assert len(rows) > 500
    for name, relative, absolute in rows:
        most = 1e-5 if "float64" in name and "float32" not in name else 0.07
        summed = re.search(r"bfloat16|float16|stream|layers|differ|TF32|engine|network", name)
        assert float(relative) <= most and float(absolute) <= (1.0 if summed else most), name


def change_of(row: dict[str, Any]) -> str:
    return "".join([*(getattr(pretended_gpus, name) for name in row.get("on", ())), row["change"]])


@pytest.mark.parametrize("row", ROWS["fault"], ids=[f"{row['check']} {at}" for at, row in enumerate(ROWS["fault"])])
def test_a_small_fault_is_found_by_the_check_that_looks_there(row: dict[str, Any], visit: Visit) -> None:
    told = visit(change_of(row), [row["check"]])
    assert row["check"] in told, told
    ended = told[row["check"]]
    assert ended["status"] == "failed" and row["says"] in ended["detail"], ended


@pytest.mark.parametrize("row", ROWS["other"], ids=[f"{row['check']} {at}" for at, row in enumerate(ROWS["other"])])
def test_what_is_older_missing_or_elsewhere_is_said(row: dict[str, Any], visit: Visit) -> None:
    told = visit(change_of(row), [row["check"]])
    assert row["check"] in told, told
    ended = told[row["check"]]
    assert ended["status"] == row["ends"] and re.search(row["says"], ended["detail"]), ended


@pytest.mark.parametrize("what", SKEWED)
def test_six_standard_deviations_are_the_limit(what: str, visit: Visit) -> None:
    inside, outside = (visit(f"s = {s}\n{SKEWED[what]}", ["ops.random"])["ops.random"] for s in (5.5, 6.5))
    assert inside["status"] == "passed" or what not in inside["detail"], inside
    assert outside["status"] == "failed" and outside["detail"].split(": ", 1)[1].startswith(what), outside


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("a = torch.rand; torch.rand = lambda n, **k: a(n) * 0.9 + 0.05", "variance of rand"),
        (
            "a = torch.rand; torch.rand = lambda n, **k: torch.cat([a(n)[2:], torch.tensor([0.0, 1.0])])",
            "leaves [0, 1)",
        ),
        (
            "a = torch.rand; torch.rand = lambda n, **k: torch.cat([a(n)[2:], torch.tensor([-0.1, 0.9])])",
            "leaves [0, 1)",
        ),
        ("torch.randn = lambda n, **k: (torch.rand(n).double() - 0.5) * 12 ** 0.5", "kurtosis of randn"),
        ("torch.randperm = lambda n, **k: torch.zeros(n)", "randperm"),
        ("torch.manual_seed = lambda n: None", "the same seed"),
        ("a = torch.randn; torch.randn = lambda n, **k: a(n) if n > 64 else torch.zeros(n)", "stands still"),
    ],
)
def test_draws_of_another_kind_are_noticed(change: str, said: str, visit: Visit) -> None:
    ended = visit(change, ["ops.random"])["ops.random"]
    assert ended["status"] == "failed" and said in ended["detail"], ended
