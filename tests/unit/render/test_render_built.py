"""What is printed after a build can be pasted, and proves what was built."""

from __future__ import annotations

import io

import pytest

from rekindle.model.build import BuildResult, BuildResults
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.render.build import render_results
from rekindle.render.screen import Screen

WHEEL = "/a b/torchaudio-2.6.0-cp313-cp313-linux_x86_64.whl"


def printed(torch: str, toolchain: dict[str, str]) -> str:
    plan = Plan(answer="build", torch="2.6.0", project="torchaudio", build=BuildRecipe(source="x"))
    result = BuildResult(
        project="torchaudio", wheel=WHEEL, wheel_sha256="0" * 64, plan=plan, plan_digest="1", toolchain=toolchain,
        environment={"PYTORCH_VERSION": torch} if torch else {},
    )  # fmt: skip
    stream = io.StringIO()
    render_results(BuildResults(results=(result,)), Screen(stream, color="never", width=200))
    return stream.getvalue().partition("Next\n")[2]


@pytest.mark.parametrize("torch", ["", "2.6.0", "2.6.0+rekindle.cpu"])
def test_a_torch_that_can_be_had_comes_with_the_wheel(torch: str) -> None:
    assert printed(torch, {"python": "3.13.5 (/usr/bin/python3)"}).split("\n")[0].strip() == (
        f"rekindle verify --wheel '{WHEEL}'"
    )


def test_a_distributions_torch_is_on_no_index() -> None:
    """verify --wheel would ask the index for torch 2.6.0+debian, which it does not have."""
    lines = [line.strip() for line in printed("2.6.0+debian", {"python": "3.13.5 (/usr/bin/python3)"}).splitlines()]
    assert lines[:3] == [
        "/usr/bin/python3 -m venv --system-site-packages proof",
        f"proof/bin/python -m pip install --no-deps '{WHEEL}'",
        "rekindle verify --python proof/bin/python --with torchaudio",
    ]
    assert "--wheel" in printed("2.6.0+debian", {}), "where its Python is not known nothing better can be said"
