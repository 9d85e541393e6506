"""The swap itself: from the yes to the proof, with the environment as it was kept until then; and the environment that
may be changed so: the application's own, writable, used by no program now, with no change of it cut short."""

import functools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rekindle.api.verify import verify
from rekindle.errors import NotReady
from rekindle.facts import Facts
from rekindle.host.files import write_atomically
from rekindle.host.processes import processes_of
from rekindle.host.workspace import Workspace, workspace_at
from rekindle.interpreters.app_folder import AppFolder
from rekindle.interpreters.installer import pip_of
from rekindle.interpreters.kept_places import KeptPlaces
from rekindle.interpreters.packages import Contents, ask_contents, package_places
from rekindle.journey import install as installing
from rekindle.journey.adopt_forecast import SwapForecast
from rekindle.journey.install import Foreseen
from rekindle.journey.keeping import Keeping, app_files, environment_files
from rekindle.journey.walk import Walk, Within
from rekindle.model.document import encode
from rekindle.model.guard import pinned
from rekindle.model.interpreter import Interpreter
from rekindle.model.journey import UpOptions
from rekindle.model.plan import Request, pip_arguments
from rekindle.model.progress import Progress
from rekindle.model.verify import VerifyReport
from rekindle.scripts.quoting import pasted
from rekindle.verify.target import provable


@dataclass(frozen=True, kw_only=True)
class Swap(SwapForecast):
    """What was forecast, carried out in the environment ``root``."""

    root: Path
    progress: Progress

    @property
    def line(self) -> str:
        return f"rekindle adopt {pasted(str(self.options.folder.absolute()))}"

    @functools.cached_property
    def workspace(self) -> Workspace:
        return workspace_at(self.options.workspace)

    def swap(self, foreseen: Foreseen, moves: Sequence[tuple[str, str]]) -> tuple[VerifyReport, Mapping[Path, object]]:
        """Keep, swap, prove: the proof, and the files that keep it so. The first adoption's copy stays until its undo,
        a later one's until its proof. ``moves`` are folders of extensions that are switched off."""
        first, again = kept_environments(self.root)
        before = first.record
        kept = first if before is None else again
        requests = self.requests
        if self.plan.graft is not None:
            requests = self._graft()
            foreseen = installing.foresee(
                self.host, self.python, requests, self.installer, fresh=False, substituted=False
            )
        self.progress.stage("keep", f"the environment as it is, in {kept.folder}")
        with kept.changing():
            if before is not None:
                # What was appended to somebody's settings is appended to them as they were.
                kept.note_files(map(Path, before.files))
                first.put_files_back()
            keeping = self._install(requests, foreseen)
            texts: dict[Path, str | bytes] = {**environment_files(keeping)}
            words = next((words for words in pip_arguments(requests) if "torch" in words[0]), ())
            texts |= app_files(self.found, keeping, words, self.host.system)
            kept.change_files(texts, moves)
            proof = self._prove()
            if not proof.good:
                kept.restore()
                return proof, {}
            notes = {"pins": json.dumps(dict(keeping.pins)), "packages": json.dumps(self._contents_now().versions)}
        first.settle(notes, again)
        return proof, texts

    def _graft(self) -> tuple[Request, ...]:
        from rekindle.journey.grafting import graft_requests  # needs NumPy, which the other ways do without

        options = UpOptions(find_links=self.options.find_links, offline=self.options.offline)
        return graft_requests(Walk(self.workspace, self.progress), self.plan, self.requests, options)[1]

    def _contents_now(self) -> Contents:
        return ask_contents(self.host, self.python, files=True)

    def _install(self, requests: tuple[Request, ...], foreseen: Foreseen) -> Keeping:
        """Take out what cannot stay, put in what was foreseen, and say what is to be kept of it."""
        self.progress.stage("swap", f"into {self.python}")
        host, beside = self.host, self.beside
        if goes := list(self.goes):
            argv = [*pip_of(host, self.python), "uninstall", "--yes", *goes]
            installing.run_logged(argv, self.workspace.new_log("adopt"), self.progress)
        how = (self.workspace, Within(self.progress), self.installer)
        installed = installing.install(host, self.python, self.plan, requests, foreseen, *how)
        staying = [companion for companion in self.plan.companions if companion.comes and companion.name in beside]
        plan = msgspec.structs.replace(self.plan, companions=tuple(staying))
        installed = installing.install_companions(host, self.python, plan, requests, installed, *how)
        now = self._contents_now()
        pins = pinned(requests, installed.packages)
        pins |= {name: now.versions[name] for companion in staying if (name := beside[companion.name]) in now.versions}
        return Keeping(
            root=self.root,
            site=package_places(host, self.python)[0],
            pins=pins,
            contents={package.name.lower(): package.contents for package in now.packages},
            env=self.plan.env,
            undo=f"{self.line} --undo",
        )

    def _prove(self) -> VerifyReport:
        self.progress.stage("prove", f"does it really work there? ({self.options.level})")
        file = self.workspace.reports / "adopted-plan.json"
        write_atomically(file, encode(self.plan))
        there = self._contents_now().versions
        names = [each.name for each in self.plan.companions if each.comes and self.beside.get(each.name) in there]
        return verify(
            python=self.python,
            level=self.options.level,
            plan=file,
            beside=tuple(provable(names)),
            progress=Within(self.progress),
        )


