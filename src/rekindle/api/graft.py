"""``graft`` joined: the wheel from where pip would find it, a toolkit for the card, Ninja, and the writing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.facts import Facts
    from rekindle.formats.wheel import WheelZip
    from rekindle.graft.engine import GraftOrder, Tools, Way
    from rekindle.graft.source import Sources
    from rekindle.host.protocol import Host
    from rekindle.host.workspace import Workspace
    from rekindle.model.arch import Gfx, Sm
    from rekindle.model.graft import GraftRecipe, GraftReport, LibraryBeside
    from rekindle.model.progress import Progress


def graft(
    wheel: str,
    *,
    gpu: str | Sequence[str],
    out: Path | None = None,
    only_file: bool = False,
    toolkit: Path | None = None,
    workspace: Path | None = None,
    python: str | None = None,
    platform: str | None = None,
    jobs: int | None = None,
    memory: str | None = None,
    launcher: str | None = None,
    sources: str | None = None,
    headers: Sequence[Path] = (),
    index: str | None = None,
    links: Sequence[str] = (),
    offline: bool = False,
    leave_out: bool = False,
    without: Sequence[str] = (),
    prove: int = 0,
    defines: Sequence[str] = (),
    dry_run: bool = False,
    progress: Progress | None = None,
) -> GraftReport:
    """An official wheel (a file, or ``xformers==0.0.35``) with machine code for a card, or several, that it lacks.

    ``only_file``: make the small graft file alone. ``out`` is a folder: default beside a wheel that is a file, else the
    workspace. Units that would differ from the wheel's own stop it, unless ``leave_out``. A torch wheel without PTX is
    compiled from its release's sources: ``sources`` is a tree, or where one is fetched from (git, debian, an archive);
    ``headers`` are folders searched before headers are fetched. ``without`` are patterns of units that are not wanted;
    ``prove`` units are first compiled for an architecture the wheel has and held against its own machine code.
    ``launcher`` is a compiler cache (ccache) that nvcc is called through. ``defines`` are told to the compiler besides.
    An AMD card (``gfx1031``) gets the wheel's code for a chip of the same kind, else code from ``sources``.
    ``index`` is asked for a name instead of pip's own; ``links`` are folders or pages of wheels besides; ``offline``
    asks no index.
    """
    from rekindle.errors import BadInput, need_package

    need_package("numpy", "a graft")
    from rekindle.api.graft_source import amd_order, gather_sources
    from rekindle.build.work import run_ninja
    from rekindle.formats.wheel import WheelZip
    from rekindle.graft.engine import SUFFIX, GraftOrder, Tools, carry_out
    from rekindle.host.live import LiveHost
    from rekindle.host.workspace import workspace_at
    from rekindle.model.arch import Gfx, Sm
    from rekindle.model.build_options import BuildOptions
    from rekindle.model.progress import Silent

    listener = progress or Silent()
    host = LiveHost()
    names = (gpu,) if isinstance(gpu, str) else tuple(gpu)
    cards = {name: _card(name) for name in names}
    place = workspace_at(workspace, "graft")
    options = BuildOptions(jobs=jobs, memory=memory, launcher=launcher)
    options.check()
    with place.lock("graft", kind="graft"):
        where = _Where(python=python, platform=platform, index=index, links=tuple(links), offline=offline)
        source = _wheel(wheel, place.root / "official", where, listener)
        given = Path(wheel).is_file()
        folder = out or (source.parent if given else place.wheels)
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"{folder} is no directory", remedy="name one with --out DIR")
        opened = WheelZip(lambda: source.open("rb"), source.name)
        if opened.dist_info is None:
            raise BadInput(f"{source.name} has no .dist-info folder: it is no whole wheel", remedy="fetch it again")
        cache = _cache(host, launcher, place)
        order = GraftOrder(
            wheel=source,
            targets=(),
            work=place.root / "work" / source.name.removesuffix(".whl"),
            tools=Tools(release=""),
            run_jobs=lambda where, _: run_ninja(where, place, options, listener, host, cache[1] if cache else {}),
            out=None if only_file else folder,
            leave_out=leave_out,
            without=tuple(without),
            prove=prove,
            dry_run=dry_run,
        )
        gather = functools.partial(
            gather_sources, source, host=host, place=place, source=sources, headers=headers, defines=defines,
            launcher=cache[0] if cache else None, progress=listener,
        )  # fmt: skip
        chips = {name: card for name, card in cards.items() if isinstance(card, Gfx)}
        nvidia = {name: card for name, card in cards.items() if isinstance(card, Sm)}
        if chips and nvidia:
            raise BadInput("a graft is for cards of one vendor", remedy="graft the result once more for the other")
        if chips:
            order = amd_order(order, chips, opened, host, toolkit, sources, headers, defines)
        else:
            unseen = dry_run and not (sources and Path(sources).is_dir())
            order = _nvidia_order(order, nvidia, opened, host, toolkit, gather, unseen=unseen)
        archs = ".".join(order.archs)
        order = replace(order, graft=folder / f"{source.name.removesuffix('.whl')}.{archs}{SUFFIX}")
        report = carry_out(order, listener)
    return report if chips else _with_driver(_with_time(report, source.name, jobs), order.tools.release)


def _nvidia_order(
    order: GraftOrder,
    cards: dict[str, Sm],
    opened: WheelZip,
    host: Host,
    toolkit: Path | None,
    gather: Callable[[GraftRecipe, Tools], Sources],
    *,
    unseen: bool,
) -> GraftOrder:
    """What NVIDIA cards get, and by which toolkit: from the wheel's PTX, then from the kernel files of its release."""
    from rekindle.api.graft_source import wheel_recipe, why_no_sources
    from rekindle.errors import BadInput
    from rekindle.facts import load_facts
    from rekindle.graft.engine import CardTarget
    from rekindle.graft.wheel import wheel_cuda

    facts = load_facts()
    name = order.wheel.name
    recipe = wheel_recipe(name, facts)
    cuda = wheel_cuda(opened, name.split("-")[0])
    tools, archs = find_tools(host, tuple(cards.values()), toolkit, cuda)
    notes = why_no_sources(name, recipe, cuda, tools, facts)
    ready = recipe if not notes else None
    if ready and ready.how == "inferred" and not (order.prove or order.dry_run):
        raise BadInput(
            f"how {ready.package} {ready.releases} compiles its kernels was inferred from its neighbours",
            remedy="add --prove 6: six units are first compiled for a card the wheel has, and compared with its code",
        )
    if ready and unseen:
        notes = ("no source tree was looked into: units of its submodules (flash attention) may stay without code",)
    once = functools.cache(lambda: gather(ready, tools)) if ready else None
    ways = functools.partial(_ways, tools=tools, wheel=name, facts=facts, recipe=ready, gather=once, unseen=unseen)
    return replace(
        order,
        targets=tuple(
            CardTarget(name=card, arch=arch, ways=ways(sm, arch))
            for (card, sm), arch in zip(cards.items(), archs, strict=True)
        ),
        tools=tools,
        libraries=_libraries(opened, name, tuple(cards.values()), facts),
        notes=notes,
    )


