"""Which published wheels carry code that an NVIDIA card runs, from the facts."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.compat.images import covers, flavour_code
from rekindle.explain.scene import Scene
from rekindle.model.arch import Sm
from rekindle.model.facts import Flavour


@dataclass(frozen=True)
class Carrier:
    """A release and flavour that has code for the card."""

    torch: str
    flavour: str
    index: str | None
    cuda: str | None = None

    def __str__(self) -> str:
        return f"{self.torch} with CUDA {self.cuda} ({self.flavour})" if self.cuda else f"{self.torch} ({self.flavour})"

    @property
    def command(self) -> str:
        index = f" --index-url {self.index}" if self.index else ""
        return f"pip install --force-reinstall torch=={self.torch}{index}"


def carries(flavour: Flavour, card: Sm, scene: Scene, *, native: bool = False) -> bool:
    """Machine code counts, and PTX where the driver can compile it, unless ``native``."""
    platform = scene.platform
    if scene.machine is None and platform == "linux_x86_64" and scene.facts.is_tegra(card):
        platform = "linux_aarch64"  # the card is part of a board, whose CPU is known with it
    found = covers(flavour_code(flavour, platform), card, platform.split("_")[0], scene.facts)
    return found.kind == "native" if native else found.runs == "yes"


def find_carrier(card: Sm, scene: Scene, *, torch: str | None = None) -> Carrier | None:
    """The newest published torch (or this very release) for a card; of its flavours the newest CUDA.

    Where any release may be named, PTX alone is not enough: all but the newest cards would be sent to a release from
    before they existed.
    """
    releases = (torch,) if torch else scene.facts.releases
    for version in releases:
        rows = [
            row
            for row in scene.facts.flavours(version)
            if row.cuda
            and row.publisher == "pytorch"
            and row.status == "stable"
            and carries(row, card, scene, native=torch is None)
        ]
        if rows:
            best = max(rows, key=lambda row: tuple(map(int, (row.cuda or "0").split("."))))
            return Carrier(torch=version, flavour=best.name, index=best.index, cuda=best.cuda)
    return None
