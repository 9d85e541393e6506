"""Without an index, what a torch needs beside it is asked for before it is built."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.interpreters.installer import Installer
from rekindle.journey.from_source import named_requirements, refuse_missing_wheels

SETUP = """\
from setuptools import setup
def main():
    install_requires = ["filelock", "sympy==1.13.1 ; python_version >= '3.9'", name(), "", "-r other", "x @ http://a/x"]
    setup(install_requires=install_requires)
"""
NO = "ERROR: Could not find a version that satisfies the requirement mpmath<1.4 (from sympy) (from versions: 1.4.1)\n"
WANTED = ("filelock", "sympy==1.13.1 ; python_version >= '3.9'")


class Machine(BareHost):
    """Its pip gives one answer, and remembers the question."""

    def __init__(self, code: int, err: str = "") -> None:
        super().__init__()
        self.answer = (code, err)
        self.asked: list[list[str]] = []

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        if "--version" in argv:
            return Completed(argv=tuple(argv), code=0, out="pip 24")
        self.asked.append(list(argv))
        return Completed(argv=tuple(argv), code=self.answer[0], err=self.answer[1])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "setup.py").write_text(SETUP)
    return tmp_path


def test_literal_words_of_setup_alone(tree: Path) -> None:
    assert named_requirements(tree) == WANTED
    (tree / "setup.py").write_text("setup(install_requires=('a>=1', 'b'))")
    assert named_requirements(tree) == ("a>=1", "b")


@pytest.mark.parametrize("text", [None, "setup(", "install_requires = words()", "\0", "install_requires = 'a'"])
def test_a_setup_that_says_nothing_is_no_error(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "setup.py").write_text(text)
    assert named_requirements(tmp_path) == ()
    machine = Machine(1, NO)
    refuse_missing_wheels(machine, Installer(offline=True), "py", tmp_path)
    assert machine.asked == []


def test_what_is_missing_is_named_with_a_line_to_paste(tree: Path) -> None:
    machine = Machine(1, NO)
    with pytest.raises(BadInput, match=r"mpmath<1\.4") as caught:
        refuse_missing_wheels(machine, Installer(offline=True, links=("wheels",)), "py", tree)
    assert "pip download -d wheels filelock 'sympy==1.13.1" in (caught.value.remedy or "")
    (asked,) = machine.asked
    assert asked[:4] == ["py", "-m", "pip", "download"]
    assert asked[-5:] == ["--no-index", "-f", "wheels", *WANTED]


@pytest.mark.parametrize("machine", [Machine(0), Machine(1, "No module named pip"), Machine(2, "no such option: -x")])
def test_only_a_no_of_pips_own_counts(machine: Machine, tree: Path) -> None:
    refuse_missing_wheels(machine, Installer(offline=True), "py", tree)
    assert len(machine.asked) == 1


def test_by_the_real_pip(tree: Path, tmp_path: Path) -> None:
    """An empty folder of wheels holds nothing."""
    pytest.importorskip("pip")
    links = tmp_path / "wheels"
    links.mkdir()
    with pytest.raises(BadInput, match="filelock"):
        refuse_missing_wheels(LiveHost(), Installer(offline=True, links=(str(links),)), sys.executable, tree)