def graft_apply(
    wheel: Path | str,
    graft_file: Path | str,
    *,
    out: Path | None = None,
    workspace: Path | None = None,
    python: str | None = None,
    platform: str | None = None,
    index: str | None = None,
    links: Sequence[str] = (),
    offline: bool = False,
    progress: Progress | None = None,
) -> GraftReport:
    """A graft file and the wheel it belongs to into the grafted wheel: no compiler, no GPU, the same everywhere.

    The wheel may be a name on the index (``torch==2.12.1``), the graft file an address of a wheelhouse; what else is
    told is where they are looked for, as for :func:`graft`.
    """
    from rekindle.errors import need_package

    need_package("numpy", "a graft")
    from rekindle.graft.engine import apply_file
    from rekindle.host.workspace import workspace_at
    from rekindle.model.progress import Silent

    listener = progress or Silent()
    place = workspace_at(workspace, "graft")
    where = _Where(python=python, platform=platform, index=index, links=tuple(links), offline=offline)
    official = _wheel(str(wheel), place.root / "official", where, listener)
    file = _graft_file(str(graft_file), place.root / "grafts", listener)
    given = Path(wheel).is_file()
    return apply_file(official, file, out or (official.parent if given else place.wheels), listener)


def _graft_file(target: str, folder: Path, progress: Progress) -> Path:
    """A graft file here, or one of a wheelhouse elsewhere, fetched; its own digests are checked when it is read."""
    from urllib.parse import unquote, urlsplit

    from rekindle.host.download import download

    if not target.startswith(("http://", "https://")):
        return Path(target)
    address = urlsplit(target)
    name = Path(unquote(address.path)).name
    digest = address.fragment.removeprefix("sha256=") or None
    if digest is None:
        (folder / name).unlink(missing_ok=True)  # nothing tells whether it is still the same
    progress.stage("downloading", name)
    return download(target.partition("#")[0], folder / name, sha256=digest, progress=progress)


