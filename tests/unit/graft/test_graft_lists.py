"""The lists around a graft: a wheel's own list of cards, what a graft file may hold, how long planned units take."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rekindle.graft.order import with_time
from rekindle.graft.wheel import corrected
from rekindle.model.graft import GraftReport, UnitOutcome


@pytest.mark.parametrize(
    ("old", "archs", "new"),
    [
        ("sm_50 sm_90 compute_90", ["sm_61"], "sm_50 sm_61 sm_90 compute_90"),
        ("sm_50 compute_90", ["sm_90", "sm_37"], "sm_37 sm_50 sm_90 compute_90"),
        ("sm_50 sm_61", ["sm_61"], "sm_50 sm_61"),
        ("compute_90", ["sm_61"], "sm_61 compute_90"),
        ("sm_90 sm_100", ["sm_120"], "sm_90 sm_100 sm_120"),
    ],
)
def test_a_list_of_cards_keeps_its_order_with_more_of_them(old: str, archs: Sequence[str], new: str) -> None:
    assert corrected(old, archs) == new


def report(*states: str) -> GraftReport:
    units = tuple(
        UnitOutcome(library="x", container=number, unit="aten/src/ATen/native/cuda/Sort.cu", state=state, arch="sm_61")  # type: ignore[arg-type]
        for number, state in enumerate(states)
    )
    return GraftReport(wheel="w", wheel_sha256="0", bytes_before=1, card="c", arch="sm_61", units=units)


def test_only_what_is_planned_takes_time_and_only_where_it_was_measured() -> None:
    wheel = "torch-2.7.1+cu128-cp311-cp311-manylinux_2_28_x86_64.whl"
    planned = with_time(report("planned", "has"), wheel, 4)
    assert planned.minutes is not None and planned.jobs is not None
    assert with_time(report("has", "added"), wheel, 4).minutes is None
    assert with_time(report("planned"), wheel.replace("torch-", "torchvision-"), 4).minutes is None
    many = with_time(report(*["planned"] * 40), wheel, 1)
    assert many.minutes is not None and many.minutes[1] > planned.minutes[1]
