"""The decision about jobs just inside and just outside of each of its limits, with the whole decision compared."""

from __future__ import annotations

import pytest

from rekindle.build.elastic import MIB, CompilerJob, JobDecision, Situation, decide, foretell, reserve_of

GIB = 1 << 30
# Of 20 GiB one is kept free.
TOTAL = 20 * GIB
RESERVE = GIB


def runner(key: int, *, rss: int = GIB, growth: int = 0) -> CompilerJob:
    return CompilerJob(key=key, started=key, rss=rss, expected=rss + growth)


def waiter(key: int, *, rss: int = 0, growth: int = 0, waited: float = 0.0) -> CompilerJob:
    return CompilerJob(key=key, started=key, rss=rss, expected=rss + growth, paused=True, waited=waited)


def look(
    *jobs: CompilerJob, free: int, max_jobs: int = 8, typical: int = 100 * GIB, pressure: float = 0.0
) -> JobDecision:
    return decide(
        Situation(available=free, total=TOTAL, jobs=jobs, max_jobs=max_jobs, typical=typical, pressure=pressure)
    )


def test_growth_is_never_negative() -> None:
    assert runner(1, rss=3, growth=2).growth == 2
    assert CompilerJob(key=1, started=0, rss=5, expected=3).growth == 0


@pytest.mark.parametrize(
    ("known", "rss", "grown", "seconds", "learnt", "foretold"),
    [
        (100, 100, 50, 1.0, True, 100),  # what was measured is trusted up to itself
        (100, 101, 0, 1.0, True, 106),  # and not beyond: 5 % more than it has
        (100, 50, 0, 1.0, False, 100),
        (100, 90, 40, 1.0, False, 150),  # an unknown one: where it is heading in a second and a half
        (0, 1000, 100, 0.5, False, 1300),
        (0, 1000, -500, 1.0, False, 1050),  # shrinking says nothing
        (0, 1000, 0, 0.001, False, 1050),
        (0, 1000, 1, 0.0, False, 1150),  # two looks at once: no division by nothing
    ],
)
def test_what_a_job_will_need(known: int, rss: int, grown: int, seconds: float, learnt: bool, foretold: int) -> None:
    assert foretell(known, rss, grown, seconds, learnt=learnt) == foretold


def test_the_reserve_is_a_twentieth_between_48_and_1024_mib() -> None:
    assert reserve_of(GIB) == GIB // 20
    assert reserve_of(900 * MIB) == 48 * MIB
    assert reserve_of(40 * GIB) == 1024 * MIB
    assert reserve_of(TOTAL) == RESERVE


def test_what_is_foretold_must_fit_beside_the_reserve_to_the_byte() -> None:
    assert look(runner(1), runner(2, growth=GIB), free=RESERVE + GIB).pause == ()
    tight = look(runner(1), runner(2, growth=GIB), free=RESERVE + GIB - 1)
    assert tight.pause == (2,)


def test_the_reserve_itself_is_defended() -> None:
    assert look(runner(1), runner(2), free=RESERVE).pause == ()
    assert look(runner(1), runner(2), free=RESERVE - 1).pause == (2,)


@pytest.mark.parametrize(
    ("free", "pressure", "pause"),
    [
        (2 * RESERVE - 1, 40.5, (2,)),
        (2 * RESERVE - 1, 40.0, ()),  # not above the limit
        (2 * RESERVE, 40.5, ()),  # enough is free all the same
        (2 * RESERVE - 1, 0.0, ()),
        (10 * GIB, 99.0, ()),
    ],
)
def test_pressure_counts_only_where_little_is_free(free: int, pressure: float, pause: tuple[int, ...]) -> None:
    assert look(runner(1), runner(2), free=free, pressure=pressure).pause == pause


def test_the_last_runner_gets_memory_by_killing_one_that_waits() -> None:
    jobs = [runner(1, growth=3 * GIB), waiter(2, rss=GIB, growth=9 * GIB)]
    assert look(*jobs, free=2 * RESERVE).kill == ()
    killed = look(*jobs, free=2 * RESERVE - 1)
    assert (killed.kill, killed.pause, killed.resume) == ((2,), (), ())


