"""What ends a question before anything is judged: a system that no torch was ever made for, with one clear answer each,
and a wish that names what never existed."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from rekindle.compat.libc import libc_of
from rekindle.errors import BadInput
from rekindle.model.version import compare, is_version, key, minor
from rekindle.plan.question import Question

# As `uname -m`, Python and people spell them.
NARROW = ("x86", "i386", "i486", "i586", "i686", "win32", "arm", "armhf", "armv6l", "armv7l", "armv8l", "mips", "ppc")
OTHER_ARCHS = (*NARROW, "ppc64le", "s390x", "riscv64", "loongarch64", "mips64")
_INDEX = "https://pypi.org/project/torch/#files"


class Obstacle(NamedTuple):
    """``instead`` is the nearest thing that works."""

    code: str
    text: str
    instead: str
    source: str


def find_obstacle(question: Question) -> Obstacle | None:
    """The first thing about the system itself that rules everything out."""
    arch = question.arch
    if arch in NARROW:
        text = (
            f"This is a 32-bit system or Python ({arch}): torch is published for 64-bit systems only, and its sources"
            " do not build for 32 bit."
        )
        return Obstacle("system-32-bit", text, "a 64-bit system (x86_64, amd64) with a 64-bit Python", _INDEX)
    python = question.wish.python or ""
    if python.endswith("-32"):  # as Windows' py launcher spells it
        text = f"Python {python} is a 32-bit Python: torch is published for 64-bit Pythons only."
        return Obstacle("system-32-bit", text, f"the 64-bit Python {python.removesuffix('-32')}", _INDEX)
    if arch not in ("x86_64", "aarch64"):
        text = f"No torch wheel was ever published for {arch}; whether its sources build there is not known here."
        return Obstacle("arch-unsupported", text, "a machine with x86_64 or aarch64", _INDEX)
    libc = libc_of(question.machine.os, question.facts)
    if libc is not None and libc.kind == "musl":
        text = (
            "This system uses musl (Alpine and its like): every Linux wheel of torch is a manylinux wheel and needs"
            " glibc, and neither CUDA nor ROCm exists for musl."
        )
        instead = "a container or a distribution with glibc (for example Debian 12: docker run -it debian:12)"
        return Obstacle("libc-musl", text, instead, _INDEX)
    return None


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
