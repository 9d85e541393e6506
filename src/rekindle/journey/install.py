"""Installs what a plan requests, told before and compared afterwards; then its companions, which get no chance to
replace the torch: one that cannot be had is told and left out. The requests become argument lists for the pip of the
environment's own interpreter: nothing goes through a shell, and no line written for people is read back."""

import itertools
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from packaging.utils import canonicalize_name, parse_wheel_filename

from rekindle.api.explain_log import remedy_for
from rekindle.errors import BadInput, CommandFailed, StageFailed
from rekindle.facts import PAIRED_PACKAGES
from rekindle.host.files import sha256_of, write_atomically
from rekindle.host.live import LiveHost
from rekindle.host.made import note_made
from rekindle.host.process import stop_signals_as_interrupt
from rekindle.host.protocol import Host
from rekindle.host.workspace import Workspace
from rekindle.interpreters import installer as installers
from rekindle.interpreters.environment import make_environment
from rekindle.interpreters.installer import Installer
from rekindle.interpreters.packages import Contents, look_into
from rekindle.journey.resolve import exact, groups_of, lock_lines, place_words, resolve
from rekindle.model.guard import constraints_text, pinned
from rekindle.model.journey import Installation, Package
from rekindle.model.plan import Plan, Request
from rekindle.model.progress import Progress, Silent

# What each group of requests would bring; None for one of which the installer cannot tell.
Foreseen = tuple[tuple[Package, ...] | None, ...]


def wanted_from(
    requests: Sequence[Request], *, index: str | None = None, torch_only: bool = False
) -> tuple[Request, ...]:
    """What the plan requests, as the user wants it: ``index`` is asked instead of the plan's own (``default``: pip's
    own), ``torch_only`` leaves torchvision and torchaudio out."""
    wanted = [request for request in requests if not (torch_only and request.name in PAIRED_PACKAGES)]
    if index is not None:
        place = None if index == "default" else index
        wanted = [msgspec.structs.replace(request, index=place, links=None) for request in wanted]
    for request in wanted:
        if request.requirement.startswith("-"):
            raise BadInput(f"the plan requests {request.requirement!r}, which is no package")
    if not wanted:
        raise BadInput("the plan has nothing to install")
    return tuple(wanted)


def index_places(requests: Sequence[Request]) -> tuple[str, ...]:
    """Where pip would fetch them from: indexes and pages of files, its own index where none is named."""
    urls = dict.fromkeys(request.links or request.index for request in requests if not request.url and request.version)
    own = installers.read_pip_settings(LiveHost()).index if None in urls else None
    return tuple(url or own or "" for url in urls if url or own)


def own_environment(installer: Installer, python: str, folder: Path, log: Path) -> None:
    """A virtual environment with our mark in it."""
    _refuse_failed(make_environment(python, folder, lambda argv: _run_logged(argv, log), uv=installer.uv), log)
    note_made("environment", folder)


def all_packages(foreseen: Sequence[tuple[Package, ...] | None]) -> tuple[Package, ...] | None:
    """What all groups bring; None where the installer cannot tell of one of them."""
    return None if None in foreseen else tuple(package for group in foreseen for package in group or ())


@dataclass(frozen=True, kw_only=True)
class InstallOrder:
    """Which Python gets what a plan requests, and by which installer; logs lie in ``workspace``."""

    host: Host
    python: str
    plan: Plan
    workspace: Workspace
    progress: Progress
    installer: Installer = Installer()  # noqa: RUF009 (frozen)

    def run(self, words: Sequence[str], log: Path) -> None:
        """One call of the installer."""
        run_logged(self.installer.command(self.host, self.python, words), log, self.progress)


def foresee(order: InstallOrder, requests: Sequence[Request], **asked: Any) -> Foreseen:
    """What each group of requests would bring; ``asked`` as by :func:`resolve`."""
    groups = groups_of(requests)
    return tuple(resolve(order.host, order.python, group, installer=order.installer, **asked) for group in groups)


def install(order: InstallOrder, requests: Sequence[Request], foreseen: Foreseen) -> Installation:
    """What was requested, and then the plan's companions."""
    return install_companions(order, requests, install_requests(order, requests, foreseen))


