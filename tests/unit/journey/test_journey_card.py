"""The card before the question, the interpreter that is meant, and the lines for afterwards."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

import needs
from bare_host import BareHost
from rekindle.errors import BadInput, MissingTool, NotReady, StageFailed
from rekindle.host.live import LiveHost
from rekindle.journey import card as cards
from rekindle.journey.card import make_card, refuse_hopeless
from rekindle.journey.target import (
    InstallTarget,
    activate_line,
    base_python,
    next_steps,
    steps_after_no,
    target_of,
    wanted_python,
)
from rekindle.model.build import BuildFailure
from rekindle.model.interpreter import is_version
from rekindle.model.journey import Card, Package, UpOptions
from rekindle.model.plan import Alternative, BuildRecipe, Plan, Reason, Request
from rekindle.model.spoken import GIB
from rekindle.model.verify import VerifyCheck, VerifyReport
from rekindle.render.journey import show_card
from rekindle.render.screen import Screen
from rekindle.render.summary import summarise_proof
from small_disks import small_disk_at

INDEX = "https://example.org/whl/cu126"
PLAN = Plan(
    answer="install", torch="2.14.1", variant="cu126", cuda="12.6", python="3.12",
    warnings=(Reason(code="no-compile", text="torch.compile does not work on this card."),),
    alternatives=(Alternative(answer="install", torch="2.15.0", variant="cpu", why="without the card"),),
)  # fmt: skip
REQUESTS = (Request(name="torch", version="2.14.1+cu126", index=INDEX),)
PACKAGES = (
    Package(name="torch", version="2.14.1+cu126", bytes=900_000_000),
    Package(name="cublas", version="12.6", bytes=600_000_000),
    Package(name="sympy", version="1.13"),
)


def card_of(plan: Plan = PLAN, packages: tuple[Package, ...] | None = PACKAGES, network: str | None = None) -> Card:
    target = InstallTarget(python="/e/bin/python", folder=Path("/e"), exists=False)
    return make_card(plan, REQUESTS, packages, target, places=(INDEX,), network=network, installer="pip")


def shown(card: Card, width: int = 100) -> str:
    import io

    out = io.StringIO()
    show_card(card, Screen(out, width=width))
    return out.getvalue()


def test_what_the_plan_avoids_by_itself_is_no_worry_of_the_card() -> None:
    handled = Reason(code="x", text="CMake 4 refuses it.", handled=True)
    assert card_of(msgspec.structs.replace(PLAN, warnings=(handled, *PLAN.warnings))).wont == card_of().wont != ()


def test_the_card_says_what_from_where_how_much_where_to_what_not_and_what_else() -> None:
    text = shown(card_of())
    for words in (
        "torch 2.14.1+cu126", INDEX, "3 packages, 1.5 GB and 1 of unknown size", "torch 2.14.1+cu126 (900 MB)",
        "about 9 GiB", "2 min on a line of 100 Mbit/s", f"a new environment, {Path('/e')}, Python 3.12 (with pip)",
        "torch.compile does not work", "install torch 2.15.0+cpu: without the card",
    ):  # fmt: skip
        assert words in text, (words, text)


def test_the_card_names_the_index_without_its_password() -> None:
    target = InstallTarget(python="/e/bin/python", folder=Path("/e"), exists=False)
    place = "https://bob:hunter2@10.1.2.3/simple"
    card = make_card(PLAN, REQUESTS, PACKAGES, target, places=(place,), network=None, installer="pip")
    assert card.places == ("https://redacted@10.1.2.3/simple",)
    assert "hunter2" not in shown(card)


@pytest.mark.parametrize(("free", "gib"), [(3 * GIB, 3.0), (GIB // 4, 0.2), (None, None)])
def test_the_room_is_that_of_the_place_it_goes_to(
    free: int | None, gib: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "free_bytes", lambda place: free if place == Path("/e") else 1)
    assert card_of().disk_free_gib == gib


def test_a_build_tells_its_hours_and_its_memory() -> None:
    recipe = BuildRecipe(source="git", disk_gib=30, memory_gib=4, minutes=(204, 402))
    plan = Plan(answer="build", torch="2.3.1", cuda="11.8", arch_list=("3.5",), build=recipe)
    text = shown(card_of(plan, None))
    assert "torch 2.3.1 for 3.5 with CUDA 11.8, compiled here" in text
    assert "3.4 to 6.7 hours" in text and "30 GiB" in text and "4 GiB at least" in text


@pytest.mark.parametrize("width", [60, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, shown(card_of(), width).splitlines())) <= width


def test_without_sizes_nothing_is_made_up() -> None:
    card = card_of(packages=None)
    assert card.download_bytes is None and card.packages is None
    assert "cannot tell sizes" in shown(card)
    assert "not known" in shown(card_of(network="x does not answer"))
    assert "nothing new is needed" in shown(card_of(packages=()))


def test_no_network_and_no_room_end_before_anything_begins() -> None:
    with pytest.raises(StageFailed, match="no network: x does not answer") as stopped:
        refuse_hopeless(card_of(network="x does not answer"), LiveHost())
    assert all(word in (stopped.value.remedy or "") for word in ("--index", "--find-links", "--offline"))
    just = Card(what=("torch",), download_bytes=1 << 30, disk_free_gib=2.0)
    refuse_hopeless(just, LiveHost())
    with pytest.raises(NotReady, match="are free"):
        refuse_hopeless(Card(what=("torch",), download_bytes=(1 << 30) + 1, disk_free_gib=2.0), LiveHost())


@needs.tool("mount")
def test_a_small_temporary_disk_is_seen_before_pip_fills_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk_at(tmp_path / "small", "16m") as small:
        monkeypatch.setattr(tempfile, "tempdir", str(small))
        disk = LiveHost().disk(str(small))
        assert disk is not None

        def card(size: int, **more: Any) -> Card:
            return Card(**{"what": ("torch",), "places": ("https://x/simple",), "download_bytes": size, **more})

        refuse_hopeless(card(disk.free), LiveHost())
        with pytest.raises(NotReady, match=r"pip downloads 17 MB into .*small, and 17 MB are free there") as refused:
            refuse_hopeless(card(disk.free + 1), LiveHost())
        assert "TMPDIR" in (refused.value.remedy or "")
        refuse_hopeless(card(disk.free + 1, installer="uv"), LiveHost())
        refuse_hopeless(card(disk.free + 1, places=("/wheels",)), LiveHost())
        refuse_hopeless(Card(what=("torch",), places=("https://x/simple",)), LiveHost())


@pytest.mark.parametrize("text", ["3", "3.12", "3.12.1", "3.13t"])
def test_a_version_asks_for_a_python(text: str) -> None:
    assert is_version(text)


@pytest.mark.parametrize("text", ["python3.12", "/usr/bin/python3", "./3.12", "3.12/bin/python", "", None])
def test_anything_else_names_one(text: str | None) -> None:
    assert not is_version(text)


def test_where_torch_goes(tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert target_of(UpOptions(), own).folder == own
    assert target_of(UpOptions(python="3.12"), own).folder == own
    assert target_of(UpOptions(python=sys.executable), own).folder is None
    given = target_of(UpOptions(python=sys.executable, venv=tmp_path / ".venv"), own)
    assert given.folder == tmp_path / ".venv" and not given.exists


def test_a_folder_of_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(BadInput, match="no virtual environment"):
        wanted_python(LiveHost(), UpOptions(venv=tmp_path))
    assert wanted_python(LiveHost(), UpOptions(venv=tmp_path / "new", python="3.12.1")) == "3.12"


def test_a_python_that_is_not_there_comes_with_the_way_to_it() -> None:
    options = UpOptions(python="3.7", venv=Path("x"))
    with pytest.raises(MissingTool, match=r"Python 3\.7") as missing:
        base_python(BareHost(), options, None)
    assert "3.7" in (missing.value.remedy or "")


def test_the_lines_for_afterwards_fit_the_shell(tmp_path: Path) -> None:
    folder = Path("/home/a b/.venv")
    assert activate_line(folder, shell="/bin/bash", windows=False) == "source '/home/a b/.venv/bin/activate'"
    assert activate_line(folder, shell="/usr/bin/fish", windows=False).endswith("activate.fish'")
    assert activate_line(Path("C:/v"), windows=True) == "C:\\v\\Scripts\\activate"
    steps = next_steps(InstallTarget(python="/p", folder=None, exists=True), ["/k/constraints.txt"])
    assert steps[-1] == "/p -m pip install -c /k/constraints.txt PACKAGE" and "import torch" in steps[0]


def test_what_to_look_at_when_there_is_no_torch() -> None:
    failure = BuildFailure(project="torch", phase="compile", message="no", log="/w/b.log")
    assert steps_after_no(failure, "/e/python") == ("rekindle explain /w/b.log",)
    assert steps_after_no(None, "/e/python") == ("rekindle verify --python /e/python --level full",)
    assert steps_after_no(None) == ("rekindle plan -v",)
    assert steps_after_no(BuildFailure(project="torch", phase="compile", message="no")) == ("rekindle plan -v",)


def test_a_proof_that_failed_names_what_failed() -> None:
    checks = [VerifyCheck(id=name, status="failed") for name in ("a", "b", "c", "d")]
    one = VerifyReport(verdict="failed", checks=(checks[0], VerifyCheck(id="x", status="passed")), passed=1, failed=1)
    assert summarise_proof(one) == "failed: 1 passed, 1 failed (a), 0 skipped"
    assert "4 failed (a, b, c, …)" in summarise_proof(VerifyReport(verdict="failed", checks=tuple(checks), failed=4))
    assert summarise_proof(VerifyReport(verdict="proven", passed=3)) == "proven: 3 passed, 0 failed, 0 skipped"