@dataclass(frozen=True, kw_only=True)
class _Where:
    """Which wheel of a name is meant, and where it is looked for."""

    python: str | None = None
    platform: str | None = None
    index: str | None = None
    links: tuple[str, ...] = ()
    offline: bool = False


def _card(gpu: str) -> Sm | Gfx:
    """The architecture of a card by its name, or ``sm_120`` itself."""
    from rekindle.errors import BadInput
    from rekindle.model.arch import Gfx, Sm
    from rekindle.plan.describe import machine_from_flags

    arch = machine_from_flags(gpu=[gpu]).gpus[0].arch
    if not isinstance(arch, Sm | Gfx):
        told = f"{gpu} is {arch or 'not known'}; grafts are for NVIDIA's and AMD's cards"
        raise BadInput(told, remedy="rekindle plan --gpu …")
    return arch


def _ways(
    card: Sm,
    arch: Sm,
    *,
    tools: Tools,
    wheel: str,
    facts: Facts,
    recipe: GraftRecipe | None,
    gather: Callable[[], Sources] | None,
    unseen: bool,
) -> tuple[Way, ...]:
    """The wheel's own PTX first; then its release's kernel files, where there is a recipe for them."""
    from rekindle.graft.ptx import PtxWay
    from rekindle.graft.source import SourceWay

    ptx = PtxWay(card=card, arch=arch, ptxas=tools.ptxas, facts=facts)
    if recipe is None or gather is None:
        return (ptx,)
    source = SourceWay(
        card=card,
        arch=arch,
        facts=facts,
        recipe=recipe,
        gather=gather,
        toolkit=tools.release,
        unseen=unseen,
        sources=(f"{recipe.package} {wheel.split('-')[1]} source tree",),
    )
    return (ptx, source)


def _libraries(opened: WheelZip, file: str, cards: Sequence[Sm], facts: Facts) -> tuple[LibraryBeside, ...]:
    """What the closed libraries of a torch wheel do on the cards."""
    from rekindle.compat.closed_libraries import judge_closed_libraries

    name, version, *_ = file.split("-")
    if name != "torch":
        return ()
    requires = [value for name, value in opened.headers("METADATA") if name == "Requires-Dist"]
    return judge_closed_libraries(requires, version, cards, facts)


def _cache(host: Host, name: str | None, place: Workspace) -> tuple[str, dict[str, str]] | None:
    """A script that calls what it is given through a compiler cache, and the cache's own settings."""
    from rekindle.build.launchers import behind_one_name, find_launcher
    from rekindle.errors import BadInput

    if name is None:
        return None
    if name != "ccache":
        raise BadInput(f"{name} does not cache device code alone", remedy="--launcher ccache")
    found = find_launcher(host, name, host.env, place.root, place.logs)
    script = behind_one_name(found.env, place.root / "tools")["CMAKE_CUDA_COMPILER_LAUNCHER"]
    return script, found.env


def find_tools(
    host: Host, cards: Sequence[Sm], folder: Path | None, cuda: str | None = None
) -> tuple[Tools, tuple[Sm, ...]]:
    """The toolkit to compile with, and what it makes for each card: the given one, else of those here that know the
    cards one that fits a torch wheel of ``cuda``, and the oldest, since what a toolkit makes needs a driver as new as
    itself."""
    from rekindle.compat.graft import fits_wheel
    from rekindle.compat.toolkit import compiles_for, emits_for, toolkits_for
    from rekindle.errors import MissingTool
    from rekindle.facts import load_facts
    from rekindle.model.version import key
    from rekindle.toolkits.cuda import every_nvcc

    facts = load_facts()
    # Links to its programs are made elsewhere: a relative name would lead nowhere there.
    places = (
        [folder.absolute() / "bin", folder.absolute()] if folder else [Path(nvcc).parent for nvcc in every_nvcc(host)]
    )
    if not folder and (found := host.which("ptxas")):
        places.append(Path(found).parent)
    kits = [kit for place in dict.fromkeys(places) if (kit := _toolkit(host, place)) is not None]
    able = [row for row in toolkits_for(cards[0], facts) if all(row in toolkits_for(card, facts) for card in cards)]
    fitting = [release for release in able if cuda and fits_wheel(release, cuda).kind == "yes"] or able
    want = f"CUDA {fitting[0]} or later" if fitting else "a toolkit"
    if not kits:
        raise MissingTool(
            f"there is no ptxas {f'in {folder}' if folder else 'on this machine'}, which compiles for"
            f" {', '.join(map(str, cards))}",
            remedy=f"install {want} (its compiler alone is enough: pip install nvidia-cuda-nvcc), or name it with"
            " --toolkit DIR",
        )
    made = {kit.release: [emits_for(kit.release, card, facts) for card in cards] for kit in kits}
    usable = [kit for kit in kits if None not in made[kit.release]]
    if not usable:
        card = next(card for card in cards if emits_for(kits[0].release, card, facts) is None)
        raise MissingTool(
            compiles_for(kits[0].release, card, facts).text, remedy=f"install {want}, or name it with --toolkit DIR"
        )
    strange = {kit.release for kit in usable if cuda and fits_wheel(kit.release, cuda).kind != "yes"}
    best = min(usable, key=lambda kit: (kit.release in strange, made[kit.release] != list(cards), key(kit.release)))
    return best, tuple(arch for arch in made[best.release] if arch is not None)


