"""Our reader of offload bundles against the tool that makes them, clang-offload-bundler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import needs
from rekindle.formats.offload import read_bundles

TOOL = "clang-offload-bundler-15"
pytestmark = [pytest.mark.integration, needs.tool(TOOL)]
CHIPS = ["gfx803", "gfx900:xnack-", "gfx906", "gfx90a:xnack+", "gfx90a:xnack-", "gfx942:sramecc+:xnack-", "gfx1100"]


@settings(max_examples=12, deadline=None)
@given(
    chips=st.lists(st.sampled_from(CHIPS), unique=True, min_size=1), sizes=st.lists(st.integers(0, 9000), min_size=8)
)
def test_bundles_of_the_real_tool(chips: list[str], sizes: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("bundle")
    # The tool refuses one chip with and without a switch together.
    names = {chip.split(":")[0] for chip in chips}
    bare = {chip for chip in chips if ":" not in chip}
    chips = [chip for chip in chips if chip in bare or chip.split(":")[0] not in bare & names]
    ids = ["host-x86_64-unknown-linux", *(f"hipv4-amdgcn-amd-amdhsa--{chip}" for chip in chips)]
    inputs = []
    for number, _ in enumerate(ids):
        part = folder / f"part{number}"
        part.write_bytes(bytes([number]) * (sizes[number % len(sizes)] if number else 0))
        inputs.append(part)
    made = folder / "made.bundle"
    _tool("--targets=" + ",".join(ids), *(f"--input={part}" for part in inputs), f"--output={made}")
    [bundle] = read_bundles(made.read_bytes(), 0, made.stat().st_size)
    assert [(code.id, code.size) for code in bundle.objects] == [
        (name, part.stat().st_size) for name, part in zip(ids, inputs, strict=True)
    ]
    assert sorted(code.id for code in bundle.objects) == sorted(_tool("--list", f"--input={made}").split())
    assert [code.target for code in bundle.objects] == [None, *chips]


def _tool(*arguments: str | Path) -> str:
    program = shutil.which(TOOL)
    assert program is not None
    return subprocess.run(
        [program, "--type=o", *map(str, arguments)], check=True, capture_output=True, text=True
    ).stdout
