"""``up`` from its plan to the proof: where things come from, what is asked of which Python, what is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rekindle.errors import StageFailed
from rekindle.host.made import MARK
from rekindle.interpreters.environment import python_of
from rekindle.journey import install as installing
from rekindle.journey import target as targets
from rekindle.journey import up
from rekindle.model.journey import BuiltCompanion, Installation, Journey, Package
from rekindle.model.plan import BuildRecipe, Plan, Request, Wish
from rekindle.model.verify import VerifyReport
from tiny_wheels import make_wheel
from up_stages import PLAN, Stages, go, planned, statuses


@pytest.mark.parametrize(("answer", "network", "told"), [("install", "no", True), ("install", None, False)])
def test_where_the_index_is_silent_the_card_says_what_can_be_had(
    answer: str, network: str | None, told: bool, stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "look_for_network", lambda places: network)
    monkeypatch.setattr(up, "reachable_ways", lambda machine, options: ("rekindle up --torch 2.6.0",))
    monkeypatch.setattr(up._PlannedUp, "_foresee", lambda self, requests: ((),))
    request = Request(name="torch", version="2.7.1", index="https://example.org/cpu")
    card = planned(stages, tmp_path, Plan(answer="install", torch="2.7.1", requests=(request,))).make_card()
    assert card.reachable == (("rekindle up --torch 2.6.0",) if told else ())
    assert (card.packages, card.network) == (None if network else 0, network)
    built = planned(stages, tmp_path, PLAN).make_card()
    assert built.reachable == (), "sources come from one place"


def test_where_a_build_fetches_from_and_what_is_there_already(stages: Stages, tmp_path: Path) -> None:
    git = "https://github.com/pytorch/pytorch"
    fresh = planned(stages, tmp_path, PLAN)
    assert len(fresh._places()) == 1 and git in fresh._places()[0]
    (fresh.workspace.source / "torch-2.7.1").mkdir(parents=True)
    assert fresh._places() == () and planned(stages, tmp_path, PLAN, source=tmp_path)._places() == ()
    debian = msgspec.structs.replace(PLAN, build=BuildRecipe(source="debian", origin="debian"))
    assert planned(stages, tmp_path, debian)._places() == ()
    assert planned(stages, tmp_path, debian).make_card().places == ("Debian's archive of sources",)
    assert planned(stages, tmp_path, debian, offline=True).make_card().places == ()
    assert planned(stages, tmp_path, debian, source=tmp_path).make_card().places == fresh.make_card().places == ()


def test_where_the_phases_after_a_build_write(stages: Stages, tmp_path: Path) -> None:
    assert planned(stages, tmp_path, PLAN, target="c10")._later_places() == {}
    both = planned(stages, tmp_path, PLAN, venv=tmp_path / "env", bundle=True)
    assert both._later_places() == {"bundle": both.workspace.wheels, "verify": tmp_path / "env"}
    assert planned(stages, tmp_path, PLAN, venv=tmp_path / "env", bundle=False)._later_places().keys() == {"verify"}


def test_a_walk_is_done_only_while_its_python_and_its_plan_are_the_same(stages: Stages, tmp_path: Path) -> None:
    walk = planned(stages, tmp_path, PLAN, python=sys.executable)
    assert not walk.is_done()
    walk._arrived.parent.mkdir(parents=True)
    walk._arrived.write_text(walk.inputs, "ascii")
    assert walk.is_done()
    other = msgspec.structs.replace(PLAN, torch="2.7.0")
    assert not planned(stages, tmp_path, other, python=sys.executable).is_done()
    for more in ({"torch_only": True}, {"index": "https://mine.example"}):
        assert not planned(stages, tmp_path, PLAN, python=sys.executable, **more).is_done()
    gone = planned(stages, tmp_path, PLAN, python=str(tmp_path / "gone" / "python"))
    gone._arrived.write_text(gone.inputs, "ascii")
    assert not gone.is_done()


def test_a_new_environment_is_made_with_the_python_that_was_named_or_planned(stages: Stages, tmp_path: Path) -> None:
    assert planned(stages, tmp_path, PLAN).base == sys.executable
    named = planned(stages, tmp_path, PLAN, python="/opt/python", venv=tmp_path / "env")
    assert named.base == named.build_python == "/opt/python"


def test_a_walk_that_arrived_before_says_so_in_a_dry_run(stages: Stages, tmp_path: Path) -> None:
    stages.plan = msgspec.structs.replace(PLAN, answer="install", build=None)
    before = planned(stages, tmp_path, stages.plan, python=sys.executable)
    before._arrived.parent.mkdir(parents=True)
    before._arrived.write_text(before.inputs, "ascii")
    journey = go(tmp_path, python=sys.executable, dry_run=True)
    assert journey.arrived and journey.verdict.endswith("(done before)") and journey.card is None


@pytest.mark.parametrize(
    ("named", "wished", "python"), [(None, None, None), ("3.11", None, "3.11"), ("3.11", "3.12", "3.12")]
)
def test_the_plan_is_for_the_python_that_was_named_unless_the_wish_says_another(
    named: str | None, wished: str | None, python: str | None, stages: Stages, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    wishes: list[Wish] = []

    def plan(machine: object, wish: Wish) -> Plan:
        wishes.append(wish)
        return Plan(answer="none")

    monkeypatch.setattr(up, "make_plan", plan)
    monkeypatch.setattr(targets, "wanted_python", lambda host, options: named)
    go(tmp_path, dry_run=True, wish=Wish(python=wished))
    assert [wish.python for wish in wishes] == [python]


INSTALL = Plan(
    answer="install", torch="2.7.1", requests=(Request(name="torch", version="2.7.1", index="https://i.example"),)
)


def test_things_come_from_the_index_of_the_plan_or_from_folders_alone(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert planned(stages, tmp_path, INSTALL)._places() == ("https://i.example",)
    assert planned(stages, tmp_path, INSTALL, index="https://mine.example")._places() == ("https://mine.example",)
    assert planned(stages, tmp_path, INSTALL, offline=True, find_links=("here",))._places() == ("here",)

    def nothing(*_: object, **__: object) -> None:
        raise StageFailed("no such wheel here", remedy="as pip said")

    monkeypatch.setattr(installing, "foresee", nothing)
    for offline, ways, remedy in (
        (True, ("rekindle up",), "rekindle up takes"),
        (True, (), "as"),
        (False, ("x",), "as"),
    ):
        monkeypatch.setattr(up, "reachable_ways", lambda machine, options, ways=ways: ways)
        with pytest.raises(StageFailed) as stopped:
            planned(stages, tmp_path, INSTALL, offline=offline, find_links=("here",)).make_card()
        assert (stopped.value.remedy or "").startswith(remedy)


def test_what_comes_is_asked_once_of_the_environment_or_of_the_python_it_will_be_made_with(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool, bool]] = []
    answer: list[tuple[Package, ...] | None] = [None]

    def foresee(order: installing.InstallOrder, *_: object, fresh: bool, substituted: bool, **__: object) -> Any:
        asked.append((order.python, fresh, substituted))
        return tuple(answer)

    monkeypatch.setattr(installing, "foresee", foresee)
    there = planned(stages, tmp_path, INSTALL, python=sys.executable, index="https://mine.example")
    for _ in range(2):
        assert there._foresee(there.requests) == (None,)
    assert asked == [(sys.executable, False, True)], "what an environment cannot tell it cannot tell later"
    new = planned(stages, tmp_path, INSTALL, venv=tmp_path / "new")
    new._foresee(new.requests)
    answer[:] = [()]
    for _ in range(2):
        assert new._foresee(new.requests) == ((),)
    assert asked[1:] == [(new.base, True, False)] * 2, "the environment's own pip may know more than its base"


def test_an_environment_of_ours_stands_for_the_python_it_was_made_with(stages: Stages, tmp_path: Path) -> None:
    folder = tmp_path / "env"
    python = python_of(folder)
    python.parent.mkdir(parents=True)
    python.touch()
    walk = planned(stages, tmp_path, PLAN, venv=folder)
    (folder / "pyvenv.cfg").touch()
    assert walk.target.exists and walk.build_python == str(python)
    assert walk._keep_folder == walk.workspace.root / "keep", "nothing goes into what was there before"
    (folder / MARK).touch()
    assert walk.build_python == sys.executable and walk._keep_folder == folder / "rekindle"
    given = planned(stages, tmp_path, PLAN, python=sys.executable)
    assert given.build_python == sys.executable and given._keep_folder == given.workspace.root / "keep"


@pytest.mark.parametrize(
    ("numpy", "companions", "limited"), [("<2", 1, True), ("<2", 0, False), (">=2", 1, False), (None, 1, False)]
)
def test_a_companion_does_not_bring_a_numpy_that_the_torch_cannot_use(
    numpy: str | None, companions: int, limited: bool, stages: Stages, built: Path, proved: Callable[..., Journey],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    stages.plan = msgspec.structs.replace(PLAN, numpy=numpy)
    vision = make_wheel(tmp_path, "torchvision", "0.22.1")
    made = BuiltCompanion(name="torchvision", version="0.22.1", wheel=str(vision), wheel_sha256="0")
    failed = BuiltCompanion(name="torchaudio", version="2.7.1", why="no network")
    asked: list[tuple[Request, ...]] = []
    proved(tmp_path, companions=(made,) * companions + (failed,))
    installed = up._PlannedUp._installed

    def install(self: Any, requests: tuple[Request, ...], inputs: str) -> Installation:
        asked.append(requests)
        return installed(self, requests, inputs)

    monkeypatch.setattr(up._PlannedUp, "_installed", install)
    monkeypatch.setattr(up._PlannedUp, "_fingerprint", lambda self: "f")
    go(tmp_path, bundle=False)
    assert [one.name for one in asked[0]] == ["torch", *["torchvision"] * companions, *["numpy"] * limited]


class Installs:
    """Stands in for pip: what was installed where, and what the environment's state is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[Path] = []
        self.count = 0
        self.fails = False
        monkeypatch.setattr(installing, "own_environment", self.environment)
        monkeypatch.setattr(installing, "foresee", lambda *_, **__: ((),))
        monkeypatch.setattr(installing, "install", self.install)
        monkeypatch.setattr(up, "look_into", lambda host, python: SimpleNamespace(fingerprint=f"f{self.count}"))
        monkeypatch.setattr(targets, "write_keeps", lambda folder, *_: (str(folder),))
        monkeypatch.setattr(up, "set_variables", lambda *_: None)

    def environment(self, installer: object, python: str, folder: Path, log: Path) -> None:
        python_of(folder).parent.mkdir(parents=True)
        python_of(folder).touch()
        self.made.append(folder)

    def install(self, order: installing.InstallOrder, *_: object) -> Installation:
        if self.fails:
            raise StageFailed("pip failed")
        self.count += 1
        return Installation(python=order.python, packages={"torch": "2.7.1"}, fingerprint=f"f{self.count}")


