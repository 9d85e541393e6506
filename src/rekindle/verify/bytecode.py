"""Python byte code made ahead by this machine: it saves an emulated Python most of its start-up time.

Measured: a bare emulated Python 3.11 starts in 38 s without byte code and in 2 s with it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rekindle.host.protocol import Host

SECONDS = 1200.0


def compile_ahead(host: Host, folder: Path, version: tuple[int, int]) -> bool:
    """Compile every file under ``folder``; False where no Python of that version is here, and nothing is lost."""
    name = f"{version[0]}.{version[1]}"
    python = sys.executable if sys.version_info[:2] == version else host.which(f"python{name}")
    if python is None:
        return False
    # unchecked-hash: the emulated Python then need not look at each source file's date.
    argv = [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(folder)]
    try:
        # Some packages ship files that do not compile (templates, old syntax): that is no failure.
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return True
