"""From a plan and a source tree to a wheel: elastic jobs, resume, asserts, report."""

from rekindle.build.engine import build
from rekindle.build.request import make_order

__all__ = ["build", "make_order"]