def _toolkit(host: Host, place: Path) -> Tools | None:
    from rekindle.graft.engine import Tools
    from rekindle.toolkits.cuda import ask_release

    ptxas = _program(host, place, "ptxas")
    said = ask_release(host, ptxas) if ptxas else None
    if ptxas is None or said is None:
        return None
    release, version = said
    fatbinary = _program(host, place, "fatbinary")
    versions = {"ptxas": version} | ({"fatbinary": version} if fatbinary else {})
    nvcc = _program(host, place, "nvcc")
    return Tools(release=release, ptxas=ptxas, nvcc=nvcc, fatbinary=fatbinary, versions=versions)


def _program(host: Host, place: Path, name: str) -> str | None:
    found = host.glob(str(place / name)) or host.glob(str(place / f"{name}.exe"))
    return found[0] if found else None


def _wheel(target: str, folder: Path, where: _Where, progress: Progress) -> Path:
    """The wheel as a file: itself, or a name on the index, downloaded once and checked by the index's digest."""
    from dataclasses import replace

    from rekindle.errors import BadInput
    from rekindle.host.download import download
    from rekindle.inspect.published import find_wheels, pip_places

    path = Path(target)
    if path.is_file():
        return path.absolute()
    if target.endswith(".whl") or "/" in target or "\\" in target:
        raise BadInput(f"there is no wheel {target}")
    progress.stage("looking up", target)
    places = pip_places()
    indexes = () if where.offline else (where.index,) if where.index else places.indexes
    places = replace(places, indexes=indexes, links=(*places.links, *where.links))
    found = find_wheels(target, places, python=where.python, platform=where.platform)[0].file
    progress.stage("downloading", found.name)
    return download(found.url, folder / found.name, sha256=found.sha256, progress=progress)


def _with_time(report: GraftReport, wheel: str, jobs: int | None) -> GraftReport:
    """How long what is planned takes here, where the release (or a neighbour of it) was measured."""
    import os

    import msgspec

    from rekindle.compat.graft import find_recipe, graft_cost, graft_time, unit_seconds
    from rekindle.facts import load_facts
    from rekindle.model.arch import parse_sm

    name, version, *_ = wheel.split("-")
    planned = [unit for unit in report.units if unit.state == "planned" and unit.arch]
    facts = load_facts()
    if name != "torch" or not planned or find_recipe(version, facts) is None:
        return report
    row = graft_cost(version, facts)
    assert row is not None
    seconds = [unit_seconds(unit.unit, parse_sm(unit.arch or ""), row) for unit in planned]
    time = graft_time(seconds, jobs or os.cpu_count() or 1, row)
    return msgspec.structs.replace(report, minutes=time.minutes, jobs=time.jobs)


def _with_driver(report: GraftReport, release: str) -> GraftReport:
    """What the new code asks of the driver, which may be more than the wheel asks."""
    import msgspec

    from rekindle.compat.driver import toolkit_driver
    from rekindle.facts import load_facts

    if not (report.count("added") or report.count("planned")):
        return report
    facts = load_facts()
    needed = toolkit_driver(release, "windows" if "-win_" in report.wheel else "linux", facts)
    made = f"CUDA {release}'s ptxas makes the code for {report.arch}"
    text = f"{made}: it needs an NVIDIA driver {needed.floor} or newer"
    return msgspec.structs.replace(report, notes=(*report.notes, text)) if needed.floor else report
