"""The free space on the file systems of a machine, in the form that the rules about disk ask for it."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.host.protocol import Host


def free_space(host: Host) -> Callable[[str], tuple[int | None, int] | None]:
    """For a place: its file system (None where it cannot be told) and the bytes free there; None without an answer."""

    def ask(place: str) -> tuple[int | None, int] | None:
        disk = host.disk(place)
        return (disk.device, disk.free) if disk else None

    return ask
