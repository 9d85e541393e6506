"""The swap itself: from the yes to the proof, with the environment as it was kept until then."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rekindle.api.verify import verify
from rekindle.host.files import write_atomically
from rekindle.host.workspace import Workspace
from rekindle.interpreters.installer import pip_of
from rekindle.interpreters.packages import Contents, ask_contents, package_places
from rekindle.journey import install as installing
from rekindle.journey.adopt_forecast import SwapForecast, comes
from rekindle.journey.adopt_place import kept_environments
from rekindle.journey.keeping import Keeping, app_files, environment_files
from rekindle.journey.walk import Walk, Within
from rekindle.model.document import encode
from rekindle.model.guard import pinned
from rekindle.model.journey import Package
from rekindle.model.plan import Plan, Request, pip_arguments
from rekindle.model.progress import Progress
from rekindle.model.up_options import UpOptions
from rekindle.model.verify import VerifyReport
from rekindle.verify.target import provable

# What each group of requests would bring; None for one of which the installer cannot tell.
Foreseen = tuple[tuple[Package, ...] | None, ...]


@dataclass(frozen=True, kw_only=True)
class SwapOutcome:
    """The proof, what is kept (``pins``), and the ``files`` that keep it so."""

    proof: VerifyReport
    pins: Mapping[str, str]
    files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Swap:
    """``moves`` are folders of extensions that are switched off; ``undo_line`` is what takes all of it back."""

    forecast: SwapForecast
    root: Path
    workspace: Workspace
    progress: Progress
    undo_line: str
    moves: tuple[tuple[str, str], ...]

    @property
    def plan(self) -> Plan:
        return self.forecast.plan

    @property
    def python(self) -> str:
        return self.forecast.interpreter.path

    def run(self, foreseen: Foreseen) -> SwapOutcome:
        """Keep, swap, prove. The first adoption's copy stays until its undo, a later one's until its proof."""
        first, again = kept_environments(self.root)
        before = first.record
        kept = first if before is None else again
        requests = self.forecast.requests
        if self.plan.graft is not None:
            requests = self._graft()
            foreseen = installing.foresee(
                self.forecast.host, self.python, requests, self.forecast.installer, fresh=False, substituted=False
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
            texts |= app_files(self.forecast.found, keeping, words, self.forecast.host.system)
            kept.change_files(texts, self.moves)
            proof = self._prove()
            if not proof.good:
                kept.restore()
                return SwapOutcome(proof=proof, pins={}, files=())
            notes = {"pins": json.dumps(dict(keeping.pins)), "packages": json.dumps(self._now().versions)}
        first.settle(notes, again)
        return SwapOutcome(proof=proof, pins=keeping.pins, files=tuple(map(str, texts)))

    def _graft(self) -> tuple[Request, ...]:
        from rekindle.journey.grafting import graft_requests  # needs NumPy, which the other ways do without

        options = UpOptions(find_links=self.forecast.options.find_links, offline=self.forecast.options.offline)
        walk = Walk(self.workspace, self.progress)
        how = (options, Within(self.progress))
        return graft_requests(walk, self.workspace, self.plan, self.forecast.requests, *how)[1]

    def _now(self) -> Contents:
        return ask_contents(self.forecast.host, self.python, files=True)

    def _install(self, requests: tuple[Request, ...], foreseen: Foreseen) -> Keeping:
        """Take out what cannot stay, put in what was foreseen, and say what is to be kept of it."""
        self.progress.stage("swap", f"into {self.python}")
        host = self.forecast.host
        if goes := list(self.forecast.goes):
            argv = [*pip_of(host, self.python), "uninstall", "--yes", *goes]
            installing.run_logged(argv, self.workspace.new_log("adopt"), self.progress)
        how = (self.workspace, Within(self.progress), self.forecast.installer)
        installed = installing.install(host, self.python, self.plan, requests, foreseen, *how)
        beside = self.forecast.beside
        staying = [one for one in self.plan.companions if one.name in beside and comes(one)]
        plan = msgspec.structs.replace(self.plan, companions=tuple(staying))
        installed = installing.install_companions(host, self.python, plan, requests, installed, *how)
        now = self._now()
        pins = pinned(requests, installed.packages)
        pins |= {name: now.versions[name] for one in staying if (name := beside[one.name]) in now.versions}
        return Keeping(
            root=self.root,
            site=package_places(host, self.python)[0],
            pins=pins,
            contents={one.name.lower(): one.contents for one in now.packages if one.name.lower() in pins},
            env=self.plan.env,
            undo=self.undo_line,
        )

    def _prove(self) -> VerifyReport:
        self.progress.stage("prove", f"does it really work there? ({self.forecast.options.level})")
        file = self.workspace.reports / "adopted-plan.json"
        write_atomically(file, encode(self.plan))
        there = self._now().versions
        names = [one.name for one in self.plan.companions if comes(one) and self.forecast.beside.get(one.name) in there]
        return verify(
            python=self.python,
            level=self.forecast.options.level,
            plan=file,
            beside=tuple(provable(names)),
            progress=Within(self.progress),
        )
