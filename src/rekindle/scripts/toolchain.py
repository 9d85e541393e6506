"""The compiler of a plan in the words of each system: a command, a package, a Visual Studio.

``gcc-11`` is ``g++-11``; ``msvc-19.29`` is the toolset 14.29 of Visual Studio 2019. The mapping of _MSC_VER to
toolset and product is Microsoft's: https://learn.microsoft.com/cpp/overview/compiler-versions
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# first toolset minor -> (vswhere version range, product)
_PRODUCTS = (
    (10, "[15.0,16.0)", "2017"),
    (20, "[16.0,17.0)", "2019"),
    (30, "[17.0,18.0)", "2022"),
    (50, "[18.0,19.0)", "2026"),
)


def cxx_command(compiler: str | None) -> str | None:
    """The C++ compiler's command on Linux; None leaves the choice to the machine."""
    match = re.fullmatch(r"(gcc|clang)-(\d+)(?:\..*)?", compiler or "")
    if not match:
        return None
    return f"g++-{match[2]}" if match[1] == "gcc" else f"clang++-{match[2]}"


def c_command(cxx: str) -> str:
    return cxx.replace("clang++", "clang").replace("g++", "gcc")


def cxx_package(compiler: str | None) -> str:
    """The Debian or Ubuntu package that brings it."""
    cxx = cxx_command(compiler)
    return cxx.replace("clang++", "clang") if cxx else "g++"


@dataclass(frozen=True)
class Studio:
    """Which Visual Studio: version ranges for vswhere, best first; the toolset (14.29); both in words for people."""

    ranges: tuple[str, ...]
    toolset: str
    words: str


def visual_studio(compiler: str | None) -> Studio:
    """The product the toolset belongs to first; a newer one can bring the older toolset along."""
    match = re.fullmatch(r"msvc-19\.(\d\d)(?:\..*)?", compiler or "")
    fitting = [row for row in _PRODUCTS if match and row[0] <= int(match[1])]
    if not match or not fitting:
        return Studio(ranges=("[15.0,",), toolset="", words="")
    _, versions, product = fitting[-1]
    later = f"[{versions.split(',')[1].rstrip(')')},"
    toolset = f"14.{match[1]}"
    return Studio(ranges=(versions, later), toolset=toolset, words=f" (toolset {toolset} of Visual Studio {product})")
