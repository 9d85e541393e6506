"""``graft`` joined: the wheel from where pip would find it, a toolkit for the card, Ninja, and the writing."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from rekindle.api.graft_source import gather_sources
from rekindle.build.launchers import behind_one_name, find_launcher
from rekindle.build.work import run_ninja
from rekindle.errors import BadInput
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
from rekindle.model.graft import GraftOptions, GraftReport
from rekindle.model.progress import Progress, Silent
from rekindle.plan.describe import machine_from_flags


def graft(
    wheel: str,
    options: GraftOptions | None = None,
    *,
    gpu: str | Sequence[str],
    progress: Progress | None = None,
    **choices: Any,
) -> GraftReport:
    """An official wheel (a file, or ``xformers==0.0.35``) with machine code for a card, or several, that it lacks.

    The options are a :class:`~rekindle.model.graft.GraftOptions`, or its fields by name. Units that would differ from
    the wheel's own stop it, unless ``leave_out``. A torch wheel without PTX is compiled from its release's ``sources``.
    An AMD card (``gfx1031``) gets the wheel's code for a chip of the same kind, else code from ``sources``.
    """
    chosen = msgspec.structs.replace(options or GraftOptions(), **choices)
    listener = progress or Silent()
    host = LiveHost()
    names = (gpu,) if isinstance(gpu, str) else tuple(gpu)
    cards = {name: machine_from_flags(gpu=[name]).gpus[0].arch for name in names}
    for name, card in cards.items():
        if not isinstance(card, Sm | Gfx):
            message = f"{name} is {card or 'not known'}; grafts are for NVIDIA's and AMD's cards"
            raise BadInput(message, remedy="rekindle plan --gpu …")
    place = workspace_at(chosen.workspace, "graft")
    limits = BuildOptions(jobs=chosen.jobs, memory=chosen.memory, launcher=chosen.launcher)
    limits.check()
    with place.lock("graft", kind="graft"):
        source = _fetch_wheel(wheel, chosen, place, listener)
        folder = chosen.out or (source.parent if Path(wheel).is_file() else place.wheels)
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"{folder} is no directory", remedy="name one with --out DIR")
        opened = WheelZip(lambda: source.open("rb"), source.name)
        if opened.dist_info is None:
            raise BadInput(f"{source.name} has no .dist-info folder: it is no whole wheel", remedy="fetch it again")
        cache, settings = _find_cache(host, chosen.launcher, place)
        order = GraftOrder(
            wheel=source,
            targets=(),
            work=place.root / "work" / source.name.removesuffix(".whl"),
            tools=Tools(release=""),
            run_jobs=lambda where, _: run_ninja(where, place, limits, listener, host, settings),
            out=None if chosen.only_file else folder,
            leave_out=chosen.leave_out,
            without=tuple(chosen.without),
            prove=chosen.prove,
            dry_run=chosen.dry_run,
        )
        gather = functools.partial(
            gather_sources, source, chosen, host=host, place=place, launcher=cache, progress=listener
        )
        chips = {name: card for name, card in cards.items() if isinstance(card, Gfx)}
        nvidia = {name: card for name, card in cards.items() if isinstance(card, Sm)}
        if chips and nvidia:
            raise BadInput("a graft is for cards of one vendor", remedy="graft the result once more for the other")
        if chips:
            order = amd_order(order, chips, opened, host, chosen)
        else:
            unseen = chosen.dry_run and not (chosen.sources and Path(chosen.sources).is_dir())
            order = nvidia_order(order, nvidia, opened, host, chosen.toolkit, gather, unseen=unseen)
        archs = ".".join(order.archs)
        order = replace(order, graft=folder / f"{source.name.removesuffix('.whl')}.{archs}{SUFFIX}")
        report = carry_out(order, listener)
    return report if chips else with_driver(with_time(report, source.name, chosen.jobs), order.tools.release)


def graft_apply(
    wheel: Path | str,
    graft_file: Path | str,
    options: GraftOptions | None = None,
    *,
    progress: Progress | None = None,
    **choices: Any,
) -> GraftReport:
    """A graft file and the wheel it belongs to into the grafted wheel: no compiler, no GPU, the same everywhere.

    The wheel may be a name on the index (``torch==2.12.1``), the graft file an address of a wheelhouse. Of the options
    those count that say where the wheel is looked for and where the new one goes.
    """
    chosen = msgspec.structs.replace(options or GraftOptions(), **choices)
    listener, place = progress or Silent(), workspace_at(chosen.workspace, "graft")
    official = _fetch_wheel(str(wheel), chosen, place, listener)
    file = _graft_file(str(graft_file), place.root / "grafts", listener)
    folder = chosen.out or (official.parent if Path(wheel).is_file() else place.wheels)
    return apply_file(official, file, folder, listener)


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


def _find_cache(host: Host, name: str | None, place: Workspace) -> tuple[str | None, dict[str, str]]:
    """A script that calls what it is given through a compiler cache, and the cache's own settings."""
    if name is None:
        return None, {}
    if name != "ccache":
        raise BadInput(f"{name} does not cache device code alone", remedy="--launcher ccache")
    launcher = find_launcher(host, name, host.env, place.root, place.logs)
    return behind_one_name(launcher.env, place.root / "tools")["CMAKE_CUDA_COMPILER_LAUNCHER"], launcher.env


def _fetch_wheel(target: str, options: GraftOptions, place: Workspace, progress: Progress) -> Path:
    """The wheel as a file: itself, or a name on the index, downloaded once and checked by the index's digest."""
    path = Path(target)
    if path.is_file():
        return path.absolute()
    if target.endswith(".whl") or "/" in target or "\\" in target:
        raise BadInput(f"there is no wheel {target}")
    progress.stage("looking up", target)
    own = pip_places()
    indexes = () if options.offline else (options.index,) if options.index else own.indexes
    places = replace(own, indexes=indexes, links=(*own.links, *options.links))
    file = find_wheels(target, places, python=options.python, platform=options.platform)[0].file
    progress.stage("downloading", file.name)
    return download(file.url, place.root / "official" / file.name, sha256=file.sha256, progress=progress)
