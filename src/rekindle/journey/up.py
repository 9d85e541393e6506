"""The whole way for a real torch: probe, plan, then install an official wheel or build one; always prove it. Every
leg's result is kept under the digest of what it was made from: a second ``up`` is instant, an interrupted one
continues."""

import functools
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from packaging.utils import canonicalize_name

from rekindle.api.build_wheels import build_checks, companion_checks
from rekindle.api.examine_machine import doctor
from rekindle.api.plan_torch import plan as make_plan
from rekindle.api.verify_torch import verify
from rekindle.errors import BadInput, Declined, StageFailed
from rekindle.host.files import sha256_of, write_atomically
from rekindle.host.live import LiveHost
from rekindle.host.made import MARK, mark_made
from rekindle.host.workspace import Workspace, workspace_at
from rekindle.interpreters.installer import Installer, choose_installer
from rekindle.interpreters.packages import look_into
from rekindle.journey import install as installing
from rekindle.journey import resolve
from rekindle.journey import target as targets
from rekindle.journey.card import Confirm, look_for_network, make_card, reachable_ways, refuse_hopeless
from rekindle.journey.from_source import SourceBuilds, build_companions, build_from_source, wanted_companions
from rekindle.journey.grafting import check_graft, graft_requests
from rekindle.journey.install import InstallOrder
from rekindle.journey.keeping import set_variables
from rekindle.journey.pack_folder import up_from_pack
from rekindle.journey.taken import plan_taken, refuse_two_ways
from rekindle.journey.walk import Walk, digest, write_report
from rekindle.model.build import BuildFailure
from rekindle.model.build_options import most_jobs
from rekindle.model.document import encode
from rekindle.model.journey import BuiltCompanion, Card, Installation, Journey, UpOptions
from rekindle.model.machine import Check, Machine
from rekindle.model.plan import Plan, Request, TorchReady, Wish
from rekindle.model.progress import Progress, Silent, tell_while
from rekindle.model.supply import DiskPhase
from rekindle.model.verify import VerifyReport
from rekindle.plan.describe import with_hardware
from rekindle.readiness.register import refuse_unready
from rekindle.render.summary import summarise_checks, summarise_plan, summarise_proof
from rekindle.source.origins import upstream
from rekindle.verify.target import provable


def up(
    options: UpOptions | Wish | None = None,
    *,
    confirm: Confirm | None = None,
    progress: Progress | None = None,
    **choices: Any,
) -> Journey:
    """Probe this machine, plan, install an official wheel or build one, and prove the result.

    What can be chosen are the fields of :class:`~rekindle.model.journey.UpOptions`: given as that value, or each by
    name; a wish may also come first. ``confirm`` sees the plan before anything long is done and may say no; without it
    the answer is yes. Its second argument makes the card (what comes, from where, how much, where to) when it is
    called.

    A build that fails is no exception: the journey has not ``arrived``, and its ``failure`` says why. What is already
    there is kept: a second call is quick, an interrupted one continues.

    >>> journey = up(workspace=folder, dry_run=True)
    >>> journey.arrived, [leg.name for leg in journey.legs]
    (True, ['probe', 'plan'])
    """
    given = UpOptions(wish=options) if isinstance(options, Wish) else options or UpOptions()
    if choices.get("wish", given) is None:
        choices.pop("wish")
    for name in {"gpu", "find_links"} & choices.keys():
        choices[name] = tuple(choices[name])
    chosen = msgspec.structs.replace(given, **choices)
    chosen = msgspec.structs.replace(chosen, jobs=most_jobs(chosen.jobs, chosen.wish.settings))
    return run_up(workspace_at(chosen.workspace), chosen, progress or Silent(), confirm or (lambda *_: True))


