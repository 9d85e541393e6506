"""What stands in front of every candidate: a system that no torch was ever made for. One clear answer each."""

from __future__ import annotations

from typing import NamedTuple

from rekindle.compat.libc import libc_of
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
