"""How many jobs: the cores we may use, what fits where Ninja knows no jobserver, and that what was learnt is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rekindle.build import governor as room
from rekindle.build.governor import SHARED_JOBSERVER, Governor, elastic_jobs, fixed_jobs
from rekindle.build.history import kept_history
from rekindle.errors import BadInput
from rekindle.host.memory import MemoryNow
from rekindle.host.processes import cores
from rekindle.model.build_options import BuildOptions, most_jobs
from rekindle.toolkits.programs import Tool

GIB = 1 << 30


def ninja(version: str) -> Tool:
    return Tool(name="ninja", path="ninja", version=version)


def test_cores_we_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 7} if pid == 0 else {1}, raising=False)
    assert cores() == 3
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(), raising=False)
    assert cores() == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1


@pytest.mark.parametrize(
    ("most", "available", "count"),
    [(8, 4 * GIB, 4), (8, 4 * GIB - 1, 3), (2, 9 * GIB, 2), (8, GIB - 1, 1), (8, 1, 1), (8, None, 8), (8, 0, 8)],
)
def test_fixed_jobs(most: int, available: int | None, count: int) -> None:
    assert fixed_jobs(most, available, GIB) == count


def watches(governor: Governor) -> bool:
    """It only looks: pausing, killing and tokens are another's."""
    return governor.watch_only


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHARED_JOBSERVER, raising=False)
    monkeypatch.setattr(room, "cores", lambda: 16)
    monkeypatch.setattr(
        room, "read_memory", lambda: MemoryNow(total=8 * GIB, available=2100 << 20, limited_by="machine")
    )


@pytest.mark.parametrize(
    ("options", "farm", "most"), [(BuildOptions(), None, 16), (BuildOptions(), 40, 40), (BuildOptions(jobs=3), 40, 3)]
)
def test_the_user_then_the_farm_then_the_cores(
    calm: None, tmp_path: Path, options: BuildOptions, farm: int | None, most: int
) -> None:
    with elastic_jobs(options, ninja("1.13.0"), tmp_path / "h.json", str(tmp_path), farm=farm) as jobs:
        assert jobs.max_jobs == most and jobs.note is None
        assert "jobserver" in jobs.env["MAKEFLAGS"]


def test_an_old_ninja_gets_a_fixed_number_and_the_user_is_told(calm: None, tmp_path: Path) -> None:
    with elastic_jobs(BuildOptions(), ninja("1.12.1"), tmp_path / "h.json", "x") as jobs:
        assert jobs.max_jobs == 3  # 2100 MiB free, 700 MiB for a usual compiler
        assert jobs.env == {"MAX_JOBS": "3", "CMAKE_BUILD_PARALLEL_LEVEL": "3"}
        assert jobs.note is not None and "1.12.1" in jobs.note
    with elastic_jobs(BuildOptions(memory="1400M"), ninja("1.12.1"), tmp_path / "h.json", "x") as jobs:
        assert jobs.max_jobs == 2


def test_where_memory_cannot_be_read_the_cores_decide(
    calm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "read_memory", lambda: None)
    with elastic_jobs(BuildOptions(), ninja("1.12.1"), tmp_path / "h.json", "x") as jobs:
        assert jobs.max_jobs == 16


def test_a_shared_jobserver_is_used_unless_jobs_were_asked_for(
    calm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHARED_JOBSERVER, "-j --jobserver-auth=fifo:/x")
    with elastic_jobs(BuildOptions(), ninja("1.13.0"), tmp_path / "h.json", "x") as jobs:
        assert jobs.env == {"MAKEFLAGS": "-j --jobserver-auth=fifo:/x"}
        assert watches(jobs.governor), "whoever opened it decides"
    with elastic_jobs(BuildOptions(jobs=2), ninja("1.13.0"), tmp_path / "h.json", str(tmp_path)) as jobs:
        assert not watches(jobs.governor) and "/x" not in jobs.env["MAKEFLAGS"]
    with elastic_jobs(BuildOptions(), ninja("1.12.0"), tmp_path / "h.json", "x") as jobs:
        assert "MAX_JOBS" in jobs.env
    with elastic_jobs(BuildOptions(), ninja("1.13"), tmp_path / "h.json", "x") as jobs:
        assert watches(jobs.governor), "the first release that knows one, however it is written"
    monkeypatch.delenv(SHARED_JOBSERVER)
    with elastic_jobs(BuildOptions(), ninja("1.13"), tmp_path / "h.json", str(tmp_path)) as jobs:
        assert "jobserver" in jobs.env["MAKEFLAGS"]


