"""The options of a build: what is refused, and what the next Python gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.model.build_options import MIN_MEMORY_BYTES, BuildOptions, memory_budget, most_jobs


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
