"""What an installer is told to bring, by digest and by place, and what is made of what it left behind."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import needs
from bare_host import BareHost
from rekindle.errors import CommandFailed, StageFailed
from rekindle.host.files import sha256_of
from rekindle.host.made import MARK
from rekindle.host.workspace import Workspace
from rekindle.interpreters.installer import SLOW_INDEX, Installer
from rekindle.interpreters.packages import Contents
from rekindle.journey import install as installing
from rekindle.journey.install import InstallOrder, install, own_environment, run_logged
from rekindle.model.guard import PackageRecord
from rekindle.model.journey import Installation, Package
from rekindle.model.plan import Companion, Plan, Request
from rekindle.model.progress import Progress, Silent
from tiny_wheels import make_wheel

A, B = "a1" * 32, "b2" * 32
INDEX = "https://example.org/cpu"
TORCH = Request(name="torch", version="2.7.1+cpu", index=INDEX)
PLAN = Plan(answer="install", torch="2.7.1", variant="cpu")


class Heard(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[tuple[float, str]] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        self.steps.append((done, detail))


def holding(**packages: str) -> Contents:
    """An environment with these packages; torch says of itself what its package does."""
    rows = tuple(PackageRecord(name=name, version=version) for name, version in packages.items())
    own = {"__version__": packages["torch"], "cuda": None, "hip": None} if "torch" in packages else None
    return Contents(packages=rows, torch=own)


class Pip:
    """Stands in for the installer: ``calls`` are its words, each file of requirements in place of its name."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[list[str]] = []
        self.before, self.after = holding(), holding(torch="2.7.1+cpu", numpy="2.1")
        self.workspace = Workspace(folder / "w")
        monkeypatch.setattr(installing, "look_into", lambda *_: self.after if self.calls else self.before)
        monkeypatch.setattr(installing, "run_logged", self.run)

    def run(self, argv: Sequence[str], log: Path, progress: object) -> None:
        words = list(argv[argv.index("install") + 1 :])
        if "-r" in words:
            place = words.index("-r") + 1
            words[place] = Path(words[place]).read_text("utf-8")
        self.calls.append([word for word in words if word not in ("--no-input", "--disable-pip-version-check")])

    def install(
        self,
        requests: tuple[Request, ...],
        *foreseen: tuple[Package, ...] | None,
        plan: Plan = PLAN,
        progress: Progress | None = None,
        **more: Any,
    ) -> Installation:
        order = InstallOrder(
            host=BareHost(),
            python=sys.executable,
            plan=plan,
            workspace=self.workspace,
            progress=progress or Silent(),
            installer=Installer(**more),
        )
        return install(order, requests, foreseen)


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pip:
    return Pip(tmp_path, monkeypatch)


FORESEEN = (
    Package(name="torch", version="2.7.1+cpu", sha256=A),
    Package(name="numpy", version="2.1", sha256=B),
)


def test_what_was_foreseen_is_installed_by_its_digests(pip: Pip) -> None:
    made = pip.install((TORCH,), FORESEEN)
    listed = f"torch===2.7.1+cpu --hash=sha256:{A}\nnumpy===2.1 --hash=sha256:{B}\n"
    assert pip.calls == [["--no-deps", "--require-hashes", "-r", listed, "--index-url", INDEX]]
    assert (made.packages, made.told) == ({"torch": "2.7.1+cpu", "numpy": "2.1"}, FORESEEN)
    assert (made.python, made.wheel_sha256, made.fingerprint) == (sys.executable, A, pip.after.fingerprint)
    assert Path(made.log or "").parent == pip.workspace.root / "logs"


def test_uv_gets_the_same_in_its_own_words(pip: Pip) -> None:
    pip.install((TORCH,), FORESEEN, uv="/opt/uv")
    (words,) = pip.calls
    assert f"torch==2.7.1+cpu --hash=sha256:{A}\nnumpy==2.1 --hash=sha256:{B}\n" in words


def test_what_has_no_digest_is_pinned_by_its_version(pip: Pip) -> None:
    bare = (FORESEEN[0], Package(name="numpy", version="2.1"))
    made = pip.install((TORCH,), bare)
    assert pip.calls == [["--no-deps", "torch===2.7.1+cpu", "numpy===2.1", "--index-url", INDEX]]
    assert made.wheel_sha256 == A


