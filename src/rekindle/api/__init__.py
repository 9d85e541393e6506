"""The public library: one function per verb, one file each. Only this room knows all stages; it joins them.

Every function returns a frozen value (:mod:`rekindle.model`) that is JSON on disk (``rekindle.model.document.encode``)
and shows itself in a notebook; one with ``options`` takes them as that value, or each field by its name. What cannot be
done because of what was given raises a subclass of :class:`rekindle.errors.RekindleError` with ``message`` and
``remedy``; an answer that is no (nothing fits, a build or a check failed) is a value.
"""

import importlib
import re
from pathlib import Path
from typing import Any


def _read_homes() -> dict[str, str]:
    """The module of each public name, as the list in ``__init__.pyi`` says."""
    listed = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = re.finditer(r"^from (\S+) import ([^()\n]+|\([^)]+\))", listed, re.MULTILINE)
    return {name: line[1] for line in imports for name in re.findall(r"as (\w+)", line[2])}


# Most commands need one verb, so a file is read when its function is asked for. No file here may have the name of a
# function: importing it would put the module in the function's place. Journeys (``up``, ``matrix_run``) lie in a room
# above this one, which is known here by name only.
_HOMES = _read_homes()
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rekindle.model.document import Document  # not before a verb is asked for: its help does without msgspec

    Document._repr_html_ = _as_html
    function = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def _as_html(document: object) -> str:
    from rekindle.render.pages import render_html

    return render_html(document)
