"""Each backend goes by its name, and machine code runs where NVIDIA says."""

from __future__ import annotations

import pytest

from rekindle.compat import BACKENDS, backend_of
from rekindle.compat.answer import Coverage
from rekindle.compat.toolkit import sass_runs
from rekindle.facts import load_facts
from rekindle.model.arch import Gfx, Sm, Xe, parse_sm
from rekindle.model.facts import Platform
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


def on_intel(torch: str, platform: Platform, arch: str | None) -> Coverage:
    facts = load_facts()
    flavour = next(row for row in facts.flavours(torch) if row.xpu)
    return BACKENDS["xpu"].covers(flavour, platform, Gpu(vendor="intel", arch=Xe(arch) if arch else None), facts)


@pytest.mark.parametrize(
    ("torch", "platform", "arch", "kind", "code", "target"),
    [
        ("2.5.1", "linux_x86_64", "dg2", "native", "gpu-native", "xe_dg2"),
        ("2.5.1", "windows", "mtl", "native", "gpu-native", "xe_mtl"),
        ("2.5.1", "linux_x86_64", "bmg", "none", "gpu-no-code", None),
        ("2.6.0", "linux_x86_64", "bmg", "native", "gpu-native", "xe_bmg"),
        ("2.5.1", "linux_x86_64", "arls", "none", "gpu-no-code", None),
        ("2.6.0", "linux_x86_64", "arls", "native", "gpu-spirv", "spirv"),
        ("2.12.1", "windows", "arls", "native", "gpu-spirv", "spirv"),
        ("2.9.1", "linux_x86_64", "ptl", "none", "gpu-no-code", None),
        ("2.10.0", "linux_x86_64", "ptl", "native", "gpu-native", "xe_ptl"),
        ("2.6.0", "linux_x86_64", "pvc", "native", "gpu-native", "xe_pvc"),
        ("2.6.0", "windows", "pvc", "none", "gpu-no-code", None),
        ("2.6.0", "macos_arm64", "dg2", "none", "gpu-no-code", None),
        ("2.12.1", "linux_x86_64", "gen9", "none", "gpu-no-code", None),
        ("2.12.1", "linux_x86_64", "nobody_knows", "unknown", "gpu-arch-not-told", None),
        ("2.12.1", "linux_x86_64", None, "unknown", "gpu-arch-not-told", None),
    ],
)
def test_what_a_wheel_has_for_intels_cards(
    torch: str, platform: Platform, arch: str | None, kind: str, code: str, target: str | None
) -> None:
    found = on_intel(torch, platform, arch)
    assert (found.kind, found.code, found.target) == (kind, code, target)
    facts = load_facts()
    row = facts.xe_generation(Xe(arch)) if arch else None
    flavour = next(row for row in facts.flavours(torch) if row.xpu)
    assert found.source == (row.source[0] if row and code in ("gpu-no-code", "gpu-spirv") else flavour.source[0])


def test_why_an_intel_card_is_not_served() -> None:
    battlemage = "Arc B-series (Battlemage)"
    assert on_intel("2.5.1", "linux_x86_64", "bmg").text == f"is older than {battlemage}: torch 2.6 is the first for it"
    assert on_intel("2.6.0", "macos_arm64", "bmg").text == f"has no code for {battlemage}"
    assert on_intel("2.6.0", "windows", "pvc").text.endswith("on Windows, where it has no driver; on Linux it runs")
    assert on_intel("2.6.0", "linux_x86_64", "gen9").text.endswith("(Gen9 to Gen11)"), "it runs nowhere"
    assert on_intel("2.6.0", "windows", "gen9").text.endswith("(Gen9 to Gen11)"), "not on Linux either"
    assert on_intel("2.6.0", "linux_x86_64", "bmg").text == "holds xe_bmg"
    assert on_intel("2.6.0", "linux_x86_64", "arls").text.startswith("holds SPIR-V, which is compiled for xe_arls")


def test_a_build_is_told_the_cards_as_its_backend_spells_them() -> None:
    cards = (Gpu(vendor="intel", arch=Xe("dg2")), Gpu(vendor="intel", arch=Xe("bmg")), Gpu(vendor="intel"))
    assert BACKENDS["xpu"].arch_list(cards) == ("bmg", "dg2")
    assert BACKENDS["xpu"].arch_list((Gpu(vendor="nvidia", arch=Sm(8, 6)),)) == ()
    assert BACKENDS["xpu"].build_environment(("bmg", "dg2"))["TORCH_XPU_ARCH_LIST"] == "bmg,dg2"
    assert BACKENDS["cuda"].arch_list((Gpu(vendor="nvidia", arch=Sm(8, 6)),) * 2) == ("8.6",)


@pytest.mark.parametrize(("name", "arch"), [("cpu", None), ("cuda", Sm), ("rocm", Gfx), ("xpu", Xe)])
def test_a_backend_knows_the_kind_of_its_cards(name: str, arch: type | None) -> None:
    assert BACKENDS[name].arch is arch  # type: ignore[index]


def test_nobodys_cards_have_no_backend() -> None:
    assert backend_of("matrox") is None
