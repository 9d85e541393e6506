"""Calls between the libraries of one wheel: a function that only its callers guard, and callers elsewhere.

``fbgemm.dll`` offers ``FindMinMax`` with AVX2 inside and leaves the asking to its callers, which are in
``torch_cpu.dll``. Each library's audit keeps its end of such calls; here they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rekindle.inspect.cpu_survey import CpuSurvey

if TYPE_CHECKING:
    from rekindle.inspect.isa_exposure import Offer, Taking


def follow_calls(surveys: Sequence[CpuSurvey]) -> None:
    """Move what turns out to be reached from another library from *dispatched* to where it belongs."""
    takings: dict[str, list[tuple[str, Taking]]] = {}
    for survey in surveys:
        for taking in survey.exposure.takings:
            takings.setdefault(taking.symbol, []).append((survey.file, taking))
    for survey in surveys:
        best: dict[int, tuple[Offer, str, Taking]] = {}
        for offer in survey.exposure.offers:
            for file, taking in takings.get(offer.symbol, ()):
                # A function in between is where the library would ask; without symbols that is not seen.
                if offer.exposed.chain and not taking.certain:
                    continue
                known = best.get(offer.exposed.number)
                if file != survey.file and (known is None or (taking.certain and not known[2].certain)):
                    best[offer.exposed.number] = (offer, file, taking)
        for offer, file, taking in best.values():
            _expose(survey, offer, file, taking)


def _expose(survey: CpuSurvey, offer: Offer, file: str, taking: Taking) -> None:
    exposure, exposed = survey.exposure, offer.exposed
    exposure.dispatched.subtract(exposed.isa)
    if exposed.guard:
        exposure.guards[exposed.guard] -= 1
    where = file.rsplit("/", 1)[-1]
    if taking.certain:
        why = f"called by {taking.chain[0]} in {where}, which asks nothing of the CPU"
    else:
        why = f"called by {taking.chain[0]} in {where}; whether the CPU is asked on the way there cannot be told"
    found = replace(exposed, chain=(*exposed.chain, *taking.chain), why=why)
    certain = taking.certain and not offer.named and not exposed.chain
    (exposure.unconditional if certain else exposure.suspects).append(found)
