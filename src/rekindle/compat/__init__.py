"""The one truth of compatibility: does this code run on that card, driver, CPU, C library; what a build costs.

Pure functions over typed values and facts, no I/O. Every verb asks here and keeps no rule of its own.

``images``     GPU code on a card (SASS, PTX, gfx, generic gfx, SPIR-V)
``driver``     the floor and the ceiling of drivers, per card, toolkit and system
``toolkit``    what nvcc compiles for, the host compilers it takes, and what cuDNN still has code for
``processor``  CPU features against code: starts, starts but crashes somewhere, does not start
``libc``       which C library, and is it new enough
``resources``  memory and disk, per compiler and in all

A backend is one entry of ``BACKENDS`` in ``backends``.
"""

from rekindle.compat.answer import Coverage, Name
from rekindle.compat.backends import BACKENDS, Backend, backend_of, flavour_backend

__all__ = ["BACKENDS", "Backend", "Coverage", "Name", "backend_of", "flavour_backend"]
