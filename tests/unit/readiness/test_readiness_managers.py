"""How this system installs things: the package managers it has, the system's own first."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bare_host import BareHost
from rekindle.readiness.case import find_managers


class Installed(BareHost):
    """A system with these programs, and what its os-release says."""

    def __init__(
        self, *programs: str, system: str = "linux", says: str = "", env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(system, env)
        self.programs, self.says = programs, says

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.programs else None

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return self.says.encode() if path == "/etc/os-release" and self.says else None


@pytest.mark.parametrize(
    ("host", "names"),
    [
        (Installed(), ()),
        (Installed("apt-get"), ("apt",)),
        (Installed("dnf", "apt-get"), ("apt", "dnf")),
        (Installed("apt-get", "winget"), ("apt",)),
        (Installed("pacman", "winget", system="windows"), ("winget", "windows")),
        (Installed(system="windows"), ("windows",)),
        (Installed("apt-get", env={"HOME": "/root"}), ("root", "apt")),
    ],
    ids=["none", "apt", "two", "Windows' own seen from WSL", "MSYS2 on Windows", "Windows without winget", "root"],
)
def test_only_what_is_there_and_belongs_to_the_system(host: Installed, names: tuple[str, ...]) -> None:
    assert find_managers(host) == names


@pytest.mark.parametrize(
    ("says", "names"),
    [
        ('NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n', ("ubuntu", "apt")),
        ('NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\nUBUNTU_CODENAME=noble\n', ("apt",)),
        ("ID=ubuntu-core\n", ("apt",)),
    ],
)
def test_ubuntus_own_ways_come_first_and_are_ubuntus_alone(says: str, names: tuple[str, ...]) -> None:
    assert find_managers(Installed("apt-get", says=says)) == names
