"""What a wheel's own bytes ask of the hardware, in the words of wheel variants: properties and a label.

Everything comes from the inspection of the wheel; nothing is typed by hand. A wheel without GPU code is the null
variant, which everybody can install.
"""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rekindle.compat.driver import Side, last_cuda, least_cuda
from rekindle.facts import Facts
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.version import key
from rekindle.model.wheelhouse import WheelRow

NULL = "null"
MAX_LABEL = 40
Properties = dict[str, dict[str, list[str]]]


class Variant(NamedTuple):
    """``note`` is for people: what the standard cannot say about this wheel."""

    label: str
    properties: Properties
    note: str = ""


@functools.cache
def provider_facts() -> dict[str, Any]:
    """The table beside this file."""
    return tomllib.loads(Path(__file__).with_name("variants.toml").read_text(encoding="utf-8"))


def first_seen() -> Sm:
    """The oldest compute capability that installers are told."""
    return parse_sm(str(provider_facts()["provider"]["nvidia"]["first_arch"]))


def variants_of(row: WheelRow, facts: Facts) -> tuple[Variant, ...]:
    """The variants of one wheel; none where we cannot say what it asks for (never looked into, or AMD)."""
    if not row.inspected or row.gfx or row.rocm:
        return ()
    if not row.sass and not row.ptx:
        return (Variant(NULL, {}),)
    if not row.cuda:
        return ()
    side: Side = "windows" if "windows" in row.systems else "linux"
    lower = least_cuda(row.cuda, side, facts)
    if lower is None:
        return ()
    first = first_seen()
    sass = sorted({sm for sm in map(parse_sm, row.sass) if not sm.suffix})
    ptx = sorted({sm for sm in map(parse_sm, row.ptx) if not sm.suffix})
    found = []
    new, old = [sm for sm in sass if sm >= first], [sm for sm in sass if sm < first]
    told = [f"{_number(sm)}_real" for sm in new] + [f"{_number(sm)}_virtual" for sm in ptx if sm >= first]
    if told:
        found.append(Variant(_label(row, new), _bounded(lower, None, told)))
    if old:
        ends = [end for sm in old if (end := last_cuda(sm, side, facts))]
        upper = _next(max(ends, key=key)) if ends else None
        names = " ".join(map(str, old))
        note = f"{names}: bound by the driver alone; installers see no compute capability below {first.dotted}"
        found.append(Variant(_label(row, old), _bounded(lower, upper, []), note))
    return tuple(found)


def _bounded(lower: str, upper: str | None, archs: list[str]) -> Properties:
    nvidia = {"cuda_version_lower_bound": [lower]}
    if upper:
        nvidia["cuda_version_upper_bound"] = [upper]
    if archs:
        nvidia["sm_arch"] = archs
    return {"nvidia": nvidia}


def _number(sm: Sm) -> str:
    return f"{sm.major}{sm.minor}"


def _next(cuda: str) -> str:
    """An upper bound is exclusive: the first version that is too new."""
    major, minor = cuda.split(".")[:2]
    return f"{major}.{int(minor) + 1}"


def _label(row: WheelRow, archs: list[Sm]) -> str:
    """``cu118_35_90``; long lists by their ends and a digest, so that two lists never share a label."""
    toolkit = "cu" + "".join((row.cuda or "").split(".")[:2])
    numbers = [_number(sm) for sm in archs]
    label = "_".join([toolkit, *numbers])
    if len(label) <= MAX_LABEL:
        return label
    digest = hashlib.sha256(label.encode()).hexdigest()[:6]
    return f"{toolkit}_{numbers[0]}_to_{numbers[-1]}_{digest}"


def metadata(variants: Mapping[str, Properties]) -> dict[str, Any]:
    """``variant.json`` (one label) and ``NAME-VERSION-variants.json`` (all of a release) have the same form."""
    facts = provider_facts()
    provider = {name: facts["provider"]["nvidia"][name] for name in ("requires", "plugin-api")}
    return {
        "$schema": facts["schema"],
        "default-priorities": {"namespace": ["nvidia"]},
        "providers": {"nvidia": provider},
        "variants": {label: variants[label] for label in sorted(variants)},
    }
