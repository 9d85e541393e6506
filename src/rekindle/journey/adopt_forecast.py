"""What adopting an application would change in its environment, told before anything is: packages that come, go or are
replaced, and who wants something else.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.markers import default_environment
from packaging.utils import canonicalize_name

from rekindle.compat.companions import find_package
from rekindle.facts import PAIRED_PACKAGES, load_facts
from rekindle.interpreters.app_folder import AppFolder, conflicts_with, named_packages, wanted_packages
from rekindle.interpreters.packages import Contents
from rekindle.journey.install import version_of
from rekindle.model.adopt import AdoptionChange
from rekindle.model.companion import Wanted
from rekindle.model.interpreter import Interpreter
from rekindle.model.plan import Companion, Plan, Request

_INSTALLED = "installed"


def companions_there(held: Contents, found: AppFolder) -> dict[str, str]:
    """The companions of our tables that an environment holds: their name in the tables, and as installed."""
    facts = load_facts()
    named = {find_package(name, facts): name for name in held.versions}
    left_out = ("torch", *PAIRED_PACKAGES, found.app.package)
    return {name: installed for name, installed in named.items() if name is not None and name not in left_out}


def comes(companion: Companion) -> bool:
    """Is there a wheel of it for the torch of the plan?"""
    return companion.answer in ("runs", "last") and bool(companion.requests)


@dataclass(frozen=True, kw_only=True)
class SwapForecast:
    """``held`` is what is there, ``beside`` the companions among it, ``requests`` what will come."""

    found: AppFolder
    interpreter: Interpreter
    held: Contents
    beside: Mapping[str, str]
    plan: Plan
    requests: tuple[Request, ...]

    @functools.cached_property
    def coming(self) -> dict[str, str]:
        """torch and what is requested with it, by name."""
        named = {str(canonicalize_name(one.name)): version_of(one) for one in self.requests}
        return {name: version for name, version in named.items() if version}

    def changes(self) -> Iterator[AdoptionChange]:
        """Each package that is replaced, comes or goes."""
        there = self.held.versions
        reasons = {str(canonicalize_name(one.name)): one.why for one in self.requests}
        for name, version in self.coming.items():
            if there.get(name) != version:
                yield AdoptionChange(name=name, from_=there.get(name), to=version, why=reasons[name])
        for companion in self.plan.companions:
            now = there.get(self.beside.get(companion.name, ""))
            if now is not None and comes(companion) and companion.version != now:
                yield AdoptionChange(name=companion.name, from_=now, to=companion.version, why=companion.why)
        for name, why in self.goes.items():
            yield AdoptionChange(name=name, from_=there[name], why=why)

    @functools.cached_property
    def goes(self) -> dict[str, str]:
        """Compiled for the old torch, with nothing published for the new one: it would end the application's start."""
        there = self.held.versions
        if there.get("torch") == self.coming.get("torch"):
            return {}
        gone = {
            name: f"none was published for torch {self.plan.torch}"
            for name in PAIRED_PACKAGES
            if name in there and name not in self.coming
        }
        packages = load_facts().beside.package
        for companion in self.plan.companions:
            compiled = companion.name in self.beside and packages[companion.name].kind == "extension"
            if compiled and companion.answer in ("none", "build", "alternative"):
                gone[self.beside[companion.name]] = companion.why
        return gone

    def conflicts(self) -> tuple[str, ...]:
        """What the application, its extensions and other packages want instead, in words; and which can be left out."""
        stated = wanted_packages(self.found, self.coming, self._marker_values)
        return tuple(map(self._spoken, conflicts_with((*stated, *self._stated_by_packages()), self.coming)))

    def _stated_by_packages(self) -> Iterator[Wanted]:
        exchanged = {self.beside.get(one.name) for one in self.plan.companions if comes(one)}
        for one in self.held.packages:
            name = str(canonicalize_name(one.name))
            if name not in self.coming and name not in self.goes and name not in exchanged:
                for wish in named_packages(one.requires, self.coming, self._marker_values):
                    yield Wanted(requirement=str(wish), file=_INSTALLED, extension=f"{one.name} {one.version}")

    def _spoken(self, wanted: Wanted) -> str:
        who = wanted.extension or self.found.app.title
        offer = ""
        if wanted.extension and wanted.file != _INSTALLED and self.found.app.disabled:
            offer = f"; without it: --leave-out {wanted.extension}"
        return f"{who} wants {wanted.requirement} ({wanted.file}){offer}"

    @functools.cached_property
    def _marker_values(self) -> dict[str, str]:
        # It runs on this machine: only the release of its Python may be another than ours.
        release = {"python_version": self.interpreter.short, "python_full_version": self.interpreter.version}
        return {**{name: str(value) for name, value in default_environment().items()}, **release, "extra": ""}
