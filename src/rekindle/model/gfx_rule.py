"""Does AMD code run on an AMD card? The rule of LLVM's target ids, with three answers.

Code runs on its own chip only, code for a generic target on the chips it covers. A feature the code names
(``xnack+``) must stand so on the card; one it does not name may stand either way. SPIR-V is compiled on the
machine itself, so nobody can tell beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from rekindle.model.arch import SPIRV, Gfx, parse_gfx_code
from rekindle.model.facts import GenericTarget, GfxSwitch


@dataclass(frozen=True)
class GfxRule:
    """``covers``: generic target to chips. ``switches``: how features stand where a card does not tell."""

    covers: Mapping[str, GenericTarget] = field(default_factory=dict)
    switches: Sequence[GfxSwitch] = ()

    def runs(self, targets: Iterable[str], device: Gfx) -> bool | None:
        """Does one of these targets run on the card? None: it depends on what is not known here."""
        codes = [code for name in targets if (code := _find_code(name)) is not None]
        meant = [code for code in codes if self._is_for(code, device)]
        fitting = self._by_features(meant, device)
        if fitting is False and any(self._may_be_for(code, device) for code in codes):
            return None
        return fitting

    def _is_for(self, code: Gfx, device: Gfx) -> bool:
        if code.name in self.covers:
            return any(chip.name == device.name for chip in self.covers[code.name].gfx)
        return code.name == device.name

    def _may_be_for(self, code: Gfx, device: Gfx) -> bool:
        """SPIR-V, or a generic target newer than our table of the card's own generation."""
        unknown = code.generic and code.name not in self.covers
        return code.name == SPIRV or (unknown and code.order[0] == device.order[0])

    def _by_features(self, codes: Sequence[Gfx], device: Gfx) -> bool | None:
        told = _settings(device.features)
        usual: dict[str, str] = {}
        for switch in self.switches:
            if any(chip.name == device.name for chip in switch.gfx):
                (told if switch.fixed else usual).update(
                    {name: sign for name, sign in _settings([switch.usual]).items() if name not in told}
                )
        open_ = sorted({name for code in codes for name in _settings(code.features)} - set(told))
        outcomes = {
            signs: any(_fits(code, told | dict(zip(open_, signs, strict=True))) for code in codes)
            for signs in product("+-", repeat=len(open_))
        }
        if len(set(outcomes.values())) == 1:
            return outcomes.popitem()[1]
        # As the card usually stands, and however the switches stand of which that is not known.
        as_usual = [
            runs
            for signs, runs in outcomes.items()
            if all(usual.get(name, sign) == sign for name, sign in zip(open_, signs, strict=True))
        ]
        return True if all(as_usual) else None


def _find_code(name: str) -> Gfx | None:
    try:
        return parse_gfx_code(name)
    except ValueError:
        return None


def _settings(features: Iterable[str]) -> dict[str, str]:
    return {feature[:-1]: feature[-1] for feature in features}


def _fits(code: Gfx, settings: Mapping[str, str]) -> bool:
    return all(settings[name] == sign for name, sign in _settings(code.features).items())
