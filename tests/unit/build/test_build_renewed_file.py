"""What build.ninja itself depends on keeps to the number of jobs, too. Asked of the real Ninja."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import needs
from rekindle.build.steps import renew_build_file

# Each generator says so where another one runs beside it.
FILE = """\
rule generate
  command = mkdir busy 2>/dev/null || touch together; sleep 0.4; rmdir busy 2>/dev/null; touch $out
rule again
  command = touch build.ninja
  generator = 1
build a.cmake: generate
build b.cmake: generate
build c.cmake: generate
build build.ninja: again | a.cmake b.cmake c.cmake
build all: phony a.cmake
"""


@pytest.mark.parametrize(("jobs", "together"), [(1, False), (3, True)])
@needs.tool("ninja")
def test_generators_keep_to_the_number_of_jobs(jobs: int, together: bool, tmp_path: Path) -> None:
    ninja = shutil.which("ninja")
    assert ninja is not None
    (tmp_path / "build.ninja").write_text(FILE, encoding="utf-8")
    subprocess.run(renew_build_file(ninja, tmp_path, jobs), check=True, capture_output=True)
    assert (tmp_path / "c.cmake").exists()
    assert (tmp_path / "together").exists() is together
    said = subprocess.run(renew_build_file(ninja, tmp_path, jobs), check=True, capture_output=True, text=True)
    assert "no work to do" in said.stdout, "a build that goes on loses nothing"
