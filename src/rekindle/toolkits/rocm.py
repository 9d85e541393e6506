"""ROCm on this machine: the system's under /opt, a distribution's own, Windows' HIP SDK; and a build's hipcc."""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rekindle.host.asking import Asking
from rekindle.host.protocol import Host
from rekindle.host.text import joined, text_of, version_key
from rekindle.model.machine import Toolkit
from rekindle.toolkits.programs import find_below, list_toolkits, program_in

_VARIABLES = ("ROCM_PATH", "ROCM_HOME", "HIP_PATH")
_USUAL = "/opt/rocm"


def find_rocm(host: Asking) -> tuple[Toolkit, ...]:
    """Every ROCm, newest first."""
    return list_toolkits(host, "rocm", _list_roots(host), lambda root: _read_version(host, root), "hipcc")


def _list_roots(host: Host) -> list[str]:
    named = (host.env.get(variable) for variable in _VARIABLES)
    roots = dict.fromkeys(place.rstrip("/\\") for place in named if place)
    if host.system == "windows":
        roots.update(dict.fromkeys(host.glob(r"C:\Program Files\AMD\ROCm\*")))
    else:
        roots.update(dict.fromkeys(host.glob("/opt/rocm*")))
        if hipcc := host.which("hipcc"):
            roots[re.sub(r"/(hip/)?bin/hipcc$", "", host.realpath(hipcc))] = None
    return list(roots)


def _read_version(host: Host, root: str) -> str | None:
    def read(*place: str) -> str:
        return text_of(host.read(joined(host.system, root, *place)))

    for name in ("version", "version-dev", "version-hip-libraries"):
        if match := re.match(r"(\d+\.\d+\.\d+)", read(".info", name)):
            return match[1]
    text = read("include", "rocm-core", "rocm_version.h")
    parts = re.findall(r"#define ROCM_VERSION_(?:MAJOR|MINOR|PATCH)\s+(\d+)", text)
    if len(parts) == 3:
        return ".".join(parts)
    # Debian and Fedora package HIP without the rest of ROCm.
    text = read("bin", ".hipVersion") + "\n" + read("share", "hip", "version")
    parts = [match[1] for part in ("MAJOR", "MINOR") if (match := re.search(rf"HIP_VERSION_{part}=(\d+)", text))]
    if len(parts) == 2:
        return ".".join(parts)
    tail = re.split(r"[/\\]", root)[-1].removeprefix("rocm-")
    return tail if re.fullmatch(r"\d+\.\d+(\.\d+)?", tail) else None


def find_hipcc(host: Host, settings: Mapping[str, str]) -> str | None:
    """The hipcc that settings or shell name, the usual one, the one on PATH; else that of the newest ROCm here."""
    if usual := find_below(host, "hipcc", settings, _VARIABLES, _USUAL):
        return usual
    roots = sorted(_list_roots(host), key=lambda root: version_key(PurePosixPath(root).name), reverse=True)
    return next((hipcc for root in roots if (hipcc := program_in(host, root, "hipcc"))), None)


def hip_release(host: Host, hipcc: str) -> str | None:
    """As 6.2; None where it does not say."""
    done = host.run([hipcc, "--version"])
    match = re.search(r"HIP version: (\d+\.\d+)", done.out)
    return match[1] if done.ok and match else None


def rocm_home(host: Host, settings: Mapping[str, str]) -> str | None:
    """The folder whose ``bin`` has the hipcc that a build will take: /opt/rocm, or /usr for a distribution's own."""
    hipcc = find_hipcc(host, settings)
    return str(Path(hipcc).parent.parent) if hipcc else None


def find_hip_clang(host: Host, home: str) -> str | None:
    """The folder of HIP's clang where it is not the one that FindHIP takes for granted."""
    if host.glob(f"{home}/llvm/bin/clang++"):
        return None
    done = host.run([f"{home}/bin/hipconfig", "--hipclangpath"], timeout=20.0)
    place = done.out.strip() if done.ok else ""
    return place if place and host.glob(str(PurePosixPath(place, "clang++"))) else None
