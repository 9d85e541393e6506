"""ROCm's data files: for which AMD targets rocBLAS, hipBLASLt and MIOpen bring kernels of their own.

A wheel may carry gfx906 code in its own libraries and still fail at the first matrix product, because the
kernel files of rocBLAS for it are missing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from rekindle.model.arch import parse_gfx
from rekindle.model.wheel import DataFiles

_PLACES = (
    ("rocBLAS", re.compile(r"rocblas/library/")),
    ("hipBLASLt", re.compile(r"hipblaslt/library/")),
    ("MIOpen", re.compile(r"miopen/db/|miopen.*\.(?:kdb|db\.txt|fdb\.txt)")),
    ("rocFFT", re.compile(r"rocfft/")),
    ("hipSPARSELt", re.compile(r"hipsparselt/library/")),
)
_GFX = re.compile(r"(?<![0-9a-z])(gfx[0-9]{3,4}[0-9a-f]?|gfx90[0-9a-f])(?![0-9a-f])")
_CODE = re.compile(r"\.(?:co|hsaco|dat|kdb|txt|db|bin)(?:\.[a-z]+)?$|\.dat\.gz$")


def find_data_files(names: Iterable[str]) -> tuple[DataFiles, ...]:
    targets: dict[str, set[str]] = defaultdict(set)
    count: dict[str, int] = defaultdict(int)
    for name in names:
        lower = name.lower()
        for library, place in _PLACES:
            if place.search(lower) and _CODE.search(lower):
                count[library] += 1
                targets[library].update(_GFX.findall(lower.rsplit("/", 1)[-1]))
    return tuple(
        DataFiles(library=library, gfx=tuple(sorted(targets[library], key=_order)), files=count[library])
        for library in sorted(count)
        if targets[library]
    )


def _order(name: str) -> tuple[int, str]:
    try:
        return parse_gfx(name).order
    except ValueError:
        return 0, name
