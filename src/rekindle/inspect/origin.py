"""Whose kernels are these? A wheel's own code is told from static libraries by its sets of architectures.

All of a project's own files are compiled with the same ``-gencode`` list, which torch also stores as text (*declared*).
So a container that has every declared target is the wheel's own (more are extras for a few chips: ``sm_90a``). One that
has only few of them is *specialised* (CUTLASS kernels for one chip, beside general ones). One that lacks some or has
older ones comes from a vendor's static library (cuFFT, MAGMA). Without a declared list the most frequent set stands in.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from rekindle.inspect.gpu import ArchKey, GpuSurvey, GpuTarget
from rekindle.inspect.packages import is_vendor
from rekindle.model.arch import Gfx, Sm
from rekindle.model.wheel import ArchSet, ArchUse, Kernels, LibraryGpu, Origin

# A container for at most this many of the declared targets is a specialised kernel, not a poor library.
SPECIALISED_AT_MOST = 2


def mark_vendors(surveys: Sequence[GpuSurvey]) -> None:
    """Libraries that NVIDIA or AMD publish on their own (libnvjpeg in a torchvision wheel) are marked, unless the
    wheel holds nothing else: then it is theirs, and these are its own kernels."""
    named = [is_vendor(survey.file) for survey in surveys]
    for survey, vendor in zip(surveys, named, strict=True):
        survey.vendor = vendor and not all(named)


def reference_set(surveys: Iterable[GpuSurvey], declared: Iterable[GpuTarget]) -> ArchKey:
    """The targets the wheel's own kernels have: what was declared, or else the most frequent set."""
    total = sum((survey.sets for survey in surveys if not survey.vendor), Counter[ArchKey]())
    return frozenset(declared) or max(total, key=lambda key: (total[key], len(key)), default=frozenset())


def origin_of(key: ArchKey, reference: ArchKey, *, vendor: bool = False) -> Origin:
    """Whose kernels a container holds, by its targets."""
    if vendor:
        return "static"
    if not reference:
        return "other"
    mine, own = _plain_set(key), _plain_set(reference)
    if own <= mine:
        return "own"
    return "specialised" if len(key) <= SPECIALISED_AT_MOST and mine <= own else "static"


def _plain_set(key: ArchKey) -> frozenset[tuple[str, str]]:
    """Machine code targets without chip-specific ones (``sm_90a``) and without AMD's feature switches. PTX counts only
    where there is nothing else: whether a file also has it says nothing of whose it is."""
    native = [target for target in key if target.kind != "ptx"] or list(key)
    nvidia = {(t.kind, str(t.arch)) for t in native if isinstance(t.arch, Sm) and not t.arch.suffix}
    return frozenset(nvidia | {(t.kind, t.arch.name) for t in native if isinstance(t.arch, Gfx)})


def kernels_of(surveys: Iterable[GpuSurvey], reference: ArchKey, origins: set[Origin]) -> Kernels:
    """Targets that all containers of these origins have, and those only some have."""
    chosen: Counter[ArchKey] = Counter()
    for survey in surveys:
        for key, count in survey.sets.items():
            if origin_of(key, reference, vendor=survey.vendor) in origins:
                chosen[key] += count
    if not chosen:
        return Kernels()
    common = frozenset.intersection(*chosen)
    kinds = {kind: _names(target for target in common if target.kind == kind) for kind in ("sass", "ptx", "gfx")}
    return Kernels(**kinds, partial=_names(frozenset().union(*chosen) - common), containers=chosen.total())


def describe_library(survey: GpuSurvey, reference: ArchKey) -> LibraryGpu:
    """One library's survey as the report shows it."""
    sets = []
    for key, count in survey.sets.most_common():
        origin = origin_of(key, reference, vendor=survey.vendor)
        # The owners seen most often in its containers.
        seen = Counter(owner for some in survey.owners.get(key, ()) for owner in some).most_common(3)
        sets.append(ArchSet(archs=_names(key), count=count, origin=origin, kernels=tuple(owner for owner, _ in seen)))
    entries, sizes = survey.entries, survey.bytes
    return LibraryGpu(
        file=survey.file,
        **{kind: _names(t for t in entries if t.kind == kind) for kind in ("sass", "ptx", "gfx", "lto")},
        sycl=dict(survey.sycl),
        ahead=survey.ahead,
        sets=tuple(sets),
        uses=tuple(ArchUse(arch=t.name, entries=entries[t], bytes=sizes[t]) for t in _sorted(entries)),
        compression=dict(survey.compression),
        unknown=dict(survey.odd),
    )


def _sorted(targets: Iterable[GpuTarget]) -> list[GpuTarget]:
    return sorted(targets, key=lambda target: target.order)


def _names(targets: Iterable[GpuTarget]) -> tuple[str, ...]:
    return tuple(target.name for target in _sorted(targets))
