"""Opens the jobserver and its governor for a build, or says why a fixed number of jobs must do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rekindle.build.frontend import BY_JOBSERVER
from rekindle.build.governor import Governor
from rekindle.build.history import Learnt, load_history, save_history
from rekindle.host.jobserver import open_jobserver
from rekindle.host.memory import read_memory
from rekindle.model.build_options import BuildOptions
from rekindle.toolkits.programs import Tool

# The MAKEFLAGS of a jobserver that several builds share; whoever opened it governs them all.
SHARED_JOBSERVER = "REKINDLE_SHARED_JOBSERVER"
# Since then Ninja asks a jobserver.
JOBSERVER_NINJA = (1, 13)
# How torch's setup.py and CMake are given a number of jobs.
FIXED = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """``env`` goes into the build's environment; ``note`` is for the user where there is no jobserver."""

    governor: Governor
    learnt: Learnt
    env: dict[str, str]
    max_jobs: int
    note: str | None = None

    def tell(self, env: dict[str, str], *, chooses: bool) -> None:
        """Put it into a build's environment. Ninja asks no jobserver where it is given a number, so the plan's number,
        which is for builds without us, must go; a setup.py that ``chooses`` one itself is given a word instead."""
        if "MAKEFLAGS" in self.env:
            for name in FIXED:
                env.pop(name, None)
            if chooses:
                env["MAX_JOBS"] = BY_JOBSERVER
        env.update(self.env)


def cores() -> int:
    """Cores this process may use, not those the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def fixed_jobs(max_jobs: int, available: int | None, typical: int) -> int:
    """For tools that know no jobserver: what fits if every compiler is a large one."""
    return max(1, min(max_jobs, available // typical)) if available else max_jobs


@contextlib.contextmanager
def _learning(history: Path) -> Iterator[Learnt]:
    """What earlier builds taught; what is learnt now is kept, however the build ends."""
    learnt = load_history(history)
    try:
        yield learnt
    finally:
        with contextlib.suppress(OSError):
            save_history(history, learnt)


@contextlib.contextmanager
def governed_jobs(history: Path, key: str, max_jobs: int, budget: int | None) -> Iterator[Jobs]:
    """A jobserver and the governor of its compilers, for one build or for several that share it."""
    with _learning(history) as learnt, contextlib.closing(open_jobserver(key)) as server:
        governor = Governor(server, learnt, max_jobs=max_jobs, budget=budget)
        yield Jobs(governor=governor, learnt=learnt, env={"MAKEFLAGS": server.makeflags}, max_jobs=max_jobs)


@contextlib.contextmanager
def elastic_jobs(
    options: BuildOptions, ninja: Tool, history: Path, key: str, *, farm: int | None = None
) -> Iterator[Jobs]:
    """The jobs of one build. ``farm`` is how many jobs other machines take."""
    most, budget = options.jobs or farm or cores(), options.memory_bytes
    shared = os.environ.get(SHARED_JOBSERVER) if options.jobs is None else None
    if ninja.release >= JOBSERVER_NINJA and not shared:
        with governed_jobs(history, key, most, budget) as jobs:
            yield jobs
        return
    with _learning(history) as learnt:
        if shared and ninja.release >= JOBSERVER_NINJA:
            # Somebody above runs several builds and governs all their compilers: only watch and learn here.
            governor = Governor(None, learnt, max_jobs=most, watch_only=True)
            yield Jobs(governor=governor, learnt=learnt, env={"MAKEFLAGS": shared}, max_jobs=most)
            return
        memory = read_memory()
        count = fixed_jobs(most, budget or (memory.available if memory else None), learnt.typical())
        yield Jobs(
            governor=Governor(None, learnt, max_jobs=most, budget=budget),
            learnt=learnt,
            env=dict.fromkeys(FIXED, str(count)),
            max_jobs=count,
            note=f"Ninja {ninja.version} knows no jobserver (1.13 does): a fixed number of {count} jobs instead",
        )
