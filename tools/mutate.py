"""Plants small errors in modules, one at a time, and says which of them no test notices.

    tools/mutate.py src/rekindle/compat --tests tests/unit/compat
    tools/mutate.py --changed main --tests tests/unit/plan        only modules changed since that commit
    tools/mutate.py src/rekindle/plan --tests tests/unit/plan --sample 100 --jobs 2
    tools/mutate.py --rooms --sample 40                           every room against its own tests, one table

The tests are collected once. A first run notes which test goes over which line; then each error is planted in a
forked copy of that process, which runs only the tests of that line until one fails. Errors at the level of a module
(constants, default values) are planted on import, in a fresh copy. What was noticed once is kept in ``.mutation/`` and
not run again while its module stays as it is. Survivors that change nothing stand in ``tools/equivalent.toml``.
Where the system allows it, all of it runs in a process namespace of its own: with an error in what ends processes, a
test may end every one that it can see.
Ends with 1 if more than ``--at-most`` percent survive (with ``--rooms``: in any room). Linux only (fork).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("MUTATE_ROOT", TOOLS.parent)).resolve()  # the tool's own test gives another
sys.path[:0] = [str(TOOLS)]

from mutants import Mutant, mutants_of  # noqa: E402
from mutation_runs import Outcome, run_mutants  # noqa: E402

KEPT = ROOT / ".mutation"
# Rooms below the stages are tried by the tests of those who use them, too; what joins stages by the tests of these.
ALSO = {
    "toolkits": ("doctor", "readiness"),
    "emulate": ("verify",),
    "interpreters": ("doctor", "journey"),
    "scripts": ("plan", "api"),
    "api": (
        "cli",
        "compat/test_proofs.py",
        "explain/test_explain_doors.py",
        "explain/test_explain_joined.py",
        "farm/test_farm_flow.py",
        "graft/test_graft_hip.py",
        "graft/test_graft_source.py",
        "host/test_holdings.py",
        "index/test_index_page.py",
        "index/test_index_records.py",
        "index/test_index_variant_rules.py",
        "inspect/test_inspect_for_people.py",
        "readiness/test_readiness_build_index.py",
        "scripts/test_export_machine.py",
        "scripts/test_export_paths.py",
        "verify/test_verify_claims.py",
    ),
    "journey": ("matrix",),
    "model": ("compat", "render"),
    "verify": (
        "integration/test_verify_torch.py",
        "integration/test_verify_worlds.py",
    ),  # its checks compute on a real torch
}


@dataclass(frozen=True)
class Planted:
    """One error of one module; ``key`` stays the same while the module's text does."""

    path: Path
    mutant: Mutant
    key: str


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    if argv is None and not options.show and not os.environ.get("MUTATE_APART"):
        _go_apart()
    if options.rooms:
        return _every_room(options)
    os.nice(10)  # others work on this machine too
    if not options.tests:
        print("mutate: say which tests (--tests), or --rooms for every room and its own")
        return 2
    paths = list(_modules(options.modules, options.changed))
    if not paths:
        print("mutate: no module named or changed")
        return 2
    if options.show:
        return _show(paths)
    wanted = _chosen(paths, options.sample, options.seed)
    known = _read_kept()
    todo = [each for each in wanted if known.get(each.key) not in ("killed", "timeout")]
    print(
        f"mutate: {len(wanted)} errors in {len(paths)} modules, {len(wanted) - len(todo)} noticed earlier", flush=True
    )
    results = {each.key: Outcome(known[each.key]) for each in wanted if each not in todo}
    results |= run_mutants(
        ROOT, [(each.path, each.mutant, each.key) for each in todo], options.tests, options.jobs, _keep
    )
    return _report(wanted, results, options.at_most)


def _go_apart() -> None:
    """The same command where no process but its own can be seen; it goes on as it is where that is not allowed."""
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with contextlib.suppress(OSError):
        if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode == 0:
            os.execvpe(apart[0], [*apart, sys.executable, *sys.argv], {**os.environ, "MUTATE_APART": "1"})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="files or folders under src")
    parser.add_argument("--tests", nargs="+", help="what pytest runs for each error")
    parser.add_argument("--rooms", action="store_true", help="every room (or those named) against its own tests")
    parser.add_argument("--changed", metavar="COMMIT", help="modules changed since COMMIT (among those named)")
    parser.add_argument("--sample", type=int, metavar="N", help="N errors, chosen the same way each time")
    parser.add_argument("--seed", type=int, default=1, help="another choice of the sample")
    parser.add_argument("--jobs", type=int, default=1, help="errors tried at the same time (default 1)")
    parser.add_argument(
        "--at-most", type=float, default=10, metavar="PERCENT", help="how many may survive (default 10)"
    )
    parser.add_argument("--show", action="store_true", help="list the errors, run nothing")
    return parser


