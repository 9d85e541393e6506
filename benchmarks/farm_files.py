"""Files for benchmarks of a farm: those of a configured torch with its own commands, or generated ones."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HEAVY = """#include <algorithm>
#include <map>
#include <string>
#include <vector>
template <int N> struct Deep {{ static std::map<std::string, std::vector<int>> go(int x) {{
  auto found = Deep<N - 1>::go(x + N); found[std::to_string(N + {n})].push_back(x);
  std::sort(found.begin()->second.begin(), found.begin()->second.end()); return found; }} }};
template <> struct Deep<0> {{ static std::map<std::string, std::vector<int>> go(int) {{ return {{}}; }} }};
int heavy_{n}(int x) {{ return Deep<{depth}>::go(x).size(); }}
"""
# What `build` adds for nvcc without a farm alone: sccache does not take it.
WITHOUT_FARM = ("-Xcompiler=@", "--objdir-as-tempdir", "--orig_src_path_name=")


@dataclass
class Unit:
    """One object: its command without ``-o``; ``digest`` is from the compiler alone."""

    name: str
    argv: list[str]
    folder: str
    seconds: float = 0.0
    digest: str = ""


def torch_units(commands: Path, only: Sequence[str], count: int) -> list[Unit]:
    """So many files, spread evenly over all whose path has one of the texts in it."""
    entries = [
        entry for entry in json.loads(commands.read_text()) if not only or any(text in entry["file"] for text in only)
    ]
    step = max(1, len(entries) // count)
    units = []
    for entry in sorted(entries, key=lambda entry: entry["file"])[::step][:count]:
        words = shlex.split(entry["command"])
        place, source = words.index("-o"), entry["file"]
        del words[place : place + 2]
        kept: list[str] = []
        for word in words:
            if word.startswith("--orig_src_path_name="):
                kept.pop()
            if not word.startswith(WITHOUT_FARM) and word != source:
                kept.append(word)
        units.append(Unit(source.replace("/", "-")[-80:], [*kept, source], entry["directory"]))
    return units


def generated_units(scratch: Path, count: int) -> list[Unit]:
    units = []
    for n in range(count):
        path = scratch / f"heavy_{n}.cc"
        path.write_text(HEAVY.format(n=n, depth=30 + 10 * (n % 5)))
        units.append(Unit(path.stem, ["g++", "-O2", "-c", str(path)], str(scratch)))
    return units
