"""An adoption from the question to its undo, where the installer and the proof are stand-ins: what is told, what is
kept, and that nothing is left of one that was refused, not proven or cut short."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app_trees import make_app
from rekindle import api
from rekindle.errors import BadInput, Declined, NotReady
from rekindle.host.processes import Proc
from rekindle.interpreters.kept_places import ChangeRecord
from rekindle.journey import adopt as adopting
from rekindle.journey import adopt_forecast
from rekindle.journey import install as installing
from rekindle.journey.adopt_forecast import kept_environments
from rekindle.model.adopt import Adoption
from rekindle.model.journey import Installation, Package, UpOptions
from rekindle.model.plan import Companion, GraftOutline, Plan, Request
from rekindle.model.progress import Silent
from rekindle.model.verify import VerifyReport

PROVEN = VerifyReport(verdict="proven", passed=3)


class Environment(Silent):
    """ComfyUI's, with torch 2.5.0 and what was compiled for it; ``told`` are the notes, ``asked`` the proofs."""

    def __init__(self, folder: Path) -> None:
        self.app = make_app(folder / "ComfyUI", "comfyui", version="0.38.1")
        self.root = self.app / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.root)], check=True)
        self.site = next(self.root.glob("lib/python*/site-packages"))
        self.python = str(self.root / "bin" / "python")
        self.proof, self.torch = PROVEN, "2.7.1"
        self.told: list[str] = []
        self.refused: list[Adoption] = []
        self.asked: list[dict[str, Any]] = []
        self.removed: list[str] = []
        for name, version in (("torch", "2.5.0"), ("torchvision", "0.20.0"), ("xformers", "0.0.28")):
            self.put(name, version)

    def note(self, text: str) -> None:
        self.told.append(text)

    def refuse(self, planned: Adoption) -> bool:
        self.refused.append(planned)
        return False

    def put(self, name: str, version: str) -> None:
        for old in self.site.glob(f"{name}-*"):
            shutil.rmtree(old)
        info = self.site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    def plan(self, *_: object, **__: object) -> Plan:
        request = Request(name="torch", version=self.torch, index="https://index.example")
        beside = Request(name="xformers", version="0.0.30")
        runs = Companion(name="xformers", answer="runs", version="0.0.30", why="runs", requests=(beside,))
        return Plan(
            answer="install", torch=self.torch, requests=(request,), companions=(runs,), env={"OMP_NUM_THREADS": "3"}
        )

    def install(self, order: installing.InstallOrder, *_: object) -> Installation:
        self.put("torch", self.torch)
        for companion in order.plan.companions:
            self.put(companion.name, companion.version or "")
        return Installation(python=order.python, packages={"torch": self.torch, "numpy": "2.1.0"})

    def run_logged(self, argv: list[str], *_: object) -> None:
        self.removed += argv[argv.index("--yes") + 1 :]

    def verify(self, **told: Any) -> VerifyReport:
        self.asked.append(told)
        return self.proof

    def adopt(self, **told: Any) -> Adoption:
        return api.adopt(self.app, progress=self, workspace=self.app.parent / "ws", **told)

    def state(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(self.app.rglob("*")) if path.is_file()}


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    made = Environment(tmp_path)
    monkeypatch.setattr(adopt_forecast, "this_machine", lambda: None)
    monkeypatch.setattr(adopt_forecast, "make_plan", made.plan)
    monkeypatch.setattr(adopting, "look_for_network", lambda places: None)
    monkeypatch.setattr(adopting, "verify", made.verify)
    package = Package(name="torch", version="2.7.1", bytes=7)
    monkeypatch.setattr(installing, "foresee", lambda *_, **__: ((package,),))
    monkeypatch.setattr(installing, "install", made.install)
    monkeypatch.setattr(installing, "run_logged", made.run_logged)
    return made


