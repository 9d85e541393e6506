"""After configure: is what was planned really on? Compared before the hours are spent.

An exit code of 0 from configure means little: a library that is not found is switched off with a warning in
the middle of a thousand lines. What counts, in this order: the summary the tree prints at the end, CMake's
cache, and for GPU architectures the flags in build.ninja themselves.
"""

import contextlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rekindle.formats.cmake_cache import is_true, read_cmake_cache
from rekindle.formats.ninja import read_build_ninja
from rekindle.host.files import read_head
from rekindle.host.text import text_of
from rekindle.model.build import Fact
from rekindle.model.plan import Plan
from rekindle.model.toml import read_beside

SUMMARY_FILE = "rekindle-summary.txt"
_SUMMARY = re.compile(r"--\s+([A-Za-z][\w +]*?)\s*: ?(.*)")
_SWITCH = re.compile(r"(?:USE|BUILD)_\w+")
_GENCODE = re.compile(r"arch=compute_(\d+[af]?),code=(sm|compute)_(\d+[af]?)|--generate-code=\S*?code=\[?([^]\s]+)")
_VARIANT = re.compile(r"^(sm_\d+)[af]$")
_OFFLOAD = re.compile(r"--(?:offload-arch|amdgpu-target)=(gfx[0-9a-f]+)")
_WORDS = read_beside(__file__, "configure_words.toml", dict[str, Any])
_REASON = re.compile("|".join(_WORDS["reason"]), re.IGNORECASE)
# A script of CMake that compiles one object: "cmake … -P x.hip.o.cmake", "… -P x.cu.o.Release.cmake".
_RUNS = re.compile(r"""\s-P\s+(?:"([^"]+\.o(?:bj)?(?:\.\w+)?\.cmake)"|(\S+\.o(?:bj)?(?:\.\w+)?\.cmake)(?=\s|$))""")
_PLACE = re.compile(r"\S*/\S*")


def summary_lines(lines: Iterable[str]) -> list[str]:
    """From the last "Summary" headline to the end of its block."""
    rows = list(lines)
    begins = [number for number, line in enumerate(rows, 1) if "Summary" in line and "***" in line]
    below = rows[begins[-1] :] if begins else []
    block = itertools.takewhile(lambda line: line.startswith("--") or not line.strip(), below)
    return [line for line in block if line.startswith("--")]


def read_summary(lines: Sequence[str]) -> dict[str, str]:
    """The first of several lines counts."""
    return {match[1].strip(): match[2].strip() for line in reversed(lines) if (match := _SUMMARY.match(line))}


def planned_settings(plan: Plan) -> dict[str, str]:
    """What the plan asserts, and every switch it sets; an assert wins."""
    assert plan.build is not None
    settings = {**plan.build.cmake, **plan.build.env}
    names = (name for name in settings if _SWITCH.fullmatch(name) or name in ("BLAS", "CMAKE_BUILD_TYPE"))
    switches = (name for name in names if not name.startswith(tuple(_WORDS["steering"])))
    return {**{name: settings[name] for name in switches}, **plan.build.asserts}


def check_configuration(plan: Plan, build_tree: Path, summary: Sequence[str], log: Sequence[str]) -> tuple[Fact, ...]:
    """One fact per wish; those with ``ok`` False must stop the build."""
    cache = read_cmake_cache(build_tree / "CMakeCache.txt")
    reported = read_summary(summary)
    # Configure leaves these out without a word where no library is found; nobody wants a torch without them.
    always = ("USE_BLAS", "USE_LAPACK") if plan.project == "torch" else ()
    planned = {**{name: "1" for name in always if name in reported}, **planned_settings(plan)}
    facts = [_compare(name, value, reported, cache, log) for name, value in sorted(planned.items())]
    if not plan.arch_list:
        return tuple(facts)
    # The GPU targets of the compile commands themselves, and of the scripts that some of them run.
    targets: set[str] = set()
    for edge in read_build_ninja(build_tree / "build.ninja"):
        command = edge.variables.get("COMMAND", "")
        targets |= gpu_targets(" ".join((edge.variables.get("FLAGS", ""), command, _script_text(command, build_tree))))
    compiled = _target_fact("arch list", plan, targets, "flags in build.ninja")
    unknown = Fact(name="arch list", wanted="; ".join(plan.arch_list), where="no GPU flags in build.ninja")
    return (*facts, compiled if targets else unknown)


def _compare(name: str, planned: str, summary: Mapping[str, str], cache: Mapping[str, str], log: Sequence[str]) -> Fact:
    shown = {"CMAKE_BUILD_TYPE": "Build type"}.get(name, name)
    if shown in summary:
        value, where = summary[shown], "summary"
    elif name in cache:
        value, where = cache[name], "CMakeCache.txt"
    else:
        return Fact(name=name, wanted=planned)
    if _SWITCH.fullmatch(name) or name.startswith("CXX_"):
        ok = is_true(planned) == is_true(value)
    else:
        plain = planned.lower()
        ok = value.lower() in (plain, _WORDS["same"].get(plain, plain))
    return Fact(name=name, wanted=planned, found=value, ok=ok, where=where if ok else _reason(name, log) or where)


def _reason(name: str, log: Sequence[str]) -> str | None:
    """The line of configure that says why, if one does."""
    plain = re.sub(r"^(?:USE|BUILD)_", "", name)
    word = re.compile("|".join(map(re.escape, (plain, *_WORDS["also"].get(plain, ())))), re.IGNORECASE)
    for at, line in enumerate(log):
        # A folder that happens to be called so is no reason.
        if _REASON.search(line) and word.search(_PLACE.sub("", " ".join(log[at : at + 3]))):
            return " ".join(" ".join(part.split()) for part in log[at : at + 3])[:300]
    return None


def _script_text(command: str, build_tree: Path) -> str:
    """What FindHIP (and the old FindCUDA) wrote for one object: the compiler's flags stand there alone."""
    match = _RUNS.search(command)
    place = Path(match[1] or match[2]) if match else None
    with contextlib.suppress(OSError):
        if place is not None and place.resolve().is_relative_to(build_tree.resolve()):
            return text_of(read_head(place)).replace(";", " ")
    return ""


def gpu_targets(flags: str) -> set[str]:
    """``sm_35``, ``compute_35`` (PTX), ``gfx1031``: what a compile command makes code for."""
    targets = set(_OFFLOAD.findall(flags))
    for match in _GENCODE.finditer(flags):
        targets.update(filter(None, match[4].split(",")) if match[4] else [f"{match[2]}_{match[3]}"])
    return targets


def _family(targets: set[str]) -> set[str]:
    """Without what only marks a variant: torch 2.6.0 compiles single files for sm_90a where sm_90 is asked for
    (cmake/Codegen.cmake: RowwiseScaledMM.cu)."""
    return {_VARIANT.sub(r"\1", target) for target in targets}


def built_targets(plan: Plan, targets: set[str]) -> Fact:
    """The planned architectures against the machine code a wheel really holds."""
    return _target_fact("code in the wheel", plan, targets, "read from the wheel")


def _target_fact(name: str, plan: Plan, targets: set[str], where: str) -> Fact:
    names = [arch.removesuffix("+PTX") for arch in plan.arch_list]
    planned = {name if name.startswith(("gfx", "sm_")) else f"sm_{name.replace('.', '')}" for name in names}
    code = {target for target in targets if not target.startswith("compute_")}
    ok = planned <= code and _family({target.split(":")[0] for target in code}) <= _family(planned)
    found = "; ".join(sorted(targets)) or None
    return Fact(name=name, wanted="; ".join(plan.arch_list), found=found, ok=ok, where=where)
