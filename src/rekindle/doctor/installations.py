"""The Pythons, what pip brought into them, and their torches: one probe, because each follows from the last."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rekindle.doctor.pythons import probe_pythons
from rekindle.doctor.toolkits import pip_pieces
from rekindle.doctor.torches import find_torches
from rekindle.host.asking import Asking
from rekindle.model.machine import InstalledTorch, Python, Toolkit


class Installations(msgspec.Struct, frozen=True, kw_only=True):
    pythons: tuple[Python, ...] = ()
    pieces: tuple[Toolkit, ...] = ()
    torches: tuple[InstalledTorch, ...] = ()


def probe_installations(try_torch: bool) -> Callable[[Asking], Installations]:
    def probe(host: Asking) -> Installations:
        pythons, answers = probe_pythons(host)
        return Installations(
            pythons=pythons, pieces=pip_pieces(answers), torches=find_torches(host, answers, try_it=try_torch)
        )

    return probe