def test_nothing_is_done_without_a_yes_and_the_question_tells_all(env: Environment) -> None:
    before = env.state()
    with pytest.raises(Declined, match=r"ComfyUI .*needs a yes for torch 2\.7\.1"):
        env.adopt(confirm=env.refuse)
    for planned in (*env.refused, env.adopt(dry_run=True)):
        assert (planned.state, planned.torch, planned.before, planned.undo) == ("planned", "2.7.1", "2.5.0", None)
        assert {(one.name, one.from_, one.to) for one in planned.changes} == {
            ("torch", "2.5.0", "2.7.1"),
            ("torchvision", "0.20.0", None),
            ("xformers", "0.0.28", "0.0.30"),
        }
        assert any(file.endswith("constraints.txt") for file in planned.files) and planned.env
    assert env.state() == before and env.asked == []


def test_adopted_kept_and_given_back(env: Environment) -> None:
    before = env.state()
    done = env.adopt()
    assert (done.state, done.before, done.torch, done.verification) == ("adopted", "2.5.0", "2.7.1", PROVEN)
    assert "runs torch 2.7.1 on this machine" in done.verdict and (done.undo or "").endswith(" --undo")
    assert done.next == (f"rekindle guard --python {env.python}", done.undo)
    assert env.removed == ["torchvision"], "nothing was published for the new torch"
    (proof,) = env.asked
    assert (proof["python"], proof["level"], proof["companions"]) == (env.python, "smoke", ("xformers",))
    kept = (env.root / "rekindle" / "constraints.txt").read_text()
    assert "torch==2.7.1" in kept and "xformers==0.0.30" in kept and "numpy" not in kept
    assert json.loads((env.root / "rekindle" / "adopted.json").read_text())["env"]["OMP_NUM_THREADS"] == "3"
    again = env.adopt()
    assert (again.state, again.undo, again.before) == ("already", done.undo, "2.7.1") and len(env.asked) == 1
    assert "keeps torch 2.7.1" in again.verdict and again.files
    env.torch = "2.8.0"
    with pytest.raises(NotReady, match=r"was adopted with torch 2\.7\.1, and 2\.8\.0 would be chosen now"):
        env.adopt()
    for name in ("came-since", "xformers"):
        env.put(name, "9.0")
    with pytest.raises(Declined, match="nothing was undone"):
        env.adopt(undo=True, confirm=env.refuse)
    for planned in (*env.refused, env.adopt(undo=True, dry_run=True)):
        assert planned.state == "planned" and planned.verdict.endswith("go as well: came-since, xformers")
        assert planned.plan is None and planned.before == "2.7.1"
    undone = env.adopt(undo=True)
    assert (undone.state, undone.before, undone.plan) == ("undone", None, None) and env.state() == before
    with pytest.raises(BadInput, match="nothing is adopted"):
        env.adopt(undo=True)


def test_a_torch_that_was_replaced_is_adopted_again_and_the_first_state_is_what_an_undo_brings(
    env: Environment,
) -> None:
    before = env.state()
    env.adopt()
    env.put("torch", "2.6.0")
    assert env.adopt().state == "adopted" and len(env.asked) == 2 and any("torch" in note for note in env.told)
    assert env.adopt().state == "already"
    env.put("torch", "2.6.0")
    env.proof = VerifyReport(verdict="failed", failed=1)
    assert env.adopt().state == "not-proven"
    assert (env.site / "torch-2.6.0.dist-info").is_dir(), "as it was before the last one"
    env.adopt(undo=True)
    assert env.state() == before


def test_what_is_not_proven_is_put_back(env: Environment) -> None:
    before = env.state()
    env.proof = VerifyReport(verdict="failed", failed=1)
    done = env.adopt()
    assert (done.state, done.undo, done.verification) == ("not-proven", None, env.proof) and not done.good
    assert "so it is as it was" in done.verdict and env.state() == before


def test_an_adoption_that_was_cut_short_is_put_back_by_the_next_run_that_may(env: Environment) -> None:
    before = env.state()
    kept_environments(env.root)[0].keep()
    env.put("torch", "half")
    env.adopt(dry_run=True)
    assert (env.site / "torch-half.dist-info").is_dir(), "a dry run changes nothing"
    with pytest.raises(Declined):
        env.adopt(confirm=lambda _: False)
    assert env.state() == before and any("an earlier adoption was cut short" in note for note in env.told)