def install_requests(order: InstallOrder, requests: Sequence[Request], foreseen: Foreseen) -> Installation:
    """Install exactly what was foreseen, by digest, and compare the environment with it afterwards."""
    host, python, plan = order.host, order.python, order.plan
    log = order.workspace.new_log("install")
    brought = tuple(
        # A wheel of ours, by its own digest: pip's report leaves it out where that version is there already.
        Package(
            name=str(canonicalize_name(request.name)),
            version=version_of(request) or "",
            url=path.absolute().as_uri(),
            sha256=sha256_of(path),
            asked=True,
        )
        for request in requests
        if request.url and (path := Path(request.url)).is_file()
    )
    before = look_into(host, python)
    for group, packages in zip(groups_of(requests), foreseen, strict=True):
        for words in _install_words(group, packages, brought, log, order.installer):
            order.run(words, log)
    after = look_into(host, python)
    announced = all_packages([*foreseen, brought])
    if announced is not None:
        # A later group may name a package again (a limit for NumPy): the last word counts.
        announced = tuple({package.name: package for package in announced}.values())
    if wrong := disagreements(plan, requests, announced, before, after):
        remedy = f"nothing is kept of this; the whole log: {log}"
        raise StageFailed(f"what was installed is not what was planned: {'; '.join(wrong[:4])}", remedy=remedy)
    sha256 = next((package.sha256 for package in announced or brought if package.name == plan.project), None)
    return Installation(
        python=python,
        packages=after.versions,
        told=announced,
        wheel_sha256=sha256,
        fingerprint=after.fingerprint,
        log=str(log),
    )


def version_of(request: Request) -> str | None:
    """What the installed package will call itself, where that is known: as it was asked for, or by its wheel's name."""
    if request.version or not request.url:
        return request.version
    name = re.split(r"[/\\]", request.url.partition("#")[0])[-1].replace("%2B", "+")
    return str(parse_wheel_filename(name)[1])


def _install_words(
    group: Sequence[Request],
    packages: tuple[Package, ...] | None,
    brought: Sequence[Package],
    log: Path,
    installer: Installer,
) -> list[list[str]]:
    """What follows ``pip install``. Known digests go into a file of requirements that pip holds every file against."""
    place = place_words(group[0], installer)
    # pip's == takes 2.7.1+cu126 for 2.7.1; uv knows no ===, but holds every file against its digest.
    same = "==" if installer.uv else "==="
    if packages is None:
        return [[*(exact(request) for request in group), *place]]
    our_names = {str(canonicalize_name(request.name)) for request in group if request.url}
    listed = [package for package in packages if package.name not in our_names]
    commands = []
    if listed and all(package.sha256 for package in listed):
        lock = log.with_name(f"{log.stem}-{len(listed)}-packages.txt")
        write_atomically(lock, lock_lines(listed, same=same))
        commands.append(["--no-deps", "--require-hashes", "-r", str(lock), *place])
    elif listed:
        commands.append(["--no-deps", *(f"{package.name}{same}{package.version}" for package in listed), *place])
    # A wheel of ours goes in by its place, over whatever bears its name.
    again = ["--reinstall"] if installer.uv else ["--force-reinstall"]
    for package in brought:
        if package.name in our_names:
            lock = log.with_name(f"{log.stem}-{package.name}.txt")
            write_atomically(lock, f"{package.name} @ {package.url} --hash=sha256:{package.sha256}\n")
            commands.append(["--no-deps", *again, "--require-hashes", "-r", str(lock)])
    return commands


def run_logged(argv: Sequence[str], log: Path, progress: Progress | None) -> None:
    """One call of an installer, its words kept in ``log``; CommandFailed with its error."""
    _refuse_failed(_run_logged(argv, log, progress), log)


def _run_logged(argv: Sequence[str], log: Path, progress: Progress | None = None) -> installers.InstallerRun:
    counting, listener = itertools.count(1), progress or Silent()
    with log.open("a", encoding="utf-8") as file, stop_signals_as_interrupt():
        file.write(f"$ {shlex.join(argv)}\n")

        def keep(line: str) -> None:
            file.write(line + "\n")
            count = next(counting)
            if line.startswith(("Collecting", "  Downloading", "Downloading", "Installing")):
                listener.step(count, None, line.strip())

        def tell(slow: str) -> None:
            file.write(f"# {slow}\n")
            listener.note(slow)

        return installers.run_installer(argv, cwd=log.parent, on_line=keep, on_slow=tell)


def _refuse_failed(done: installers.InstallerRun, log: Path) -> None:
    if not done.ok:
        slow = installers.gave_up_waiting(done.lines)
        advice = installers.WAIT_LONGER if slow else remedy_for("\n".join(done.lines)) or done.remedy
        remedy = f"{advice}; the whole log: {log}" if advice else f"the whole log: {log}"
        raise CommandFailed(done.argv, done.code, [*done.lines, done.reason], remedy=remedy)


