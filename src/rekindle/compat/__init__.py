"""The one truth of compatibility: does this code run on that card, driver, CPU, C library; what a build costs. Pure
functions over typed values and facts, no I/O: every verb asks here and keeps no rule of its own."""

from rekindle.compat.answer import Coverage, Name
from rekindle.compat.backends import BACKENDS, Backend, backend_of, flavour_backend

__all__ = ["BACKENDS", "Backend", "Coverage", "Name", "backend_of", "flavour_backend"]
