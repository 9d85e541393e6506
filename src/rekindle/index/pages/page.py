"""The page as one HTML file: template, style, script and data, with no request to anywhere.

Data is JSON inside a script element that browsers do not run; ``<`` is escaped in it, and the script writes
text only as text, so a name from a stranger's wheel stays a name.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from rekindle import __version__
from rekindle.compat.images import covers, flavour_code
from rekindle.compat.toolkit import cudnn_covers
from rekindle.facts import Facts
from rekindle.index.pages.fields import version_key
from rekindle.index.pages.grid import Grid, grid_data, products
from rekindle.index.pages.wheel_pages import environment, template_text
from rekindle.index.wheelhouse.search import WantedWheel, verdict_for
from rekindle.model.arch import GpuArch, parse_gpu_arch
from rekindle.model.facts import Flavour, Platform
from rekindle.model.page import report_style
from rekindle.model.version import key
from rekindle.model.wheelhouse import WheelRow

PLATFORMS: dict[str, Platform] = {"linux": "linux_x86_64", "windows": "windows", "linux-arm": "linux_aarch64"}
# What a cell says; the page has a colour and a word for each.
HAS, SAME_MAJOR, JIT, OVERRIDE, NO_CUDNN, UNKNOWN, NO = "h", "s", "j", "o", "c", "u", "-"


def render_page(facts: Facts, grid: Grid, rows: Sequence[WheelRow], *, base: str) -> tuple[str, int]:
    """(the page, how many product names it knows)."""
    cards = products(facts, grid.gpus)
    sms = tuple(name for name in grid.gpus if name.startswith("sm_") and parse_gpu_arch(name).number >= 30)  # type: ignore[attr-defined]
    gfxs = tuple(name for name in grid.gpus if name.startswith("gfx"))
    # The newest first, so that the page need not sort thousands before it can be used.
    rows = sorted(rows, key=lambda row: (version_key(row.version), row.file), reverse=True)
    wheels, kinds = _shelve_wheels(rows)
    data = {
        "version": __version__,
        "generated": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cards": cards,
        **grid_data(grid, facts),
        "matrix": make_matrix(facts, sms, gfxs),
        "base": base,
        "wheels": wheels,
        "verdicts": _judge_kinds(kinds, grid.gpus),
    }
    text = msgspec.json.encode(data).decode().replace("<", "\\u003c").replace("\u2028", "\\u2028")
    page = environment().get_template("page.html")
    style, script = report_style() + template_text("page.css"), template_text("page.js")
    return page.render(style=style, script=script, data=text, version=__version__, cards=len(cards)), len(cards)


def _shelve_wheels(rows: Sequence[WheelRow]) -> tuple[dict[str, Any], list[WheelRow]]:
    """Wheels as short rows (file, project, bytes, sha256, shape, proofs): what thousands of them share is written once;
    the page knows where a file lies by its name. And one wheel of each kind, which have equal contents."""
    projects: dict[str, int] = {}
    shapes: dict[bytes, int] = {}
    kinds: dict[bytes, tuple[int, WheelRow]] = {}
    wheels: list[list[Any]] = []
    for row in rows:
        contents = (row.sass, row.ptx, row.gfx, row.libraries, row.inspected, row.yanked, row.systems)
        kind, _ = kinds.setdefault(msgspec.msgpack.encode(contents), (len(kinds), row))
        shown = ("pythons", "systems", "machines", "yanked", "cpu", "glibc")
        shape = {name: getattr(row, name) for name in shown} | {"kind": kind}
        shape["code"] = [*row.sass, *(f"PTX {ptx}" for ptx in row.ptx), *row.gfx]
        number = shapes.setdefault(msgspec.json.encode(shape), len(shapes))
        project = projects.setdefault(row.project, len(projects))
        wheels.append([row.file, project, row.bytes, row.sha256, number, sum(proof.good for proof in row.proofs)])
    shelved = {"projects": list(projects), "shapes": [msgspec.Raw(shape) for shape in shapes], "rows": wheels}
    return shelved, [first for _, first in kinds.values()]


def _judge_kinds(kinds: Sequence[WheelRow], gpus: tuple[str, ...]) -> list[dict[str, list[Any]]]:
    """For each architecture: kind -> [1 it runs / 0 cannot tell, why]; thousands of wheels share a few kinds."""
    verdicts: list[dict[str, list[Any]]] = []
    for gpu in gpus:
        wanted = WantedWheel(gpus=() if gpu == "none" else (parse_gpu_arch(gpu),))
        by_kind: dict[str, list[Any]] = {}
        for number, row in enumerate(kinds):
            verdict = verdict_for(row, wanted, gpu)
            if verdict.runs is not False:
                by_kind[str(number)] = [int(verdict.runs is True), verdict.because[0].text]
        verdicts.append(by_kind)
    return verdicts


def make_matrix(facts: Facts, sms: tuple[str, ...], gfxs: tuple[str, ...]) -> dict[str, Any]:
    """Rows for each platform, newest torch first; ``cells`` has one letter per column."""
    result: dict[str, Any] = {"nvidia": {"columns": sms}, "amd": {"columns": gfxs}}
    order = sorted(facts.wheels.flavour, key=lambda row: (key(row.torch), row.name), reverse=True)
    for vendor, kind in (("nvidia", "sm"), ("amd", "gfx")):
        cards = [parse_gpu_arch(name) for name in result[vendor]["columns"]]
        for place, platform in PLATFORMS.items():
            lines = result[vendor][place] = []
            for flavour in order:
                if getattr(flavour, kind).get(platform):
                    source = f"{'; '.join(flavour.source)} ({flavour.how}, {flavour.date})"
                    head = [flavour.torch, flavour.name, flavour.cuda or flavour.rocm or "", source]
                    lines.append([*head, "".join(cell(flavour, platform, card, facts) for card in cards)])
    return result


def cell(flavour: Flavour, platform: Platform, card: GpuArch, facts: Facts) -> str:
    """One letter: how a published wheel runs on a card."""
    covered = covers(flavour_code(flavour, platform), card, platform.split("_")[0], facts)
    if covered.kind in ("none", "unknown"):
        return NO if covered.kind == "none" else UNKNOWN
    if cudnn_covers(flavour.cudnn, flavour.cuda, card, facts).kind == "partly":
        return NO_CUDNN
    if covered.kind == "native":
        return HAS if covered.target is None or covered.target.split(":")[0] == str(card).split(":")[0] else SAME_MAJOR
    return JIT if covered.kind == "jit" else OVERRIDE