def test_a_last_runner_that_fits_kills_nobody() -> None:
    jobs = [runner(1, growth=GIB // 2), waiter(2, rss=GIB, growth=9 * GIB)]
    assert look(*jobs, free=GIB // 2).kill == ()
    assert look(*jobs, free=GIB // 2 - 1).kill == (2,)
    assert look(runner(1, growth=9 * GIB), free=1).kill == ()


def test_the_victim_is_the_smallest_that_frees_enough() -> None:
    """3 GiB of growth and 1 GiB of reserve, less 2 GiB (and a byte) that are free: a bit over 2 GiB are lacking."""
    free = 2 * RESERVE - 1
    lacking = 2 * GIB + 1
    last = runner(1, growth=3 * GIB)
    sizes = {2: 2 * GIB, 3: lacking, 4: 5 * GIB}
    waiting = [waiter(key, rss=rss, growth=9 * GIB) for key, rss in sizes.items()]
    assert look(last, *waiting, free=free).kill == (3,)
    assert look(last, *(job for job in waiting if job.key != 3), free=free).kill == (4,)
    assert look(last, *(waiter(key, rss=key * MIB, growth=9 * GIB) for key in (2, 3)), free=free).kill == (3,)


def test_the_first_that_waits_goes_on_as_soon_as_it_fits() -> None:
    assert look(runner(1), waiter(2, growth=2 * GIB), free=RESERVE + 2 * GIB).resume == (2,)
    decision = look(runner(1), waiter(2, growth=2 * GIB), free=RESERVE + 2 * GIB - 1)
    assert (decision.resume, decision.pause, decision.kill) == ((), (), ())


def test_nothing_goes_on_above_the_number_of_jobs() -> None:
    assert look(runner(1), runner(2), waiter(3), free=9 * GIB, max_jobs=2).resume == ()
    assert look(runner(1), runner(2), waiter(3), free=9 * GIB, max_jobs=3).resume == (3,)


def test_without_a_runner_the_oldest_that_waits_runs_whatever_it_needs() -> None:
    decision = look(waiter(5, growth=50 * GIB), waiter(7, growth=50 * GIB), free=2 * GIB)
    assert decision.resume == (5,)


def test_a_small_one_may_pass_if_the_first_still_fits_when_the_oldest_ends() -> None:
    """2 GiB are left; the oldest frees 3; the first wants 4: one GiB is nobody's."""
    oldest, first = runner(1, rss=3 * GIB), waiter(2, growth=4 * GIB)
    free = RESERVE + 2 * GIB
    assert look(oldest, first, waiter(3, growth=GIB), free=free).resume == (3,)
    assert look(oldest, first, waiter(3, growth=GIB + 1), free=free).resume == ()
    # What the oldest is expected to have counts as freed too: 2.5 GiB and half a GiB to come.
    growing = CompilerJob(key=1, started=1, rss=5 * GIB // 2, expected=3 * GIB)
    assert look(growing, first, waiter(3, growth=GIB), free=free + GIB // 2).resume == (3,)


def test_after_twenty_seconds_nothing_passes_the_first() -> None:
    oldest, free = runner(1, rss=3 * GIB), RESERVE + 2 * GIB
    assert look(oldest, waiter(2, growth=4 * GIB, waited=20.0), waiter(3, growth=1), free=free).resume == (3,)
    assert look(oldest, waiter(2, growth=4 * GIB, waited=20.1), waiter(3, growth=1), free=free).resume == ()


@pytest.mark.parametrize(
    ("free", "typical", "max_jobs", "jobs"),
    [
        (RESERVE + 3 * GIB, GIB, 8, 4),  # one runs, three more fit
        (RESERVE + 3 * GIB - 1, GIB, 8, 3),
        (RESERVE + 3 * GIB, GIB, 3, 3),  # never more than allowed
        (RESERVE + 7, 1, 99, 8),  # the smallest typical size there is
        (RESERVE + 7, 0, 99, 8),
        (RESERVE, 1, 8, 1),
    ],
)
def test_as_many_more_as_fit(free: int, typical: int, max_jobs: int, jobs: int) -> None:
    assert look(runner(1), free=free, typical=typical, max_jobs=max_jobs).jobs == jobs


def test_less_than_nothing_is_room_for_nobody() -> None:
    assert look(runner(1, growth=5 * GIB), free=RESERVE + 1, typical=1).jobs == 1
    assert look(free=0, typical=1).jobs == 1


@pytest.mark.parametrize(("max_jobs", "waiting", "more"), [(16, 3, True), (16, 4, False), (4, 1, True), (4, 2, False)])
def test_only_a_few_may_wait_before_new_ones_stop(max_jobs: int, waiting: int, more: bool) -> None:
    """A quarter of the jobs, and at least two."""
    crowd = [waiter(10 + number, growth=8 * GIB) for number in range(waiting)]
    decision = look(runner(1, rss=8 * GIB), *crowd, free=RESERVE + 2 * GIB, typical=GIB, max_jobs=max_jobs)
    assert decision.resume == ()
    assert decision.jobs == 1 + waiting + (2 if more else 0)
