"""A setup.py that tells torch not to use Ninja compiles one file after another, and from the start after each stop.

Such trees (torch-scatter and its family) do so because Ninja works in another folder, where include paths relative to
the tree lead nowhere. With those paths made absolute it serves them too: files side by side under the governor of
memory, and an interrupted build goes on. ``USE_NINJA=0`` in the settings leaves such a tree as it is.
"""

from __future__ import annotations

import re

_SERIAL = re.compile(r"use_ninja\s*=\s*False")
_CHOOSES = re.compile(r"environ\[\s*['\"]MAX_JOBS['\"]\s*\]\s*=")
_COUNTS = re.compile(r"int\([^)]*MAX_JOBS")
# torch takes digits alone for a number of jobs; with any other word Ninja asks the jobserver.
BY_JOBSERVER = "jobserver"
# Run by the target's Python in the tree, in place of "setup.py"; the rest of the command line is setup.py's.
DRIVER = """\
import os, runpy, sys
from torch.utils.cpp_extension import BuildExtension

made, compiled = BuildExtension.__init__, BuildExtension.build_extensions


def begin(self, *given, **named):
    named.pop("use_ninja", None)
    made(self, *given, **named)


def compile_all(self):
    for each in self.extensions:
        each.include_dirs = [os.path.abspath(path) for path in each.include_dirs]
    compiled(self)


BuildExtension.__init__, BuildExtension.build_extensions = begin, compile_all
sys.argv[0] = "setup.py"
sys.path[0] = os.getcwd()
runpy.run_path("setup.py", run_name="__main__")
"""


def is_serial(setup: str) -> bool:
    """Whether a setup.py switches Ninja off."""
    return bool(_SERIAL.search(setup))


def chooses_jobs(setup: str) -> bool:
    """Whether a setup.py fixes the number of jobs where MAX_JOBS is not set (flash-attn does). Ninja would then ask no
    jobserver, and all compilers start at once. One that reads the variable as a number itself is left alone."""
    return bool(_CHOOSES.search(setup)) and not _COUNTS.search(setup)


def words(*, serial: bool) -> list[str]:
    """What follows the interpreter: ``setup.py``, or what runs it with Ninja."""
    return ["-c", DRIVER] if serial else ["setup.py"]
