"""The public library: one function per verb. Only this file knows all stages; it joins them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.model.diagnosis import Diagnosis
    from rekindle.model.machine import Machine
    from rekindle.model.plan import Plan


def explain(
    source: Path | str | bytes | Iterable[bytes], *, machine: Machine | None = None, plan: Plan | None = None
) -> Diagnosis:
    """A log (a path), a text, or a stream of bytes into causes and fixes, best first."""
    from rekindle.explain.engine import diagnose
    from rekindle.explain.reading import open_log, read_chunks

    if isinstance(source, Path):
        with open_log(source) as file:
            return diagnose(read_chunks(file), machine=machine, plan=plan)
    if isinstance(source, str):
        source = source.encode("utf-8", "replace")
    return diagnose([source] if isinstance(source, bytes) else source, machine=machine, plan=plan)