def test_what_is_there_already_is_not_brought_again(pip: Pip) -> None:
    pip.before = holding(torch="2.7.1+cpu", numpy="2.1")
    made = pip.install((TORCH,), ())
    assert pip.calls == [] and made.packages == pip.before.versions and made.told == ()


def test_a_pip_that_foretold_nothing_is_asked_for_the_build_itself(pip: Pip) -> None:
    made = pip.install((TORCH,), None)
    assert pip.calls == [["torch==2.7.1+cpu", "--index-url", INDEX]]
    assert made.told is None and made.wheel_sha256 is None


def test_each_index_is_asked_by_itself_and_its_last_word_counts(pip: Pip) -> None:
    limit = Request(name="numpy", specifier="<2.2")
    newer = Package(name="numpy", version="2.9", sha256=B)
    made = pip.install((TORCH, limit), (FORESEEN[0], newer), (FORESEEN[1],))
    assert [words[-2:] == ["--index-url", INDEX] for words in pip.calls] == [True, False]
    assert made.told == (FORESEEN[0], FORESEEN[1]), "the limit came last"


@pytest.mark.parametrize(("uv", "again"), [(None, "--force-reinstall"), ("/opt/uv", "--reinstall")])
def test_a_wheel_of_ours_goes_in_over_whatever_bears_its_name(
    uv: str | None, again: str, pip: Pip, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path / "my wheels", "torch", "2.7.1+cpu")
    ours = Request(name="torch", url=str(wheel))
    elsewhere = Package(name="torch", version="2.7.1+cpu", sha256=A)
    made = pip.install((ours,), (elsewhere, FORESEEN[1]), uv=uv)
    digest = sha256_of(wheel)
    brought = f"torch @ {wheel.as_uri()} --hash=sha256:{digest}\n"
    words = [words for words in pip.calls if brought in words]
    assert [again in each and "--require-hashes" in each and "--no-deps" in each for each in words] == [True]
    others = [words for words in pip.calls if brought not in words]
    assert len(others) == 1 and not any("torch" in word for word in others[0]), "it is taken from nowhere else"
    assert made.wheel_sha256 == digest
    assert made.told and [row.sha256 for row in made.told if row.name == "torch"] == [digest]


def test_a_wheel_of_ours_alone_needs_no_other_call(pip: Pip, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "torch", "2.7.1+cpu")
    pip.before = holding(numpy="2.1")
    pip.install((Request(name="torch", url=str(wheel)),), ())
    assert len(pip.calls) == 1


def test_what_is_not_as_planned_is_no_install_and_at_most_four_reasons_are_told(pip: Pip) -> None:
    pip.after = holding(torch="2.7.1+cpu", numpy="2.1", a="1", b="1", c="1", d="1", e="1")
    with pytest.raises(StageFailed, match="what was installed is not what was planned: ") as stopped:
        pip.install((TORCH,), FORESEEN)
    assert stopped.value.message.count("came without being announced") == 4
    assert "nothing is kept of this; the whole log: " in (stopped.value.remedy or "")


