"""Linear algebra for a build: a torch without LAPACK after four hours is a defect, so it is planned and asserted.

What the machine has is used; else MKL from the package index on x86-64 and the system's OpenBLAS elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

from rekindle.plan.question import Question


class Blas(NamedTuple):
    """``env`` steers the build, ``asserts`` are checked after configure, ``pins`` come from pip, ``where`` is for
    people.

    ``prefix`` is a folder below the environment that CMake must search; None where the library is the system's.
    """

    name: str
    env: dict[str, str]
    pins: dict[str, str]
    where: str
    prefix: str | None = None

    @property
    def asserts(self) -> dict[str, str]:
        """What configure must have found, for BLAS and for LAPACK."""
        return {"BLAS": self.name, "LAPACK": self.name}


def plan_blas(question: Question) -> Blas:
    """Which library this build takes."""
    had = {kit.kind for kit in question.machine.toolkits}
    windows = question.machine.os.system == "windows"
    if question.arch == "x86_64" and ("mkl" in had or "openblas" not in had):
        if "mkl" in had:
            return Blas("MKL", {"BLAS": "MKL"}, {}, "MKL, found on the machine")
        return Blas(
            "MKL",
            {"BLAS": "MKL"},
            {"mkl-static": "", "mkl-include": ""},
            "MKL: pip install mkl-static mkl-include",
            "Library" if windows else ".",
        )
    where = "OpenBLAS, found on the machine" if "openblas" in had else "OpenBLAS: apt install libopenblas-dev"
    return Blas("OpenBLAS", {"BLAS": "OpenBLAS"}, {}, where)
