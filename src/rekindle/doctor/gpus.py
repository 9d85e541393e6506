"""All graphics cards of the machine, of every vendor, with their drivers."""

from __future__ import annotations

import msgspec

from rekindle.doctor.amd import find_amd
from rekindle.doctor.jetson import find_jetson
from rekindle.doctor.nvidia import Cards, find_nvidia
from rekindle.doctor.pci import find_cards
from rekindle.host.asking import Asking
from rekindle.model.machine import Drivers, Gpu

_NONE = Cards()


class Graphics(msgspec.Struct, frozen=True, kw_only=True):
    nvidia: Cards = _NONE
    amd: Cards = _NONE

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return self.nvidia.gpus + self.amd.gpus

    @property
    def drivers(self) -> Drivers:
        return Drivers(nvidia=self.nvidia.driver, amdgpu=self.amd.driver, l4t=self.nvidia.l4t)


def probe_gpus(host: Asking) -> Graphics:
    cards = find_cards(host)
    nvidia = find_jetson(host)
    if not nvidia.gpus:
        nvidia = find_nvidia(host, cards)
    return Graphics(nvidia=nvidia, amd=find_amd(host, cards))
