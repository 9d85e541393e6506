"""The command that fixes a failed check on this system; the commands are data (fixes.toml)."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from rekindle.host.protocol import Host
from rekindle.host.supply import is_root

_MANAGERS = {
    "linux": (("apt-get", "apt"), ("dnf", "dnf"), ("pacman", "pacman"), ("zypper", "zypper")),
    "windows": (("winget", "winget"),),
    "macos": (),
}


@functools.cache
def load_fixes() -> Mapping[str, Any]:
    """The table: topic → package manager → command."""
    return tomllib.loads((files("rekindle.readiness") / "fixes.toml").read_text(encoding="utf-8"))


def find_managers(host: Host) -> tuple[str, ...]:
    """The package managers this system has, the system's own first."""
    found = [name for program, name in _MANAGERS.get(host.system, ()) if host.which(program)]
    if host.env.get("CONDA_PREFIX") or host.which("conda"):
        # An activated environment is where the user wants things.
        found.insert(0 if host.env.get("CONDA_PREFIX") else len(found), "conda")
    if "ID=ubuntu" in (host.read("/etc/os-release") or b"").decode("utf-8", "replace").splitlines():
        found.insert(0, "ubuntu")
    if host.system == "windows":
        # Not every Windows has winget; what is said then must still be about Windows.
        found.append("windows")
    return ("root", *found) if is_root(host) else tuple(found)


def fix_for(topic: str, managers: tuple[str, ...]) -> str | None:
    """The command for the first manager that has one."""
    commands = load_fixes().get(topic)
    if not isinstance(commands, dict):
        return None
    for manager in (*managers, "any"):
        if manager in commands:
            return str(commands[manager]).replace("{sudo}", "" if "root" in managers else "sudo ")
    return None
