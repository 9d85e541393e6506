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

    @property
    def command(self) -> str:
        index = f" --index-url {self.index}" if self.index else ""
        return f"pip install --force-reinstall torch=={self.torch}{index}"


def carries(flavour: Flavour, card: Sm, scene: Scene) -> bool:
    """Machine code counts, and PTX where the driver can compile it."""
    system = scene.platform.split("_")[0]
    return covers(flavour_code(flavour, scene.platform), card, system, scene.facts).runs == "yes"


def find_carrier(card: Sm, scene: Scene, *, torch: str | None = None) -> Carrier | None:
    """The newest published torch (or this very release) for a card; of its flavours the newest CUDA."""
    releases = (torch,) if torch else scene.facts.releases
    for version in releases:
        rows = [
            row
            for row in scene.facts.flavours(version)
            if row.cuda and row.publisher == "pytorch" and row.status == "stable" and carries(row, card, scene)
        ]
        if rows:
            best = max(rows, key=lambda row: tuple(map(int, (row.cuda or "0").split("."))))
            return Carrier(torch=version, flavour=best.name, index=best.index)
    return None