def install_companions(order: InstallOrder, requests: Sequence[Request], installed: Installation) -> Installation:
    """With every companion of the plan that has a wheel, and NumPy, without which torch warns; the rest is told."""
    plan, places = order.plan, order.installer.places
    wanted = [companion for companion in plan.companions if companion.comes]
    torch = next((row for row in requests if row.name == "torch" and "numpy" not in installed.packages), None)
    for companion in plan.companions:
        if companion not in wanted and companion.name not in {request.name for request in requests}:
            order.progress.note(f"{companion.name} is not installed ({companion.answer}): {companion.why}")
    if not wanted and torch is None:
        return installed
    log = order.workspace.new_log("companions")
    limits = log.with_suffix(".constraints.txt")
    pins = pinned(requests, installed.packages)
    write_atomically(limits, constraints_text(pins))
    lines = [("NumPy", [f"numpy{plan.numpy or ''}", *place_words(torch, order.installer)])] if torch else []
    for companion in wanted:
        for request in companion.requests:
            index = ["--extra-index-url", request.index] if request.index else []
            page = ["-f", request.links] if request.links else []
            lines.append((f"{companion.name} {companion.version}", [request.requirement, *index, *page, *places]))
    for name, words in lines:
        try:
            order.run(["-c", str(limits), *words], log)
        except CommandFailed as error:
            order.progress.note(f"{name} is not installed: {error.message}")
    after = look_into(order.host, order.python)
    if moved := [name for name, version in pins.items() if after.versions.get(name) != version]:
        remedy = f"the whole log: {log}; without --with the torch stays as planned"
        raise StageFailed(f"a companion replaced {', '.join(moved)}, though its constraints forbid it", remedy=remedy)
    return msgspec.structs.replace(installed, packages=after.versions, fingerprint=after.fingerprint)


def disagreements(
    plan: Plan, requests: Sequence[Request], announced: Sequence[Package] | None, before: Contents, after: Contents
) -> list[str]:
    """Everything that is not as planned and announced, in words; empty where installed = planned."""
    expected = {package.name: package.version for package in announced or ()}
    there = {name: after.versions.get(name) for name in expected}
    others = [name for name, version in expected.items() if there[name] != version]
    wrong = [f"{name} is {there[name] or 'missing'}, {expected[name]} was announced" for name in others]
    for request in requests:
        name, version = str(canonicalize_name(request.name)), request.version
        installed = after.versions.get(name)
        if name in expected or version is None or installed == version:
            continue
        # An index of one flavour may leave the local part out; what torch says of itself is compared besides.
        if not (announced is None or request.index) or installed != version.partition("+")[0]:
            wrong.append(f"{name} is {installed or 'missing'}, {version} was planned")
    for name in before.versions | after.versions if announced is not None else ():
        was, now = before.versions.get(name), after.versions.get(name)
        if name not in expected and was != now:
            came = f"{name} {now} came without being announced"
            wrong.append(f"{name} {was} became {now or 'nothing'}, which nobody announced" if was else came)
    return [*wrong, *_torch_disagreements(plan, requests, after)]


def _torch_disagreements(plan: Plan, requests: Sequence[Request], after: Contents) -> list[str]:
    """What torch itself says, which its name on the index need not: version, CUDA, ROCm."""
    if not any(request.name == "torch" for request in requests):
        return []
    if not after.torch:
        return ["torch is not there, or does not say what it is"]
    wrong, name = [], after.torch.get("__version__") or ""
    if plan.torch and name.partition("+")[0] != plan.torch.partition("+")[0]:
        wrong.append(f"torch calls itself {name}, {plan.torch} was planned")
    # XPU builds say nothing in version.py that others do not; their name does.
    if plan.variant == "xpu" and not name.endswith("+xpu"):
        wrong.append(f"torch calls itself {name}, the build for Intel's GPUs (+xpu) was planned")
    for kind, planned in (("cuda", plan.cuda), ("hip", plan.rocm)):
        toolkit = after.torch.get(kind)
        if planned is None and plan.variant == "cpu" and toolkit:
            wrong.append(f"torch was built for {kind.upper()} {toolkit}, a CPU build was planned")
        elif planned and (toolkit or "").split(".")[:2] != planned.split(".")[:2]:
            wrong.append(f"torch was built for {kind.upper()} {toolkit or 'nothing'}, {planned} was planned")
    return wrong
