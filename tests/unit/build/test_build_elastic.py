"""The decision about jobs: properties that must hold for every situation, and a whole build simulated."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.build.elastic import MIB, CompilerJob, Situation, decide, foretell, reserve_of

GIB = 1 << 30
sizes = st.integers(min_value=0, max_value=16 * GIB)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    count = draw(st.integers(0, 8))
    total = draw(st.integers(256 * MIB, 64 * GIB))
    jobs = tuple(
        CompilerJob(
            key=number,
            started=draw(st.floats(0, 1e6)),
            rss=draw(sizes),
            expected=draw(sizes),
            paused=draw(st.booleans()),
            waited=draw(st.floats(0, 100)),
        )
        for number in range(count)
    )
    return Situation(
        available=draw(st.integers(0, total)),
        total=total,
        jobs=jobs,
        max_jobs=draw(st.integers(1, 8)),
        typical=draw(st.integers(1, 4 * GIB)),
        pressure=draw(st.floats(0, 100)),
    )


@given(situations())
def test_at_least_one_runs_afterwards(now: Situation) -> None:
    decision = decide(now)
    running = {job.key for job in now.jobs if not job.paused} - set(decision.pause) | set(decision.resume)
    assert not now.jobs or running - set(decision.kill)
    assert decision.jobs >= 1


@given(situations())
def test_only_what_can_be_is_paused_resumed_or_killed(now: Situation) -> None:
    decision = decide(now)
    paused = {job.key for job in now.jobs if job.paused}
    assert not set(decision.pause) & paused
    assert set(decision.resume) <= paused
    assert set(decision.kill) <= paused
    assert not set(decision.resume) & set(decision.kill)


@given(situations())
def test_the_oldest_runner_is_never_paused(now: Situation) -> None:
    running = [job for job in now.jobs if not job.paused]
    if running:
        oldest = min(job.started for job in running)
        survivors = [job for job in running if job.key not in decide(now).pause]
        assert min(job.started for job in survivors) == oldest


@given(situations())
def test_no_room_means_no_more_jobs(now: Situation) -> None:
    need = sum(job.growth for job in now.jobs if not job.paused)
    if now.available - need < reserve_of(now.total) and now.jobs:
        assert decide(now).jobs <= max(1, len(now.jobs))


@given(situations())
def test_more_memory_never_allows_fewer_jobs(now: Situation) -> None:
    import dataclasses

    richer = dataclasses.replace(now, available=now.available + 4 * GIB)
    calm = dataclasses.replace(now, pressure=0.0)
    if not any(job.paused for job in now.jobs):
        assert decide(dataclasses.replace(richer, pressure=0.0)).jobs >= decide(calm).jobs - len(decide(calm).pause)


def test_youngest_waits_first() -> None:
    jobs = tuple(CompilerJob(key=n, started=n, rss=100 * MIB, expected=GIB) for n in range(3))
    decision = decide(Situation(available=9 * GIB // 4, total=4 * GIB, jobs=jobs, max_jobs=3, typical=GIB))
    assert decision.pause == (2,)


def test_a_starving_job_stops_new_ones() -> None:
    waiting = CompilerJob(key=1, started=1, rss=0, expected=3 * GIB, paused=True, waited=30)
    runner = CompilerJob(key=0, started=0, rss=GIB, expected=GIB)
    now = Situation(available=2 * GIB, total=4 * GIB, jobs=(runner, waiting), max_jobs=4, typical=200 * MIB)
    assert decide(now).jobs == 2


def simulate(seed: int, *, limit: int, cores: int) -> tuple[int, float, int]:
    """A build of random compilers, half of them known from before; (peak bytes, seconds, kills)."""
    dice = random.Random(seed)
    tick = 0.25
    # (peak, seconds, learnt?): they grow for the first 60 % of their time, then work on what they have.
    todo = [(dice.choice((200, 400, 700, 1500)) * MIB, dice.randint(3, 20), dice.random() < 0.5) for _ in range(60)]
    facts: list[tuple[int, int, bool]] = []
    age: dict[int, float] = {}
    waiting: dict[int, float] = {}
    foretold: dict[int, int] = {}
    allowed, peak, clock, kills = 1, 0, 0.0, 0

    def size(key: int) -> int:
        most, seconds, _ = facts[key]
        return int(most * min(1.0, age[key] / (seconds * 0.6)))

    while todo or age:
        clock += tick
        assert clock < 5000, "the build never ends"
        while todo and len(age) < allowed:
            age[len(facts)] = 0.0
            facts.append(todo.pop())
        before = {key: size(key) for key in age}
        for key in list(age):
            if key not in waiting:
                age[key] += tick
                if age[key] >= facts[key][1]:
                    del age[key]
        used = sum(map(size, age))
        peak = max(peak, used)
        for key in age:
            if key not in waiting:
                known = facts[key][0] if facts[key][2] else 700 * MIB
                foretold[key] = foretell(known, size(key), size(key) - before[key], tick, learnt=facts[key][2])
        jobs = tuple(
            CompilerJob(
                key=key,
                started=key,
                rss=size(key),
                expected=foretold[key],
                paused=key in waiting,
                waited=clock - waiting.get(key, clock),
            )
            for key in age
        )
        now = Situation(available=max(0, limit - used), total=limit, jobs=jobs, max_jobs=cores, typical=700 * MIB)
        decision = decide(now)
        waiting.update(dict.fromkeys(decision.pause, clock))
        for key in decision.resume:
            del waiting[key]
        for key in decision.kill:
            kills += 1
            todo.append((*facts[key][:2], True))
            del age[key]
            del waiting[key]
        allowed = decision.jobs
    return peak, clock, kills


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 10_000))
def test_a_simulated_build_ends_keeps_to_its_limit_and_is_quicker_than_one_at_a_time(seed: int) -> None:
    limit = 3 * GIB
    peak, seconds, kills = simulate(seed, limit=limit, cores=4)
    assert peak <= limit
    assert kills <= 6
    _, alone, _ = simulate(seed, limit=limit, cores=1)
    assert seconds < alone / 1.5
