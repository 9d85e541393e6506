"""Writes the tables of docs/companions.md from the facts; ``--check`` only says whether they are stale."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from rekindle.facts import Facts, load_facts
from rekindle.model.companion import Bounds, CompanionFork, CompanionPackageWheel, CompanionSource
from rekindle.model.version import key

GUIDE = Path(__file__).parents[1] / "docs" / "companions.md"
BEGIN, END = "<!-- begin: tools/companions_table.py -->", "<!-- end -->"


def table(facts: Facts) -> str:
    """One row per package: its span of versions, its newest wheel and source, and how they are known."""
    lines = [
        "| package | first – last | newest wheel | cards of it | torch of it | C++ ABI | from source | known by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, about in sorted(facts.packages.package.items()):
        wheels = newest(row for row in facts.packages.wheel if row.package == name)
        sources = newest(row for row in facts.packages.source if row.package == name)
        rows = [row for row in (*facts.packages.wheel, *facts.packages.source) if row.package == name]
        ways = Counter(row.how for row in rows)
        known = ", ".join(f"{how} {count}" for how, count in sorted(ways.items())) or about.how
        first = wheels[0] if wheels else None
        cells = [
            f"`{name}`",
            f"{about.first} – {about.last}",
            f"{first.version} ({', '.join(platforms(first))})" if isinstance(first, CompanionPackageWheel) else "none",
            cards(first) if first else "",
            f"`{first.torch}`" if first and first.torch else "any" if first else "",
            abis(name, facts),
            "; ".join(f"{row.version} {cards(row)}" for row in sources[:2]) or "no",
            known,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def abis(name: str, facts: Facts) -> str:
    """Where the spelling of strings was measured: the newest and the oldest version with each."""
    rows = sorted(
        (row for row in facts.packages.wheel if row.package == name and row.abi),
        key=lambda row: key(row.version),
    )
    said = []
    for abi in ("pre-cxx11", "cxx11"):
        found = [row.version for row in rows if row.abi == abi]
        if found:
            said.append(f"{abi}: {found[0]}" + (f" – {found[-1]}" if len(set(found)) > 1 else ""))
    return "; ".join(said)


def forks(facts: Facts) -> str:
    """Each fork and stand-in once, with its state."""
    seen: dict[tuple[str, str], CompanionFork] = {}
    for row in facts.packages.fork:
        seen.setdefault((row.package, row.name), row)
    lines = ["| for | who | state |", "|---|---|---|"]
    for (package, name), row in sorted(seen.items()):
        what = " (does the same work)" if row.stands_in else ""
        lines.append(f"| `{package}` | [{name}]({row.url}){what} | {row.state} |")
    return "\n".join(lines)


def newest(rows: object) -> list[CompanionPackageWheel | CompanionSource]:
    found: list[CompanionPackageWheel | CompanionSource] = list(rows)  # type: ignore[call-overload]
    return sorted(found, key=lambda row: key(row.version), reverse=True)


def platforms(row: CompanionPackageWheel) -> list[str]:
    names = {"linux_x86_64": "Linux", "linux_aarch64": "Linux aarch64", "windows": "Windows", "macos_arm64": "macOS"}
    return [names.get(one, one) for one in row.pythons]


def cards(row: Bounds) -> str:
    targets = row.targets.get("any") or row.targets.get("linux_x86_64") or ()
    words = " ".join(targets) if targets else f"{row.sm_min} and newer" if row.sm_min else ""
    if row.sm_max:
        words += f" up to {row.sm_max}"
    if row.gfx:
        shown = " ".join(str(gfx) for gfx in row.gfx[:4]) + (" …" if len(row.gfx) > 4 else "")
        words = f"{words}; {shown}".strip("; ")
    return words or ", ".join(row.backends)


def rendered(text: str, facts: Facts) -> str:
    """The guide with fresh tables."""
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    return f"{head}{BEGIN}\n\n{table(facts)}\n\n## Forks and stand-ins\n\n{forks(facts)}\n\n{END}{tail}"


def main(argv: list[str]) -> int:
    text = GUIDE.read_text(encoding="utf-8")
    fresh = rendered(text, load_facts())
    if "--check" in argv:
        return int(fresh != text)
    GUIDE.write_text(fresh, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
