"""The compatibility matrix: which official wheel has code for which architecture, with the source of each row."""

from __future__ import annotations

from typing import Any

from rekindle.compat.images import covers, flavour_code
from rekindle.compat.toolkit import cudnn_covers
from rekindle.facts import Facts
from rekindle.model.arch import GpuArch, parse_gfx, parse_sm
from rekindle.model.facts import Flavour, Platform
from rekindle.model.version import key

PLATFORMS: dict[str, Platform] = {"linux": "linux_x86_64", "windows": "windows", "linux-arm": "linux_aarch64"}
# What a cell says; the page has a colour and a word for each.
HAS, SAME_MAJOR, JIT, OVERRIDE, NO_CUDNN, UNKNOWN, NO = "h", "s", "j", "o", "c", "u", "-"


def make_matrix(facts: Facts, sms: tuple[str, ...], gfxs: tuple[str, ...]) -> dict[str, Any]:
    """Rows for each platform, newest torch first; ``cells`` has one letter per column."""
    nvidia_cards, amd_cards = [parse_sm(sm) for sm in sms], [parse_gfx(gfx) for gfx in gfxs]
    result: dict[str, Any] = {"nvidia": {"columns": sms}, "amd": {"columns": gfxs}}
    for place, platform in PLATFORMS.items():
        nvidia, amd = [], []
        order = sorted(facts.wheels.flavour, key=lambda row: (key(row.torch), row.name), reverse=True)
        for flavour in order:
            head = [flavour.torch, flavour.name, flavour.cuda or flavour.rocm or "", _source(flavour)]
            if flavour.sm.get(platform):
                nvidia.append([*head, "".join(cell(flavour, platform, card, facts) for card in nvidia_cards)])
            if flavour.gfx.get(platform):
                amd.append([*head, "".join(cell(flavour, platform, card, facts) for card in amd_cards)])
        result["nvidia"][place] = nvidia
        result["amd"][place] = amd
    return result


def cell(flavour: Flavour, platform: Platform, card: GpuArch, facts: Facts) -> str:
    """One letter: how a published wheel runs on a card."""
    found = covers(flavour_code(flavour, platform), card, platform.split("_")[0], facts)
    if found.kind in ("none", "unknown"):
        return NO if found.kind == "none" else UNKNOWN
    if cudnn_covers(flavour.cudnn, flavour.cuda, card, facts).kind == "partly":
        return NO_CUDNN
    if found.kind == "native":
        return HAS if found.target is None or found.target.split(":")[0] == str(card).split(":")[0] else SAME_MAJOR
    return JIT if found.kind == "jit" else OVERRIDE


def _source(flavour: Flavour) -> str:
    return f"{'; '.join(flavour.source)} ({flavour.how}, {flavour.date})"
