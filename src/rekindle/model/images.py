"""Facts about container images and hosted runners: what exports build in, run in and run on."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rekindle.model.facts import Row


class ContainerImage(Row, frozen=True, kw_only=True):
    """Where a toolkit's container lies: ``build`` has its compilers, ``run`` only its libraries (None: the same).

    ``only`` names the CPU architectures it exists for, where that is known to be few.
    """

    build: str
    run: str | None = None
    only: tuple[str, ...] = ()


class ImageDigest(Row, frozen=True, kw_only=True):
    """What an image's tag stood for; ``sha256`` as 64 hexadecimal digits."""

    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class HostedRunner(Row, frozen=True, kw_only=True):
    """What a hosted runner of GitHub has; ``remove`` are folders of its own that a build may throw away."""

    label: str
    cores: int
    memory_gib: int
    disk_gib: int
    minutes: int
    remove: tuple[str, ...] = ()