def _every_room(options: argparse.Namespace) -> int:
    """Each room in a process of its own, since its tests are imported: the share that survives, room by room."""
    rooms = options.modules or sorted(path.name for path in (ROOT / "tests" / "unit").iterdir() if path.is_dir())
    rows: list[tuple[str, int, str]] = []
    for room in (Path(name).name for name in rooms):
        own, others = [f"tests/unit/{room}"], [_tests_at(name) for name in ALSO.get(room, ())]
        ended = _try_room(room, own, options)
        if ended.returncode and others:  # what the room's own tests noticed is not tried again
            ended = _try_room(room, [*own, *others], options)
        last = (ended.stdout.strip().splitlines() or [""])[-1]
        answered = "survive" in last
        print(f"== {room}\n{ended.stdout}{'' if answered else ended.stderr}", flush=True)
        rows.append((room, ended.returncode, last if answered else "the tests do not pass as they are"))
    print(*(f"{'ok  ' if code == 0 else 'FAIL'} {room:14} {said}" for room, code, said in rows), sep="\n")
    return max((code for _, code, _ in rows), default=2)


def _tests_at(name: str) -> str:
    return f"tests/{name}" if name.startswith("integration/") else f"tests/unit/{name}"


def _try_room(room: str, tests: list[str], options: argparse.Namespace) -> subprocess.CompletedProcess[str]:
    words = [f"src/rekindle/{room}", "--tests", *tests, "--sample", str(options.sample or 40)]
    words += ["--seed", str(options.seed), "--jobs", str(options.jobs), "--at-most", str(options.at_most)]
    return subprocess.run(
        [sys.executable, __file__, *words], cwd=ROOT, capture_output=True, text=True, errors="replace"
    )


def _modules(named: Iterable[str], changed: str | None) -> Iterable[Path]:
    found: list[Path] = []
    for name in named or ["src/rekindle"]:
        path = (ROOT / name).resolve()
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    if changed is not None:
        asked = subprocess.run(
            ["git", "diff", "--name-only", changed, "--", "src"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        only = {(ROOT / line).resolve() for line in asked.stdout.splitlines()}
        found = [path for path in found if path in only]
    elif not named:
        return []
    return found


def _chosen(paths: list[Path], sample: int | None, seed: int) -> list[Planted]:
    every: list[Planted] = []
    for path in paths:
        source = path.read_text("utf-8")
        stem = hashlib.sha256(source.encode()).hexdigest()[:16]
        for mutant in mutants_of(source):
            every.append(Planted(path, mutant, f"{path.relative_to(ROOT)}:{stem}:{mutant.number}:{mutant.what}"))
    if sample is not None and sample < len(every):
        chosen = set(sorted(every, key=lambda each: _lot(each, seed))[:sample])
        every = [each for each in every if each in chosen]
    return every


def _lot(each: Planted, seed: int) -> str:
    """Where an error stands in the draw: by its line's text, so that changes elsewhere leave the sample as it is."""
    text = each.path.read_text("utf-8").splitlines()[each.mutant.line - 1].strip()
    name = each.path.relative_to(ROOT)
    return hashlib.sha256(f"{seed}:{name}:{text}:{each.mutant.what}".encode()).hexdigest() + each.key


def _show(paths: list[Path]) -> int:
    for each in _chosen(paths, None, 1):
        print(f"{each.path.relative_to(ROOT)}:{each.mutant.line}: {each.mutant.what}")
    return 0


def _read_kept() -> dict[str, str]:
    try:
        lines = (KEPT / "results.jsonl").read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return dict(json.loads(line) for line in lines if line.endswith("]"))


def _keep(key: str, outcome: Outcome) -> None:
    KEPT.mkdir(exist_ok=True)
    with (KEPT / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps([key, outcome.value]) + "\n")


def _equivalents() -> dict[tuple[str, str, str], str]:
    """Errors that change nothing anyone could see, by file, line of text and change, each with the reason."""
    path = ROOT / "tools" / "equivalent.toml"
    rows = tomllib.loads(path.read_text("utf-8")).get("mutant", []) if path.exists() else []
    return {(row["file"], row["line"], row["change"]): row["why"] for row in rows}


def _report(wanted: list[Planted], results: dict[str, Outcome], at_most: float) -> int:
    equal = _equivalents()
    counts: dict[str, Counter[str]] = {}
    survivors: list[str] = []
    for each in wanted:
        name = str(each.path.relative_to(ROOT))
        text = each.path.read_text("utf-8").splitlines()[each.mutant.line - 1].strip()
        outcome = results[each.key].value if each.key in results else "not run"
        if outcome in ("survived", "untested") and (name, text, each.mutant.what) in equal:
            outcome = "equivalent"
        counts.setdefault(name, Counter())[outcome] += 1
        if outcome in ("survived", "untested", "not run"):
            survivors.append(f"{name}:{each.mutant.line}: {each.mutant.what} ({outcome})    {text}")
    print(*survivors, sep="\n")
    total: Counter[str] = sum(counts.values(), Counter())
    print(f"\n{'noticed':>8}{'survived':>9}{'untested':>9}{'equal':>6}")
    for name, count in [*sorted(counts.items()), ("together", total)]:
        noticed = count["killed"] + count["timeout"]
        print(f"{noticed:8}{count['survived']:9}{count['untested']:9}{count['equivalent']:6}  {name}")
    able = sum(total.values()) - total["equivalent"]
    share = 100 * (total["survived"] + total["untested"]) / able if able else 0.0
    print(f"{share:.1f} % of {able} errors survive (at most {at_most:g} % may)")
    return 1 if share > at_most or total["not run"] else 0


if __name__ == "__main__":
    sys.exit(main())
