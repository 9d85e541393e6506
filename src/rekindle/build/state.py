"""What a build tree was made for: written into it first, compared before anything continues in it.

A tree configured for one plan must not be continued with another; the refusal names the difference.
"""

from __future__ import annotations

from pathlib import Path

from rekindle.errors import BadInput, OtherPlan
from rekindle.host.files import write_atomically
from rekindle.model.document import Part, decode, encode
from rekindle.model.plan import Plan

FILE_NAME = "rekindle-state.json"
_HOW = ("MAX_JOBS", "NINJA_STATUS", "CMAKE_BUILD_PARALLEL_LEVEL", "VERBOSE", "USE_CCACHE", "launcher")
_HOW_PREFIXES = ("CCACHE_", "SCCACHE_", "DISTCC_", "ICECC_")


class TreeState(Part, frozen=True, kw_only=True):
    """``python`` is the one configured last; ``configured`` False until configure ended well."""

    project: str
    version: str | None
    settings: dict[str, str]
    source_digest: str | None = None
    python: str | None = None
    configured: bool = False
    running: bool = False
    runs: int = 0


def settings_of(plan: Plan) -> dict[str, str]:
    """What decides the compiled code: a change in any of these makes the old tree another tree.

    How it is made (launcher, jobs, memory, a cache's own settings) is not among them, nor are patches:
    they change files, and Ninja sees by itself which files are newer.
    """
    assert plan.build is not None
    settings = {f"env {name}": value for name, value in plan.build.env.items() if not _only_how(name)}
    settings |= {f"cmake {name}": value for name, value in plan.build.cmake.items() if not _only_how(name)}
    return settings


def _only_how(name: str) -> bool:
    name = name.removeprefix("env ").removeprefix("cmake ")
    return name in _HOW or name.startswith(_HOW_PREFIXES) or name.endswith("_COMPILER_LAUNCHER")


def load_state(build_tree: Path) -> TreeState | None:
    path = build_tree / FILE_NAME
    if not path.is_file():
        return None
    try:
        return decode(path.read_bytes(), TreeState, origin=str(path))
    except BadInput:
        # A state we cannot read is a tree we do not know.
        return TreeState(project="unknown", version=None, settings={})


def save_state(build_tree: Path, state: TreeState) -> None:
    write_atomically(build_tree / FILE_NAME, encode(state))


def differences(old: TreeState, new: TreeState) -> list[str]:
    """What makes ``new`` another tree than ``old``, in words; empty where it may be continued."""
    # Earlier states name patches among the settings.
    names = {name for name in old.settings.keys() | new.settings.keys() if not name.startswith("patch ")}
    pairs = {"project": (old.project, new.project), "version": (old.version, new.version)}
    pairs |= {name: (old.settings.get(name), new.settings.get(name)) for name in sorted(names) if not _only_how(name)}
    return [f"{name} was {was!r} and is now {now!r}" for name, (was, now) in pairs.items() if was != now]


def sources_changed(old: TreeState, new: TreeState) -> bool:
    """Were files of the tree changed since (a patch, an edit)? One given by its place has no digest to tell it by."""
    return None not in (old.source_digest, new.source_digest) and old.source_digest != new.source_digest


def refuse_other_plan(old: TreeState, new: TreeState, build_tree: Path) -> None:
    """Raise :class:`OtherPlan` naming the first differences, unless ``old`` may be continued as ``new``."""
    found = differences(old, new)
    if not found:
        return
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    raise OtherPlan(
        f"{build_tree} was made for another plan: {'; '.join(found[:3])}{more}",
        remedy="give --clean to start over, or build in another copy of the tree",
    )
