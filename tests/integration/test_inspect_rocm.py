"""Debian's ROCm libraries against a table made with LLVM's own tools.

`.ci/prepare/inspect.sh` brings a small one; given more package names it brings more, and all that lie there and are
in the table are compared.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rekindle import api

TRUTH = json.loads((Path(__file__).parent.parent / "truth" / "rocm.json").read_text("utf-8"))["libraries"]
PLACE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rekindle-ci" / "rocm"


@pytest.mark.network
@pytest.mark.parametrize("row", TRUTH, ids=lambda row: f"{row['package']}-{row['version']}")
def test_libraries_as_debian_ships_them(row: dict[str, Any]) -> None:
    found = sorted(PLACE.glob(f"{row['package']}_{row['version']}/usr/lib/*/{row['file']}"))
    if not found:
        pytest.skip(f"no {row['package']} {row['version']}: bash .ci/prepare/inspect.sh {row['package']}")
    report = api.inspect(str(found[0]), cpu=False)
    [library] = report.gpu.libraries
    assert sorted(library.gfx) == sorted(row["targets"])
    assert {use.arch: use.entries for use in library.uses} == dict.fromkeys(row["targets"], row["bundles"])
    assert library.compression == {row["form"]: row["bundles"]}
    assert library.unknown == {}


@pytest.mark.network
def test_a_real_library_is_judged_for_cards() -> None:
    found = sorted(PLACE.glob("librocrand1_5.3.3-4/usr/lib/*/librocrand.so.1.1"))
    if not found:
        pytest.skip("no librocrand1 5.3.3-4: bash .ci/prepare/inspect.sh")

    def runs(card: str) -> bool | None:
        machine = api.machine_from_flags(gpu=[card], os="linux", arch="x86_64")
        verdict = api.inspect(str(found[0]), cpu=False, machine=machine).verdict
        assert verdict is not None
        [axis] = [axis for axis in verdict.axes if axis.axis == "gpu"]
        return {"yes": True, "no": False, "unknown": None, "partly": None}[axis.runs]

    assert runs("gfx803") is True
    assert runs("gfx90a") is True  # both settings of xnack are there
    assert runs("gfx906") is True  # xnack- only, and that card has no other setting
    assert runs("gfx1031") is None  # only under an override
