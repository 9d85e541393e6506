"""``adopt``: the torch inside an application's own Python, swapped for the one that fits the machine, proved there,
kept there, and taken back on a word.

The environment as it was is kept whole beside it (links, so that nothing is fetched or copied) until ``--undo``; what
is cut short or not proven is put back. A second call is quick where all is as it was left.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rekindle.api.guard_torch import guard
from rekindle.api.plan import plan as make_plan
from rekindle.api.plan import this_machine
from rekindle.api.verify import verify
from rekindle.errors import BadInput, NotReady
from rekindle.facts import Facts, load_facts
from rekindle.host.files import write_atomically
from rekindle.host.live import LiveHost
from rekindle.host.processes import processes_of
from rekindle.host.workspace import Workspace, workspace_at
from rekindle.interpreters.app_folder import AppFolder, extension_files, find_app
from rekindle.interpreters.installer import Installer, choose_installer, pip_of
from rekindle.interpreters.kept_environment import EnvironmentRecord, KeptEnvironment
from rekindle.interpreters.packages import Contents, PackageSnapshot, ask_contents, package_places
from rekindle.interpreters.search import ask_interpreter
from rekindle.journey import install as installing
from rekindle.journey.adopt_forecast import SwapForecast, comes, companions_there
from rekindle.journey.card import look_for_network, make_card, refuse_hopeless, refuse_small_temporary
from rekindle.journey.keeping import Keeping, app_files, environment_files
from rekindle.journey.target import InstallTarget
from rekindle.journey.walk import Within
from rekindle.model.adopt import Adoption, AdoptOptions
from rekindle.model.document import encode
from rekindle.model.guard import pinned
from rekindle.model.interpreter import Interpreter
from rekindle.model.journey import Card, Package
from rekindle.model.plan import Plan, Request, Wish, pip_arguments
from rekindle.model.progress import Progress
from rekindle.model.verify import VerifyReport
from rekindle.model.version import same_prefix
from rekindle.render.summary import summarise_plan, summarise_proof
from rekindle.scripts.quoting import pasted
from rekindle.verify.target import provable

# The account of what a yes would do, shown before the question.
Confirm = Callable[[Adoption], bool]


def run_adopt(options: AdoptOptions, progress: Progress, confirm: Confirm) -> Adoption:
    """Recognise, plan, ask, swap, prove, keep; or undo."""
    facts = load_facts()
    if not options.dry_run and finish_restoring(options.folder.expanduser().absolute(), facts):
        progress.note("putting an environment back was cut short: it is as it was before its adoption")
    found = find_app(options.folder, facts)
    python = options.python or (str(found.python) if found.python else None)
    if python is None:
        places = ", ".join(found.app.pythons)
        raise BadInput(
            f"{found.words} in {found.root} has no Python yet (looked for {places})",
            remedy="run its own installer once, or name its interpreter with --python EXE; of a container: inside it",
        )
    progress.stage("recognise", f"{found.words} with {python}")
    host = LiveHost()
    interpreter = ask_interpreter(host, python)
    root = own_root(interpreter, found)
    kept = KeptEnvironment(root)
    adopting = _Adopting(
        options=options, found=found, interpreter=interpreter, kept=kept, progress=progress, confirm=confirm
    )
    if options.undo:
        return adopting.undo()
    refuse_unwritable(root)
    if not options.dry_run:
        refuse_running(root, found)
        if kept.recover():
            progress.note("an earlier adoption was cut short: the environment is as it was before it")
    return adopting.run()


def finish_restoring(folder: Path, facts: Facts) -> bool:
    """Killed between its two renames, an undo left no environment by which an application could be recognised: the one
    that was kept takes its place. Was there one?"""
    places = {
        Path(os.path.normpath(folder / inside / python))
        for app in facts.apps.app.values()
        for inside in (".", *app.inside)
        for python in (".", *app.pythons)
    }
    cut_short = [kept for kept in map(KeptEnvironment, places) if not kept.root.exists() and kept.record is not None]
    for kept in cut_short:
        kept.restore()
    return bool(cut_short)


def own_root(interpreter: Interpreter, found: AppFolder) -> Path:
    """The environment as a folder that is the application's own; refused where it is the system's or ours."""
    root = Path(interpreter.prefix or "")
    inside = root.is_relative_to(found.root) or root.is_relative_to(found.root.parent)
    alone = (root / "pyvenv.cfg").is_file() or (root / "conda-meta").is_dir() or any(root.glob("python*._pth"))
    if not interpreter.prefix or not (alone or inside) or interpreter.externally_managed:
        raise NotReady(
            f"{interpreter.path} belongs to the system, not to {found.app.title}",
            remedy="give the application an environment of its own (python3 -m venv venv in its folder), start its"
            " installer once, and adopt that",
        )
    if root == Path(sys.prefix):
        raise NotReady(
            f"this rekindle runs inside the environment of {found.app.title}, which is about to be exchanged",
            remedy="install rekindle elsewhere (pipx install rekindle-torch) and run the same command again",
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


def refuse_running(root: Path, found: AppFolder) -> None:
    """A program that runs holds the old torch, and writes into what is being exchanged."""
    running = processes_of(root)
    if running:
        names = ", ".join(f"{process.name} (process {process.pid})" for process in running[:3])
        raise NotReady(f"{found.app.title} is running: {names}", remedy="close it and run the same command again")


@dataclass(kw_only=True)
class _Adopting:
    """One adoption: what its steps share."""

    options: AdoptOptions
    found: AppFolder
    interpreter: Interpreter
    kept: KeptEnvironment
    progress: Progress
    confirm: Confirm

    @property
    def python(self) -> str:
        return self.interpreter.path

    @property
    def undo_line(self) -> str:
        return f"rekindle adopt {pasted(str(self.options.folder.absolute()))} --undo"

    @functools.cached_property
    def host(self) -> LiveHost:
        return LiveHost()

    @functools.cached_property
    def held(self) -> Contents:
        """What the environment holds before anything is done."""
        return ask_contents(self.host, self.python)

    @functools.cached_property
    def beside(self) -> dict[str, str]:
        return companions_there(self.held, self.found)

    @functools.cached_property
    def swap(self) -> SwapForecast:
        return SwapForecast(
            found=self.found,
            interpreter=self.interpreter,
            held=self.held,
            beside=self.beside,
            plan=self.plan,
            requests=self.requests,
        )

    @functools.cached_property
    def plan(self) -> Plan:
        wish = Wish(
            torch=self.options.torch,
            variant=self.options.variant,
            python=self.interpreter.short,
            beside=tuple(self.beside),
        )
        return make_plan(this_machine(), wish, app=self.found.use)

    @functools.cached_property
    def requests(self) -> tuple[Request, ...]:
        return installing.wanted_from(self.plan.requests, index=self.options.index)

    @functools.cached_property
    def installer(self) -> Installer:
        return choose_installer(None, links=self.options.find_links, offline=self.options.offline)

    def run(self) -> Adoption:
        """The whole way, from the plan to the proof."""
        self.progress.stage("plan", f"which torch {self.found.app.title} can use here")
        if (why := self._why_not()) is not None:
            return self._told("no", why, next=self._steps_after_no())
        self.progress.note(summarise_plan(self.plan))
        record = self.kept.record
        if record is not None and (ended := self._adopted_before(record)) is not None:
            return ended
        card, foreseen = self._foresee()
        planned = self._told(
            "planned", f"{self.found.words} would get {self._new_words()}", card=card, files=self._files_in_words()
        )
        if self.options.dry_run:
            return planned
        if not self.confirm(planned):
            raise BadInput(
                f"nothing was done: {self.found.words} needs a yes for {self._new_words()}",
                remedy="answer y, or give --yes where nobody can answer",
            )
        refuse_hopeless(card)
        refuse_small_temporary(card, self.host)
        workspace = workspace_at(self.options.workspace)
        with workspace.lock("adopt", wait=3600.0, say=self.progress.note):
            return self._swap(workspace, card, foreseen, record)

    def _why_not(self) -> str | None:
        """Why nothing is swapped: no wheel for this machine, or another version of the application is needed."""
        plan = self.plan
        moved = next((change for change in plan.changes if change.what == self.found.name), None)
        outside = next((warning for warning in plan.warnings if warning.code == "app-torch-outside"), None)
        if moved is not None or outside is not None:
            return f"not with this version of {self.found.app.title}: {moved.why if moved else outside.text}"  # type: ignore[union-attr]
        if plan.answer == "none":
            return "no torch can run here: " + "; ".join(reason.text for reason in plan.because[:3])
        if plan.answer != "install":
            way = "compiled" if plan.answer == "build" else "grafted"
            return f"torch {plan.torch} would have to be {way} first, and no wheel of it was given"
        return None

    def _steps_after_no(self) -> tuple[str, ...]:
        plan = f"rekindle plan --for {pasted(str(self.options.folder))} --python {self.interpreter.short} -v"
        return (plan, "rekindle up --build") if self.plan.answer in ("build", "graft") else (plan,)

    def _adopted_before(self, record: EnvironmentRecord) -> Adoption | None:
        """The end, where it was adopted and still is so; a refusal where another torch would be chosen today."""
        pins = json.loads(record.notes.get("pins", "{}"))
        torch = next(one for one in self.requests if one.name == "torch")
        if torch.version and not same_prefix(torch.version, pins.get("torch", "0")):
            was = pins.get("torch")
            raise NotReady(
                f"{self.found.words} was adopted with torch {was}, and {torch.version} would be chosen now",
                remedy=f"{self.undo_line}, then adopt it anew; or keep what is there with --torch {was}",
            )
        report = guard(python=self.python)
        if report.good:
            return self._told(
                "already", f"{self.found.words} keeps torch {pins.get('torch')}", files=tuple(record.files)
            )
        for replaced in report.replaced:
            self.progress.note(replaced.why)
        return None

    def _new_words(self) -> str:
        torch = next(one for one in self.requests if one.name == "torch")
        return f"torch {torch.version or self.plan.torch}"

    def _foresee(self) -> tuple[Card, tuple[tuple[Package, ...] | None, ...]]:
        places = self.options.find_links if self.options.offline else installing.index_places(self.requests)
        network = None if self.options.offline else look_for_network(places)
        foreseen: tuple[tuple[Package, ...] | None, ...] = (None,)
        if network is None:
            foreseen = installing.foresee(
                self.host,
                self.python,
                self.requests,
                self.installer,
                fresh=False,
                substituted=self.options.index is not None,
            )
        known = all(group is not None for group in foreseen)
        card = make_card(
            self.plan,
            self.requests,
            tuple(one for group in foreseen for one in group or ()) if known else None,
            InstallTarget(python=self.python, folder=None, exists=True),
            places=places,
            network=network,
            installer=self.installer.name,
        )
        return card, foreseen

    def _swap(
        self,
        workspace: Workspace,
        card: Card,
        foreseen: tuple[tuple[Package, ...] | None, ...],
        before: EnvironmentRecord | None,
    ) -> Adoption:
        """From the yes to the proof. The first adoption keeps the whole environment; later ones only packages."""
        moves = self._moves()
        if before is None:
            self.progress.stage("keep", f"the environment as it is, in {self.kept.folder}")
            self.kept.keep()
            record = EnvironmentRecord(phase="changing")
            undo = self.kept.restore
        else:
            snapshot = PackageSnapshot(package_places(self.host, self.python))
            record, undo = before, snapshot.restore
            self.kept.put_files_back(before)
        try:
            keeping = self._install(workspace, foreseen)
            texts: dict[Path, str | bytes] = {**environment_files(keeping)}
            words = next((words for words in pip_arguments(self.requests) if words[0].startswith("torch")), ())
            texts |= app_files(self.found, keeping, words, self.host.system)
            record = self.kept.change_files(texts, msgspec.structs.replace(record, moved=(*record.moved, *moves)))
            for source, goal in moves:
                Path(source).rename(goal)
            proof = self._prove(workspace)
        except BaseException:
            undo()
            raise
        if not proof.good:
            undo()
            why = f"torch {self.plan.torch} is not proven to work in it, so it is as it was: {summarise_proof(proof)}"
            return self._told("not-proven", f"{self.found.words}: {why}", card=card, verification=proof)
        if before is not None:
            snapshot.forget()
        notes = {"pins": json.dumps(dict(keeping.pins)), "packages": json.dumps(self._now().versions)}
        self.kept.write(msgspec.structs.replace(record, phase="changed", notes=notes))
        return self._told(
            "adopted",
            f"{self.found.words} runs torch {keeping.pins.get('torch')} on this machine: {summarise_proof(proof)}",
            card=card,
            verification=proof,
            files=tuple(str(path) for path in texts),
            next=(f"rekindle guard --python {pasted(self.python)}", self.undo_line),
        )

    def _now(self) -> Contents:
        return ask_contents(self.host, self.python, files=True)

    def _install(self, workspace: Workspace, foreseen: tuple[tuple[Package, ...] | None, ...]) -> Keeping:
        """Take out what cannot stay, put in what was foreseen, and say what is to be kept of it."""
        self.progress.stage("swap", f"into {self.python}")
        if goes := list(self.swap.goes):
            argv = [*pip_of(self.host, self.python), "uninstall", "--yes", *goes]
            installing.run_logged(argv, workspace.new_log("adopt"), self.progress)
        what = (self.host, self.python, self.plan, self.requests)
        how = (workspace, Within(self.progress), self.installer)
        installed = installing.install(*what, foreseen, *how)
        staying = [one for one in self.plan.companions if one.name in self.beside and comes(one)]
        what = (*what[:2], msgspec.structs.replace(self.plan, companions=tuple(staying)), self.requests)
        installed = installing.install_companions(*what, installed, *how)
        now = self._now()
        pins = pinned(self.requests, installed.packages)
        pins |= {name: now.versions[name] for one in staying if (name := self.beside[one.name]) in now.versions}
        return Keeping(
            root=self.kept.root,
            site=package_places(self.host, self.python)[0],
            pins=pins,
            contents={one.name.lower(): one.contents for one in now.packages if one.name.lower() in pins},
            env=self.plan.env,
            undo=self.undo_line,
        )

    def _prove(self, workspace: Workspace) -> VerifyReport:
        self.progress.stage("prove", f"does it really work there? ({self.options.level})")
        file = workspace.reports / "adopted-plan.json"
        write_atomically(file, encode(self.plan))
        there = self._now().versions
        names = [one.name for one in self.plan.companions if comes(one) and self.beside.get(one.name) in there]
        return verify(
            python=self.python,
            level=self.options.level,
            plan=file,
            beside=tuple(provable(names)),
            progress=Within(self.progress),
        )

    def _moves(self) -> tuple[tuple[str, str], ...]:
        """The folders of extensions that are to be left out, and their names when the application passes them over."""
        known = {name: file.parent for name, file in extension_files(self.found)}
        moves = []
        for name in self.options.leave_out:
            if name not in known or self.found.app.disabled is None:
                have = ", ".join(sorted(known)) or "none that states requirements"
                raise BadInput(f"--leave-out {name}: no such extension can be left out", remedy=f"there are: {have}")
            moves.append((str(known[name]), f"{known[name]}{self.found.app.disabled}"))
        return tuple(moves)

    def _files_in_words(self) -> tuple[str, ...]:
        keeping = Keeping(root=self.kept.root, site=self.kept.root, pins={"torch": self.plan.torch or ""})
        inside = [str(keeping.constraints), "its pip configuration", "a start file that sets variables"]
        outside = app_files(self.found, keeping, (), self.host.system)
        return (*inside, *map(str, outside))

    def undo(self) -> Adoption:
        """Everything as it was before the first adoption."""
        record = self.kept.record
        if record is None:
            self.kept.recover()
            raise BadInput(
                f"nothing is adopted in {self.kept.root}, so nothing can be undone",
                remedy="a --python that was given to adopt must be given here, too",
            )
        noted = json.loads(record.notes.get("packages", "{}"))
        since = [name for name, version in self.held.versions.items() if noted and noted.get(name) != version]
        lost = f"; packages that came or changed since go as well: {', '.join(sorted(since)[:20])}" if since else ""
        planned = self._told("planned", f"{self.kept.root} becomes what it was before the adoption{lost}", bare=True)
        if self.options.dry_run:
            return planned
        refuse_running(self.kept.root, self.found)
        if not self.confirm(planned):
            raise BadInput("nothing was undone: that needs a yes", remedy="answer y, or give --yes")
        self.progress.stage("undo", str(self.kept.root))
        self.kept.restore()
        return self._told("undone", f"{self.found.words} is as it was before the adoption{lost}", bare=True)

    def _told(
        self,
        state: str,
        verdict: str,
        *,
        bare: bool = False,
        card: Card | None = None,
        verification: VerifyReport | None = None,
        files: tuple[str, ...] = (),
        next: tuple[str, ...] = (),
    ) -> Adoption:
        """The account of it; ``bare`` without a plan, which an undo has no need of."""
        about = dict[str, object](
            state=state,
            verdict=verdict,
            app=self.found.name,
            version=self.found.version,
            folder=str(self.found.root),
            python=self.python,
            before=self.held.versions.get("torch") if state != "undone" else None,
            undo=self.undo_line if state in ("adopted", "already") else None,
            card=card,
            verification=verification,
            files=files,
            next=next,
        )
        if not bare:
            about |= {
                "torch": self.plan.torch,
                "plan": self.plan,
                "env": self.plan.env,
                "changes": tuple(self.swap.changes()) if self.plan.answer == "install" else (),
                "conflicts": self.swap.conflicts() if self.plan.answer == "install" else (),
                "beware": self.found.app.replaces,
            }
        return msgspec.convert(about, Adoption, from_attributes=True)
