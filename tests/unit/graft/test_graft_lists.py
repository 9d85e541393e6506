"""The lists around a graft: a wheel's own list of cards, how long planned units take, which driver new code needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from rekindle.graft.order import with_driver, with_time
from rekindle.graft.wheel import add_archs, correct_list
from rekindle.model.graft import GraftReport, UnitOutcome
from returned_texts import CODE_AT, NEW, OLD, make_returning_library, returned_text


@pytest.mark.parametrize(
    ("old", "archs", "new"),
    [
        ("sm_50 sm_90 compute_90", ["sm_61"], "sm_50 sm_61 sm_90 compute_90"),
        ("sm_50 compute_90", ["sm_90", "sm_37"], "sm_37 sm_50 sm_90 compute_90"),
        ("sm_50 sm_61", ["sm_61"], "sm_50 sm_61"),
        ("compute_90", ["sm_61"], "sm_61 compute_90"),
        ("sm_90 sm_100", ["sm_120"], "sm_90 sm_100 sm_120"),
        ("sm_75 sm_80 sm_120", ["sm_90"], "sm_75 sm_80 sm_90 sm_120"),
    ],
)
def test_a_list_of_cards_keeps_its_order_with_more_of_them(old: str, archs: Sequence[str], new: str) -> None:
    assert add_archs(old, archs) == new


def test_a_library_names_the_new_card_and_the_second_time_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(make_returning_library(text=OLD))
    assert correct_list(path, ["sm_90"]) is None and returned_text(path.read_bytes(), 62) == NEW
    before = path.read_bytes()
    assert correct_list(path, ["sm_90"]) is None and path.read_bytes() == before


@pytest.mark.parametrize(
    ("library", "why"),
    [
        (make_returning_library(code=b"\x90" * 64), "certainty"),
        (make_returning_library(text=b"no list"), "not found"),
        (make_returning_library(text=OLD + b"\0" + OLD), "not found"),  # twice the same: nobody knows which one is read
        (b"MZ" + OLD + b"\0", "not in an ELF library"),
    ],
)
def test_a_list_that_cannot_be_exchanged_stays_and_says_why(tmp_path: Path, library: bytes, why: str) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(library)
    assert why in str(correct_list(path, ["sm_90"])) and path.read_bytes() == library


def test_of_several_lists_the_longest_is_the_librarys_own(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(make_returning_library(text=OLD + b"\0sm_75 sm_80"))
    assert correct_list(path, ["sm_90"]) is None and returned_text(path.read_bytes(), 62) == NEW
    assert path.read_bytes()[:CODE_AT].count(b"sm_75 sm_80\0") == 1


def report(*states: str) -> GraftReport:
    units = tuple(
        UnitOutcome(library="x", container=number, unit="aten/src/ATen/native/cuda/Sort.cu", state=state, arch="sm_61")  # type: ignore[arg-type]
        for number, state in enumerate(states)
    )
    return GraftReport(wheel="w", wheel_sha256="0", bytes_before=1, card="c", arch="sm_61", units=units)


WHEEL = "torch-2.7.1+cu128-cp311-cp311-manylinux_2_28_x86_64.whl"


def test_only_what_is_planned_takes_time_and_only_where_it_was_measured() -> None:
    planned = with_time(report("planned", "has"), WHEEL, 4)
    assert planned.minutes is not None and planned.jobs is not None
    assert with_time(report("has", "added"), WHEEL, 4).minutes is None
    assert with_time(report("planned"), WHEEL.replace("torch-", "torchvision-"), 4).minutes is None
    many = with_time(report(*["planned"] * 40), WHEEL, 1)
    assert many.minutes is not None and many.minutes[1] > planned.minutes[1]


def test_without_a_number_of_jobs_it_is_the_machines_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    many = report(*["planned"] * 40)
    for cores, jobs in ((8, 8), (None, 1)):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert with_time(many, WHEEL, None).minutes == with_time(many, WHEEL, jobs).minutes


@pytest.mark.parametrize(("state", "told"), [("added", True), ("planned", True), ("has", False), ("refused", False)])
def test_new_code_names_the_driver_it_needs(state: str, told: bool) -> None:
    noted = with_driver(msgspec.structs.replace(report(state), wheel=WHEEL, notes=("first",)), "12.8").notes
    assert noted[0] == "first" and [("CUDA 12.8's ptxas" in note, "driver 525" in note) for note in noted[1:]] == (
        [(True, True)] if told else []
    )


def test_windows_drivers_have_numbers_of_their_own() -> None:
    linux = with_driver(msgspec.structs.replace(report("added"), wheel=WHEEL), "12.8").notes
    windows = with_driver(msgspec.structs.replace(report("added"), wheel="torch-2.7.1-win_amd64.whl"), "12.8").notes
    assert linux and windows and linux != windows
    assert with_driver(report("added"), "99.0").notes == ()
