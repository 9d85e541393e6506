"""Writes docs/evidence/compile-probes.md from the facts; ``--check`` only says whether it is stale.

A cell is one tree and one old card, with the newest toolkit that compiles for it and that the tree takes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rekindle.compat.toolkit import toolkits_for
from rekindle.facts import Facts, load_facts
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.facts import Flavour, Probe
from rekindle.model.version import compare, key, matches

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "compile-probes.md"
TREES = ("1.13.1", "2.6.0", "2.12.1")
CARDS = tuple(parse_sm(name) for name in ("sm_35", "sm_37", "sm_50", "sm_52", "sm_60", "sm_61", "sm_70"))
LEVELS = {
    "tree": "the tree's own command, host code too",
    "device": "device code alone, optimised as the tree has it",
    "quick": "device code alone, not optimised",
}

HEAD = """# What old cards can really get

Written by `tools/probe_table.py` from the facts (`rekindle facts show probes`, `sources`, `wheels`); a test compares.

For each source tree at hand and each old card: does the device code compile? Four kinds of answer, best first:

- **built**: the whole was compiled by us; *run* where a card of that kind ran it.
- **wheel**: an official wheel holds machine code for the card, so all kernels of that release compile for it.
  *measured*: read out of the wheel; *documented*: named by the scripts that made it.
- **probed**: kernel files were compiled here, one by one, by the real nvcc with the tree's own command and only the
  architecture changed (`tools/compile_probe.py`). One file that fails and cannot be left out is a no; files that
  compile say only that these do.
- **runs older code**: machine code for sm_X.Y runs on every sm_X.Z with Z ≥ Y (not on Tegra boards), so a card without
  code of its own is served by its older sibling's; what compiles for the sibling is what it runs.

A dash means that no toolkit does both: compile for the card and satisfy the tree.
"""


def newest_kit(torch: str, sm: Sm, facts: Facts) -> str | None:
    """The newest toolkit that compiles for the card and that the sources take."""
    least = facts.era(torch).cuda_min or "0"
    able = [kit for kit in toolkits_for(sm, facts) if compare(kit, least) >= 0]
    return max(able, key=key, default=None)


def probes(torch: str, sm: Sm, facts: Facts) -> list[Probe]:
    return [row for row in facts.probes.probe if (row.torch, row.sm) == (torch, sm)]


def wheels(torch: str, sm: Sm, facts: Facts) -> list[Flavour]:
    """Official wheels of the release with machine code for this very card."""
    found = [
        row
        for row in facts.flavours(torch)
        if row.cuda and any(parse_sm(arch) == sm for archs in row.sm.values() for arch in archs)
    ]
    return sorted(found, key=lambda row: (row.how != "measured", row.name))


def sibling(torch: str, sm: Sm, facts: Facts) -> Sm | None:
    """The newest older card of the same generation whose code an official wheel of the release holds."""
    older = [one for one in CARDS if one.major == sm.major and one < sm]
    return max((one for one in older if wheels(torch, one, facts)), default=None)


def cell(torch: str, sm: Sm, facts: Facts) -> str:
    if newest_kit(torch, sm, facts) is None:
        return "–"
    said: list[str] = []
    built = [row for row in facts.sources.evidence if sm in row.sm and matches(torch, row.torch)]
    for row in built:
        if row.grade != "reported" and row.how == "measured":
            said.append(f"**built**, CUDA {row.cuda}" + (", run" if row.grade == "proven" else ""))
    tried = probes(torch, sm, facts)
    for cuda in sorted({row.cuda for row in tried}, key=key):
        rows = [row for row in tried if row.cuda == cuda]
        if said and all(len(row.built) == row.of for row in rows):
            continue  # the whole build says it
        good = {name for row in rows for name in row.good}
        bad = {name for row in rows for name in row.failed}
        fatal = {name for row in rows for name in set(row.failed) - set(row.without)}
        verdict = "**no**: " if fatal else "**probed**: "
        text = f"{verdict}{len(good | bad)} of {max(row.of for row in rows)} files tried"
        said.append(text + (f", {len(bad)} fail" if bad else ", all compile") + f", CUDA {cuda}")
    official = wheels(torch, sm, facts)
    if official:
        best = official[0]
        windows = _places(best, sm) == ["windows"]
        said.append(f"**wheel** {best.name}" + (" (Windows)" if windows else f", {best.how}"))
    near = sibling(torch, sm, facts)
    if near is not None and not any(place != "windows" for row in official for place in _places(row, sm)):
        said.append(f"**runs older code**: {near}'s")
    return "; ".join(said) or "not tried"


def _places(row: Flavour, sm: Sm) -> list[str]:
    return [place for place, archs in row.sm.items() if any(parse_sm(arch) == sm for arch in archs)]


def table(facts: Facts) -> str:
    lines = ["| card | " + " | ".join(f"torch {torch}" for torch in TREES) + " |", "|---|" + "---|" * len(TREES)]
    for sm in CARDS:
        lines.append(f"| {sm} | " + " | ".join(cell(torch, sm, facts) for torch in TREES) + " |")
    kits = [
        "",
        "The newest toolkit that compiles for the card and is not too old for the tree (whether the tree takes one so"
        " new is another question; the cells name what was used):",
        "",
    ]
    for torch in TREES:
        newest = {sm: newest_kit(torch, sm, facts) for sm in CARDS}
        kits.append(f"- torch {torch}: " + ", ".join(f"{sm} {kit or 'none'}" for sm, kit in newest.items()))
    return "\n".join([*lines, *kits])


def details(facts: Facts) -> str:
    lines = ["## The probes", ""]
    rows = sorted(facts.probes.probe, key=lambda row: (key(row.torch), key(row.cuda), row.sm, row.level))
    for row in rows:
        spent = sum(seconds for seconds, _ in row.compiled.values())
        most = max((gib for _, gib in row.compiled.values()), default=0.0)
        lines += [f"### torch {row.torch}, {row.sm}, CUDA {row.cuda}: {LEVELS[row.level]} ({row.date})", ""]
        measured = f" {spent:.0f} s of CPU, {most:.1f} GiB at the most in one process." if row.compiled else ""
        lines.append(
            f"{len(row.good | set(row.failed))} of {row.of} files were tried: {len(row.good)} compile,"
            f" {len(row.failed)} fail.{measured}"
        )
        if row.note:
            lines += ["", row.note]
        if row.compiled:
            lines += [
                "",
                "Compiled (CPU seconds): " + ", ".join(f"{n} {s:.0f}" for n, (s, _) in row.compiled.items()) + ".",
            ]
        if row.built:
            lines += ["", f"{len(row.built)} of them in a whole build; `rekindle facts show probes` lists them."]
        for name, error in sorted(row.failed.items()):
            left = f" Left out by `{row.without[name]}`." if name in row.without else " Cannot be left out."
            lines += ["", f"Failed: {name}: `{error}`.{left}"]
        lines.append("")
    return "\n".join(lines)


def page(facts: Facts) -> str:
    return f"{HEAD}\n{table(facts)}\n\n{details(facts)}".rstrip("\n") + "\n"


def main() -> int:
    text = page(load_facts())
    if "--check" in sys.argv:
        stale = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text
        print(f"{PAGE.name} is {'stale: run tools/probe_table.py' if stale else 'fresh'}")
        return int(stale)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
