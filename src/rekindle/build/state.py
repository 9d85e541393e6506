"""What a build tree was made for: written into it first, compared before anything continues in it.

A tree configured for one plan must not be continued with another; the refusal names the difference.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.files import write_atomically
from rekindle.model.document import Part, decode, encode
from rekindle.model.plan import Plan

FILE_NAME = "rekindle-state.json"


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


def plan_digest(plan: Plan) -> str:
    return hashlib.sha256(encode(plan)).hexdigest()


def settings_of(plan: Plan, launcher: str | None) -> dict[str, str]:
    """What decides the compiled code: a change in any of these makes the old tree another tree."""
    assert plan.build is not None
    settings = {f"env {name}": value for name, value in plan.build.env.items()}
    settings |= {f"cmake {name}": value for name, value in plan.build.cmake.items()}
    settings |= {f"patch {name}": "applied" for name in plan.build.patches}
    settings["launcher"] = launcher or "none"
    return settings


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


def refuse_other_plan(old: TreeState, new: TreeState, build_tree: Path) -> None:
    """Raise :class:`BadInput` naming the first differences, unless ``old`` may be continued as ``new``."""
    differences = [
        f"{name} was {was!r} and is now {now!r}"
        for name, was, now in (
            ("project", old.project, new.project),
            ("version", old.version, new.version),
            ("source digest", old.source_digest, new.source_digest),
        )
        if was != now
    ]
    for name in sorted(old.settings.keys() | new.settings.keys()):
        was, now = old.settings.get(name), new.settings.get(name)
        if was != now:
            differences.append(f"{name} was {was!r} and is now {now!r}")
    if not differences:
        return
    more = f" (and {len(differences) - 3} more)" if len(differences) > 3 else ""
    raise BadInput(
        f"{build_tree} was made for another plan: {'; '.join(differences[:3])}{more}",
        remedy="give --clean to start over, or build in another copy of the tree",
    )
