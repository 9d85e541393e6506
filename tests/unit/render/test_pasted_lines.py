"""Lines to paste: read back by a shell as the words that were meant, and by our own parser as a command."""

from __future__ import annotations

import importlib
import io
import os
import shlex
import subprocess
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from needs import tool
from rekindle import api
from rekindle.cli.main import VERBS, verb_parser
from rekindle.facts import load_facts
from rekindle.model.build import BuildResult, BuildResults
from rekindle.model.graft import GraftReport, UnitOutcome
from rekindle.model.matrix import Cell, MatrixCost, MatrixLock, Proposal, ProposedWheel
from rekindle.model.pack import Pack, PackedFile
from rekindle.model.plan import TorchChoice
from rekindle.model.wheelhouse import PageWritten, SiteBuilt, Yanked
from rekindle.render import build, graft, journey, matrix, plan, wheelhouse
from rekindle.render.screen import Screen

AWKWARD = "a place/it's 50% (new)"
posix = pytest.mark.skipif(os.name == "nt", reason="the shell of this machine is meant")


class Recorder(Screen):
    """Keeps what would be shown as a line to paste."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.lines: list[str] = []

    def command(self, text: str, *, as_called: bool = True) -> None:
        self.lines.append(text)


def lines_of(view: Callable[[Any, Screen], None], document: Any) -> list[str]:
    screen = Recorder()
    view(document, screen)
    return screen.lines


def filled(kind: type, **values: Any) -> Any:
    """A document with the least in every field that has no default."""
    least: dict[Any, Any] = {str: "", int: 0, float: 0.0, bool: True}
    needed = {
        field.name: least.get(field.type, ())
        for field in msgspec.structs.fields(kind)
        if field.required and field.name not in values
    }
    return kind(**needed, **values)


LOCK = filled(MatrixLock, table=f"{AWKWARD}/m.toml", cells=(filled(Cell),), cost=filled(MatrixCost))
GRAFT = filled(GraftReport, wheel=f"{AWKWARD}/torch.whl", arch="sm_100, sm_120")
REFUSED = filled(UnitOutcome, library="libtorch_cuda.so", state="refused")


def check_ours(words: list[str]) -> None:
    """A command of ours is one: the verb, its options and their values."""
    assert words[1] in VERBS, words
    verb_parser(words[1], importlib.import_module(f"rekindle.cli.{words[1]}")).parse_args(words[2:])


@posix
@pytest.mark.parametrize(
    ("view", "document"),
    [
        (wheelhouse.render_built, filled(SiteBuilt, root=AWKWARD, simple=f"{AWKWARD}/simple")),
        (wheelhouse.render_yanked, filled(Yanked, root=AWKWARD)),
        (matrix.render_lock, LOCK),
        (matrix.render_proposal, filled(Proposal, path=f"{AWKWARD}/m.toml", wheels=(filled(ProposedWheel),))),
        pytest.param(
            graft.render_graft, msgspec.structs.replace(GRAFT, out=f"{AWKWARD}/out/torch.whl"), id="graft-wheel"
        ),
        pytest.param(
            graft.render_graft, msgspec.structs.replace(GRAFT, graft=f"{AWKWARD}/torch.rekindle-graft"), id="graft-file"
        ),
        pytest.param(graft.render_graft, msgspec.structs.replace(GRAFT, units=(REFUSED,)), id="graft-refused"),
        (journey.show_pack, filled(Pack, folder=AWKWARD, files=(filled(PackedFile),))),
        (build.render_results, BuildResults(results=(filled(BuildResult, wheel=f"{AWKWARD}/torch.whl"),))),
        (plan.show_choice, filled(TorchChoice, answer="install", pip=(("torch>=2,<3", f"{AWKWARD}/x.whl"),))),
    ],
    ids=lambda each: getattr(each, "__name__", "document"),
)
def test_an_awkward_place_stays_one_word(view: Callable[[Any, Screen], None], document: Any) -> None:
    lines = lines_of(view, document)
    assert lines
    for line in lines:
        words = shlex.split(line)
        if words[0] == "rekindle":
            check_ours(words)
        assert any(AWKWARD in urllib.parse.unquote(word) for word in words), line


def test_after_a_dry_run_a_matrix_is_planned_before_it_is_run() -> None:
    for written, step in ((True, "run"), (False, "plan")):
        (line,) = lines_of(matrix.render_lock, msgspec.structs.replace(LOCK, written=written))
        assert line.split()[:3] == ["rekindle", "matrix", step]


@posix
def test_an_index_on_disk_has_an_address_that_pip_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative ``file://house/simple/`` would name a host."""
    monkeypatch.chdir(tmp_path)
    (line, _) = lines_of(wheelhouse.render_built, filled(SiteBuilt, root="house", simple="house/simple"))
    assert shlex.split(line)[3] == f"{(tmp_path / 'house' / 'simple').as_uri()}/"
    (page,) = lines_of(wheelhouse.render_page, filled(PageWritten, path="a page.html"))
    assert page == (tmp_path / "a page.html").as_uri()


def planned() -> list[Any]:
    """A plan of every kind: each machine people plan for, as a wheel and as a build."""
    found = []
    for name in load_facts().machines.machine:
        machine, wish = api.machine_profile(name)
        for insist in (False, True):
            found.append(pytest.param(machine, msgspec.structs.replace(wish, build=insist), id=f"{name}-{insist}"))
    return found


@tool("bash")
@pytest.mark.parametrize(("machine", "wish"), planned())
def test_the_lines_of_a_plan_are_lines_of_their_shell(machine: Any, wish: Any) -> None:
    made = api.plan(machine, wish)
    if machine.os.system == "windows":  # tests/integration/test_export_linters.py has PowerShell's grammar
        for line in made.commands:
            assert line.count('"') % 2 == 0 and "\n" not in line, line
    else:
        done = subprocess.run(["bash", "-n"], input="\n".join(made.commands), text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
    ours = [line for line in made.commands if line.startswith("rekindle ")]
    for line in ours:
        check_ours(shlex.split(line))
    # Where the tree is entered, ./rekindle of a clone is out of reach.
    entered = made.commands.index("cd pytorch") if "cd pytorch" in made.commands else len(made.commands)
    assert all(made.commands.index(line) < entered for line in ours)
