"""A pack: all that a plan needs on a machine that never sees a network, with a script that installs it there. First
everything is resolved for that machine (metadata alone), measured and shown; then each file is fetched, resumed where
it stopped, and held against its digest. One that was cut short installs nothing, and is continued."""

import dataclasses
import functools
import sys
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace
from packaging.utils import canonicalize_name, parse_wheel_filename

from rekindle import __version__
from rekindle.api.plan_torch import plan as make_plan
from rekindle.errors import BadInput, Declined, MissingTool, NotReady, StageFailed
from rekindle.formats.ranges import tls_context
from rekindle.host.download import download
from rekindle.host.live import LiveHost
from rekindle.host.redact import without_password
from rekindle.interpreters import other_machine
from rekindle.interpreters.installer import Installer, PipSettings, choose_installer, read_pip_settings
from rekindle.journey.card import Confirm, free_bytes, look_for_network, make_card, refuse_unreachable
from rekindle.journey.install import index_places, wanted_from
from rekindle.journey.pack_folder import PYTHON, SOURCE, WHEELS, PackFolder, pack_links, pack_source
from rekindle.journey.resolve import groups_of, lock_lines, resolve
from rekindle.journey.target import InstallTarget
from rekindle.model.document import encode
from rekindle.model.guard import constraints_text, pinned
from rekindle.model.journey import Card, Package
from rekindle.model.machine import Machine
from rekindle.model.pack import Pack, PackOptions
from rekindle.model.plan import Plan, Request, Wish
from rekindle.model.progress import Progress, Silent
from rekindle.model.spoken import GIB, spoken_bytes
from rekindle.scripts.pack_install import SIGNATURE, SUMS
from rekindle.scripts.quoting import pasted
from rekindle.scripts.recipe import make_recipe
from rekindle.scripts.templates import pack_texts


def pack(
    machine: Machine,
    wish: Wish | None,
    options: PackOptions,
    *,
    confirm: Confirm | None = None,
    progress: Progress | None = None,
) -> Pack:
    """Plan for a machine and put all that the plan needs there into the folder ``options.out``.

    ``confirm`` sees the plan and may ask for its card (how much comes, from where) before anything is fetched; without
    it the answer is yes. An interrupted call is continued by the same one.
    """
    listener = progress or Silent()
    plan = _installable_plan(make_plan(machine, wish), options)
    system, arch = (plan.os.system, plan.os.arch) if plan.os else (machine.os.system, machine.os.arch or "x86_64")
    glibc = (machine.os.glibc or other_machine.USUAL_GLIBC) if system == "linux" else None
    other = other_machine.OtherMachine(system=system, arch=arch, python=plan.python or "3.12", glibc=glibc)
    work = _Packing(options=options, plan=plan, other=other, progress=listener)
    work.folder.refuse_foreign()
    listener.stage("resolve", "what that machine needs, asked without fetching it")
    if not options.offline:  # pip would try for half a minute, and end with its own words
        refuse_unreachable(look_for_network(index_places(work.requests)))
    packages = work.resolve() if plan.answer == "install" else ()
    card = work.card(packages)
    if options.dry_run:
        return work.answer(packages, (), card)
    free, need = free_bytes(options.out), card.download_bytes or 0
    if free is not None and free < need:
        raise NotReady(
            f"{spoken_bytes(free)} are free at {options.out}, and the files take {spoken_bytes(need)}",
            remedy="make room, or name a folder on a larger disk with --out",
        )
    if confirm is not None and not confirm(plan, lambda: card):
        remedy = "answer y, or give --yes where nobody can answer; --dry-run shows what would come"
        raise Declined("nothing was packed: it needs a yes", remedy=remedy)
    return work.make(packages, card, machine, wish)


def _installable_plan(plan: Plan, options: PackOptions) -> Plan:
    """The plan with a wheel of the user's own in place of what would be built or grafted; refused where none is."""
    if plan.answer == "none":
        raise StageFailed(
            "no torch can run there as asked: " + "; ".join(reason.text for reason in plan.because),
            remedy="rekindle plan shows what would have to change",
        )
    if options.wheel is not None:
        if not options.wheel.is_file():
            raise BadInput(f"there is no wheel {options.wheel}")
        wheel = Request(name=plan.project, url=str(options.wheel.absolute()), why="built before")
        requests = (wheel, *(request for request in plan.requests if request.name != plan.project))
        version = str(parse_wheel_filename(options.wheel.name)[1])
        return replace(plan, answer="install", torch=version, build=None, graft=None, requests=requests)
    if (plan.answer == "build" and not options.source) or plan.answer == "graft":
        builds = plan.answer == "build"
        raise StageFailed(
            f"torch {plan.torch} must be {'built from source' if builds else 'grafted'} for that machine, so there is"
            " no wheel to pack",
            remedy="pack one that was made before with --wheel FILE"
            + (", or all that a build needs with --source" if builds else ""),
        )
    return plan


