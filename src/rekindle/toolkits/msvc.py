"""Visual Studio: its C++ toolsets by vswhere (which ships with every installer since 2017), and the environment that
its batch file gives, as values instead of a shell."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from rekindle.host.asking import Asking
from rekindle.host.protocol import Host
from rekindle.host.text import text_of, version_key
from rekindle.model.machine import Compiler

# What a compiler run needs; the rest of what the batch file sets is for the prompt.
_WANTED = (
    *("PATH", "INCLUDE", "LIB", "LIBPATH", "VCToolsInstallDir", "VCToolsVersion", "VCINSTALLDIR", "VSINSTALLDIR"),
    *("WindowsSdkDir", "WindowsSDKVersion", "UniversalCRTSdkDir", "UCRTVersion", "VSCMD_ARG_TGT_ARCH"),
    *("VSCMD_ARG_HOST_ARCH", "VisualStudioVersion"),
)


def find_msvc(host: Asking) -> tuple[Compiler, ...]:
    """Every toolset of every instance, as the version ``cl`` reports (19.xx), with the toolset in the note."""
    program_files = host.env.get("ProgramFiles(x86)") or r"C:\Program Files (x86)"
    vswhere = rf"{program_files}\Microsoft Visual Studio\Installer\vswhere.exe"
    if not host.glob(vswhere):
        return ()
    done = host.run([vswhere, "-all", "-products", "*", "-format", "json", "-utf8"], timeout=host.left(5))
    try:
        instances = json.loads(done.out)
    except ValueError:
        host.gap("Visual Studio", f"vswhere gave no JSON ({'timed out' if done.timed_out else f'exit {done.code}'})")
        return ()
    found: list[Compiler] = []
    for instance in instances if isinstance(instances, list) else ():
        if isinstance(instance, dict):
            found += _toolsets(host, instance)
    found.sort(key=lambda compiler: version_key(compiler.version), reverse=True)
    if found:
        found[0] = _with_environment(host, found[0])
    return tuple(found)


def _with_environment(host: Asking, compiler: Compiler) -> Compiler:
    """The Windows SDK that the newest toolset's vcvars64.bat finds: it proves that batch files run here."""
    root, _, rest = str(compiler.path).partition(r"\VC\Tools\MSVC")
    toolset = rest.strip("\\").split("\\")[0]
    answer = read_vcvars(host, rf"{root}\VC\Auxiliary\Build\vcvars64.bat", toolset, timeout=host.left(6))
    if answer.why is not None:
        host.gap("Visual Studio's environment", f"vcvars64.bat: {answer.why}")
        return compiler
    sdk = answer.env.get("WindowsSDKVersion", "").strip("\\")
    if not sdk:
        host.gap("Windows SDK", "vcvars64.bat found none (add 'Windows SDK' in the Visual Studio Installer)")
    return replace(compiler, note=f"{compiler.note}, Windows SDK {sdk or 'missing'}")


def _toolsets(host: Asking, instance: dict[str, Any]) -> list[Compiler]:
    root = str(instance.get("installationPath", ""))
    name = str(instance.get("displayName") or instance.get("productId") or "Visual Studio")
    if instance.get("isComplete") is False:
        host.gap(name, "its installation is not complete (open the Visual Studio Installer and repair it)")
    directories = host.glob(rf"{root}\VC\Tools\MSVC\*")
    if not directories:
        host.gap(name, "it has no C++ toolset (the workload 'Desktop development with C++' is not installed)")
    default = text_of(host.read(rf"{root}\VC\Auxiliary\Build\Microsoft.VCToolsVersion.default.txt")).strip()
    found = []
    for directory in directories:
        toolset = directory.rsplit("\\", 1)[-1]
        if (version := cl_version(toolset)) is None:
            continue
        cl = rf"{directory}\bin\Hostx64\x64\cl.exe"
        note = f"{name}, toolset {toolset}" + (" (default)" if toolset == default else "")
        found.append(Compiler(kind="msvc", version=version, path=cl, note=note))
    return sorted(found, key=lambda c: version_key(c.version), reverse=True)


def cl_version(toolset: str) -> str | None:
    """Toolset 14.40.33807 holds cl 19.40.33807: the minor and build numbers are the same, since 14.0 = 19.00."""
    match = re.fullmatch(r"14\.(\d+)\.(\d+)(?:\.\d+)?", toolset)
    return f"19.{int(match[1]):02d}.{match[2]}" if match else None


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
    wanted = {name.upper(): name for name in _WANTED}
    env = {}
    for line in done.out.splitlines():
        name, mark, value = line.partition("=")
        if mark and name.upper() in wanted:
            env[wanted[name.upper()]] = value
    if not done.ok or "INCLUDE" not in env:
        said = (done.err.strip() or done.out.strip()).splitlines()
        return Vcvars({}, said[0] if said else f"exit code {done.code}")
    return Vcvars(env)
