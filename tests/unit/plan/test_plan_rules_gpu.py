"""R1xx asked directly: cards, drivers, ROCm, boards."""

from __future__ import annotations

from planning import FACTS, ask, build, plan, said, wheel

from rekindle.plan.rules_gpu import source_end


def test_what_is_in_the_way_is_named_as_it_was_given() -> None:
    kepler = wheel("2.3.1", "cu118")
    assert said("R102", kepler, ask("sm_37", driver="495.29"))[0].what == "driver 495.29"
    (ended,) = said("R102", wheel("2.7.1", "cu126"), ask("sm_37"))
    assert ended.what == "CUDA 12.6" and ended.remedy == "take a torch made with an older CUDA"
    (apart,) = said("R102", kepler, ask("sm_37", "sm_90"))
    assert apart.remedy == "use each card in a machine of its own"
    (unread,) = said("R112", build("2.5.1", cuda="12.8"), ask("sm_120"))
    assert unread.remedy == "build torch 2.6.0 or newer"


def test_rocm_too_old_or_too_new_for_a_card() -> None:
    ended = next(row for row in FACTS.rocm.span if row.last is not None)
    (late,) = said("R114", build("2.9.1", rocm="99.0"), ask(str(ended.gfx)))
    assert late.remedy == f"use ROCm {ended.last} or older"
    (early,) = said("R114", build("2.9.1", rocm="0.1"), ask(str(ended.gfx)))
    assert early.remedy == f"use ROCm {ended.rocm} or newer", "too old is too old, whatever the last one is"


def test_a_board_s_driver_belongs_to_its_jetpack_and_is_not_judged() -> None:
    assert "driver-fits" not in {reason.code for reason in plan("Jetson AGX Orin", driver="540.3.0").because}
    assert "driver-fits" in {reason.code for reason in plan("RTX 3060", driver="580.65.06").because}


def test_rocm_on_windows_names_amd_s_targets_and_where_that_stands() -> None:
    (found,) = said("R116", build("2.9.1", rocm="6.4"), ask("gfx1030", os="windows"))
    assert found.remedy == "use Linux" and found.source
    assert "gfx1100" in found.reason


def test_an_end_of_sources_holds_from_its_first_to_its_last_card() -> None:
    for row in FACTS.cuda.source_end:
        assert source_end(row.first, FACTS) == row and source_end(row.last, FACTS) == row
