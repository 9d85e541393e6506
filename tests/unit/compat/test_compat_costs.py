"""What a build takes, by rows made for the purpose: which row counts, what adds up on a disk."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rekindle.compat.resources import (
    Demand,
    Shortage,
    build_cost,
    first_shortage,
    manager_of,
    measured_bytes,
    parts_for,
    rows_for,
)
from rekindle.facts import Facts, load_facts
from rekindle.model.supply import BuildCost, CompanionDownload, DiskCost, FromIndex, Manager, ThirdParty

KNOWN: dict[str, Any] = {"source": ("a test",), "date": "2026-11-19", "how": "measured"}
GIB = 1 << 30
FACTS = load_facts()


def build(backend: Any, since: str) -> BuildCost:
    sizes = {"disk_gib": 9.0, "memory_gib": 8.0, "job_gib": 1.0, "largest_gib": 2.0, "cpu_minutes": 60}
    return BuildCost(backend=backend, since=since, **sizes, **KNOWN)  # type: ignore[arg-type]


def disk(since: str = "0", gib: float = 1.0, **fields: Any) -> DiskCost:
    return DiskCost(**{"phase": "compile", "project": "torch", "since": since, "gib": gib, **fields}, **KNOWN)


def tables(*rows: BuildCost | DiskCost) -> Facts:
    class Made(Facts):
        costs = msgspec.structs.replace(
            FACTS.costs,
            build=tuple(row for row in rows if isinstance(row, BuildCost)),
            disk=tuple(row for row in rows if isinstance(row, DiskCost)),
        )

    return Made()


@pytest.mark.parametrize(
    ("torch", "backend", "since"),
    [
        ("1.13.1", "cpu", "0"),
        ("2.0.9", "cpu", "0"),
        ("2.1", "cpu", "2.1"),
        ("2.1.0", "cpu", "2.1"),
        ("2.9.1", "cpu", "2.1"),
        ("2.10.0", "cpu", "2.10"),
        ("2.9.1", "cuda", "2.2"),
        ("2.1.9", "rocm", "0"),
        ("2.2", "xpu", "2.2"),
    ],
)
def test_the_newest_row_that_counts_for_the_release(torch: str, backend: Any, since: str) -> None:
    facts = tables(*(build("cpu", since) for since in ("2.1", "0", "2.10")), build("gpu", "0"), build("gpu", "2.2"))
    found = build_cost(torch, backend, facts)
    assert (found.backend, found.since) == ("cpu" if backend == "cpu" else "gpu", since)


def test_without_a_release_the_newest_there_is_counts() -> None:
    newest = FACTS.releases[0]
    facts = tables(build("cpu", "0"), build("cpu", newest))
    assert build_cost(None, "cpu", facts).since == newest
    assert build_cost(FACTS.releases[1], "cpu", facts).since == "0"


def measured(*rows: DiskCost, torch: str = "2.6.0", gpu: bool = False, origin: str | None = None) -> int | None:
    return measured_bytes("compile", "torch", torch, tables(*rows), gpu=gpu, origin=origin)


def test_what_a_phase_left_where_it_was_measured() -> None:
    assert measured() is None
    assert measured(disk(gib=2.5)) == int(2.5 * GIB)
    assert measured(disk(phase="wheel"), disk(project="torchvision")) is None
    assert measured(disk(gib=9.0, phase="wheel"), disk(gib=9.0, project="torchvision"), disk(gib=2.0)) == 2 * GIB


def test_the_newest_row_that_was_measured_alike() -> None:
    rows = (disk("2.10", 4.0), disk("0", 1.0), disk("2.6", 2.0))
    found = [measured(*rows, torch=torch) for torch in ("2.5.1", "2.6", "2.6.0", "2.9.1", "2.10.0")]
    assert found == [GIB, 2 * GIB, 2 * GIB, 2 * GIB, 4 * GIB]
    assert measured(disk("2.10", 4.0)) is None


def test_a_row_for_one_back_end_or_one_origin_counts_for_it_alone() -> None:
    card, processor = disk(gib=3.0, backend="gpu"), disk(gib=2.0, backend="cpu")
    assert [measured(card, processor, gpu=gpu) for gpu in (True, False)] == [3 * GIB, 2 * GIB]
    assert measured(card) is None
    debian = disk(gib=5.0, origin="debian")
    assert [measured(debian, origin=origin) for origin in ("debian", "git", None)] == [5 * GIB, None, None]
    assert measured(disk(gib=3.0, backend="gpu", origin="debian"), gpu=True, origin="git") is None
    assert measured(disk(gib=3.0, backend="gpu", origin="debian"), gpu=False, origin="debian") is None


ROOM = {"/a": (1, 10), "/a/too": (1, 10), "/b": (2, 5), "/untold": (None, 4), "/untold too": (None, 4)}


@pytest.mark.parametrize(
    ("asked", "short"),
    [
        ([], None),
        ([("/a", 10)], None),
        ([("/a", 11)], (0, 0, 10)),
        ([("/a", 6), ("/a/too", 4)], None),
        ([("/a", 6), ("/a/too", 5)], (1, 6, 10)),
        ([("/a", 3), ("/a", 3), ("/a", 3), ("/a", 2)], (3, 9, 10)),
        ([("/a", 6), ("/b", 5), ("/a", 4)], None),
        ([("/a", 6), ("/b", 6), ("/a", 5)], (1, 0, 5)),
        ([("/a", None), ("/a", 10)], None),
        ([("/nowhere", 99), ("/b", 6)], (1, 0, 5)),
        ([("/untold", 4), ("/untold too", 4)], None),
        ([("/untold", 2), ("/untold", 3)], (1, 2, 4)),
    ],
)
def test_the_first_phase_that_does_not_fit(
    asked: list[tuple[str, int | None]], short: tuple[int, int, int] | None
) -> None:
    demands = [Demand(f"phase {number}", place, size) for number, (place, size) in enumerate(asked)]
    found = first_shortage(demands, ROOM.get)
    assert found == (Shortage(demands[short[0]], *short[1:]) if short else None)


def test_rows_speak_of_a_companion_of_the_releases_they_name() -> None:
    def row(project: str, torch: str) -> CompanionDownload:
        return CompanionDownload(project=project, torch=torch, switch=f"{project} {torch}", what="w", **KNOWN)

    rows = [row("vision", ">=2"), row("vision", "<2"), row("audio", ">=2"), row("vision", ">=2.1")]
    assert rows_for("vision", "2.0.1", rows) == [rows[0]]
    assert rows_for("vision", "2.6.0", rows) == [rows[0], rows[3]]
    assert rows_for("text", "2.6.0", rows) == []


def test_managers_that_no_build_knows_are_named_only_where_any_will_do() -> None:
    def manager(name: str, **fields: Any) -> Manager:
        return Manager(name=name, install="get", **fields, **KNOWN)

    class Made(Facts):
        supply = msgspec.structs.replace(
            FACTS.supply, manager=(manager("apt", distros=("debian",)), manager("pacman", distros=(), others=("arch",)))
        )

    facts = Made()
    assert manager_of("arch", facts) is None
    found = [manager_of(distro, facts, any_names=True) for distro in ("arch", "debian 12", "plan9")]
    assert [row and row.name for row in found] == ["pacman", "apt", None]


def test_a_part_that_does_not_fit_leaves_its_place_to_the_next_row() -> None:
    index = FromIndex(package="p", version="1", file="x.whl", sha256="0" * 64, take={})
    rows = (
        ThirdParty(name="a", torch=">=3", way="index", index=index, **KNOWN),
        ThirdParty(name="a", torch=">=2", way="copy", **KNOWN),
        ThirdParty(name="a", torch=">=1", way="off", **KNOWN),
    )

    class Made(Facts):
        supply = msgspec.structs.replace(FACTS.supply, part=rows)

    assert [row.way for row in parts_for("2.0.0", Made())] == ["copy"]
    assert [row.way for row in parts_for("1.0.0", Made())] == ["off"]
