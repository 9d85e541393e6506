"""What is not compiled twice: (c) a second Python from the same tree, (d) a rebuild from a hot compiler cache.

    python benchmarks/build_reuse.py [--other 3.10] [--ops N]

Compile seconds are those of the compile phase; CPU is that of all compilers, which a busy machine does not change.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import shutil
import sys
import tempfile
from pathlib import Path

import rekindle.spark
from rekindle.build import build
from rekindle.host.workspace import Workspace
from rekindle.model.build import BuildResult
from rekindle.model.build_options import BuildOptions
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree

OPTIONS = BuildOptions(jobs=2)


def spark(folder: Path) -> SourceTree:
    root = folder / "spark"
    shutil.copytree(Path(rekindle.spark.__file__).parent / "tree", root)
    return SourceTree(project="spark", version=(root / "version.txt").read_text().strip(), root=str(root))


def plan(ops: str, **env: str) -> Plan:
    settings = {"SPARK_OPS": ops, "CMAKE_POLICY_VERSION_MINIMUM": "3.5", **env}
    return Plan(
        answer="build", project="spark", variant="cpu",
        build=BuildRecipe(source="spark", env=settings, pins={"setuptools": "<74"}),
    )  # fmt: skip


def timed(*args: object, **how: object) -> tuple[BuildResult, float, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = build(*args, **how)  # type: ignore[arg-type]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result, next(p.seconds for p in result.phases if p.name == "compile"), cpu


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--other", default="3.10", help="the second Python")
    parser.add_argument("--ops", default="12", help="how many generated files spark has")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as name:
        folder = Path(name)
        workspace = Workspace(folder / "ws")
        # Both environments first, so that only building is measured.
        warm = spark(folder / "warm")
        for python in (sys.executable, args.other):
            options = dataclasses.replace(OPTIONS, target="spark_ember")
            build(plan("1"), warm, workspace, python=python, options=options)
        tree = spark(folder / "c")
        _, one, one_cpu = timed(plan(args.ops), tree, workspace, python=sys.executable, options=OPTIONS)
        _, two, two_cpu = timed(plan(args.ops), tree, workspace, python=args.other, options=OPTIONS)
        print("(c) the second Python's wheel")
        print(f"    first {one:.1f} s, second {two:.1f} s: {100 * two / one:.0f} %"
              f"   (CPU of everything: {one_cpu:.1f} s, {two_cpu:.1f} s: {100 * two_cpu / one_cpu:.0f} %)")  # fmt: skip
        cached = dataclasses.replace(OPTIONS, launcher="ccache")
        wanted = plan(args.ops, CCACHE_DIR=str(folder / "ccache"))
        tree = spark(folder / "d")
        _, cold, cold_cpu = timed(wanted, tree, workspace, python=sys.executable, options=cached)
        again = dataclasses.replace(cached, clean=True)
        result, hot, hot_cpu = timed(wanted, tree, workspace, python=sys.executable, options=again)
        print("(d) rebuild with a hot ccache")
        print(f"    cold {cold:.1f} s, hot {hot:.1f} s: {100 * hot / cold:.0f} %   (CPU {cold_cpu:.1f} s,"
              f" {hot_cpu:.1f} s), hit rate {result.launcher.get('hit rate')}")  # fmt: skip


if __name__ == "__main__":
    main()
