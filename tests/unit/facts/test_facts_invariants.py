"""Facts that must agree with each other across tables. A new row that breaks one of these is a mistake."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from rekindle.compat import BACKENDS, flavour_backend
from rekindle.errors import BadInput
from rekindle.facts import FILES, Facts, load_facts
from rekindle.facts.browse import facts_show, facts_sources, rows_of
from rekindle.model.arch import parse_sm
from rekindle.model.version import compare, key

FACTS = load_facts()


@pytest.mark.parametrize("name", FILES)
def test_every_row_has_a_source_a_date_and_a_way_of_knowing(name: str) -> None:
    for label, row in rows_of(name, FACTS).items():
        assert row.source and all(source.strip() for source in row.source), label
        assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", row.date), label


def test_toolkits_only_ever_gain_new_architectures_and_lose_the_oldest() -> None:
    order = list(reversed(FACTS.toolkits))
    for older, newer in itertools.pairwise(order):
        before, after = FACTS.cuda.toolkit[older].sass, FACTS.cuda.toolkit[newer].sass
        lost = [sm for sm in before if sm not in after and not (sm.major == 10 and sm.minor == 1)]
        kept = [sm for sm in after if sm in before]
        assert all(gone < min(kept) for gone in lost), f"{newer} lost {lost} from the middle"


def test_drivers_and_compilers_do_not_go_backwards() -> None:
    order = list(reversed(FACTS.toolkits))
    for older, newer in itertools.pairwise(order):
        a, b = FACTS.cuda.toolkit[older], FACTS.cuda.toolkit[newer]
        if a.driver_linux and b.driver_linux:
            assert compare(a.driver_linux, b.driver_linux) <= 0, newer
        if a.gcc_max and b.gcc_max:
            assert a.gcc_max <= b.gcc_max, newer


def test_a_wheel_has_only_architectures_its_toolkit_can_emit() -> None:
    for flavour in FACTS.wheels.flavour:
        toolkit = FACTS.toolkit(flavour.cuda) if flavour.cuda else None
        for platform, archs in flavour.sm.items():
            for arch in archs:
                assert toolkit is not None and parse_sm(arch) in toolkit.sass, (
                    flavour.torch,
                    flavour.name,
                    platform,
                    arch,
                )


def test_a_wheels_cudnn_is_not_older_than_known_and_serves_its_newest_cards() -> None:
    for flavour in FACTS.wheels.flavour:
        if flavour.cudnn:
            assert key(flavour.cudnn)[0] in FACTS.era(f"{flavour.torch}.0").cudnn_major, (flavour.torch, flavour.name)


def test_pypi_defaults_name_flavours_that_exist_there() -> None:
    for version, release in FACTS.torch.release.items():
        for platform, name in release.pypi.items():
            rows = [row for row in FACTS.flavours(version) if row.name == name]
            assert rows and platform in BACKENDS[flavour_backend(rows[0])].platforms(rows[0]), (version, platform, name)
            assert release.pythons.get(platform), (version, platform)


def test_eras_begin_with_releases_and_are_in_order() -> None:
    since = [era.since for era in FACTS.torch.era]
    assert since == sorted(since, key=key) and set(since) <= set(FACTS.torch.release)
    floors = [era.cuda_min for era in FACTS.torch.era if era.cuda_min]
    assert floors == sorted(floors, key=key)


def test_every_architecture_of_a_chip_is_one_somebody_can_compile_for_or_too_old() -> None:
    known = {sm for row in FACTS.cuda.toolkit.values() for sm in row.sass}
    for name, chip in FACTS.nvidia.chip.items():
        arch = parse_sm(chip.arch)
        assert arch in known or arch.major < 2, name


def test_named_things_are_named_in_their_own_tables() -> None:
    table = FACTS.cpu.microarchitecture
    assert {row.microarchitecture for row in FACTS.cpu.name} <= set(table)
    assert {row.cpu for row in FACTS.cpu.run} <= set(table)
    assert len({hazard.id for hazard in FACTS.hazards.hazard}) == len(FACTS.hazards.hazard)
    targets = {chip.arch for chip in FACTS.amd.chip.values()}
    assert {row.gfx.name for row in FACTS.rocm.override} <= targets


def test_the_emulated_runs_cover_the_claim_about_old_cpus() -> None:
    assert {row.torch for row in FACTS.cpu.run if row.cpu == "ivybridge"} >= {"1.13.1", "2.6.0", "2.15.0"}


def test_an_overlay_replaces_and_adds_rows(tmp_path: Path) -> None:
    (tmp_path / "cuda.toml").write_text(
        'schema = 1\n[toolkit."14.0"]\nsass = ["sm_120"]\nsource = ["a test"]\ndate = "2026-11-15"\nhow = "reported"\n',
        "utf-8",
    )
    facts = Facts(tmp_path)
    assert facts.toolkits[0] == "14.0" and facts.toolkit("13.4") is not None


@pytest.mark.parametrize(
    "text", ["schema = ", 'schema = 1\n[toolkit."14.0"]\nsass = ["sm_x"]\n', "schema = 1\nnonsense = 2\n"]
)
def test_a_broken_overlay_names_the_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "cuda.toml").write_text(text, "utf-8")
    with pytest.raises(BadInput, match=r"cuda\.toml"):
        _ = Facts(tmp_path).cuda


def test_show_and_sources() -> None:
    assert "sm_35" in facts_show("cuda", "11.8").rows["11.8"]["sass"]  # type: ignore[operator]
    assert list(facts_show("nvidia", "GTX 970").rows) == ["GM204"]
    assert set(facts_show().rows) == set(FILES)
    assert sum(facts_sources().how.values()) > 700
    with pytest.raises(BadInput):
        facts_show("cudda")
