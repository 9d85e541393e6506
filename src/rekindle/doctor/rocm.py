"""Every ROCm on the disk: the system's under /opt, Windows' HIP SDK, and the SDK that pip installs."""

from __future__ import annotations

import re

from rekindle.host.asking import Asking
from rekindle.host.text import text_of, version_key
from rekindle.model.machine import Toolkit


def find_rocm(host: Asking) -> tuple[Toolkit, ...]:
    found: dict[str, Toolkit] = {}
    for root in _roots(host):
        real = host.realpath(root)
        if real not in found and (version := _version(host, root)):
            found[real] = Toolkit(kind="rocm", version=version, path=root, note=_note(host, root))
    return tuple(sorted(found.values(), key=lambda t: version_key(t.version), reverse=True))


def _roots(host: Asking) -> list[str]:
    roots: dict[str, None] = {}
    for variable in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH"):
        if named := host.env.get(variable):
            roots[named.rstrip("/\\")] = None
    if host.system == "windows":
        roots.update(dict.fromkeys(host.glob(r"C:\Program Files\AMD\ROCm\*")))
    else:
        roots.update(dict.fromkeys(host.glob("/opt/rocm*")))
        if hipcc := host.which("hipcc"):
            roots[re.sub(r"/(hip/)?bin/hipcc$", "", host.realpath(hipcc))] = None
    return list(roots)


def _version(host: Asking, root: str) -> str | None:
    slash = "\\" if host.system == "windows" else "/"
    for name in ("version", "version-dev", "version-hip-libraries"):
        if match := re.match(r"(\d+\.\d+\.\d+)", text_of(host.read(f"{root}{slash}.info{slash}{name}"))):
            return match[1]
    said = text_of(host.read(f"{root}{slash}include{slash}rocm-core{slash}rocm_version.h"))
    parts = re.findall(r"#define ROCM_VERSION_(?:MAJOR|MINOR|PATCH)\s+(\d+)", said)
    if len(parts) == 3:
        return ".".join(parts)
    # Debian and Fedora package HIP without the rest of ROCm.
    places = (f"{root}{slash}bin{slash}.hipVersion", f"{root}{slash}share{slash}hip{slash}version")
    said = "\n".join(text_of(host.read(place)) for place in places)
    parts = [match[1] for part in ("MAJOR", "MINOR") if (match := re.search(rf"HIP_VERSION_{part}=(\d+)", said))]
    if len(parts) == 2:
        return ".".join(parts)
    tail = re.split(r"[/\\]", root)[-1].removeprefix("rocm-")
    return tail if re.fullmatch(r"\d+\.\d+(\.\d+)?", tail) else None


def _note(host: Asking, root: str) -> str | None:
    slash = "\\" if host.system == "windows" else "/"
    names = ("hipcc", "hipcc.exe", "hipcc.bat")
    found = any(host.glob(f"{root}{slash}bin{slash}{name}") for name in names)
    return None if found else "no hipcc in it: libraries only"
