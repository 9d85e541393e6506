"""The environment that Visual Studio's batch file gives, as values instead of a shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rekindle.host.protocol import Host

# What a compiler run needs; the rest of what the batch file sets is for the prompt.
WANTED = (
    "PATH", "INCLUDE", "LIB", "LIBPATH", "VCToolsInstallDir", "VCToolsVersion", "VCINSTALLDIR", "VSINSTALLDIR",
    "WindowsSdkDir", "WindowsSDKVersion", "UniversalCRTSdkDir", "UCRTVersion", "VSCMD_ARG_TGT_ARCH",
    "VSCMD_ARG_HOST_ARCH", "VisualStudioVersion",
)  # fmt: skip


class Vcvars(NamedTuple):
    """``env`` is empty where the batch file did not run; ``why`` then says so."""

    env: Mapping[str, str]
    why: str | None = None


def vcvars_argv(batch: str, toolset: str | None = None) -> list[str]:
    """``call`` first: then cmd keeps the quotes around a path with spaces (cmd /?)."""
    chosen = [f"-vcvars_ver={toolset}"] if toolset else []
    return ["cmd", "/d", "/c", "call", batch, *chosen, ">nul", "&&", "set"]


def read_vcvars(host: Host, batch: str, toolset: str | None = None, *, timeout: float = 20.0) -> Vcvars:
    """Run ``vcvars64.bat`` and read what it leaves in the environment."""
    done = host.run(vcvars_argv(batch, toolset), timeout=timeout)
    if done.timed_out:
        return Vcvars({}, "it did not end in time")
    wanted = {name.upper(): name for name in WANTED}
    env = {}
    for line in done.out.splitlines():
        name, mark, value = line.partition("=")
        if mark and name.upper() in wanted:
            env[wanted[name.upper()]] = value
    if not done.ok or "INCLUDE" not in env:
        said = (done.err.strip() or done.out.strip()).splitlines()
        return Vcvars({}, said[0] if said else f"exit code {done.code}")
    return Vcvars(env)
