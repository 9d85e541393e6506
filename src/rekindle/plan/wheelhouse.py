"""Wheels somebody built before: a configured wheelhouse may hold one that fits, and it is preferred to a build.

The index room reads its own wheels and hands them over as :class:`HouseWheel` values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rekindle.compat import BACKENDS, flavour_backend
from rekindle.model.document import Part
from rekindle.model.facts import Flavour, Platform
from rekindle.model.version import minor
from rekindle.plan.candidate import Candidate
from rekindle.plan.question import Question


class HouseWheel(Part, frozen=True, kw_only=True):
    """What the planner must know of a wheel: ``archs`` in the spelling of TORCH_CUDA_ARCH_LIST, or gfx targets."""

    torch: str
    python: str
    platform: Platform
    location: str
    cuda: str | None = None
    rocm: str | None = None
    archs: tuple[str, ...] = ()
    glibc: str | None = None
    variant: str | None = None


def house_candidates(wheels: Sequence[HouseWheel], question: Question) -> Iterator[Candidate]:
    from rekindle.model.arch import parse_gfx

    for wheel in wheels:
        version = wheel.torch.partition("+")[0]
        if wheel.platform != question.platform or question.facts.release(version) is None:
            continue
        flavour = Flavour(
            torch=minor(version),
            name=wheel.variant or wheel.torch.partition("+")[2] or "house",
            cuda=wheel.cuda,
            rocm=wheel.rocm,
            sm={wheel.platform: wheel.archs} if wheel.cuda else {},
            gfx={wheel.platform: tuple(parse_gfx(arch) for arch in wheel.archs)} if wheel.rocm else {},
            platforms=(wheel.platform,),
            pythons={wheel.platform: (wheel.python,)},
            glibc=wheel.glibc,
            source=(wheel.location,),
            date="",
            how="measured",
        )
        backend = flavour_backend(flavour)
        if backend != question.backend or question.platform not in BACKENDS[backend].platforms(flavour):
            continue
        yield Candidate(
            answer="install",
            torch=version,
            backend=backend,
            flavour=flavour,
            cuda=wheel.cuda,
            rocm=wheel.rocm,
            python=wheel.python,
            wheel=wheel.location,
        )