def test_an_install_is_kept_while_the_environment_is_as_it_was_left(
    stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installs = Installs(monkeypatch)
    proofs: list[dict[str, Any]] = []

    def prove(**told: Any) -> VerifyReport:
        proofs.append(told)
        return VerifyReport(verdict="proven", passed=5)

    monkeypatch.setattr(up, "verify", prove)
    stages.plan = INSTALL
    first = go(tmp_path)
    assert first.arrived and first.verdict == "torch 2.7.1 runs on this machine: 5 checks passed"
    assert installs.made == [Path(first.python or "").parents[1]] and first.wheel is None
    assert statuses(go(tmp_path)) | {"install": "kept", "verify": "kept"} == statuses(go(tmp_path))
    installs.count += 1
    again = go(tmp_path)
    assert (statuses(again)["install"], statuses(again)["verify"]) == ("done", "done") and len(proofs) == 2


@pytest.mark.parametrize("given", [True, False])
def test_an_install_that_fails_leaves_no_environment_of_ours(
    given: bool, stages: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installs = Installs(monkeypatch)
    installs.fails = True
    stages.plan = INSTALL
    with pytest.raises(StageFailed, match="pip failed"):
        go(tmp_path, python=sys.executable if given else None)
    assert len(installs.made) == (not given) and not any(folder.exists() for folder in installs.made)
    assert Path(sys.executable).exists()
