"""The compatibility matrix: which official wheel has code for which architecture, with the source of each row."""

from __future__ import annotations

from typing import Any

from rekindle.facts import Facts
from rekindle.model.arch import Sm, parse_sm, ptx_runs_on, sass_runs_on
from rekindle.model.version import key

PLATFORMS = {"linux": "linux_x86_64", "windows": "windows", "linux-arm": "linux_aarch64"}
# What a cell says; the page has a colour and a word for each.
HAS, SAME_MAJOR, JIT, NO = "h", "s", "j", "-"


def make_matrix(facts: Facts, sms: tuple[str, ...], gfxs: tuple[str, ...]) -> dict[str, Any]:
    """Rows for each platform, newest torch first; ``cells`` has one letter per column."""
    cards = [parse_sm(sm) for sm in sms]
    result: dict[str, Any] = {"nvidia": {"columns": sms}, "amd": {"columns": gfxs}}
    for place, platform in PLATFORMS.items():
        nvidia, amd = [], []
        order = sorted(facts.wheels.flavour, key=lambda row: (key(row.torch), row.name), reverse=True)
        for flavour in order:
            head = [flavour.torch, flavour.name, flavour.cuda or flavour.rocm or "", _source(flavour)]
            if codes := flavour.sm.get(platform):  # type: ignore[call-overload]
                nvidia.append([*head, "".join(_cell(card, codes) for card in cards)])
            if targets := flavour.gfx.get(platform):  # type: ignore[call-overload]
                names = {gfx.name for gfx in targets}
                amd.append([*head, "".join(HAS if gfx in names else NO for gfx in gfxs)])
        result["nvidia"][place] = nvidia
        result["amd"][place] = amd
    return result


def _cell(card: Sm, codes: tuple[str, ...]) -> str:
    """``codes`` are spelt as in TORCH_CUDA_ARCH_LIST: 8.6, 9.0+PTX."""
    sass = [parse_sm(code.removesuffix("+PTX")) for code in codes]
    ptx = [parse_sm(code.removesuffix("+PTX")) for code in codes if code.endswith("+PTX")]
    if card in sass:
        return HAS
    if any(sass_runs_on(code, card) for code in sass):
        return SAME_MAJOR
    return JIT if any(ptx_runs_on(code, card) for code in ptx) else NO


def _source(flavour: Any) -> str:
    return f"{'; '.join(flavour.source)} ({flavour.how}, {flavour.date})"
