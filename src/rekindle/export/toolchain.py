"""The compiler of a plan in the words of each system: a command, a package, a Visual Studio.

``gcc-11`` is ``g++-11``; ``msvc-19.29`` is the toolset 14.29 of Visual Studio 2019. The mapping of _MSC_VER to
toolset and product is Microsoft's: https://learn.microsoft.com/cpp/overview/compiler-versions
"""

from __future__ import annotations

import re

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


def visual_studio(compiler: str | None) -> tuple[str, str, str]:
    """(option for vswhere, option for vcvarsall, the product in words); empty where any will do."""
    match = re.fullmatch(r"msvc-19\.(\d\d)(?:\..*)?", compiler or "")
    if not match:
        return "", "", ""
    minor = int(match[1])
    fitting = [row for row in _PRODUCTS if row[0] <= minor]
    if not fitting:
        return "", "", ""
    _, versions, product = fitting[-1]
    # A newer Visual Studio can bring the older toolset along, so only the lower bound and the toolset are asked.
    lower = versions.split(",")[0].strip("[")
    return f' -version "[{lower},"', f" -vcvars_ver=14.{minor}", f" (toolset 14.{minor} of Visual Studio {product})"
