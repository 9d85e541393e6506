"""The checks of ``verify`` as the agent loads them: a package of their own, gone again afterwards."""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from rekindle.verify.target import CHECKS


@contextlib.contextmanager
def loaded_checks() -> Iterator[Callable[[str], Any]]:
    """A function that gives a module of the checks by its name."""
    made = types.ModuleType("rekindle_checks")
    made.__path__ = [str(CHECKS)]
    before = _loaded()
    for name in before:
        del sys.modules[name]
    sys.modules["rekindle_checks"] = made
    try:
        yield lambda name: importlib.import_module(f"rekindle_checks.{name}")
    finally:
        for name in _loaded():
            del sys.modules[name]
        sys.modules.update(before)


def _loaded() -> dict[str, types.ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "rekindle_checks"}
