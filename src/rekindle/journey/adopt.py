"""``adopt``: the torch inside an application's own Python, swapped for the one that fits the machine, proved and kept
there, and taken back on a word. The environment as it was is kept whole beside it (links: nothing is copied) until
``--undo``; what is cut short or not proven is put back. A second call is quick where all is as it was left."""

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rekindle.api.guard_torch import guard
from rekindle.api.verify_torch import verify
from rekindle.errors import BadInput, Declined, NotReady
from rekindle.facts import load_facts
from rekindle.host.files import write_atomically
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace, workspace_at
from rekindle.interpreters.app_folder import extension_files, find_app
from rekindle.interpreters.installer import pip_of
from rekindle.interpreters.packages import ask_contents, package_places
from rekindle.interpreters.search import ask_interpreter
from rekindle.journey import adopt_forecast
from rekindle.journey import install as installing
from rekindle.journey.adopt_forecast import SwapForecast
from rekindle.journey.card import look_for_network, make_card, refuse_hopeless
from rekindle.journey.grafting import check_graft, graft_requests
from rekindle.journey.install import Foreseen, InstallOrder
from rekindle.journey.keeping import Keeping, app_files, environment_files
from rekindle.journey.target import InstallTarget
from rekindle.journey.walk import Walk, Within
from rekindle.model.adopt import Adoption, AdoptionState, AdoptOptions
from rekindle.model.document import encode
from rekindle.model.guard import pinned
from rekindle.model.journey import Card, UpOptions
from rekindle.model.plan import Request, pip_arguments
from rekindle.model.progress import Progress, Silent
from rekindle.model.spoken import spoken_minutes
from rekindle.model.verify import VerifyReport
from rekindle.render.summary import summarise_plan, summarise_proof
from rekindle.scripts.quoting import pasted
from rekindle.verify.target import provable


def adopt(
    options: AdoptOptions | Path,
    *,
    confirm: Callable[[Adoption], bool] | None = None,
    progress: Progress | None = None,
    **choices: Any,
) -> Adoption:
    """Give an application its folder names the torch that fits this machine, prove it there and keep it there.

    What can be chosen are the fields of :class:`~rekindle.model.adopt.AdoptOptions`: given as that value, or the folder
    first and each by its name. ``confirm`` sees what is planned before anything is changed and may say no; without it
    the answer is yes. With ``undo=True`` the environment becomes what it was, without fetching anything.
    """
    given = options if isinstance(options, AdoptOptions) else AdoptOptions(folder=Path(options))
    for name in {"leave_out", "find_links", "wheel"} & choices.keys():
        choices[name] = tuple(choices[name])
    chosen = replace(given, **choices)
    adopting = _begin(chosen, progress or Silent(), confirm or (lambda _: True))
    return adopting.undo() if chosen.undo else adopting.run()


def _begin(options: AdoptOptions, progress: Progress, confirm: Callable[[Adoption], bool]) -> "_Adopting":
    """The application recognised, and its environment one that may be changed."""
    facts = load_facts()
    if not options.dry_run and adopt_forecast.finish_restoring(options.folder.expanduser().absolute(), facts):
        progress.note("putting an environment back was cut short: it is as it was before its adoption")
    app_folder = find_app(options.folder, facts)
    python = options.python or (str(app_folder.python) if app_folder.python else None)
    if python is None:
        places = ", ".join(app_folder.app.pythons)
        raise BadInput(
            f"{app_folder.words} in {app_folder.root} has no Python yet (looked for {places})",
            remedy="run its own installer once, or name its interpreter with --python EXE. Does it run in a"
            " container, put after its own lines in the Dockerfile: RUN with the pip line of rekindle"
            f" plan --for {app_folder.name}",
        )
    progress.stage("recognise", f"{app_folder.words} with {python}")
    interpreter = ask_interpreter(LiveHost(), python)
    root = adopt_forecast.own_root(interpreter, app_folder)
    if not options.undo:
        adopt_forecast.refuse_unwritable(root)
    if not options.dry_run:
        adopt_forecast.refuse_running(root, app_folder)
        if adopt_forecast.recover_environment(root):
            progress.note("an earlier adoption was cut short: the environment is as it was before it")
    return _Adopting(
        options=options, found=app_folder, interpreter=interpreter, root=root, progress=progress, confirm=confirm
    )


def is_same_torch(there: str, wanted: str) -> bool:
    """Is the torch that was adopted the one of now? A grafted one says more, and an index may leave the flavour out."""
    public, _, flavour = wanted.partition("+")
    return there in (wanted, public) or there.startswith(f"{wanted}{'.' if flavour else '+'}")


