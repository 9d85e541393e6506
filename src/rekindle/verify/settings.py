"""Settings of the user's own that change which code runs, as one word of a report."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Values of these are told; of anything else only the name, since a value may be a secret.
_TELLING = re.compile(r"^(?:ATEN|OMP|MKL|OPENBLAS|DNNL|ONEDNN|SPARK)_[A-Z0-9_]+$|^(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES$")


def told_settings(shell: Mapping[str, str], given: Mapping[str, str]) -> str:
    """Those of the shell that matter, and all that were given; empty where there are none."""
    found = {name: value for name, value in shell.items() if _TELLING.match(name)} | dict(given)
    words = [f"{name}={value[:60]}" if _TELLING.match(name) else name for name, value in sorted(found.items())]
    return " ".join(words)
