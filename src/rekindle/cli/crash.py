"""A crash report that can be pasted into an issue: what ran, where it broke, on what."""

from __future__ import annotations

import platform
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from rekindle import __version__


def write_crash_report(error: BaseException, argv: Sequence[str]) -> Path:
    home = str(Path.home())
    text = "\n".join(
        [
            "### rekindle crash report",
            f"- rekindle {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"- command: rekindle {' '.join(argv)}",
            "```",
            "".join(traceback.format_exception(error)).rstrip(),
            "```",
            "",
        ]
    )
    # The user's name is nobody's business.
    text = text.replace(home, "~") if len(home) > 1 else text
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="rekindle-crash-", suffix=".md", delete=False
    ) as file:
        file.write(text)
    return Path(file.name)
