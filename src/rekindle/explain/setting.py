"""What the log says about the machine it comes from, and what that contradicts.

The signals capture versions and names anywhere in the log; here they become facts with names people know, and a rule
that takes something else for granted (``requires``) is contradicted by them.
"""

from __future__ import annotations

import operator
import re

from rekindle.explain.conditions import condition
from rekindle.explain.events import Event
from rekindle.explain.rule import Rule
from rekindle.explain.scene import Scene, toolkit_of
from rekindle.model.version import compare

# Name of the fact, the captured value it comes from.
_FACTS = {
    "python": "python_version",
    "torch": "torch_version",
    "torch flavour": "torch_flavour",
    "torch's CUDA": "torch_cuda",
    "CUDA toolkit": "toolkit",
    "driver": "driver_version",
    "driver's CUDA": "driver_cuda",
    "gcc": "gcc_version",
    "MSVC": "msvc_version",
    "CMake": "cmake_version",
    "NumPy": "numpy_version",
    "GPU": "gpu_name",
    "compute capability": "capability",
    "gfx target": "gfx",
    "CPU": "cpu_name",
    "distribution": "distro",
    "package": "package_built",
}
_SIGNS = {">=": operator.ge, "<=": operator.le, "==": operator.eq, "<": operator.lt, ">": operator.gt}
_SPEC = re.compile(r"(>=|<=|==|<|>)\s*([\d.]+)")


def facts_of(scene: Scene) -> dict[str, str]:
    """What is known of the machine and the build, for people and for ``--json``."""
    facts = {name: scene.values[value] for name, value in _FACTS.items() if scene.values.get(value)}
    system = next((name for name in ("windows", "macos", "wsl", "jetson") if scene.saw(name)), None)
    if system:
        facts = {"system": {"wsl": "Linux under WSL", "jetson": "NVIDIA Jetson"}.get(system, system), **facts}
    if scene.saw("arm"):
        facts["architecture"] = "ARM"
    return facts


def is_contradicted(rule: Rule, scene: Scene) -> bool:
    """Does the log say that something the rule takes for granted is not so? Silence contradicts nothing."""
    known = {"python": scene.values.get("python_version"), "toolkit": scene.values.get("toolkit")}
    known |= {"numpy": scene.values.get("numpy_version"), "cmake": scene.values.get("cmake_version")}
    return any((have := known.get(name)) and not _satisfies(have, spec) for name, spec in rule.requires.items())


def _satisfies(have: str, spec: str) -> bool:
    return all(_SIGNS[sign](compare(have, version), 0) for sign, version in _SPEC.findall(spec))


@condition
def nvcc_older_than_torch_cuda(event: Event, scene: Scene) -> bool | None:
    """Only where both are known: without them a compile error in torch's headers has too many other causes."""
    toolkit, cuda = toolkit_of(event, scene), scene.values.get("torch_cuda")
    return bool(toolkit and cuda and compare(toolkit, cuda) < 0)
