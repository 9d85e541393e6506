"""Which Python is tried where none is named."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Mapping

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput
from rekindle.interpreters.search import candidate_paths, usual_python
from rekindle.verify.prove import installed_python


class _Host(BareHost):
    def __init__(self, system: str, found: Mapping[str, str]) -> None:
        super().__init__(system)
        self.found = found

    def which(self, name: str) -> str | None:
        return self.found.get(name)


SHOP = r"C:\Users\ada\AppData\Local\Microsoft\WindowsApps\python.exe"


@pytest.mark.parametrize(
    ("system", "found", "chosen"),
    [
        ("linux", {"python3": "/usr/bin/python3", "python": "/usr/bin/python"}, "/usr/bin/python3"),
        ("linux", {"python": "/usr/bin/python"}, "/usr/bin/python"),
        ("windows", {"python": r"C:\Python312\python.exe", "python3": SHOP}, r"C:\Python312\python.exe"),
        ("windows", {"python3": SHOP, "python": SHOP}, sys.executable),
        ("windows", {}, sys.executable),
    ],
)
def test_the_python_people_mean(system: str, found: dict[str, str], chosen: str) -> None:
    assert usual_python(_Host(system, found)) == chosen


class _Folders(BareHost):
    """Files that are there; PATH names their folders."""

    files = (
        "/usr/bin/python3",
        "/usr/bin/python3.12",
        "/usr/bin/python3.12-config",
        "/usr/bin/python3-pip",
        "/opt/pyenv/shims/python3.10",
        "/mnt/c/python3.9",
        "/odd[1]/python3.8",
        "/e/bin/python",
    )

    def __init__(self) -> None:
        path = ":".join(("/usr/bin/", "/opt/pyenv/shims", "/mnt/c", "/odd[1]", "relative"))
        super().__init__("linux", {"PATH": path, "VIRTUAL_ENV": "/e", "HOME": "/h"})

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(file for file in self.files if fnmatch.fnmatchcase(file, pattern))


def test_what_merely_begins_like_a_python_is_none() -> None:
    assert candidate_paths(_Folders()) == ["/e/bin/python", "/usr/bin/python3", "/usr/bin/python3.12"]


def test_linux_without_one_says_so() -> None:
    with pytest.raises(BadInput, match="no python3 on PATH"):
        installed_python(_Host("linux", {}), None)
