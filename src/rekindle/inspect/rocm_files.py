"""ROCm's data files: for which AMD targets rocBLAS, hipBLASLt and MIOpen bring kernels of their own.

A wheel may carry gfx906 code in its own libraries and still fail at the first matrix product, because the
kernel files of rocBLAS for it are missing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from rekindle.model.arch import parse_gfx_code
from rekindle.model.wheel import DataFiles

_PLACES = (
    # Debian puts the version between: rocblas/2.47.0/library/.
    ("rocBLAS", re.compile(r"rocblas/(?:[0-9.]+/)?library/")),
    ("hipBLASLt", re.compile(r"hipblaslt/(?:[0-9.]+/)?library/")),
    ("MIOpen", re.compile(r"miopen/db/|miopen.*\.(?:kdb|db\.txt|fdb\.txt)")),
    ("rocFFT", re.compile(r"rocfft/")),
    ("hipSPARSELt", re.compile(r"hipsparselt/(?:[0-9.]+/)?library/")),
)
# gfx90a-xnack+ is a chip and a switch; MIOpen adds the number of compute units: gfx906_60, and gfx90878 or
# gfx942130 in hexadecimal above 64. Chips up to gfx9 have three characters, later ones four, so both are told apart.
_CHIP = r"1[0-9][0-9a-f]{2}|[6-9][0-9a-f]{2}|1?[0-9](?:-[0-9])?-generic"
_GFX = re.compile(rf"(?<![0-9a-z])(gfx(?:{_CHIP}))(?:[0-9a-f]{{2,3}})?[-_.]")
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
        DataFiles(
            library=library,
            gfx=tuple(sorted(targets[library], key=lambda name: parse_gfx_code(name).order)),
            files=count[library],
        )
        for library in sorted(count)
        if targets[library]
    )
