"""The governor with a clock in the hand: what it foresees, when it looks again, what it samples and remembers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from rekindle.build import governor as room
from rekindle.build.elastic import JobDecision, Situation
from rekindle.build.governor import Governor
from rekindle.build.history import History, ObjectCosts
from rekindle.host import processes
from rekindle.host.memory import MemoryNow
from rekindle.host.processes import Proc

MIB = 1 << 20


@dataclass
class World:
    """Everything the governor can see and do; ``asked`` is what was put before the decision."""

    tree: list[Proc] = field(default_factory=list)
    peaks: dict[int, int] = field(default_factory=dict)
    free: int = 20_000 * MIB
    pressure: float = 0.0
    readable: bool = True
    now: float = 100.0
    cost: float = 0.0
    decision: JobDecision = field(default_factory=lambda: JobDecision(jobs=1))
    asked: list[Situation] = field(default_factory=list)
    paused: list[list[int]] = field(default_factory=list)
    resumed: list[list[int]] = field(default_factory=list)
    killed: list[list[int]] = field(default_factory=list)

    def jobs(self, **sizes: int) -> None:
        """``p7=300`` is a compiler with the process id 7 and 300 MiB."""
        self.tree = [Proc(1, 0, "ninja", 1.0, 0)]
        self.tree += [Proc(int(name[1:]), 1, "cc1plus", float(name[1:]), size * MIB) for name, size in sizes.items()]

    def decide(self, now: Situation) -> JobDecision:
        self.asked.append(now)
        return self.decision


class Server:
    level = 0

    def set_level(self, level: int) -> None:
        self.level = level


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    spent = iter(range(10**9))
    monkeypatch.setattr(processes, "tree_of", lambda root: world.tree)
    monkeypatch.setattr(processes, "peak_rss", lambda pid: world.peaks.get(pid, 0))
    monkeypatch.setattr(processes, "prefer_as_victim", lambda pid: None)
    monkeypatch.setattr(processes, "command_line", lambda pid: ["g++", "-o", f"{pid}.cpp.o"] if pid < 50 else ["x"])
    monkeypatch.setattr(processes, "pause", world.paused.append)
    monkeypatch.setattr(processes, "go_on", world.resumed.append)
    monkeypatch.setattr(processes, "kill", world.killed.append)
    monkeypatch.setattr("rekindle.build.governor.time.monotonic", lambda: world.now)
    monkeypatch.setattr("rekindle.build.governor.time.thread_time", lambda: 1000 + next(spent) * world.cost)
    monkeypatch.setattr(room, "decide", world.decide)
    monkeypatch.setattr(
        room,
        "read_memory",
        lambda: (
            MemoryNow(total=24_000 * MIB, available=world.free, limited_by="machine", pressure=world.pressure)
            if world.readable
            else None
        ),
    )
    return world


def governor(learnt: ObjectCosts | None = None, *, budget: int | None = None, watch_only: bool = False) -> Governor:
    server: object = Server()
    return Governor(
        server,  # type: ignore[arg-type]
        learnt or ObjectCosts(History()),
        max_jobs=8,
        budget=budget,
        watch_only=watch_only,
    )


def test_it_returns_what_was_decided_and_begins_with_nothing(world: World) -> None:
    one = governor()
    assert (one.peak_bytes, one.pauses, one.running, one.samples, one.jobs()) == (0, 0, 0, [], [])
    assert one.tick(0) is world.decision
    world.readable = False
    assert one.tick(0) is None and len(world.asked) == 1


def test_it_looks_more_often_where_it_is_tight(world: World) -> None:
    world.jobs(p7=300)
    one = governor()
    one.tick(0)
    assert one.interval == room.CALM_SECONDS
    world.decision = JobDecision(jobs=1, pause=(7,))
    one.tick(0)
    assert one.interval == room.TIGHT_SECONDS
    world.decision = JobDecision(jobs=1)  # nothing new, but one still waits
    one.tick(0)
    assert one.interval == room.TIGHT_SECONDS
    world.decision = JobDecision(jobs=1, resume=(7,))
    one.tick(0)
    assert one.interval == room.TIGHT_SECONDS
    world.decision = JobDecision(jobs=1)
    one.tick(0)
    assert one.interval == room.CALM_SECONDS
    world.readable = False
    one.tick(0)
    assert one.interval == room.CALM_SECONDS


@pytest.mark.parametrize(("cost", "interval"), [(0.01, 0.5), (0.02, 1.0), (0.039, 1.95), (0.05, 2.0), (9.0, 2.0)])
def test_looking_never_takes_more_than_a_fiftieth_of_a_core(world: World, cost: float, interval: float) -> None:
    world.cost = cost
    one = governor()
    one.tick(0)
    assert one.interval == pytest.approx(interval)


@pytest.mark.parametrize(
    ("budget", "free", "available", "total", "by"),
    [
        (None, 500, 500, 24_000, "machine"),
        (1000, 5000, 700, 1000, "--memory"),  # 300 of the budget are used
        (1000, 700, 700, 1000, "--memory"),  # both allow the same: the user's word
        (1000, 699, 699, 24_000, "machine"),
        (200, 5000, 0, 200, "--memory"),
        (90_000, 100_000, 89_700, 24_000, "--memory"),
    ],
)
def test_the_tightest_bound(world: World, budget: int | None, free: int, available: int, total: int, by: str) -> None:
    world.jobs(p7=300)
    world.free, world.pressure = free * MIB, 55.0
    one = governor(budget=budget * MIB if budget else None)
    one.tick(0)
    assert (world.asked[-1].available, world.asked[-1].total) == (available * MIB, total * MIB)
    assert one.limited_by == by
    assert world.asked[-1].pressure == (55.0 if budget is None else 0.0)
    assert world.asked[-1].max_jobs == 8
    one.solo = True
    one.tick(0)
    assert world.asked[-1].max_jobs == 1


def test_an_unknown_job_is_expected_to_go_on_growing_as_it_does(world: World) -> None:
    one = governor()
    world.jobs(p7=800)
    one.tick(0)
    # In its first second it grew from nothing: 800 MiB and a second and a half more of that.
    assert world.asked[-1].jobs[0].expected == 2000 * MIB
    world.now += 2.0
    world.jobs(p7=1000)
    one.tick(0)
    assert world.asked[-1].jobs[0].expected == 1150 * MIB
    assert world.asked[-1].jobs[0].rss == 1000 * MIB and world.asked[-1].jobs[0].started == 7.0


def test_a_known_job_is_expected_to_need_what_it_needed(world: World) -> None:
    one = governor(ObjectCosts(History(objects={"7.cpp.o": (1000 * MIB, 9.0)})))
    world.jobs(p7=800)
    one.tick(0)
    assert world.asked[-1].jobs[0].expected == int(1000 * MIB * 1.08)


def test_while_it_waits_what_was_foretold_stays(world: World) -> None:
    one = governor()
    world.jobs(p7=800)
    world.decision = JobDecision(jobs=1, pause=(7,))
    one.tick(0)
    world.now += 5.0
    world.decision = JobDecision(jobs=1)
    one.tick(0)
    job = world.asked[-1].jobs[0]
    assert (job.expected, job.paused, job.waited) == (2000 * MIB, True, 5.0)
    assert (one.running, one.samples[-1].running, one.samples[-1].paused) == (0, 0, 1)
    # A child it left running between fork and exec is stopped again.
    assert world.paused == [[7], [7]]
    world.decision = JobDecision(jobs=1, resume=(7,))
    one.tick(0)
    assert world.resumed == [[7]] and one.running == 1 and one.pauses == 1
    one.tick(0)
    assert world.asked[-1].jobs[0].waited == 0.0 and not world.asked[-1].jobs[0].paused


@pytest.mark.parametrize(
    ("peak", "rss", "leaving"),
    [
        (864, 215, True),  # 80 % of the 1080 foreseen, and less than a quarter of its peak left
        (864, 216, False),  # a quarter left
        (863, 200, False),  # it has not had its peak yet
        (2000, 499, True),
    ],
)
def test_a_job_past_its_peak_will_not_grow_again(world: World, peak: int, rss: int, leaving: bool) -> None:
    one = governor(ObjectCosts(History(objects={"7.cpp.o": (1000 * MIB, 9.0)})))
    world.jobs(p7=rss)
    world.peaks = {7: peak * MIB}
    one.tick(0)
    expected = world.asked[-1].jobs[0].expected
    assert expected == (rss * MIB if leaving else int(1000 * MIB * 1.08))


def test_what_ended_is_learnt_with_its_peak_and_time(world: World) -> None:
    learnt = ObjectCosts(History())
    one = governor(learnt)
    world.jobs(p7=300, p60=300, p8=0)
    world.peaks = {7: 450 * MIB}
    one.tick(0)
    assert one.peak_bytes == 600 * MIB
    world.now += 12.0
    world.jobs()
    one.tick(0)
    assert (learnt.peak("7.cpp.o"), learnt.seconds("7.cpp.o")) == (450 * MIB, 12.0)
    assert len(learnt.history().objects) == 1  # one said no object, one never took any memory
    assert one.peak_bytes == 600 * MIB


def test_a_kill_is_remembered_by_its_object(world: World) -> None:
    one = governor()
    world.jobs(p7=300)
    one.tick(0)
    world.decision = JobDecision(jobs=3, kill=(7,))
    one.tick(0)
    assert one.killed == ["7.cpp.o"] and world.killed == [[7]]


def test_samples_say_what_was_and_grow_sparse(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_SAMPLES", 4)
    one = governor()
    world.jobs(p7=300, p8=100)
    world.decision = JobDecision(jobs=5)
    for _ in range(12):
        world.now += 1.0
        one.tick(0)
    assert (one.samples[0].used, one.samples[0].available) == (400 * MIB, 20_000 * MIB)
    assert (one.samples[0].running, one.samples[0].paused, one.samples[0].allowed) == (2, 0, 5)
    # Five samples are thinned to every second one; from then on every second tick is kept, then every fourth.
    assert [sample.seconds for sample in one.samples] == [1.0, 5.0, 8.0, 12.0]


def test_without_a_jobserver_the_number_of_jobs_is_what_is_allowed(world: World) -> None:
    one = Governor(None, ObjectCosts(History()), max_jobs=6)
    one.tick(0)
    assert one.samples[-1].allowed == 6


def test_the_level_is_one_less_than_the_jobs_and_never_negative(world: World) -> None:
    for jobs, level in ((5, 4), (1, 0), (0, 0)):
        world.decision = JobDecision(jobs=jobs)
        one = governor()
        one.tick(0)
        assert one.samples[-1].allowed == level + 1


def test_the_slowest_are_those_that_began_first_and_make_something(world: World) -> None:
    one = governor()
    world.jobs(p60=1)
    one.tick(0)
    for pid in (7, 8, 9):
        world.now += 10.0
        world.tree.append(Proc(pid, 1, "cc1plus", float(pid), MIB))
        one.tick(0)
    assert [job[:2] for job in one.jobs()] == [("7.cpp.o", 20.0), ("8.cpp.o", 10.0), ("9.cpp.o", 0.0)]


def test_a_paused_job_is_told_as_such(world: World) -> None:
    one = governor()
    world.jobs(p7=300, p8=100)
    one.tick(0)
    world.decision = JobDecision(jobs=1, pause=(8,))
    one.tick(0)
    assert {output: (size, paused) for output, _, size, paused in one.jobs()} == {
        "7.cpp.o": (300 * MIB, False),
        "8.cpp.o": (100 * MIB, True),
    }
    assert one.running == 1


def test_who_only_watches_decides_nothing(world: World) -> None:
    one = governor(watch_only=True)
    world.jobs(p7=300)
    assert one.tick(0) is None
    assert world.asked == [] and one.samples[-1].used == 300 * MIB and one.peak_bytes == 300 * MIB


def test_it_looks_four_times_a_second_and_ten_times_where_it_is_tight(world: World) -> None:
    world.jobs(p7=300)
    one = governor()
    assert one.look(0) == one.interval == 0.25
    world.decision = JobDecision(jobs=1, pause=(7,))
    assert one.look(0) == one.interval == 0.1


@pytest.mark.parametrize(("server", "least", "most"), [(None, 600, 800), (99, 8, 100)])
def test_behind_sccache_a_new_job_is_small(server: int | None, least: int, most: int, world: World) -> None:
    """A client that waits for its server has 8 MiB; a usual compiler has hundreds."""
    one = governor()
    one.server = server
    one.tick(0)
    assert least * MIB < world.asked[-1].typical < most * MIB


def test_what_waits_for_sccache_takes_no_job_from_what_compiles_here(world: World) -> None:
    world.jobs(p7=300)
    world.tree += [Proc(8, 1, room.CLIENT_NAME, 8.0, MIB), Proc(9, 1, room.CLIENT_NAME, 9.0, MIB)]
    world.decision = JobDecision(jobs=1)
    one = governor()
    decision = one.tick(0)
    assert world.asked[-1].max_jobs == 6 and [job.key for job in world.asked[-1].jobs] == [7]
    assert decision == JobDecision(jobs=3), "one that compiles and two that wait"
    world.jobs()
    assert one.tick(0) is world.decision, "nobody waits, so nothing is added"


def test_of_what_a_server_compiles_none_is_counted_as_ninjas(world: World) -> None:
    world.tree = [Proc(1, 0, "ninja", 1.0, 0), Proc(99, 0, "sccache", 1.0, 0)]
    world.tree += [Proc(pid, 99, "cc1plus", float(pid), 300 * MIB) for pid in (7, 8)]
    one = governor()
    one.server = 99
    for jobs, left in ((5, 3), (3, 1), (2, 1), (1, 1)):
        world.decision = JobDecision(jobs=jobs)
        assert one.tick(0) == JobDecision(jobs=left), "Ninja always has one"
    assert world.asked[-1].max_jobs == 10 and one.running == 0 and one.jobs() == []
