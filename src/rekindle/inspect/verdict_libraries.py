"""Packages that are not torch: the GPU question is asked library by library.

All of torch's kernels are compiled for one list of targets, so each must run on the card. Other packages bring several
builds to choose from (``_cuda118.so``, ``_cuda130.so``), libraries for single families of cards, or thousands of images
among which the library itself picks (cuFFT, cuBLASLt, files of kernels). What they have in common is little:

*builds*   libraries whose names differ only in the toolkit's version: one that runs is enough
*picking*  a vendor's library, or images for one target each: the share that runs is held against the best card's
*plain*    everything in the library must run
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rekindle.compat.answer import Coverage
from rekindle.inspect.packages import is_vendor
from rekindle.model.wheel import ArchSet, AxisVerdict, LibraryGpu, Runs, WheelReport

# Where nearly all containers have one target, nobody expects each of them to run on every card.
MOSTLY_SINGLE = 0.9
# A card with less than this part of what the best-served card has is an afterthought of the library.
FAIR_SHARE = 0.5
MOST_NAMED = 4
MOST_EMPTY = 2
_BUILD = re.compile(r"(?i)((?:^|[_.-])(?:cuda|cu|rocm|hip))[_-]?\d+(?=[_.-]|$)")


@dataclass(frozen=True)
class Judged:
    """One library, or one choice of builds: ``runs`` of ``total`` containers have an image for the card."""

    name: str
    word: Runs
    runs: int
    total: int
    late: bool = False
    picking: bool = False
    doubt: str | None = None
    setting: str | None = None


def by_library(report: WheelReport) -> bool:
    """Packages other than torch, and a vendor's library by itself."""
    if report.gpu.declared:
        return False
    if report.name is not None:
        return report.name != "torch"
    return all(is_vendor(library.file.rsplit("/", 1)[-1]) for library in report.gpu.libraries)


def picks(library: LibraryGpu) -> bool:
    """Does the library choose among its images, so that nobody expects each to run everywhere?"""
    total = sum(one.count for one in library.sets)
    single = sum(one.count for one in library.sets if len(one.archs) == 1)
    several = len({one.archs for one in library.sets}) > 1
    return is_vendor(library.file.rsplit("/", 1)[-1]) or (several and single >= MOSTLY_SINGLE * total)


def judge_libraries(
    report: WheelReport,
    card: str,
    runs: Callable[[Sequence[str]], Coverage],
    same_maker: Callable[[Sequence[str]], bool],
) -> AxisVerdict:
    """One verdict on a card of which the libraries of this maker were judged each."""
    choices: dict[str, list[Judged]] = {}
    for library in report.gpu.libraries:
        mine = [one for one in library.sets if same_maker(one.archs)]
        if mine:
            choices.setdefault(_BUILD.sub(r"\1", library.file), []).append(_judge(library, mine, runs))
    found = [_best(builds) for builds in choices.values()]
    # A vendor's wrapper (libcufftw) holds one empty image so that it links; the library behind it counts.
    most = max((one.total for one in found), default=0)
    found = [one for one in found if not (one.picking and one.total <= MOST_EMPTY < most // 100)]
    chosen = any(len(builds) > 1 for builds in choices.values())
    return _sum_up(found, card, chosen)


def _best(builds: Sequence[Judged]) -> Judged:
    """Of several builds, one that runs is enough; all that do are named."""
    best = max(builds, key=lambda one: ("no", "unknown", "partly", "yes").index(one.word))
    same = [one.name for one in builds if one.word == best.word]
    return replace(best, name=", ".join(same[:MOST_NAMED]) + (" …" if len(same) > MOST_NAMED else ""))


def _judge(library: LibraryGpu, mine: Sequence[ArchSet], runs: Callable[[Sequence[str]], Coverage]) -> Judged:
    name = library.file if "*" in library.file else library.file.rsplit("/", 1)[-1]
    answers = [(one, runs(one.archs)) for one in mine]
    total = sum(one.count for one in mine)
    good = [(one, found) for one, found in answers if found.kind in ("native", "jit")]
    count = sum(one.count for one, _ in good)
    late = bool(good) and all(found.kind == "jit" for _, found in good)
    other = next((found for _, found in answers if found.kind in ("unknown", "override")), None)
    if count == 0 and other is not None:
        setting = " ".join(f"{variable}={value}" for variable, value in other.env) if other.kind == "override" else None
        return Judged(name, "unknown", 0, total, picking=picks(library), doubt=other.text, setting=setting)
    if picks(library):
        # Of machine code: PTX and LTO code run on every newer card and say nothing of who is served well.
        native = sum(one.count for one, found in good if found.kind == "native")
        best = max((use.entries for use in library.uses if use.arch.startswith(("sm_", "gfx"))), default=0)
        if not count:
            return Judged(name, "no", 0, total, picking=True)
        fair = native >= FAIR_SHARE * best if native else best == 0
        return Judged(name, "yes" if fair or not native else "partly", count, total, native == 0, picking=True)
    if count == total:
        return Judged(name, "yes", count, total, late)
    return Judged(name, "partly" if count else "no", count, total, late)


def _sum_up(found: Sequence[Judged], card: str, chosen: bool) -> AxisVerdict:
    good = [one for one in found if one.word == "yes"]
    bad = [one for one in found if one.word == "no"]
    unsure = [one for one in found if one.word == "unknown"]
    if len(bad) == len(found):
        return gpu_verdict("no", "gpu-no-kernels", f"no image for {card} in {_names(bad)}")
    if len(unsure) == len(found):
        text = f"{unsure[0].name} {unsure[0].doubt}"
        if all(one.setting for one in unsure):
            return gpu_verdict("partly", "gpu-override", text, f"set {unsure[0].setting} before starting the program")
        return gpu_verdict("unknown", "gpu-not-told", text)
    if len(good) == len(found):
        which = f" (in {_names(good)}; the package picks by toolkit version)" if chosen else ""
        if all(one.late for one in good):
            return gpu_verdict("yes", "gpu-jit", f"runs on {card} through code that is compiled at first use{which}")
        if all(one.picking for one in good):
            some = "; ".join(f"{one.name}: {one.runs} of {one.total} images" for one in good[:MOST_NAMED])
            return gpu_verdict("yes", "gpu-picks", f"code for {card} in {some}; the library picks by card{which}")
        return gpu_verdict("yes", "gpu-native", f"code for {card} in every library{which}")
    parts = [one for one in found if one.word == "partly"]
    text = f"{card}: {len(good)} of {len(found)} libraries run in full"
    if parts:
        text += "; in part: " + ", ".join(f"{one.name} ({one.runs} of {one.total})" for one in parts[:MOST_NAMED])
    if bad:
        text += f"; nothing for it in {_names(bad)}"
    if unsure:
        text += f"; not told for {_names(unsure)}"
    return gpu_verdict("partly", "gpu-some-kernels", text)


def _names(rows: Sequence[Judged]) -> str:
    names = list(dict.fromkeys(one.name for one in rows))
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def gpu_verdict(runs: Runs, code: str, text: str, remedy: str | None = None) -> AxisVerdict:
    """A verdict on the GPU axis."""
    return AxisVerdict(axis="gpu", runs=runs, code=code, text=text, remedy=remedy)
