"""A farm's files, what its workers take, and what was compiled where."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.model.farm import (
    Farm,
    FarmCompilation,
    FarmCounts,
    FarmFolder,
    FarmReport,
    FarmStatus,
    FarmWorker,
    LanguageCounts,
)


def test_every_file_of_a_farm_has_its_name() -> None:
    folder = FarmFolder(Path("/f"))
    names = [path.relative_to("/f").as_posix() for path in (folder.table, folder.scheduler, folder.client)]
    assert names == ["farm.toml", "scheduler.conf", "client.conf"]
    assert folder.distrusted == Path("/f/distrusted.json")


def test_a_worker_is_called_by_its_name_where_it_has_one() -> None:
    farm = Farm(scheduler="http://a:1", workers=(FarmWorker(name="big", address="10.0.0.1:10501"),))
    assert (farm.name_of("10.0.0.1:10501"), farm.name_of("10.0.0.2:10501")) == ("big", "10.0.0.2:10501")


@pytest.mark.parametrize(
    ("servers", "slots", "room"), [(0, 0, 0), (1, 4, 5), (1, 7, 8), (1, 8, 10), (2, 16, 20), (2, 15, 17), (3, 96, 111)]
)
def test_workers_take_a_few_more_than_they_have_slots(servers: int, slots: int, room: int) -> None:
    assert FarmStatus(servers=servers, slots=slots).room == room


def test_compilations_are_counted_by_where_they_were_made() -> None:
    languages = {"C++": LanguageCounts(cached=3, compiled=5), "CUDA": LanguageCounts(cached=1)}
    counts = FarmCounts(languages=languages, remote={"a": 2, "b": 3}, compiled=7)
    assert (counts.elsewhere, counts.local, counts.cached) == (5, 2, 4)
    assert FarmCounts(remote={"a": 2}, compiled=1).local == 0


@pytest.mark.parametrize(("result", "saved"), [("cache hit", True), ("cache error", True), ("cache miss", False)])
def test_what_the_cache_has_is_not_compiled(result: str, saved: bool) -> None:
    assert FarmCompilation(object="a.o", result=result).from_cache is saved


@pytest.mark.parametrize(("slots", "why", "works"), [(1, None, True), (0, None, False), (4, "not reached", False)])
def test_a_farm_works_where_somebody_would_compile(slots: int, why: str | None, works: bool) -> None:
    assert FarmReport(folder="/f", status=FarmStatus(slots=slots, why=why)).works is works