@dataclass(kw_only=True)
class _Packing:
    """One pack in the making: what its steps share."""

    options: PackOptions
    plan: Plan
    other: other_machine.OtherMachine
    progress: Progress
    left_out: list[str] = field(default_factory=list)

    @functools.cached_property
    def folder(self) -> PackFolder:
        return PackFolder(self.options.out)

    @functools.cached_property
    def requests(self) -> tuple[Request, ...]:
        if self.plan.answer != "install":
            return ()
        return wanted_from(self.plan.requests, index=self.options.index, torch_only=self.options.torch_only)

    @functools.cached_property
    def installer(self) -> Installer:
        links, _ = pack_links(self.options.find_links)
        return choose_installer(None, links=links, offline=self.options.offline)

    @functools.cached_property
    def settings(self) -> PipSettings:
        return read_pip_settings(LiveHost())

    def resolve(self) -> tuple[Package, ...]:
        """The whole closure for that machine; what is chosen first is kept by what comes later."""
        open_ones = [request for request in self.requests if request.version is None and not request.url]
        limits = [request.requirement for request in open_ones]
        chosen: dict[str, Package] = {}
        for group in groups_of([request for request in self.requests if request not in open_ones]):
            self.add(chosen, group, limits)
        for companion in self.plan.companions:
            wheels = companion.requests if companion.comes else ()
            if not wheels and canonicalize_name(companion.name) not in chosen:
                self.left_out.append(f"{companion.name} ({companion.answer}): {companion.why}")
            for request in wheels:
                try:
                    self.add(chosen, [request], limits, beside=True)
                except StageFailed as error:
                    self.left_out.append(f"{companion.name} {companion.version}: {error.message}")
        # Torch asks for no NumPy, and nobody can fetch one there later.
        limited = [row for row in open_ones if row.name != "numpy"]
        numpy = Request(name="numpy", specifier=self.plan.numpy, why="what this torch can use")
        self.add(chosen, [*limited, numpy, Request(name="pip", why="installs the others")], limits, beside=True)
        return tuple(sorted(chosen.values(), key=lambda package: package.name))

    def add(
        self, chosen: dict[str, Package], group: Sequence[Request], limits: Sequence[str], *, beside: bool = False
    ) -> None:
        """Resolve a group into ``chosen``; ``beside`` torch from pip's own index, what it asks for also from where
        torch lies."""
        installer = self.installer
        if beside:
            indexes = tuple(dict.fromkeys(request.index for request in self.requests if request.index))
            links = tuple(dict.fromkeys(request.links for request in self.requests if request.links))
            installer = dataclasses.replace(installer, indexes=indexes, links=(*installer.links, *links))
        packages = resolve(
            LiveHost(),
            sys.executable,
            group,
            fresh=True,
            substituted=self.options.index is not None,
            installer=installer,
            elsewhere=self.other,
            limits=[*limits, *(f"{package.name}=={package.version}" for package in chosen.values())],
        )
        if packages is None:
            raise MissingTool("the pip beside Rekindle cannot resolve", remedy=f"{sys.executable} -m ensurepip -U")
        for package in packages:
            chosen.setdefault(package.name, package)

    def card(self, packages: Sequence[Package]) -> Card:
        places = dict.fromkeys(request.index or request.links or "" for request in self.requests if not request.url)
        own = None if self.options.offline else self.settings.index
        card = make_card(
            self.plan,
            self.requests,
            packages if self.plan.answer == "install" else None,
            InstallTarget(python="", folder=self.options.out, exists=False),
            places=[place or own or "pip's own index" for place in places],
            network=None,
            installer="pip",
        )
        size = (card.download_bytes or 0) / GIB
        return replace(card, disk_gib=round(size, 1) or None, python=self.other.python, minutes=None)

    def make(self, packages: Sequence[Package], card: Card, machine: Machine, wish: Wish | None) -> Pack:
        """Fetch, write, and name every file at last."""
        for name in (SUMS, SIGNATURE):  # from here on it is no pack, until it is finished
            (self.options.out / name).unlink(missing_ok=True)
        fetched = tuple(self.fetch(package, number, packages) for number, package in enumerate(packages, 1))
        self.carry_python()
        notes = [*self.carry_source(machine, wish)] if self.options.source else []
        made = self.answer(fetched, tuple(notes), card)
        answer = replace(made, folder="", install=(), card=None)
        for name, content in pack_texts(answer, self.plan).items():
            self.folder.write(name, content)
        if fetched:
            self.folder.write("requirements.txt", lock_lines(fetched))
            versions = {package.name: package.version for package in fetched}
            self.folder.write("constraints.txt", constraints_text(pinned(self.requests, versions)))
        self.folder.write("plan.json", encode(self.plan))
        files = tuple(self.folder.files.values())
        total = sum(file.bytes for file in files)
        self.folder.write("pack.json", encode(replace(answer, files=files, bytes=total)))
        self.folder.finish(self.options.sign)
        return replace(made, files=files, bytes=total, signed=self.options.sign)

    def answer(self, packages: Sequence[Package], notes: tuple[str, ...], card: Card | None) -> Pack:
        plan, other, windows = self.plan, self.other, self.other.system == "windows"
        script = pasted(str(self.options.out / ("install.bat" if windows else "install.sh")), windows=windows)
        variant = plan.variant if "+" not in (plan.torch or "") else None
        return Pack(
            title=" ".join(filter(None, (plan.project, plan.torch, variant))),
            project=plan.project,
            torch=plan.torch,
            variant=plan.variant,
            python=other.python,
            system=other.system,
            arch=other.arch,
            glibc=other.glibc,
            proof=make_recipe(plan, {}).proof_on_cpu if packages else "",
            packages=tuple(replace(package, url=without_password(package.url)) for package in packages),
            left_out=tuple(self.left_out),
            notes=notes,
            tool=f"rekindle {__version__}",
            folder=str(self.options.out),
            card=card,
            install=(script if windows else f"sh {script}",) if packages else (),
        )

    def fetch(self, package: Package, number: int, packages: Sequence[Package], folder: str = WHEELS) -> Package:
        """One wheel, with its digest and size as they lie there."""
        name = urllib.parse.unquote(urllib.parse.urlsplit(package.url).path).replace("\\", "/").rpartition("/")[2]
        if not self.other.takes(name) or canonicalize_name(parse_wheel_filename(name)[0]) != package.name:
            raise StageFailed(f"{without_password(package.url)} is no wheel of {package.name} for that machine")
        self.progress.stage("fetch", f"{name} ({number} of {len(packages)})")
        context = tls_context(self.settings.certificates) if package.url.startswith("https:") else None
        target = self.options.out / folder / name
        download(package.url, target, sha256=package.sha256, progress=self.progress, context=context)
        lies = self.folder.note(f"{folder}/{name}", package.sha256)
        return replace(package, sha256=lies.sha256, bytes=lies.bytes)

    def carry_python(self) -> None:
        """Windows' embeddable Python where an index has it; elsewhere the machine must have its own."""
        archive = other_machine.embedded_archive(self.other)
        if archive is None or not self.options.python_too:
            return
        self.progress.stage("fetch", archive[0])
        pip = self.settings
        indexes = () if self.options.offline else tuple(filter(None, (pip.index, *pip.extra)))
        place, told = self.options.out / PYTHON, self.progress
        fetched = other_machine.fetch_embedded(archive, indexes, place, pip.certificates, told)
        if fetched is None:
            self.left_out.append(f"Python {self.other.python} itself: no index here has {archive[0]}")
            return
        for name, content in other_machine.unpack_embedded(fetched).items():
            self.folder.write(f"{PYTHON}/{name}", content)
        fetched.unlink()

    def carry_source(self, machine: Machine, wish: Wish | None) -> list[str]:
        """The tree, patches, tools and script of a build; what could not be had, in words."""
        built = self.plan
        if built.build is None:
            torch = (self.plan.torch or "").split("+")[0]
            built = make_plan(machine, replace(wish or Wish(), build=True, torch=torch))
            if built.build is None:
                return [f"no sources: {'; '.join(reason.text for reason in built.because[:2])}"]
        chosen: dict[str, Package] = {}
        add, windows = functools.partial(self.add, chosen, limits=()), self.other.system == "windows"
        notes = pack_source(built, self.options.out / SOURCE, add, windows=windows, progress=self.progress)
        tools = tuple(chosen.values())
        locked = tuple(self.fetch(tool, number, tools, f"{SOURCE}/tools") for number, tool in enumerate(tools, 1))
        self.folder.write(f"{SOURCE}/requirements.txt", lock_lines(locked))
        self.folder.note_all(SOURCE)
        return notes
