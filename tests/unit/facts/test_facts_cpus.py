"""archspec's rows as ours: levels, ancestors' features, the newest compiler's flags; on a small table of its kind."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest

from rekindle.errors import BadInput
from rekindle.facts import cpus


def row(parents: list[str], features: list[str], vendor: str = "generic", **more: Any) -> dict[str, Any]:
    return {"from": parents, "vendor": vendor, "features": features, **more}


GCC = [
    {"versions": "4.6:4.8.5", "name": "old", "flags": "-march={name}"},
    {"versions": "9:", "flags": "-march={name} -mtune={name}"},
    {"versions": "4.9:", "name": "older", "flags": "-march={name}"},
    {"versions": ":4.5", "flags": "-O2"},
]
TABLE = {
    "x86_64": row([], []),
    "x86_64_v2": row(["x86_64"], ["ssse3"]),
    "early": row(["x86_64"], ["sse2"], "Maker", compilers={"gcc": GCC, "nvhpc": GCC}),
    "late": row(["early", "x86_64_v2"], ["avx"], "Maker", cpupart="0x1"),
    "ppc": row([], []),
    "power9": row(["ppc"], ["vsx"], "IBM"),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    content = {"microarchitectures": TABLE, "conversions": {"arm_vendors": {"0x41": "ARM"}}}
    kept = (cpus.archspec_rows, cpus.archspec_microarchitectures, cpus._ancestors)
    monkeypatch.setattr(cpus, "read_archspec", lambda name: content)
    for function in kept:
        function.cache_clear()
    yield
    for function in kept:
        function.cache_clear()


def test_a_row_has_what_its_ancestors_have_and_the_level_nearest_to_it() -> None:
    rows = cpus.archspec_rows()
    assert list(rows) == ["x86_64", "x86_64_v2", "early", "late"]
    assert rows["late"]["features"] == ["avx", "sse2", "sse3", "ssse3"]
    assert [rows[name]["level"] for name in rows] == ["x86_64", "x86_64_v2", "x86_64", "x86_64_v2"]
    assert {rows[name]["family"] for name in rows} == {"x86_64"}
    assert rows["early"]["features"] == ["sse2"]


def test_flags_are_those_of_the_newest_compiler() -> None:
    rows = cpus.archspec_microarchitectures()
    assert rows["early"].flags == {"gcc": "-march=early -mtune=early"}
    assert rows["late"].flags == {}
    assert (rows["late"].part, rows["late"].vendor, rows["early"].part) == ("0x1", "Maker", None)


def test_an_implementer_that_nobody_knows_keeps_its_number() -> None:
    assert [cpus.arm_vendor(code) for code in ("0x41", "0x99", "")] == ["ARM", "0x99", None]


def test_without_archspec_the_way_to_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    cpus.read_archspec.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match="archspec") as error:
        cpus.read_archspec("cpuid")
    assert error.value.remedy == "pip install archspec"
