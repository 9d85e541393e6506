"""``demo``: the whole way on spark, a miniature that is built the way PyTorch is built."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.model.journey import Journey
    from rekindle.model.progress import Progress


def demo(
    *,
    workspace: Path | None = None,
    cmake: str | None = None,
    use_cuda: bool = True,
    clean: bool = False,
    progress: Progress | None = None,
) -> Journey:
    """Probe, plan, unpack, patch, build, inspect, install, verify and report; under a minute, with real tools.

    ``cmake`` is the one to use instead of the one on PATH; ``use_cuda`` False leaves the CUDA part out; ``clean``
    forgets what earlier runs left in the workspace.
    """
    from rekindle.api.journey.demo import run_demo
    from rekindle.api.journey.options import DemoOptions
    from rekindle.host.workspace import workspace_at
    from rekindle.model.progress import Silent

    options = DemoOptions(cmake=cmake, use_cuda=use_cuda, clean=clean)
    return run_demo(workspace_at(workspace, "demo"), options, progress or Silent())