def test_a_companion_that_replaced_the_torch_is_refused(pip: Pip) -> None:
    beside = Companion(
        name="xformers", answer="runs", version="1.0", why="", requests=(Request(name="xformers", version="1.0"),)
    )
    plan = Plan(answer="install", torch="2.7.1", variant="cpu", companions=(beside,))
    found = iter([holding(), holding(torch="2.7.1+cpu", numpy="2.1"), holding(torch="2.9.0", numpy="2.1")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(installing, "look_into", lambda *_: next(found))
        with pytest.raises(
            StageFailed, match="a companion replaced torch, though its constraints forbid it"
        ) as stopped:
            pip.install((TORCH,), FORESEEN, plan=plan)
    assert "without --with the torch stays as planned" in (stopped.value.remedy or "")


def test_without_companions_and_with_numpy_nothing_more_is_asked(pip: Pip) -> None:
    pip.install((TORCH,), FORESEEN)
    assert len(pip.calls) == 1
    pip.calls.clear()
    pip.after = holding(torch="2.7.1+cpu")
    pip.install((TORCH,), FORESEEN[:1])
    assert pip.calls[1][2:] == ["numpy", "--index-url", INDEX], "without NumPy torch warns"


def test_a_slow_index_is_told_and_tried_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_DEFAULT_TIMEOUT", "UV_HTTP_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    code = "import os, sys; print('Collecting torch'); print('Read timed out.'); sys.exit(3)"
    heard, log = Heard(), tmp_path / "install.log"
    with pytest.raises(CommandFailed) as stopped:
        run_logged([sys.executable, "-c", code], log, heard)
    assert heard.notes == [SLOW_INDEX] and [detail for _, detail in heard.steps] == ["Collecting torch"] * 2
    said = log.read_text("utf-8").splitlines()
    assert said[0].startswith("$ ") and said.count("Read timed out.") == 2 and f"# {SLOW_INDEX}" in said
    assert "waits longer" in (stopped.value.remedy or "") and str(log) in (stopped.value.remedy or "")


def test_what_pip_does_is_told_step_by_step(tmp_path: Path) -> None:
    lines = ("Collecting a", "  Downloading b", "Downloading c", "Installing d", "Requirement e", " Collecting f")
    heard = Heard()
    run_logged([sys.executable, "-c", f"print(*{lines!r}, sep='\\n')"], tmp_path / "log", heard)
    assert heard.steps == [(1, "Collecting a"), (2, "Downloading b"), (3, "Downloading c"), (4, "Installing d")]
    assert heard.notes == []


@needs.posix("a stand-in for uv is a script of the shell")
def test_an_environment_of_ours_bears_our_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\nfor last; do :; done\ncase "$last" in *refused) exit 3;; esac\nmkdir "$last"\n')
    uv.chmod(0o755)
    own_environment(Installer(uv=str(uv)), sys.executable, tmp_path / "env", tmp_path / "log")
    assert (tmp_path / "env" / MARK).read_text().startswith("environment, made by rekindle")
    with pytest.raises(CommandFailed):
        own_environment(Installer(uv=str(uv)), sys.executable, tmp_path / "refused", tmp_path / "log")
    assert not (tmp_path / "refused").exists()


def test_companions_come_from_their_own_places_under_the_limits_of_the_torch(pip: Pip) -> None:
    def companion(name: str, answer: str, **more: Any) -> Companion:
        requests = (Request(name=name, version="1.0", **more),) if answer == "runs" else ()
        return Companion(name=name, answer=answer, version="1.0", why=f"{name}: why", requests=requests)  # type: ignore[arg-type]

    plan = Plan(
        answer="install",
        torch="2.7.1",
        variant="cpu",
        companions=(
            companion("xformers", "runs", index="https://x.example"),
            companion("torch-scatter", "runs", links="https://pyg.example/page.html"),
            companion("flash-attn", "none"),
        ),
    )
    heard = Heard()
    made = pip.install((TORCH,), FORESEEN, plan=plan, progress=heard)
    limits = [Path(words[words.index("-c") + 1]).read_text("utf-8") for words in pip.calls[1:]]
    assert all("torch==2.7.1+cpu" in text for text in limits) and len(limits) == 2
    assert [words[words.index("-c") + 2 :] for words in pip.calls[1:]] == [
        ["xformers==1.0", "--extra-index-url", "https://x.example"],
        ["torch-scatter==1.0", "-f", "https://pyg.example/page.html"],
    ]
    assert heard.notes == ["flash-attn is not installed (none): flash-attn: why"]
    assert made.packages == pip.after.versions and made.fingerprint == pip.after.fingerprint


def test_the_digest_is_that_of_the_planned_torch_and_of_no_other_package(pip: Pip) -> None:
    made = pip.install((TORCH,), (FORESEEN[1], FORESEEN[0]))
    assert made.wheel_sha256 == A


def test_a_wheel_of_ours_was_asked_for(pip: Pip, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "torch", "2.7.1+cpu")
    made = pip.install((Request(name="torch", url=str(wheel)),), (FORESEEN[1],))
    assert made.told is not None and {row.name: row.asked for row in made.told} == {"numpy": False, "torch": True}