def bring_torch(
    venv: Path | None = None, *, allow_build: bool = False, progress: Progress | None = None, **choices: Any
) -> TorchReady:
    """Do it: install that torch into ``venv`` (or ``python``), and prove it. A build of hours only if ``allow_build``.

    ``choices`` are fields of :class:`~rekindle.model.journey.UpOptions` by name, such as ``wish``, ``workspace``,
    ``installer``, ``index``, ``find_links`` or ``offline``. Nothing is asked. A machine for which nothing fits, or only
    a build that was not allowed, is an answer that is not ``ready``; a network that does not answer, a full disk or a
    missing Python raises, with the next step in ``remedy``. The same call again is quick where all is there, and
    continues where it was cut short.
    """
    refused: list[str] = []

    def confirm(plan: Plan, card: Callable[[], Card]) -> bool:
        if plan.answer in ("build", "graft") and not allow_build:
            way = "built" if plan.answer == "build" else "grafted (compiled in part)"
            refused.append(f"torch {plan.torch} would have to be {way}, which was not allowed")
        return not refused

    try:
        journey = up(venv=venv, confirm=confirm, progress=progress, **choices)
    except BadInput:
        if not refused:
            raise
        return TorchReady(ready=False, verdict=refused[0])
    return TorchReady(
        ready=journey.arrived,
        verdict=journey.verdict,
        torch=journey.plan.torch if journey.plan else None,
        python=journey.python,
        activate=next((line for line in journey.next if "activate" in line), None),
        constraints=next((place for place in journey.keeps if place.endswith("constraints.txt")), None),
        report=journey.report,
    )


def run_up(workspace: Workspace, options: UpOptions, progress: Progress, confirm: Confirm) -> Journey:
    """Walk, with the workspace held, and write the report; a dry run holds and writes nothing."""
    options = up_from_pack(options)
    if options.dry_run:
        return _walk(workspace, options, progress, confirm)
    with workspace.lock("up", wait=3600.0, say=progress.note):
        return write_report(_walk(workspace, options, progress, confirm))


def _walk(workspace: Workspace, options: UpOptions, progress: Progress, confirm: Confirm) -> Journey:
    walk = Walk(workspace, progress)
    where = str(workspace.root)
    examined = walk.leg("probe", "what this machine is", lambda: doctor(workspace=where))
    machine = with_hardware(examined.machine, gpu=options.gpu, cpu=options.cpu)
    asked = targets.wanted_python(LiveHost(), options)
    wish = options.wish if asked is None else msgspec.structs.replace(options.wish, python=options.wish.python or asked)

    def make() -> Plan:
        if options.wheel is None:
            return make_plan(machine, wish)
        refuse_two_ways(options)
        return plan_taken(machine, wish, options.wheel)

    plan = walk.leg("plan", "which torch runs here", make)
    if not options.dry_run:
        write_atomically(workspace.machine, encode(examined.machine))
        write_atomically(workspace.plan, encode(plan))
        mark_made(plan)
    planned = _PlannedUp(walk=walk, workspace=workspace, options=options, progress=progress, machine=machine, plan=plan)
    if plan.answer == "none":
        why = "; ".join(reason.text for reason in plan.because)
        return planned.end(False, f"No torch can run here as asked: {why}")
    if planned.is_done():
        return planned.end(True, f"{summarise_plan(plan)} (done before)") if options.dry_run else planned.go()
    if plan.graft is not None and not options.dry_run:
        check_graft(plan.graft, plan.cuda)
    if plan.answer == "build":
        refuse_unready(walk.leg("check", "what the build asks of this machine", planned.check, summarise_checks))
    if options.dry_run:
        planned.card = planned.make_card()
        return planned.end(True, f"{summarise_plan(plan)} (dry run: nothing was written)")
    if not confirm(plan, planned.card_or_refusal):
        raise Declined(f"nothing was done: {summarise_plan(plan)} needs a yes")
    planned.card_or_refusal()
    return planned.go()


