"""The repository itself: what may lie in it, and what must not."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_BYTES = 600 * 1024
MAX_LINES = 500


def tracked() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_no_large_files() -> None:
    assert [str(p.relative_to(ROOT)) for p in tracked() if p.stat().st_size > MAX_BYTES] == []


def test_no_binaries() -> None:
    binary = {".whl", ".so", ".dll", ".pyd", ".o", ".exe"}
    assert [str(p.relative_to(ROOT)) for p in tracked() if p.suffix in binary] == []


def test_no_long_source_files() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for p in tracked()
        if p.suffix == ".py" and (n := p.read_text(encoding="utf-8").count("\n")) > MAX_LINES
    }
    assert long == {}


def test_no_path_of_a_developers_machine() -> None:
    # A home directory or a work folder of somebody's machine tells users nothing and may tell others too much.
    needle = re.compile(rb"/(?:root/(?!usr)|work/|home/(?!user\b|u\b|me\b|runner\b|you\b|name\b)\w+/)")
    allowed = (
        "tests/logs",
        "tests/machines",
        "src/rekindle/explain",
        "tests/unit",
        "tests/integration",
        "tests/hostile",
        "docs",
    )
    found = [
        f"{p.relative_to(ROOT)}: {match[0].decode()}"
        for p in tracked()
        if not str(p.relative_to(ROOT)).startswith(allowed) and p.resolve() != Path(__file__).resolve()
        for match in needle.finditer(p.read_bytes())
    ]
    assert found == []


def test_launchers_have_the_line_endings_their_systems_want() -> None:
    assert b"\r" not in (ROOT / "rekindle").read_bytes()
    assert b"\r" not in (ROOT / "check").read_bytes()
    cmd = (ROOT / "rekindle.cmd").read_bytes()
    assert cmd.count(b"\n") == cmd.count(b"\r\n")


def test_every_verb_has_examples() -> None:
    from rekindle.cli.main import VERBS, examples_of

    for verb in VERBS:
        assert examples_of(verb).startswith("examples:"), verb


def test_nothing_says_to_install_somebody_elses_package() -> None:
    # The name ``rekindle`` on the package index is not ours; ours is rekindle-torch.
    wrong = re.compile(rb"(?:pip|pipx|uv tool|uv pip) install (?:-\S+ )*rekindle(?![-\w.]|\s*\[)|uvx rekindle(?!-)")
    found = [
        f"{p.relative_to(ROOT)}: {match[0].decode()}" for p in tracked() for match in wrong.finditer(p.read_bytes())
    ]
    assert [line for line in found if "test_repo_hygiene" not in line] == []


def test_the_readme_names_the_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r"^\$ (\./\w+)", text, re.MULTILINE)
    assert commands[:2] == ["./rekindle", "./check"]


def test_plain_words() -> None:
    """Help, docs and messages for engineers from anywhere: "fix", not "mend"."""
    odd = re.compile(r"\b(?:mend(?:s|ed|ing)?|goes it for you)\b", re.IGNORECASE)
    ours = [p for p in tracked() if p.suffix in (".py", ".md", ".j2", ".jinja") and "tests" not in p.parts]
    # The diagnoses are made from the rules' own texts.
    texts = {str(p.relative_to(ROOT)): p.read_text("utf-8") for p in ours if "diagnoses" not in (p.stem, p.parent.name)}
    assert [f"{name}: {match[0]}" for name, text in texts.items() for match in odd.finditer(text)] == []
