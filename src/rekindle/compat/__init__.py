"""The one truth of compatibility: does this code run on that card, driver, CPU, C library; what a build costs.

Pure functions over typed values and facts, no I/O. Every verb asks here and keeps no rule of its own.

``images``     GPU code on a card (SASS, PTX, gfx, generic gfx, SPIR-V)
``driver``     the floor and the ceiling of drivers, per card, toolkit and system
``toolkit``    what nvcc compiles for, the host compilers it takes, and what cuDNN still has code for
``processor``  CPU features against code: starts, starts but crashes somewhere, does not start
``libc``       which C library, and is it new enough
``resources``  memory and disk, per compiler and in all

A backend (``BACKENDS``) is a class in ``backends`` that satisfies :class:`Backend`, and one entry in the dict.
"""

from __future__ import annotations

from rekindle.compat.answer import Backend, Coverage, Name
from rekindle.compat.backends import CpuBackend, CudaBackend, RocmBackend, XpuBackend
from rekindle.model.facts import Flavour

__all__ = ["BACKENDS", "Backend", "Coverage", "Name", "backend_of", "flavour_backend"]

BACKENDS: dict[Name, Backend] = {
    "cpu": CpuBackend(),
    "cuda": CudaBackend(),
    "rocm": RocmBackend(),
    "xpu": XpuBackend(),
}


def flavour_backend(flavour: Flavour) -> Name:
    """The backend a published wheel is for."""
    return "cuda" if flavour.cuda else "rocm" if flavour.rocm else "xpu" if flavour.xpu else "cpu"


def backend_of(vendor: str) -> Name | None:
    """The backend that drives a vendor's cards, if there is one."""
    return next((name for name, backend in BACKENDS.items() if vendor == backend.vendor), None)
