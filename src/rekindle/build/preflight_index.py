"""Can pip bring what the build environment needs? Asked before sources are fetched for an hour."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence

from rekindle.errors import BadInput
from rekindle.host.protocol import Host
from rekindle.interpreters.pip_errors import telling_lines
from rekindle.model.machine import Check
from rekindle.scripts.quoting import paste_line

# The smallest package that every build environment gets.
_PROBE = "wheel"
_SECONDS = 60.0
# pip's own words: nothing was wrong with the index, the question was.
_NOT_ASKED = ("no such option", "No module named pip")


def check_index(host: Host, python: str, wanted: Sequence[str]) -> Iterator[Check]:
    """One small package is fetched by pip itself, with its own settings: an index, a mirror or wheels at hand."""
    if not wanted:
        return
    with tempfile.TemporaryDirectory(prefix="rekindle-index-") as folder:
        words = ("download", "--no-deps", "--disable-pip-version-check", "--no-input", "--retries", "1")
        for own in (python, sys.executable):
            said = host.run([own, "-m", "pip", *words, "--dest", folder, _PROBE], timeout=_SECONDS)
            if said.ok:
                yield Check(id="index", status="ok", needed_for=("build",), found="pip reaches the packages it needs")
                return
            if not any(word in said.err for word in _NOT_ASKED):
                break
        else:
            return  # no pip to ask; the environment's own will tell
    lines = telling_lines(said.err)
    windows = host.system == "windows"
    wheels = r"%CD%\wheels" if windows else "$PWD/wheels"
    fix = (
        f"pip download -d wheels {paste_line(wanted, windows=windows)}   # where there is a network; then here:"
        f' PIP_NO_INDEX=1 PIP_FIND_LINKS="{wheels}" and the same command (a mirror: PIP_INDEX_URL=ADDRESS)'
    )
    if said.code is None or not lines:
        # A slow machine or network is no missing index.
        found = f"pip gave no answer in {_SECONDS:.0f} seconds; without an index the build environment cannot be made"
        yield Check(id="index", status="warn", needed_for=("build",), found=found, fix=fix)
        return
    raise BadInput(
        f"pip finds no packages here ({lines[-1]}), and the build environment needs {', '.join(wanted)}",
        remedy=fix,
    )