def kept_environments(root: Path) -> tuple[KeptPlaces, KeptPlaces]:
    """As it was before its first adoption, kept until ``--undo``; and before one that follows, kept until its proof."""
    return KeptPlaces((root,)), KeptPlaces((root,), "-again")


def recover_environment(root: Path) -> bool:
    """Put it back where a change was cut short, the latest first; did that need doing?"""
    first, again = kept_environments(root)
    return any([again.recover(), first.recover()])


def finish_restoring(folder: Path, facts: Facts) -> bool:
    """Killed between its two renames, an undo left no environment by which an application could be recognised: the one
    that was kept takes its place. Was there one?"""
    places = {
        Path(os.path.normpath(folder / inside / python))
        for app in facts.apps.app.values()
        for inside in (".", *app.inside)
        for python in (".", *app.pythons)
    }
    return any([recover_environment(place) for place in places if not place.exists()])


def own_root(interpreter: Interpreter, app_folder: AppFolder) -> Path:
    """The environment as a folder that is the application's own; refused where it is the system's or ours."""
    root = Path(interpreter.prefix or "")
    inside = root.is_relative_to(app_folder.root) or root.is_relative_to(app_folder.root.parent)
    alone = (root / "pyvenv.cfg").is_file() or (root / "conda-meta").is_dir() or any(root.glob("python*._pth"))
    if not interpreter.prefix or not (alone or inside) or interpreter.externally_managed:
        raise NotReady(
            f"{interpreter.path} belongs to the system, not to {app_folder.app.title}",
            remedy="give the application an environment of its own (python3 -m venv venv in its folder), start its"
            " installer once, and adopt that",
        )
    if root == Path(sys.prefix):
        raise NotReady(
            f"this Rekindle runs inside the environment of {app_folder.app.title}, which is about to be exchanged",
            remedy="install Rekindle elsewhere (pipx install . in its clone) and run the same command again",
        )
    return root


def refuse_unwritable(root: Path) -> None:
    """A swap that could not be carried out, or not be taken back, is not begun."""
    for place in (root, root.parent):
        if not os.access(place, os.W_OK):
            raise NotReady(
                f"{place} may not be written by you",
                remedy="run this as the user whom the application belongs to, or move it to a folder of yours",
            )


def refuse_running(root: Path, app_folder: AppFolder) -> None:
    """A program that runs holds the old torch, and writes into what is being exchanged."""
    running = processes_of(root)
    if running:
        names = ", ".join(f"{process.name} (process {process.pid})" for process in running[:3])
        raise NotReady(f"{app_folder.app.title} is running: {names}", remedy="close it and run the same command again")
