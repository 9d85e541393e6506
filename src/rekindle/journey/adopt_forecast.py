"""What an adoption meets, and what it would change: an environment that is the application's own, writable and not in
use, with no change of it cut short, and the copies that are kept of it; packages that come, go or are replaced, and who
wants others."""

import functools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from rekindle.api.plan_torch import plan as make_plan
from rekindle.api.plan_torch import this_machine
from rekindle.compat.companions import find_package
from rekindle.errors import BadInput, NotReady
from rekindle.facts import PAIRED_PACKAGES, Facts, load_facts
from rekindle.host.live import LiveHost
from rekindle.host.processes import processes_of
from rekindle.interpreters.app_folder import AppFolder, conflicts_with, marker_values, named_packages, wanted_packages
from rekindle.interpreters.installer import Installer, choose_installer
from rekindle.interpreters.kept_places import KeptPlaces
from rekindle.interpreters.packages import Contents, ask_contents
from rekindle.journey.install import version_of, wanted_from
from rekindle.journey.taken import plan_taken
from rekindle.model.adopt import AdoptionChange, AdoptOptions
from rekindle.model.companion import Wanted
from rekindle.model.interpreter import Interpreter
from rekindle.model.plan import Plan, Request, Wish


@dataclass(frozen=True, kw_only=True)
class SwapForecast:
    """What was asked of which application and which Python; all else follows from it, each asked for once."""

    options: AdoptOptions
    found: AppFolder
    interpreter: Interpreter

    @functools.cached_property
    def host(self) -> LiveHost:
        return LiveHost()

    @property
    def python(self) -> str:
        return self.interpreter.path

    @functools.cached_property
    def held(self) -> Contents:
        """What the environment holds before anything is done."""
        return ask_contents(self.host, self.python)

    @functools.cached_property
    def installed_companions(self) -> dict[str, str]:
        """The companions of our tables that it holds: their name in the tables, and as installed."""
        named = {find_package(name, load_facts()): name for name in self.held.versions}
        left_out = ("torch", *PAIRED_PACKAGES, self.found.app.package)
        return {name: installed for name, installed in named.items() if name is not None and name not in left_out}

    @functools.cached_property
    def plan(self) -> Plan:
        asked, companions = self.options, tuple(self.installed_companions)
        wish = Wish(torch=asked.torch, variant=asked.variant, python=self.interpreter.short, companions=companions)
        if not asked.wheel:
            return make_plan(this_machine(), wish, app=self.found.use)
        torch = next((wheel for wheel in asked.wheel if wheel.name.startswith("torch-")), None)
        if torch is None:
            raise BadInput("--wheel names no torch", remedy="give torch's own wheel, and beside it those made for it")
        return plan_taken(this_machine(), wish, torch, self.found.use)

    @functools.cached_property
    def requests(self) -> tuple[Request, ...]:
        """What is to be installed: what the plan names, or the wheels that were given; none where it names none."""
        if not self.options.wheel:
            asked = self.plan.requests
            return wanted_from(asked, index=self.options.index) if asked else ()
        given = [
            Request(name=wheel.name.partition("-")[0], url=str(wheel.absolute()), why="the wheel that was given")
            for wheel in self.options.wheel
        ]
        if "<" in (self.plan.numpy or ""):
            given.append(Request(name="numpy", specifier=self.plan.numpy, why=f"what torch {self.plan.torch} can use"))
        return tuple(given)

    @functools.cached_property
    def installer(self) -> Installer:
        return choose_installer(None, links=self.options.find_links, offline=self.options.offline)

    @property
    def torch(self) -> str:
        """The version that will be there, as far as the plan knows it."""
        return self.coming.get("torch") or self.plan.torch or ""

    @functools.cached_property
    def coming(self) -> dict[str, str]:
        """torch and what is requested with it, by name."""
        named = ((str(canonicalize_name(request.name)), version_of(request)) for request in self.requests)
        return {name: version for name, version in named if version}

    def changes(self) -> Iterator[AdoptionChange]:
        """Each package that is replaced, comes or goes."""
        there = self.held.versions
        reasons = {str(canonicalize_name(request.name)): request.why for request in self.requests}
        for name, version in self.coming.items():
            if there.get(name) != version:
                yield AdoptionChange(name=name, from_=there.get(name), to=version, why=reasons[name])
        for companion in self.plan.companions:
            now = there.get(self.installed_companions.get(companion.name, ""))
            if now is not None and companion.comes and companion.version != now:
                yield AdoptionChange(name=companion.name, from_=now, to=companion.version, why=companion.why)
        for name, why in self.goes.items():
            yield AdoptionChange(name=name, from_=there[name], why=why)

    @functools.cached_property
    def goes(self) -> dict[str, str]:
        """Compiled for the old torch, with nothing published for the new one: it would end the application's start."""
        there = self.held.versions
        if there.get("torch") == self.coming.get("torch"):
            return {}
        lone = [name for name in PAIRED_PACKAGES if name in there and name not in self.coming]
        gone = dict.fromkeys(lone, f"none was published for torch {self.plan.torch}")
        packages = load_facts().packages.package
        for companion in self.plan.companions:
            compiled = companion.name in self.installed_companions and packages[companion.name].kind == "extension"
            if compiled and companion.answer in ("none", "build", "alternative"):
                gone[self.installed_companions[companion.name]] = companion.why
        return gone

    def conflicts(self) -> tuple[str, ...]:
        """What the application, its extensions and other packages want instead, in words; and which can be left out."""
        markers = marker_values(self.interpreter.short, self.interpreter.version)
        stated = [*wanted_packages(self.found, self.coming, markers)]
        exchanged = {
            self.installed_companions.get(companion.name) for companion in self.plan.companions if companion.comes
        }
        for package in self.held.packages:
            if str(canonicalize_name(package.name)) not in {*self.coming, *self.goes, *exchanged}:
                who = f"{package.name} {package.version}"
                wishes = named_packages(package.requires, self.coming, markers)
                stated += [Wanted(requirement=str(wish), file="installed", extension=who) for wish in wishes]
        words, app = [], self.found.app
        for wanted in conflicts_with(stated, self.coming):
            may_go = wanted.extension and wanted.file != "installed" and app.disabled
            offer = f"; without it: --leave-out {wanted.extension}" if may_go else ""
            words.append(f"{wanted.extension or app.title} wants {wanted.requirement} ({wanted.file}){offer}")
        return tuple(words)


def kept_environments(root: Path) -> tuple[KeptPlaces, KeptPlaces]:
    """As it was before its first adoption, kept until ``--undo``; and before one that follows, kept until its proof."""
    return KeptPlaces((root,)), KeptPlaces((root,), "-again")


def recover_environment(root: Path) -> bool:
    """Put it back where a change was cut short, the latest first; did that need doing?"""
    first, again = kept_environments(root)
    return any([again.recover(), first.recover()])


def finish_restoring(folder: Path, facts: Facts) -> bool:
    """Killed between its renames, an undo left no environment to recognise: the kept one takes its place. Was there
    one?"""
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
            remedy = "run this as the user whom the application belongs to, or move it to a folder of yours"
            raise NotReady(f"{place} may not be written by you", remedy=remedy)


def refuse_running(root: Path, app_folder: AppFolder) -> None:
    """A program that runs holds the old torch, and writes into what is being exchanged."""
    if running := processes_of(root):
        names = ", ".join(f"{process.name} (process {process.pid})" for process in running[:3])
        raise NotReady(f"{app_folder.app.title} is running: {names}", remedy="close it and run the same command again")
