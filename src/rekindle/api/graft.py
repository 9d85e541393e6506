"""``graft`` joined: the wheel from where pip would find it, a toolkit for the card, Ninja, and the writing."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rekindle.api.graft_source import gather_sources
from rekindle.build.launchers import behind_one_name, find_launcher
from rekindle.build.work import run_ninja
from rekindle.errors import BadInput
from rekindle.formats.simple_index import IndexFile
from rekindle.formats.wheel import WheelZip
from rekindle.graft.engine import SUFFIX, GraftOrder, Tools, apply_file, carry_out
from rekindle.graft.order import amd_order, nvidia_order, with_driver, with_time
from rekindle.host.download import download
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Host
from rekindle.host.workspace import Workspace, workspace_at
from rekindle.inspect.published import find_wheels, pip_places
from rekindle.model.arch import Gfx, Sm
from rekindle.model.build_options import BuildOptions
from rekindle.model.graft import GraftReport
from rekindle.model.progress import Progress, Silent
from rekindle.plan.describe import machine_from_flags


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
    listener = progress or Silent()
    host = LiveHost()
    names = (gpu,) if isinstance(gpu, str) else tuple(gpu)
    cards = {name: _find_arch(name) for name in names}
    place = workspace_at(workspace, "graft")
    options = BuildOptions(jobs=jobs, memory=memory, launcher=launcher)
    options.check()
    with place.lock("graft", kind="graft"):
        find = functools.partial(_find_on_index, wheel, python, platform, index, links, offline)
        source = _wheel(wheel, place.root / "official", listener, find)
        is_local = Path(wheel).is_file()
        folder = out or (source.parent if is_local else place.wheels)
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"{folder} is no directory", remedy="name one with --out DIR")
        opened = WheelZip(lambda: source.open("rb"), source.name)
        if opened.dist_info is None:
            raise BadInput(f"{source.name} has no .dist-info folder: it is no whole wheel", remedy="fetch it again")
        cache, settings = _find_cache(host, launcher, place)
        order = GraftOrder(
            wheel=source,
            targets=(),
            work=place.root / "work" / source.name.removesuffix(".whl"),
            tools=Tools(release=""),
            run_jobs=lambda where, _: run_ninja(where, place, options, listener, host, settings),
            out=None if only_file else folder,
            leave_out=leave_out,
            without=tuple(without),
            prove=prove,
            dry_run=dry_run,
        )
        gather = functools.partial(
            gather_sources,
            source,
            host=host,
            place=place,
            source=sources,
            headers=headers,
            defines=defines,
            launcher=cache,
            progress=listener,
        )
        chips = {name: card for name, card in cards.items() if isinstance(card, Gfx)}
        nvidia = {name: card for name, card in cards.items() if isinstance(card, Sm)}
        if chips and nvidia:
            raise BadInput("a graft is for cards of one vendor", remedy="graft the result once more for the other")
        if chips:
            order = amd_order(order, chips, opened, host, toolkit, sources, headers, defines)
        else:
            unseen = dry_run and not (sources and Path(sources).is_dir())
            order = nvidia_order(order, nvidia, opened, host, toolkit, gather, unseen=unseen)
        archs = ".".join(order.archs)
        order = replace(order, graft=folder / f"{source.name.removesuffix('.whl')}.{archs}{SUFFIX}")
        report = carry_out(order, listener)
    return report if chips else with_driver(with_time(report, source.name, jobs), order.tools.release)


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
    listener = progress or Silent()
    place = workspace_at(workspace, "graft")
    find = functools.partial(_find_on_index, str(wheel), python, platform, index, links, offline)
    official = _wheel(str(wheel), place.root / "official", listener, find)
    file = _graft_file(str(graft_file), place.root / "grafts", listener)
    is_local = Path(wheel).is_file()
    return apply_file(official, file, out or (official.parent if is_local else place.wheels), listener)


def _graft_file(target: str, folder: Path, progress: Progress) -> Path:
    """A graft file here, or one of a wheelhouse elsewhere, fetched; its own digests are checked when it is read."""
    if not target.startswith(("http://", "https://")):
        return Path(target)
    address = urlsplit(target)
    name = Path(unquote(address.path)).name
    digest = address.fragment.removeprefix("sha256=") or None
    if digest is None:
        (folder / name).unlink(missing_ok=True)  # nothing tells whether it is still the same
    progress.stage("downloading", name)
    return download(target.partition("#")[0], folder / name, sha256=digest, progress=progress)


def _find_arch(gpu: str) -> Sm | Gfx:
    """The architecture of a card by its name, or ``sm_120`` itself."""
    arch = machine_from_flags(gpu=[gpu]).gpus[0].arch
    if not isinstance(arch, Sm | Gfx):
        message = f"{gpu} is {arch or 'not known'}; grafts are for NVIDIA's and AMD's cards"
        raise BadInput(message, remedy="rekindle plan --gpu …")
    return arch


def _find_cache(host: Host, name: str | None, place: Workspace) -> tuple[str | None, dict[str, str]]:
    """A script that calls what it is given through a compiler cache, and the cache's own settings."""
    if name is None:
        return None, {}
    if name != "ccache":
        raise BadInput(f"{name} does not cache device code alone", remedy="--launcher ccache")
    launcher = find_launcher(host, name, host.env, place.root, place.logs)
    return behind_one_name(launcher.env, place.root / "tools")["CMAKE_CUDA_COMPILER_LAUNCHER"], launcher.env


def _find_on_index(
    name: str, python: str | None, platform: str | None, index: str | None, links: Sequence[str], offline: bool
) -> IndexFile:
    own = pip_places()
    places = replace(own, indexes=() if offline else (index,) if index else own.indexes, links=(*own.links, *links))
    return find_wheels(name, places, python=python, platform=platform)[0].file


def _wheel(target: str, folder: Path, progress: Progress, find: Callable[[], IndexFile]) -> Path:
    """The wheel as a file: itself, or a name on the index, downloaded once and checked by the index's digest."""
    path = Path(target)
    if path.is_file():
        return path.absolute()
    if target.endswith(".whl") or "/" in target or "\\" in target:
        raise BadInput(f"there is no wheel {target}")
    progress.stage("looking up", target)
    file = find()
    progress.stage("downloading", file.name)
    return download(file.url, folder / file.name, sha256=file.sha256, progress=progress)
