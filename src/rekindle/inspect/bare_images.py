"""GPU code that lies in a wheel as files of its own (``.cubin``, ``.ptx``): a package of kernels for others to load."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from rekindle.formats.cubin import cubin_arch
from rekindle.inspect.gpu import GpuSurvey, Target
from rekindle.inspect.reader import Source
from rekindle.model.arch import parse_sm

_IMAGE = re.compile(r"\.(cubin|ptx)$", re.IGNORECASE)
_PTX_TARGET = re.compile(rb"^\s*\.target\s+(sm_\d{2,3}[af]?)\b", re.MULTILINE)
HEAD = 4096


def survey_images(source: Source) -> list[GpuSurvey]:
    """One survey per folder and kind of file; each file counts as a container with one target."""
    named = {name: match[1].lower() for name in source.files if (match := _IMAGE.search(name))}
    if not named:
        return []
    targets: dict[str, Counter[Target]] = defaultdict(Counter)
    sizes: dict[str, Counter[Target]] = defaultdict(Counter)
    odd: dict[str, int] = Counter()
    for name, head in source.heads(sorted(named), HEAD):
        place = f"{name.split('/', 1)[0]}/*.{named[name]}"
        target = _target(named[name], head)
        if target is None:
            odd[place] += 1
            continue
        targets[place][target] += 1
        sizes[place][target] += source.files[name]
    out = []
    for place, found in sorted(targets.items()):
        survey = GpuSurvey(place, entries=found, bytes=sizes[place])
        survey.sets.update({frozenset({target}): count for target, count in found.items()})
        if odd.get(place):
            survey.odd["not understood"] = odd[place]
        out.append(survey)
    return out


def _target(kind: str, head: bytes) -> Target | None:
    if kind == "cubin":
        arch = cubin_arch(head)
        return None if arch is None else Target("sass", arch)
    match = _PTX_TARGET.search(head)
    return Target("ptx", parse_sm(match[1].decode())) if match else None