@dataclass(frozen=True, kw_only=True)
class _Adopting(SwapForecast):
    """One adoption in the environment ``root``: what would change, and what is done about it."""

    root: Path
    progress: Progress
    confirm: Callable[[Adoption], bool]

    @property
    def line(self) -> str:
        return f"rekindle adopt {pasted(str(self.options.folder.absolute()))}"

    @functools.cached_property
    def workspace(self) -> Workspace:
        return workspace_at(self.options.workspace)

    @functools.cached_property
    def order(self) -> InstallOrder:
        """What is installed where; of the companions those that the environment holds already."""
        staying = tuple(row for row in self.plan.companions if row.comes and row.name in self.installed_companions)
        return InstallOrder(
            host=self.host,
            python=self.python,
            plan=replace(self.plan, companions=staying),
            workspace=self.workspace,
            progress=Within(self.progress),
            installer=self.installer,
        )

    def run(self) -> Adoption:
        """The whole way, from the plan to the proof."""
        self.progress.stage("plan", f"which torch {self.found.app.title} can use here")
        record = adopt_forecast.kept_environments(self.root)[0].record
        # None for an adoption that was cut short, which only a run that may change something takes back.
        was = json.loads(record.notes.get("pins", "{}")).get("torch") if record else None
        if record and was and is_same_torch(was, self.torch):
            report = guard(python=self.python)
            if report.good:
                verdict = f"{self.found.words} keeps torch {was}"
                return self._adoption("already", verdict, files=tuple(record.files))
            for replaced in report.replaced:
                self.progress.note(replaced.why)
        if (why := self._why_not()) is not None:
            return self._adoption("no", why, next=self._steps_after_no())
        self.progress.note(summarise_plan(self.plan))
        words = self.found.words
        if was and not is_same_torch(was, self.torch):
            remedy = f"{self.line} --undo, then adopt it anew; or keep what is there with --torch {was}"
            raise NotReady(f"{words} was adopted with torch {was}, and {self.torch} would be chosen now", remedy=remedy)
        card, foreseen = self._foresee()
        keeping = Keeping(root=self.root, site=self.root, pins={"torch": self.plan.torch or ""})
        inside = (str(keeping.constraints), "its pip configuration", "a start file that sets variables")
        files = (*inside, *map(str, app_files(self.found, keeping, (), self.host.system)))
        planned = self._adoption("planned", f"{words} would get torch {self.torch}", card=card, files=files)
        if self.options.dry_run:
            return planned
        if self.plan.graft is not None:
            check_graft(self.plan.graft, self.plan.cuda)
        if not self.confirm(planned):
            raise Declined(f"nothing was done: {words} needs a yes for torch {self.torch}")
        refuse_hopeless(card, self.host)
        with self.workspace.lock("adopt", wait=3600.0, say=self.progress.note):
            proof, torch, kept = self._swap(foreseen, self._moves())
        proven = summarise_proof(proof)
        if not proof.good:
            why = f"torch {self.plan.torch} is not proven to work in it, so it is as it was: {proven}"
            return self._adoption("not-proven", f"{words}: {why}", card=card, verification=proof)
        after = (f"rekindle guard --python {pasted(self.python)}", f"{self.line} --undo")
        verdict = f"{words} runs torch {torch} on this machine: {proven}"
        return self._adoption("adopted", verdict, card=card, verification=proof, files=kept, next=after)

    def _why_not(self) -> str | None:
        """Why nothing is swapped: no wheel for this machine, or another version of the application is needed."""
        plan = self.plan
        outside = [change.why for change in plan.changes if change.what == self.found.use.name]
        outside += [warning.text for warning in plan.warnings if warning.code == "app-torch-outside"]
        if outside:
            return f"not with this version of {self.found.app.title}: {outside[0]}"
        if plan.answer == "none":
            return "no torch can run here: " + "; ".join(reason.text for reason in plan.because[:3])
        if plan.answer == "build" and not self.options.wheel:
            minutes = plan.build.minutes if plan.build else None
            time = f" (about {spoken_minutes(*minutes)} on this machine)" if minutes else ""
            return f"torch {plan.torch} has to be compiled first{time}, and no wheel of it was given"
        return None

    def _steps_after_no(self) -> tuple[str, ...]:
        plan, release = self.plan, self.interpreter.short
        steps = [f"rekindle plan --for {pasted(str(self.options.folder))} --python {release} -v"]
        if plan.answer == "build":
            kit = f" --cuda {plan.cuda}" if plan.cuda else f" --rocm {plan.rocm}" if plan.rocm else ""
            steps.append(f"rekindle up --build --torch {plan.torch}{kit} --python {release}")
            steps.append(f"{self.line} --wheel {pasted(str(self.workspace.wheels))}/torch-{plan.torch}*.whl")
        return tuple(steps)

    def _foresee(self) -> tuple[Card, Foreseen]:
        places = self.options.find_links if self.options.offline else installing.index_places(self.requests)
        network = None if self.options.offline else look_for_network(places)
        foreseen: Foreseen = (None,)
        if network is None:
            substituted = self.options.index is not None
            foreseen = installing.foresee(self.order, self.requests, fresh=False, substituted=substituted)
        card = make_card(
            self.plan,
            self.requests,
            installing.all_packages(foreseen),
            InstallTarget(python=self.python, folder=None, exists=True),
            places=places,
            network=network,
            installer=self.installer.name,
        )
        return card, foreseen

    def _moves(self) -> tuple[tuple[str, str], ...]:
        """The folders of extensions that are to be left out, and their names when the application passes them over."""
        folders = {name: file.parent for name, file in extension_files(self.found)}
        moves = []
        for name in self.options.leave_out:
            if name not in folders or self.found.app.disabled is None:
                have = ", ".join(sorted(folders)) or "none that states requirements"
                raise BadInput(f"--leave-out {name}: no such extension can be left out", remedy=f"there are: {have}")
            moves.append((str(folders[name]), f"{folders[name]}{self.found.app.disabled}"))
        return tuple(moves)

    def _swap(
        self, foreseen: Foreseen, moves: Sequence[tuple[str, str]]
    ) -> tuple[VerifyReport, str | None, tuple[str, ...]]:
        """Keep, swap, prove: the proof, torch's version, the files that keep it. The first adoption's copy stays until
        its undo, a later one's until its proof; ``moves`` are folders of extensions that are switched off."""
        first, again = adopt_forecast.kept_environments(self.root)
        before = first.record
        kept = first if before is None else again
        requests = self.requests
        if self.plan.graft is not None:
            options = UpOptions(find_links=self.options.find_links, offline=self.options.offline)
            requests = graft_requests(Walk(self.workspace, self.progress), self.plan, requests, options)[1]
            foreseen = installing.foresee(self.order, requests, fresh=False, substituted=False)
        self.progress.stage("keep", f"the environment as it is, in {kept.folder}")
        with kept.changing():
            if before is not None:
                # What was appended to somebody's settings is appended to them as they were.
                kept.note_files(map(Path, before.files))
                first.put_files_back()
            keeping = self._install(requests, foreseen)
            words = next((words for words in pip_arguments(requests) if "torch" in words[0]), ())
            texts = {**environment_files(keeping), **app_files(self.found, keeping, words, self.host.system)}
            kept.change_files(texts, moves)
            proof = self._prove()
            if not proof.good:
                kept.restore()
                return proof, None, ()
            versions = ask_contents(self.host, self.python, files=True).versions
            notes = {"pins": json.dumps(dict(keeping.pins)), "packages": json.dumps(versions)}
        first.settle(notes, again)
        return proof, keeping.pins.get("torch"), tuple(map(str, texts))

    def _install(self, requests: tuple[Request, ...], foreseen: Foreseen) -> Keeping:
        """Take out what cannot stay, put in what was foreseen, and say what is to be kept of it."""
        self.progress.stage("swap", f"into {self.python}")
        host, companions = self.host, self.installed_companions
        if self.goes:
            argv = [*pip_of(host, self.python), "uninstall", "--yes", *self.goes]
            installing.run_logged(argv, self.workspace.new_log("adopt"), self.progress)
        installed = installing.install(self.order, requests, foreseen)
        now = ask_contents(host, self.python, files=True)
        pins = pinned(requests, installed.packages)
        staying = [companions[companion.name] for companion in self.order.plan.companions]
        pins |= {name: now.versions[name] for name in staying if name in now.versions}
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
        there = ask_contents(self.host, self.python, files=True).versions
        names = [
            each.name
            for each in self.plan.companions
            if each.comes and self.installed_companions.get(each.name) in there
        ]
        companions, inner = tuple(provable(names)), Within(self.progress)
        return verify(python=self.python, level=self.options.level, plan=file, companions=companions, progress=inner)

    def undo(self) -> Adoption:
        """Everything as it was before the first adoption."""
        kept = adopt_forecast.kept_environments(self.root)[0]
        if kept.record is None:
            remedy = "a --python that was given to adopt must be given here, too"
            raise BadInput(f"nothing is adopted in {self.root}, so nothing can be undone", remedy=remedy)
        noted = json.loads(kept.record.notes.get("packages", "{}"))
        since = [name for name, version in self.held.versions.items() if noted and noted.get(name) != version]
        lost = f"; packages that came or changed since go as well: {', '.join(sorted(since)[:20])}" if since else ""
        planned = self._adoption("planned", f"{self.root} becomes what it was before the adoption{lost}", bare=True)
        if self.options.dry_run:
            return planned
        if not self.confirm(planned):
            raise Declined("nothing was undone: that needs a yes")
        self.progress.stage("undo", str(self.root))
        kept.restore()
        return self._adoption("undone", f"{self.found.words} is as it was before the adoption{lost}", bare=True)

    def _adoption(self, state: AdoptionState, verdict: str, *, bare: bool = False, **more: Any) -> Adoption:
        """The answer to the user; ``bare`` leaves out the plan, which an undo does not need."""
        if not bare:
            more |= {"torch": self.plan.torch, "plan": self.plan, "env": self.plan.env}
            more["beware"] = self.found.app.replaces
            if state != "no":
                more |= {"changes": tuple(self.changes()), "conflicts": self.conflicts()}
        return Adoption(
            state=state,
            verdict=verdict,
            app=self.found.name,
            version=self.found.version,
            folder=str(self.found.root),
            python=self.python,
            before=self.held.versions.get("torch") if state != "undone" else None,
            undo=f"{self.line} --undo" if state in ("adopted", "already") else None,
            **more,
        )
