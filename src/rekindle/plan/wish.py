"""Catches wishes that name things that never existed, before anything is planned around them."""

from __future__ import annotations

import difflib

from rekindle.errors import BadInput
from rekindle.model.version import compare, is_version, key, minor
from rekindle.plan.question import Question


def check_wish(question: Question) -> None:
    """:class:`BadInput` in one line: what does not exist, and what is nearest."""
    wish, facts = question.wish, question.facts
    try:
        _ = question.wanted_releases  # refuses a release that nobody knows
    except ValueError as error:
        raise BadInput(f"--torch: {error}") from None
    for name, value in (("cuda", wish.cuda), ("rocm", wish.rocm), ("cudnn", wish.cudnn), ("python", wish.python)):
        if value is not None and not is_version(value):
            raise BadInput(f"--{name} wants a version number, not {value!r}")
    if wish.cuda is not None and facts.toolkit(wish.cuda) is None:
        _unknown_cuda(wish.cuda, question)
    if question.machine.os.system == "windows" and question.arch == "aarch64":
        raise BadInput(
            "Windows on ARM is not in the tables", remedy="plan for --arch x86_64, or use WSL and --os linux"
        )
    if wish.cuda and wish.rocm:
        raise BadInput("--cuda and --rocm contradict each other", remedy="a torch is built for one of them")
    flavour = question.flavour
    if flavour and flavour != "cpu":
        known = {row.name for row in facts.wheels.flavour}
        if flavour not in known and not any(flavour.startswith(kind) for kind in ("cu", "rocm", "amd", "xpu")):
            near = difflib.get_close_matches(flavour, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "flavours look like cu126, rocm6.4 or cpu"
            raise BadInput(f"no wheel flavour is called {flavour!r}", remedy=hint)
    if wish.compiler is not None:
        kind, _, version = wish.compiler.partition("-")
        if kind not in ("gcc", "clang", "msvc") or not is_version(version or "x"):
            raise BadInput(
                f"--compiler {wish.compiler!r} is not understood", remedy="write gcc-13, clang-17 or msvc-19.40"
            )


def _unknown_cuda(version: str, question: Question) -> None:
    known = question.facts.toolkits
    if compare(version, known[0]) > 0:
        raise BadInput(
            f"CUDA {version} is newer than the facts know ({known[0]} is the newest)",
            remedy="update rekindle, or add the toolkit in a directory named by REKINDLE_FACTS",
        )
    near = min(known, key=lambda kit: abs(key(kit)[0] * 100 + key(kit)[1] - key(version)[0] * 100 - _second(version)))
    raise BadInput(f"there is no CUDA {minor(version)}", remedy=f"the nearest is {near}")


def _second(version: str) -> int:
    parts = key(version)
    return parts[1] if len(parts) > 1 else 0
