"""A crash report that can be pasted into an issue: what ran, where it broke, on what."""

import platform
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from rekindle import __version__


def write_crash_report(error: BaseException, argv: Sequence[str]) -> Path:
    """A file with what ran and where it broke, without names and secrets."""
    from rekindle.api.explain import redacted

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
    # It is meant to be posted: nobody's name, no token that stood on the command line.
    text = redacted(text)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", errors="backslashreplace", prefix="rekindle-crash-", suffix=".md", delete=False
    ) as file:
        file.write(text)
    return Path(file.name)
