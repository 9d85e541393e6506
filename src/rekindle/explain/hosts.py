"""Which host compilers a CUDA toolkit takes, from the facts: never a version written into a rule."""

from __future__ import annotations

import re

from rekindle.explain.events import Event
from rekindle.explain.scene import Scene, toolkit_of
from rekindle.explain.values import Fill

FILLS: dict[str, Fill] = {}
# _MSC_VER below which a Visual Studio generation ends, and its name.
_GENERATIONS = ((1910, "2015"), (1920, "2017"), (1930, "2019"), (1950, "2022"), (1960, "2026"))


def _toolkit(event: Event, scene: Scene) -> str | None:
    named = re.search(r"cuda[-/\\_]{1,2}v?(\d+\.\d+)[/\\]", event.around, re.IGNORECASE)
    return named[1] if named else toolkit_of(event, scene)


def _studio(msc: int) -> str:
    return next((name for end, name in _GENERATIONS if msc < end), "newer than 2026")


def host_msvc(event: Event, scene: Scene) -> dict[str, str]:
    """The newest Microsoft compiler this toolkit takes, and the first toolkit that takes the one in use."""
    toolkit = _toolkit(event, scene)
    row = scene.facts.toolkit(toolkit) if toolkit else None
    values = {"toolkit": f"CUDA {toolkit}"} if toolkit else {}
    if row is None or row.msvc_below is None:
        return values
    newest = row.msvc_below - 1
    values["toolset"] = f"14.{newest - 1900}"
    values["studio"] = f"Visual Studio {_studio(newest)}"
    said = re.search(r"\b19\.(\d\d)\b", event.around) or re.search(r"^19\.(\d\d)", scene.values.get("msvc_version", ""))
    have = 1900 + int(said[1]) if said else row.msvc_below
    later = (kit for kit in reversed(scene.facts.toolkits) if (scene.facts.cuda.toolkit[kit].msvc_below or 0) > have)
    if first := next(later, None):
        values["first_cuda"] = first
    return values


def host_gcc(event: Event, scene: Scene) -> dict[str, str]:
    """nvcc stumbles over the headers of gcc N: which gcc this toolkit (or the last that refuses N) takes."""
    path = re.search(r"(?:c\+\+|gcc/[\w-]+)/(\d+)", event.around)
    if not path:
        return {}
    have = int(path[1])
    kits = scene.facts.cuda.toolkit
    toolkit = _toolkit(event, scene)
    row = scene.facts.toolkit(toolkit) if toolkit else None
    refusing = [kits[kit].gcc_max or 0 for kit in scene.facts.toolkits if 0 < (kits[kit].gcc_max or 0) < have]
    newest = row.gcc_max if row and row.gcc_max and row.gcc_max < have else max(refusing, default=None)
    first = next((kit for kit in reversed(scene.facts.toolkits) if (kits[kit].gcc_max or 0) >= have), None)
    values = {"have_gcc": str(have)}
    if newest:
        values["newest"] = str(newest)
    if first:
        values["first_cuda"] = first
    if toolkit:
        values["toolkit"] = f"CUDA {toolkit}"
    return values


FILLS["host-msvc"] = host_msvc
FILLS["host-gcc"] = host_gcc
