"""``inspect`` joined: a target found where pip would find it, read, and judged for a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.inspect.published import Places
    from rekindle.model.machine import Machine
    from rekindle.model.progress import Progress
    from rekindle.model.wheel import WheelReport


def inspect(
    target: str,
    *,
    quick: bool = False,
    cpu: bool = True,
    machine: Machine | None = None,
    python: str | None = None,
    platform: str | None = None,
    progress: Progress | None = None,
) -> WheelReport:
    """What a wheel, library, directory or published package really contains; ``machine`` adds a verdict."""
    from rekindle.inspect.survey import inspect_source
    from rekindle.inspect.targets import open_target
    from rekindle.model.progress import Silent

    listener = progress or Silent()
    with open_target(target, places=pip_places, progress=listener, python=python, platform=platform) as source:
        return inspect_source(source, quick=quick, cpu=cpu, progress=listener)


def pip_places() -> Places:
    """The indexes and folders pip is set up for."""
    from rekindle.host.live import LiveHost
    from rekindle.host.pip_settings import read_pip_settings
    from rekindle.inspect.published import Places

    found = read_pip_settings(LiveHost())
    indexes = tuple(url for url in (found.index, *found.extra) if url)
    return Places(indexes=indexes, links=found.links, certificates=found.certificates)
