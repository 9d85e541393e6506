"""Which Visual Studio a Microsoft compiler belongs to.

Its version 19.29 is _MSC_VER 1929 and the toolset 14.29: https://learn.microsoft.com/cpp/overview/compiler-versions
"""

from __future__ import annotations

# The first compiler (the part after "19."), the product's own version, its year.
_PRODUCTS = ((0, 14, "2015"), (10, 15, "2017"), (20, 16, "2019"), (30, 17, "2022"), (50, 18, "2026"))
_FIRST_UNKNOWN = 60


def find_visual_studio(compiler: int) -> tuple[int, str] | None:
    """Version and year of the product; None where the compiler is newer than any known here.

    >>> find_visual_studio(29), find_visual_studio(60)
    ((16, '2019'), None)
    """
    if not 0 <= compiler < _FIRST_UNKNOWN:
        return None
    return next((version, year) for first, version, year in reversed(_PRODUCTS) if first <= compiler)
