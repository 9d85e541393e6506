"""What the miniature tree needs before it is built: its patches, chosen for today's tools."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.host.live import LiveHost
from rekindle.spark import unpack as spark

if TYPE_CHECKING:
    from rekindle.model.source import SourceTree


def patch_spark(root: Path, *, cmake: str | None = None) -> SourceTree:
    """Apply what this CMake, setuptools and Python need; take out again what they do not."""
    from rekindle.source.patches import Context, apply, choose, load_patches, status, unapply
    from rekindle.toolkits.programs import find_cmake

    host = LiveHost()
    facts = {
        "version": spark.tree_version(),
        "cmake": find_cmake(host, cmake).version,
        "setuptools": importlib.metadata.version("setuptools"),
        "python": platform.python_version(),
        "os": host.system,
    }
    choices = choose(load_patches("spark"), Context(facts, root))
    needed = {choice.patch.id for choice in choices if choice.verdict == "needed"}
    applied = {patch.id for patch in status(root, choices).patches if patch.state == "applied"}
    if applied - needed:
        # Other tools than last time (another CMake): what they do not need is taken out again.
        unapply(root)
    return apply(root, choices)
