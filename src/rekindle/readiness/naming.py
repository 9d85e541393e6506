"""The version a wheel carries: the tree's own, plus a local part that says who built it for what.

``2.0.1+rekindle.cu118.sm35``: our name, the variant, and the architectures where they are few enough to read.
"""

from __future__ import annotations

import re

from packaging.utils import parse_wheel_filename

from rekindle.host.protocol import Host
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree

MAX_ARCHS_IN_NAME = 3


def wheel_version(plan: Plan, tree: SourceTree) -> str:
    """PEP 440: the local part is letters, digits and dots.

    For torch the plan's version counts: version.txt of a release tag still says 1.13.0a0.
    """
    public = (plan.torch if plan.project == "torch" and plan.torch else tree.version).split("+")[0]
    parts = ["rekindle", plan.variant or _variant(plan)]
    numbers = [arch.replace("+PTX", "ptx").removeprefix("sm_").replace(".", "") for arch in plan.arch_list]
    archs = [text if text.startswith("gfx") else f"sm{text}" for text in numbers]
    if 0 < len(archs) <= MAX_ARCHS_IN_NAME:
        parts += archs
    local = ".".join(re.sub(r"[^a-z0-9.]+", ".", part.lower()).strip(".") for part in parts if part)
    return f"{public}+{local}"


def _variant(plan: Plan) -> str:
    """A source build has no published variant; its back end names it the same way."""
    if plan.cuda:
        return "cu" + "".join(plan.cuda.split(".")[:2])
    return f"rocm{plan.rocm}" if plan.rocm else "cpu"


def wheel_name(plan: Plan, tree: SourceTree | None, tag: str, host: Host) -> str | None:
    """What the wheel will be called; None before there is a tree whose version counts."""
    if plan.project != "torch" and tree is None:
        return None
    version = wheel_version(plan, tree or SourceTree(project=plan.project, version=plan.torch or "0", root=""))
    platform = {"linux": f"linux_{host.machine}", "windows": "win_amd64", "macos": f"macosx_{host.machine}"}
    inside = plan.project.replace("-", "_")
    name = f"{inside}-{version}-{tag.removesuffix('t')}-{tag}-{platform.get(host.system, host.system)}.whl"
    parse_wheel_filename(name)
    return name