def test_an_undo_that_was_cut_short_between_its_renames_is_finished(env: Environment) -> None:
    before = env.state()
    kept = kept_environments(env.root)[0]
    kept.keep()
    kept.write(ChangeRecord(phase="restoring"))
    env.root.rename(kept.folder / "changed")
    with pytest.raises(BadInput, match="has no Python yet"):
        env.adopt(dry_run=True)
    with pytest.raises(Declined):
        env.adopt(confirm=lambda _: False)
    assert env.state() == before and any("putting an environment back was cut short" in note for note in env.told)


def test_a_torch_that_is_grafted_takes_the_place_of_the_official_one(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    outline = GraftOutline(wheel="torch 2.7.1+cu126", archs=("sm_61",), toolkit="12.6")
    usual = env.plan

    def plan(*words: object, **more: object) -> Plan:
        return msgspec.structs.replace(usual(*words, **more), answer="graft", cuda="12.6", graft=outline)

    monkeypatch.setattr(adopt_forecast, "make_plan", plan)
    checked: list[tuple[GraftOutline, str | None]] = []
    monkeypatch.setattr(adopting, "check_graft", lambda outline, cuda: checked.append((outline, cuda)))
    grafted = Request(name="torch", url="/w/torch-2.7.1.whl")
    told: list[UpOptions] = []

    def graft(walk: object, plan: Plan, requests: object, options: UpOptions) -> tuple[Path, tuple[Request, ...]]:
        told.append(options)
        return Path("/w/torch-2.7.1.whl"), (grafted,)

    monkeypatch.setattr(adopting, "graft_requests", graft)
    foreseen: list[tuple[object, dict[str, Any]]] = []

    def foresee(order: object, requests: object, **more: Any) -> tuple[tuple[Package, ...], ...]:
        foreseen.append((requests, more))
        return ((),)

    monkeypatch.setattr(installing, "foresee", foresee)
    env.adopt(dry_run=True)
    assert checked == [] and told == [], "a dry run asks for no toolkit"
    done = env.adopt(find_links=["/here"], offline=True)
    assert done.state == "adopted" and checked == [(outline, "12.6")]
    assert [(one.find_links, one.offline) for one in told] == [(("/here",), True)]
    assert foreseen[-1] == ((grafted,), {"fresh": False, "substituted": False})


def test_an_application_that_runs_is_left_alone(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    before = env.state()
    running = [Proc(number, 1, f"main-{number}", 0.0, 0) for number in (11, 12, 13, 14)]
    monkeypatch.setattr(adopt_forecast, "processes_of", lambda root: running if root == env.root else [])
    with pytest.raises(NotReady, match="ComfyUI is running: ") as refused:
        env.adopt()
    said = "main-11 (process 11), main-12 (process 12), main-13 (process 13)"
    assert refused.value.message.endswith(said) and "close it" in (refused.value.remedy or "")
    assert env.adopt(dry_run=True).state == "planned" and env.state() == before


def test_of_the_companions_only_those_that_are_there_and_have_a_wheel_are_exchanged(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    env.put("bitsandbytes", "0.40")
    usual, brought = env.plan, env.install
    ordered: list[str] = []

    def plan(*words: object, **more: object) -> Plan:
        made = usual(*words, **more)
        request = Request(name="deepspeed", version="0.15")
        new = Companion(name="deepspeed", answer="runs", version="0.15", why="runs", requests=(request,))
        stays = Companion(name="bitsandbytes", answer="none", why="nothing was published")
        return msgspec.structs.replace(made, companions=(*made.companions, new, stays))

    def install(order: installing.InstallOrder, *words: object) -> Installation:
        ordered.extend(companion.name for companion in order.plan.companions)
        return brought(order, *words)

    monkeypatch.setattr(adopt_forecast, "make_plan", plan)
    monkeypatch.setattr(installing, "install", install)
    assert env.adopt().state == "adopted" and ordered == ["xformers"]
