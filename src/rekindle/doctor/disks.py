"""Free space where it matters: where builds happen, and where compilers put their temporary files."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.host.asking import Asking
from rekindle.model.machine import Volume
from rekindle.model.spoken import gib


def probe_disks(workspace: str) -> Callable[[Asking], tuple[Volume, ...]]:
    def probe(host: Asking) -> tuple[Volume, ...]:
        places = [("workspace", workspace)]
        if host.system == "windows":
            places.append(("temporary files", host.env.get("TEMP") or r"C:\Windows\Temp"))
        else:
            places.append(("temporary files", host.env.get("TMPDIR") or "/tmp"))  # noqa: S108 (asked, not used)
        found = []
        for purpose, path in places:
            disk = host.disk(path)
            if disk is None:
                host.gap(f"disk space for {purpose}", f"{path} did not answer")
            else:
                found.append(Volume(purpose=purpose, path=path, free_gib=gib(disk.free) or 0.0))
        return tuple(found)

    return probe
