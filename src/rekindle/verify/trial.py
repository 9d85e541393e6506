"""What is asked of a proof, whatever is tried: a wheel, an installed package or a wheel on an emulated CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rekindle.compat.operators import Suspicion
from rekindle.host.sandbox import Wish
from rekindle.model.verify import Level


@dataclass(frozen=True, kw_only=True)
class Trial:
    """``expect`` holds what the plan promised; ``suspects`` are operators that the wheel's own bytes make doubtful.

    ``dependencies``, ``find_links`` and ``sandbox`` say how a wheel is installed and run; an installed package has
    that behind it. ``gpu`` is None where the machine decides.
    """

    python: str | None = None
    level: Level = "smoke"
    only: Sequence[str] = ()
    expect: Mapping[str, Any] = field(default_factory=dict)
    dependencies: bool = True
    find_links: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    gpu: bool | None = None
    sandbox: Wish = "auto"
    suspects: Sequence[Suspicion] = ()
