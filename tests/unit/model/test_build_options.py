"""The options of a build: what is refused, and what the next Python gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.model.build_options import MIN_MEMORY_BYTES, BuildOptions, CompilerOptions, memory_budget, most_jobs
from rekindle.model.farm import CHECKED_ONE_IN


def test_the_next_python_does_not_clean_away_what_the_first_built() -> None:
    options = BuildOptions(clean=True, jobs=3, target="c10", workspace=Path("w"))
    after = options.for_next_python()
    assert (after.clean, after.jobs, after.target, after.workspace) == (False, 3, "c10", Path("w"))
    assert options.clean, "the first one's stay as they are"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (BuildOptions(launcher="magic"), "no launcher"),
        (BuildOptions(memory="x"), "no size"),
        (BuildOptions(memory="63M"), "too small"),
        (BuildOptions(jobs=0), "at least 1"),
        (BuildOptions(settings=(("MAX_JOBS", "many"),)), "number of jobs"),
    ],
)
def test_what_no_build_understands_is_refused(options: BuildOptions, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        options.check()


@pytest.mark.parametrize("launcher", [None, "ccache", "sccache", "distcc", "icecc"])
def test_what_builds_understand_is_not_refused(launcher: str | None) -> None:
    options = BuildOptions(launcher=launcher, memory="64M", jobs=1)
    options.check()
    assert options.memory_bytes == MIN_MEMORY_BYTES


def test_the_smallest_budget_is_one() -> None:
    assert memory_budget(f"{MIN_MEMORY_BYTES}b") == MIN_MEMORY_BYTES
    with pytest.raises(BadInput):
        memory_budget(f"{MIN_MEMORY_BYTES - 1}b")
    assert BuildOptions(memory="8G").memory_bytes == 8 << 30 and BuildOptions().memory_bytes is None


def test_jobs_by_hand_win_over_the_setting() -> None:
    assert most_jobs(2, (("MAX_JOBS", "7"),)) == 2
    assert most_jobs(None, (("MAX_JOBS", "7"),)) == 7
    assert most_jobs(None, ()) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (BuildOptions(farm=""), None),
        (BuildOptions(farm="/f", launcher="sccache"), None),
        (BuildOptions(farm="", launcher="ccache"), "a farm is sccache's, not ccache's"),
        (BuildOptions(farm="/f", launcher="distcc"), "a farm is sccache's, not distcc's"),
        (BuildOptions(farm_check=0), None),
        (BuildOptions(farm_check=1), None),
        (BuildOptions(farm_check=-1), "--farm-check is 0"),
    ],
)
def test_a_farm_is_one_of_sccache_and_may_be_checked(options: BuildOptions, words: str | None) -> None:
    if words is None:
        options.check()
    else:
        with pytest.raises(BadInput, match=words):
            options.check()


def test_what_the_help_says_of_checking_a_farm_is_so() -> None:
    assert f"default: {CHECKED_ONE_IN})" in (CompilerOptions.__doc__ or "")


@pytest.mark.parametrize(
    ("target", "targets"), [(None, ()), ("", ()), ("c10", ("c10",)), (" a , b,,", ("a", "b")), (",", ())]
)
def test_targets_stand_with_commas_between_them(target: str | None, targets: tuple[str, ...]) -> None:
    assert BuildOptions(target=target).targets == targets


@pytest.mark.parametrize(
    ("jobs", "settings", "most"),
    [(1, (), 1), (None, (("MAX_JOBS", "1"),), 1), (None, (("MAX_JOBS", ""),), None), (3, (("MAX_JOBS", "x"),), 3)],
)
def test_one_job_is_enough_and_a_setting_counts_where_nothing_else_is_said(
    jobs: int | None, settings: tuple[tuple[str, str], ...], most: int | None
) -> None:
    assert most_jobs(jobs, settings) == most


@pytest.mark.parametrize(("jobs", "setting"), [(0, "4"), (-1, "4"), (None, "0"), (None, "-1"), (None, "1.5")])
def test_no_jobs_at_all_are_refused_wherever_they_are_said(jobs: int | None, setting: str) -> None:
    with pytest.raises(BadInput):
        most_jobs(jobs, (("MAX_JOBS", setting),))
