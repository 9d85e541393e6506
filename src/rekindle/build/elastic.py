"""How many compilers may run now, and which must wait: the decision alone, no machine in sight.

Each running job is expected to grow to what it needed in earlier builds, or to what is typical. What is free
must cover that growth and a reserve. Where it does not, the youngest jobs wait (stopped, keeping what they
have); the oldest always runs, so the build always ends. Where free memory runs out all the same, a waiting
job gives its memory back by being killed; it is retried later.
"""

from dataclasses import dataclass

MIB = 1 << 20
STARVING_SECONDS = 20.0
PRESSURE_HIGH = 40.0
FORESIGHT_SECONDS = 1.5


@dataclass(kw_only=True)
class CompilerJob:
    """``started`` orders by age; ``waited`` is how long it has been paused; sizes are bytes."""

    key: int
    started: float
    rss: int
    expected: int
    paused: bool = False
    waited: float = 0.0

    @property
    def growth(self) -> int:
        """Bytes that it will still ask for."""
        return max(0, self.expected - self.rss)


@dataclass(frozen=True, kw_only=True)
class Situation:
    """``available`` is what is free now, whatever the tightest bound is; ``typical`` a next job's likely size."""

    available: int
    total: int
    jobs: tuple[CompilerJob, ...]
    max_jobs: int
    typical: int
    pressure: float = 0.0


@dataclass(frozen=True, kw_only=True)
class JobDecision:
    """``jobs`` is how many there should be at once, running and paused; each key is paused, resumed or killed."""

    jobs: int
    pause: tuple[int, ...] = ()
    resume: tuple[int, ...] = ()
    kill: tuple[int, ...] = ()


def foretell(usual: int, rss: int, grown: int, seconds: float, *, learnt: bool) -> int:
    """What a job will need at its peak. What an earlier build measured is trusted until the job outgrows it. Of an
    unknown job, and of one that has outgrown, only this is sure: where it is heading."""
    if learnt and rss <= usual:
        return usual
    heading = rss + int(max(0, grown) / max(seconds, 0.01) * FORESIGHT_SECONDS)
    return max(usual, heading, int(rss * 1.05))


def reserve_of(total: int) -> int:
    """Kept free for everything that is not a compiler: 5 %, but neither nothing nor a fortune."""
    return min(max(total // 20, 48 * MIB), 1024 * MIB)


def decide(now: Situation) -> JobDecision:
    reserve = reserve_of(now.total)
    oldest_first = sorted(now.jobs, key=lambda job: job.started)
    running, waiting = ([job for job in oldest_first if job.paused == paused] for paused in (False, True))
    resume: list[int] = []
    if not running and waiting:
        running.append(waiting.pop(0))
        resume.append(running[0].key)
    slack = now.available - reserve - sum(job.growth for job in running)
    squeezed = now.pressure > PRESSURE_HIGH and now.available < 2 * reserve
    pause: list[int] = []
    while len(running) > 1 and (slack < 0 or squeezed or now.available < reserve):
        youngest = running.pop()
        if youngest.key in resume:
            resume.remove(youngest.key)
        else:
            pause.append(youngest.key)
        slack += youngest.growth
        waiting.append(youngest)
    kill: list[int] = []
    if len(running) == 1 and waiting and not pause and now.available < min(running[0].growth, 2 * reserve):
        # The last runner still grows and nothing is left: better one of ours than the kernel's choice. The smallest
        # that frees what is lacking; where none does, the one that frees most.
        enough = [job for job in waiting if job.rss >= running[0].growth + reserve - now.available]
        victim = min(enough, key=lambda job: job.rss) if enough else max(waiting, key=lambda job: job.rss)
        waiting.remove(victim)
        kill.append(victim.key)
    if not pause and not kill:
        for job in list(waiting):
            room = slack if job is waiting[0] else _room_behind(waiting[0], running, slack)
            if len(running) < now.max_jobs and job.growth <= room:
                resume.append(job.key)
                running.append(job)
                waiting.remove(job)
                slack -= job.growth
    # As many more as fit, behind whatever already waits. A new job that turns out to be a giant is paused at birth,
    # when it has taken next to nothing, so the guess may be a hopeful one; but only a few may wait like that, since
    # each keeps the little it has.
    room = _room_behind(waiting[0], running, slack) if waiting else slack
    more = 0 if len(waiting) >= max(2, now.max_jobs // 4) else max(0, room) // max(1, now.typical)
    jobs = max(1, min(len(running) + more, now.max_jobs) + len(waiting))
    return JobDecision(jobs=jobs, pause=tuple(pause), resume=tuple(resume), kill=tuple(kill))


def _room_behind(first: CompilerJob, running: list[CompilerJob], slack: int) -> int:
    """What others may take without delaying ``first``, which waits for the oldest runner's memory. As batch schedulers
    fill gaps: whatever starts now may still be there when the oldest ends, and then ``first`` must fit all the same.
    After it has waited too long nothing goes before it."""
    if first.waited > STARVING_SECONDS:
        return 0
    freed = max(running[0].rss, running[0].expected)
    return min(slack, slack + freed - first.growth)