def test_what_was_learnt_is_kept_however_it_ends(calm: None, tmp_path: Path) -> None:
    history = tmp_path / "h.json"
    with pytest.raises(KeyboardInterrupt), elastic_jobs(BuildOptions(), ninja("1.13.0"), history, "y") as jobs:
        jobs.learnt.record("a.o", 5, 1.0)
        raise KeyboardInterrupt
    with kept_history(history) as learnt:
        assert learnt.peak("a.o") == 5


@pytest.mark.parametrize(
    ("own", "chooses", "left"),
    [
        ({"MAKEFLAGS": "x"}, False, {"CC": "gcc", "MAKEFLAGS": "x"}),
        ({"MAKEFLAGS": "x"}, True, {"CC": "gcc", "MAKEFLAGS": "x", "MAX_JOBS": "jobserver"}),
        ({"MAX_JOBS": "3"}, False, {"CC": "gcc", "MAX_JOBS": "3", "CMAKE_BUILD_PARALLEL_LEVEL": "9"}),
        ({"MAX_JOBS": "3"}, True, {"CC": "gcc", "MAX_JOBS": "3", "CMAKE_BUILD_PARALLEL_LEVEL": "9"}),
    ],
    ids=["a jobserver", "and a setup.py that chooses", "a fixed number", "a fixed number, and it chooses"],
)
def test_a_plans_number_of_jobs_does_not_go_past_the_jobserver(
    own: dict[str, str], chooses: bool, left: dict[str, str]
) -> None:
    env = {"CC": "gcc", "MAX_JOBS": "9", "CMAKE_BUILD_PARALLEL_LEVEL": "9"}
    jobs = room.Jobs(governor=None, learnt=None, env=own, max_jobs=1)  # type: ignore[arg-type]
    jobs.tell(env, chooses=chooses)
    assert env == left


@pytest.mark.parametrize(
    ("jobs", "settings", "most"),
    [
        (None, (), None),
        (3, (), 3),
        (None, (("MAX_JOBS", "2"),), 2),
        (3, (("MAX_JOBS", "2"),), 3),
        (None, (("A", "2"),), None),
    ],
)
def test_the_ceiling_is_what_was_asked_by_hand(
    jobs: int | None, settings: tuple[tuple[str, str], ...], most: int | None
) -> None:
    assert most_jobs(jobs, settings) == most


@pytest.mark.parametrize(("jobs", "said"), [(0, "2"), (None, "0"), (None, "many"), (None, "-1")])
def test_no_jobs_at_all_cannot_be_asked_for(jobs: int | None, said: str) -> None:
    with pytest.raises(BadInput, match="jobs"):
        most_jobs(jobs, (("MAX_JOBS", said),))


def test_an_old_ninja_with_a_farm_is_given_as_many_jobs_as_clients_fit(calm: None, tmp_path: Path) -> None:
    with elastic_jobs(BuildOptions(farm=""), ninja("1.12.1"), tmp_path / "h.json", "x", farm=40) as jobs:
        assert 16 < jobs.max_jobs <= 40, "2100 MiB are free, and a client is small"


def test_a_farm_is_not_left_to_a_shared_jobserver(calm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARED_JOBSERVER, "-j --jobserver-auth=fifo:/x")
    with elastic_jobs(BuildOptions(farm=""), ninja("1.13.0"), tmp_path / "h.json", str(tmp_path), farm=40) as jobs:
        assert not watches(jobs.governor) and "/x" not in jobs.env["MAKEFLAGS"] and jobs.max_jobs == 40
