"""Which host compilers a CUDA toolkit takes, from the facts: never a version written into a rule."""

from __future__ import annotations

import re

from rekindle.compat.toolkit import newest_compiler, takes_compiler
from rekindle.compat.visual_studio import find_visual_studio
from rekindle.explain.events import Event
from rekindle.explain.scene import Scene, toolkit_of
from rekindle.explain.values import Fill

FILLS: dict[str, Fill] = {}


def _toolkit(event: Event, scene: Scene) -> str | None:
    named = re.search(r"cuda[-/\\_]{1,2}v?(\d+\.\d+)[/\\]", event.around, re.IGNORECASE)
    return named[1] if named else toolkit_of(event, scene)


def _studio(msc: int) -> str:
    product = find_visual_studio(max(msc - 1900, 0))
    return product[1] if product else "newer than 2026"


def host_msvc(event: Event, scene: Scene) -> dict[str, str]:
    """The newest Microsoft compiler this toolkit takes, and the first toolkit that takes the one in use."""
    toolkit = _toolkit(event, scene)
    row = scene.facts.toolkit(toolkit) if toolkit else None
    values = {"toolkit": f"CUDA {toolkit}"} if toolkit else {}
    newest = newest_compiler(row, "msvc") if row else None
    if newest is None:
        return values
    values["toolset"] = f"14.{newest - 1900}"
    values["studio"] = f"Visual Studio {_studio(newest)}"
    said = re.search(r"\b19\.(\d\d)\b", event.around) or re.search(r"^19\.(\d\d)", scene.values.get("msvc_version", ""))
    have = 1900 + int(said[1]) if said else newest + 1
    if first := _first_taking("msvc", f"{have // 100}.{have % 100}", scene):
        values["first_cuda"] = first
    return values


def host_gcc(event: Event, scene: Scene) -> dict[str, str]:
    """nvcc stumbles over the headers of gcc N: which gcc this toolkit (or the last that refuses N) takes."""
    path = re.search(r"(?:c\+\+|gcc/[\w-]+)/(\d+)", event.around)
    if not path:
        return {}
    have = int(path[1])
    toolkit = _toolkit(event, scene)
    row = scene.facts.toolkit(toolkit) if toolkit else None
    limits = [newest_compiler(scene.facts.cuda.toolkit[kit], "gcc") or 0 for kit in scene.facts.toolkits]
    own = (newest_compiler(row, "gcc") or 0) if row else 0
    newest = own if 0 < own < have else max((limit for limit in limits if limit < have), default=0)
    values = {"have_gcc": str(have)}
    if newest:
        values["newest"] = str(newest)
    if first := _first_taking("gcc", str(have), scene):
        values["first_cuda"] = first
    if toolkit:
        values["toolkit"] = f"CUDA {toolkit}"
    return values


def _first_taking(kind: str, version: str, scene: Scene) -> str | None:
    kits = scene.facts.cuda.toolkit
    return next((kit for kit in reversed(scene.facts.toolkits) if takes_compiler(kits[kit], kind, version)), None)


FILLS["host-msvc"] = host_msvc
FILLS["host-gcc"] = host_gcc
