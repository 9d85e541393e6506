"""What makes two cells the same: the hash of everything that decides the bytes of the wheel, and of nothing else.

Words (reasons, warnings, commands) are left out: a better sentence in the next Rekindle must not rebuild a thing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from rekindle.model.plan import Plan

ID_LENGTH = 16


def cell_id(
    plan: Plan, *, identity: str, toolchain: Mapping[str, str], python: str, system: str, target: str | None
) -> str:
    """The name of a cell. ``identity`` says which sources: a commit, a digest, a release."""
    return _digest({**_decisive(plan, identity, toolchain, system), "python": python, "target": target})


def tree_id(plan: Plan, *, identity: str, toolchain: Mapping[str, str], system: str) -> str:
    """The name of the compiled tree: cells that differ only in Python (or target) share it."""
    return _digest(_decisive(plan, identity, toolchain, system))


def _decisive(plan: Plan, identity: str, toolchain: Mapping[str, str], system: str) -> dict[str, object]:
    recipe = plan.build
    assert recipe is not None
    return {
        "project": plan.project,
        "torch": plan.torch,
        "variant": plan.variant,
        "cuda": plan.cuda,
        "rocm": plan.rocm,
        "cudnn": plan.cudnn,
        "arch_list": plan.arch_list,
        "env": recipe.env,
        "cmake": recipe.cmake,
        "patches": sorted(recipe.patches),
        "pins": {name: pin for name, pin in recipe.pins.items() if name != "python"},
        "compiler": recipe.compiler,
        "identity": identity,
        "toolchain": dict(toolchain),
        "system": system,
    }


def _digest(value: object) -> str:
    raw = msgspec.json.encode(value, order="sorted")
    return hashlib.sha256(raw).hexdigest()[:ID_LENGTH]


def cell_name(axes: Mapping[str, str], project: str) -> str:
    """How people call the cell: ``torch-2.6.0-py3.11-cu118-3.5;9.0``."""
    parts = [project if project != "torch" else "torch"]
    if "torch" in axes:
        parts[0] = f"{project}-{axes['torch']}" if project == "torch" else f"{project}-for-{axes['torch']}"
    prefix = {"python": "py"}
    parts += [f"{prefix.get(axis, '')}{value}" for axis, value in axes.items() if axis != "torch"]
    return "-".join(parts).replace(" ", "_")