@dataclass(kw_only=True)
class _PlannedUp:
    """An ``up`` whose plan is made: what the legs after it share."""

    walk: Walk
    workspace: Workspace
    options: UpOptions
    progress: Progress
    machine: Machine
    plan: Plan
    card: Card | None = None
    keeps: tuple[str, ...] = ()
    built_companions: tuple[BuiltCompanion, ...] = ()
    _foreseen: dict[tuple[Request, ...], installing.Foreseen] = field(default_factory=dict)

    @property
    def environment(self) -> Path:
        """One per plan, so that another wish never spoils an environment that works."""
        name = f"torch-{self.plan.torch}-{self.plan.variant or 'built'}-{digest(self.plan)[:8]}"
        return self.workspace.root / "envs" / name

    @property
    def target(self) -> targets.InstallTarget:
        return targets.target_of(self.options, self.environment)

    @property
    def python(self) -> str:
        return self.target.python

    @functools.cached_property
    def installer(self) -> Installer:
        options = self.options
        return choose_installer(options.installer, links=options.find_links, offline=options.offline)

    @property
    def order(self) -> InstallOrder:
        return InstallOrder(
            host=LiveHost(),
            python=self.python,
            plan=self.plan,
            workspace=self.workspace,
            progress=self.walk.inner,
            installer=self.installer,
        )

    @property
    def is_ours(self) -> bool:
        """Is the environment one of our making?"""
        return self.target.folder is not None and (self.target.folder / MARK).is_file()

    def go(self) -> Journey:
        if self.plan.answer == "install":
            return self._prove(self._installed(self.requests, self.inputs), None)
        return self.graft() if self.plan.answer == "graft" else self.build()

    @property
    def inputs(self) -> str:
        return digest(self.plan, self.python, self.options.index or "", self.options.torch_only)

    @property
    def _arrived(self) -> Path:
        return self.workspace.reports / "arrived.key"

    def is_done(self) -> bool:
        """This very way was walked to its end before: then nothing long is left, and nothing is asked."""
        try:
            return self._arrived.read_text(encoding="ascii") == self.inputs and Path(self.python).exists()
        except (OSError, UnicodeDecodeError):
            return False

    @functools.cached_property
    def requests(self) -> tuple[Request, ...]:
        return installing.wanted_from(self.plan.requests, index=self.options.index, torch_only=self.options.torch_only)

    def card_or_refusal(self) -> Card:
        """The card, made once; what cannot end well ends here."""
        if self.card is None:
            self.card = self.make_card()
            refuse_hopeless(self.card, LiveHost())
        return self.card

    def make_card(self) -> Card:
        """What a yes means. An index that cannot be reached is found out first: pip would try for minutes."""
        places = self._places()
        network = None if self.options.offline else look_for_network(places)
        # apt asks the mirror that the machine knows.
        fetched = self.plan.build is not None and self.plan.build.origin == "debian" and not self.options.source
        archive = ("Debian's archive of sources",) if fetched and not self.options.offline else ()
        requests = self.requests if self.plan.answer in ("install", "graft") else ()
        try:
            packages = installing.all_packages(self._foresee(requests)) if requests and network is None else None
        except StageFailed as error:
            if self.options.offline and (ways := self._reachable_ways()):
                error.remedy = f"{ways[0]} takes what is there; or name another folder with --find-links DIR"
            raise
        return make_card(
            self.plan,
            requests,
            packages,
            self.target,
            places=places or self.options.find_links or archive,
            network=network,
            installer=self.installer.name,
            companions=[f"{companion.name} {companion.version}" for companion in self.companions_to_build],
            reachable=self._reachable_ways() if network and self.plan.answer == "install" else (),
        )

    def _reachable_ways(self) -> tuple[str, ...]:
        with tell_while(self.progress, "looking for a torch in places that answer"):
            return reachable_ways(self.machine, self.options)

    def _places(self) -> tuple[str, ...]:
        """Where things would be fetched from: indexes, and of a build the repositories that it has not fetched yet."""
        if self.options.offline:
            return self.options.find_links
        if self.plan.answer != "build":
            return installing.index_places(self.requests)
        if self.options.source or self.plan.build is None or self.plan.build.origin not in ("git", "tarball"):
            return ()
        trees = {"torch": (self.plan.torch or "").split("+")[0]}
        if self.options.wheel:
            trees = {companion.name: companion.version or "" for companion in self.companions_to_build}
        here = self.workspace.source
        return tuple(upstream(name).git for name, tag in trees.items() if not (here / f"{name}-{tag}").exists())

    def _foresee(self, requests: tuple[Request, ...]) -> installing.Foreseen:
        """Asked once. Before the environment is there its base answers for an empty one."""
        if (known := self._foreseen.get(requests)) is not None:
            return known
        there, substituted = self.target.exists, self.options.index is not None
        order = self.order if there else replace(self.order, python=self.base)
        asked: dict[str, Any] = {"fresh": not there, "substituted": substituted, "progress": self.progress}
        foreseen = installing.foresee(order, requests, **asked)
        if there or None not in foreseen:  # else the environment's own pip may know more
            self._foreseen[requests] = foreseen
        return foreseen

    @functools.cached_property
    def companions_to_build(self) -> tuple[BuiltCompanion, ...]:
        """The companions whose sources can be had."""
        return tuple(each for each in wanted_companions(self.plan, self.options) if not each.why)

    @functools.cached_property
    def base(self) -> str:
        return targets.base_python(LiveHost(), self.options, self.plan.python)

    def graft(self) -> Journey:
        """The official wheel with code for the card, and what goes beside the official one."""
        wheel, requests = graft_requests(self.walk, self.plan, self.requests, self.options)
        return self._prove(self._installed(requests, digest(self.inputs, sha256_of(wheel))), wheel)

    def check(self) -> tuple[Check, ...]:
        place = self.workspace.root
        # Whatever was installed for a build before is kept; a first one asks before sources are fetched.
        fresh = not (place / "python").is_dir()
        checks: tuple[Check, ...] = ()
        shared: dict[str, Any] = {"python": self.build_python, "place": place}
        if not (whole := self.options.wheel is not None):
            later, source = self._later_places(), self.options.source
            checks = build_checks(self.plan, **shared, source=source, installs=fresh, places=later)
        for companion in self.companions_to_build:
            checks += companion_checks(self.plan, companion.name, companion.version or "", **shared, whole=whole)
        return tuple(dict.fromkeys(checks))

    def _later_places(self) -> dict[DiskPhase, Path]:
        """Where the phases after the build write; a build of a single target has none."""
        if self.options.target:
            return {}
        verify: dict[DiskPhase, Path] = {"verify": self.target.folder or Path(self.target.python)}
        return {"bundle": self.workspace.wheels, **verify} if self.options.bundle else verify

    @property
    def build_python(self) -> str:
        """The interpreter that gets the wheel; for an environment of ours its base, so that what was built before it is
        kept."""
        if self.target.exists and not self.is_ours:
            return self.python
        return self.base if self.plan.python or self.options.python else sys.executable

    def build(self) -> Journey:
        builds = SourceBuilds(walk=self.walk, plan=self.plan, python=self.build_python, options=self.options)
        wheel = self.options.wheel.absolute() if self.options.wheel is not None else build_from_source(builds)
        if wheel is None:
            return self.end(True, f"{self.options.target} of torch {self.plan.torch} is built; no wheel was asked for")
        if isinstance(wheel, BuildFailure):
            return self.end(False, f"torch {self.plan.torch} was not built: {wheel.message}", failure=wheel)
        self.built_companions = build_companions(builds, wheel)
        wheels = {self.plan.project: wheel} | {row.name: Path(row.wheel) for row in self.built_companions if row.wheel}
        ours = tuple(Request(name=name, url=str(path), why="built here") for name, path in wheels.items())
        if len(wheels) > 1 and "<" in (self.plan.numpy or ""):
            # A companion asks for any NumPy, and pip brings the newest, which this torch cannot use.
            ours += (Request(name="numpy", specifier=self.plan.numpy, why=f"what torch {self.plan.torch} can use"),)
        inputs = digest(self.inputs, *map(sha256_of, wheels.values()))
        return self._prove(self._installed(ours, inputs), wheel)

    def _installed(self, requests: tuple[Request, ...], inputs: str) -> Installation:
        """Kept only while the environment is exactly as the install left it."""

        def make() -> Installation:
            target = self.target
            if target.folder is not None and not target.exists:
                log = self.workspace.new_log("environment")
                installing.own_environment(self.installer, self.base, target.folder, log)
            foreseen = self._foresee(requests)
            if (packages := installing.all_packages(foreseen)) is not None:
                self.progress.note(resolve.spoken_packages(packages))
            try:
                return installing.install(self.order, requests, foreseen)
            except StageFailed:
                if target.folder is not None and (not target.exists or target.folder == self.environment):
                    shutil.rmtree(target.folder, ignore_errors=True)
                raise

        def unchanged(kept: Installation) -> bool:
            return bool(kept.fingerprint) and self._fingerprint() == kept.fingerprint

        where = f"into {self.python}"
        installed = self.walk.kept_leg("install", where, Installation, inputs, make, still_good=unchanged)
        self.keeps = targets.write_keeps(self._keep_folder, requests, installed, look_into(LiveHost(), self.python))
        set_variables(LiveHost(), self.python, self.target.folder, self.plan.env)
        return installed

    @property
    def _keep_folder(self) -> Path:
        """Beside the environment that is ours; never inside one that was there before."""
        folder = self.target.folder
        return folder / "rekindle" if folder is not None and self.is_ours else self.workspace.root / "keep"

    def _fingerprint(self) -> str:
        return look_into(LiveHost(), self.python).fingerprint

    def _prove(self, installed: Installation, wheel: Path | None) -> Journey:
        """The proof's key holds the digests of all that came before it: the wheel, the environment, the plan."""
        inputs = digest(self.plan, installed.wheel_sha256 or "", installed.fingerprint, self.options.level)
        question = f"is it really good? ({self.options.level})"
        proof = self.walk.kept_leg("verify", question, VerifyReport, inputs, lambda: self._verify(installed))
        self._refuse_changed(installed, wheel)
        several = [f"{companion.name} {companion.version}" for companion in self.built_companions if companion.wheel]
        names = " and ".join([f"torch {self.plan.torch}", *several])
        are, run = ("are", "run") if several else ("is", "runs")
        if proof.good:
            verdict = f"{names} {run} on this machine: {proof.passed} checks passed"
            write_atomically(self._arrived, self.inputs)
        else:
            verdict = f"{names} {are} installed, but not proven to work: {summarise_proof(proof)}"
        for companion in self.built_companions:
            if why := companion.why:
                verdict += f"; {' '.join(filter(None, (companion.name, companion.version)))} was not built: {why}"
        made = str(wheel) if wheel else None
        return self.end(proof.good, verdict, proof=proof, wheel=made, wheel_sha256=installed.wheel_sha256)

    def _verify(self, installed: Installation) -> VerifyReport:
        asked = {row.name: {str(canonicalize_name(one.name)) for one in row.requests} for row in self.plan.companions}
        there = [name for name, packages in asked.items() if packages and packages <= installed.packages.keys()]
        built = [companion.name for companion in self.built_companions if companion.wheel]
        # A torch with GPU code that was taken for a machine without a GPU: nobody claims anything about one.
        apart = self.options.wheel is not None and not (self.plan.cuda or self.plan.rocm)
        proof = verify(
            python=self.python,
            level=self.options.level,
            plan=self.workspace.plan,
            gpu=False if apart else None,
            companions=tuple(provable([*dict.fromkeys((*there, *built))])),
            progress=self.walk.inner,
        )
        about = {"wheel_sha256": installed.wheel_sha256, "environment_digest": installed.fingerprint}
        return msgspec.structs.replace(proof, **about)

    def _refuse_changed(self, installed: Installation, wheel: Path | None) -> None:
        """What was proved is what was installed: neither the environment nor the wheel was swapped meanwhile."""
        said, again = (
            "was changed between install and verify, so the proof is",
            "run the same command again: it installs",
        )
        if self._fingerprint() != installed.fingerprint:
            raise StageFailed(f"{self.python} {said} about something else", remedy=f"{again} and proves anew")
        if wheel is not None and sha256_of(wheel) != installed.wheel_sha256:
            remedy = f"{again} and proves the wheel that lies there now"
            raise StageFailed(f"{wheel} {said} not about this file", remedy=remedy)

    def end(self, arrived: bool, verdict: str, *, proof: VerifyReport | None = None, **more: Any) -> Journey:
        use = targets.next_steps(self.target, self.keeps) if proof and proof.good else ()
        python = self.python if proof else None
        return Journey(
            goal=f"torch {self.plan.torch}" if self.plan.torch else "a torch",
            arrived=arrived,
            verdict=verdict,
            workspace=str(self.workspace.root),
            legs=tuple(self.walk.legs),
            plan=self.plan,
            verification=proof,
            companions=self.built_companions,
            python=python,
            report=None if self.options.dry_run else str(self.workspace.reports / "report.html"),
            card=self.card,
            keeps=self.keeps,
            next=use or (() if arrived else targets.steps_after_no(more.get("failure"), python)),
            **more,
        )
