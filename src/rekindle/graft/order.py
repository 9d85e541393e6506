"""What each card gets, and by which toolkit: from the wheel's PTX, its release's sources, or a like chip's code."""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from rekindle.compat.driver import toolkit_driver
from rekindle.compat.graft import find_recipe, fits_wheel, graft_cost, graft_time, judge_closed_libraries, unit_seconds
from rekindle.compat.toolkit import compiles_for, emits_for, toolkits_for
from rekindle.errors import BadInput, MissingTool
from rekindle.facts import Facts, load_facts
from rekindle.formats.wheel import WheelZip
from rekindle.graft.engine import CardTarget, GraftOrder, Tools
from rekindle.graft.hip import HIP, HipLibrary, HipSourceWay, TwinWay, judge_chip_files
from rekindle.graft.library import Way
from rekindle.graft.nvidia import PtxWay, Sources, SourceWay
from rekindle.graft.wheel import wheel_cuda
from rekindle.host.protocol import Host
from rekindle.model.arch import Gfx, Sm, parse_sm
from rekindle.model.graft import GraftOptions, GraftRecipe, GraftReport, LibraryBeside
from rekindle.model.version import key
from rekindle.toolkits.cuda import ask_release, every_nvcc


def find_tools(
    host: Host, cards: Sequence[Sm], folder: Path | None, cuda: str | None = None
) -> tuple[Tools, tuple[Sm, ...]]:
    """The toolkit to compile with, and what it makes for each card: the given one, else of those here that know them
    one that fits a wheel of ``cuda``, and the oldest, since what a toolkit makes needs a driver as new as itself."""
    facts = load_facts()
    if folder:
        # Links to its programs are made elsewhere: a relative name would lead nowhere there.
        places = [folder.absolute() / "bin", folder.absolute()]
    else:
        places = [Path(name).parent for name in (*every_nvcc(host), host.which("ptxas")) if name]
    kits = [kit for place in dict.fromkeys(places) if (kit := _read_toolkit(host, place)) is not None]
    able = [row for row in toolkits_for(cards[0], facts) if all(row in toolkits_for(card, facts) for card in cards)]
    fitting = [release for release in able if cuda and fits_wheel(release, cuda).kind == "yes"] or able
    want = f"CUDA {fitting[0]} or later" if fitting else "a toolkit"
    if not kits:
        where = f"in {folder}" if folder else "on this machine"
        pip = "its compiler alone is enough: pip install nvidia-cuda-nvcc"
        text = f"there is no ptxas {where}, which compiles for {', '.join(map(str, cards))}"
        raise MissingTool(text, remedy=f"install {want} ({pip}), or name it with --toolkit DIR")
    archs = {kit.release: tuple(filter(None, (emits_for(kit.release, card, facts) for card in cards))) for kit in kits}
    usable = [kit for kit in kits if len(archs[kit.release]) == len(cards)]
    if not usable:
        card = next(card for card in cards if emits_for(kits[0].release, card, facts) is None)
        why = compiles_for(kits[0].release, card, facts).text
        raise MissingTool(why, remedy=f"install {want}, or name it with --toolkit DIR")
    strange = {kit.release for kit in usable if cuda and fits_wheel(kit.release, cuda).kind != "yes"}
    best = min(usable, key=lambda kit: (kit.release in strange, archs[kit.release] != tuple(cards), key(kit.release)))
    return best, archs[best.release]


def _read_toolkit(host: Host, place: Path) -> Tools | None:
    def find(name: str) -> str | None:
        return next(iter(host.glob(str(place / name)) or host.glob(str(place / f"{name}.exe"))), None)

    if (ptxas := find("ptxas")) is None or (answer := ask_release(host, ptxas)) is None:
        return None
    (release, version), fatbinary = answer, find("fatbinary")
    versions = {"ptxas": version} | ({"fatbinary": version} if fatbinary else {})
    return Tools(release=release, ptxas=ptxas, nvcc=find("nvcc"), fatbinary=fatbinary, versions=versions)


def nvidia_order(
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
    facts = load_facts()
    name = order.wheel.name
    libraries: tuple[LibraryBeside, ...] = ()
    if name.startswith("torch-"):
        requires = [value for header, value in opened.headers("METADATA") if header == "Requires-Dist"]
        libraries = judge_closed_libraries(requires, name.split("-")[1], tuple(cards.values()), facts)
    recipe = None
    with contextlib.suppress(InvalidWheelFilename):  # whoever opens it says so
        package, version, *_ = parse_wheel_filename(name)
        recipe = find_recipe(str(version), facts, package)
    cuda = wheel_cuda(opened, name.split("-")[0])
    tools, archs = find_tools(host, tuple(cards.values()), toolkit, cuda)
    notes = why_no_sources(name, recipe, cuda, tools, facts)
    ready = recipe if not notes else None
    if ready and ready.how == "inferred" and not (order.prove or order.dry_run):
        text = f"how {ready.package} {ready.releases} compiles its kernels was inferred from its neighbours"
        proof = "six units are first compiled for a card the wheel has, and compared with its code"
        raise BadInput(text, remedy=f"add --prove 6: {proof}")
    if ready and unseen:
        notes = ("no source tree was looked into: units of its submodules (flash attention) may stay without code",)
    sourced = None
    if ready:
        once = functools.cache(lambda: gather(ready, tools))
        trees = (f"{ready.package} {name.split('-')[1]} source tree",)
        sourced = functools.partial(SourceWay, recipe=ready, gather=once, toolkit=tools.release, sources=trees)
    targets: list[CardTarget] = []
    for (asked, card), arch in zip(cards.items(), archs, strict=True):
        # The wheel's own PTX first; then its release's kernel files, where there is a recipe for them.
        ways: tuple[Way, ...] = (PtxWay(card=card, arch=arch, ptxas=tools.ptxas, facts=facts),)
        ways += (sourced(card=card, arch=arch, facts=facts, unseen=unseen),) if sourced else ()
        targets.append(CardTarget(name=asked, arch=arch, ways=ways))
    return replace(order, targets=tuple(targets), tools=tools, libraries=libraries, notes=notes)


def why_no_sources(
    wheel: str, recipe: GraftRecipe | None, cuda: str | None, tools: Tools, facts: Facts
) -> tuple[str, ...]:
    """In words, for a package with recipes: of others only the PTX is used in any case. A toolkit that does not fit a
    wheel with a recipe is refused: what it makes would differ in every unit."""
    name, version, *_ = wheel.split("-")
    rows = [row.releases for row in facts.graft.recipe if row.package == name]
    if not rows:
        return ()
    if recipe is None:
        why = f"how {name} {version} compiles its kernels is in no recipe ({', '.join(rows)})"
        return (f"{why}: its PTX alone is used",)
    if "-win_" in wheel:
        why = "Windows' kernels are compiled with MSVC as nvcc's preprocessor, which graft does not call"
        return (f"{why}: {name}'s PTX alone is used",)
    if tools.nvcc is None:
        return (f"beside {tools.ptxas} there is no nvcc: {name}'s own kernel files cannot be compiled",)
    fit = fits_wheel(tools.release, cuda or tools.release)
    if fit.kind != "yes":
        raise BadInput(fit.text, remedy=f"name a toolkit of CUDA {fit.want} with --toolkit DIR")
    return ()


def amd_order(
    order: GraftOrder, cards: dict[str, Gfx], opened: WheelZip, host: Host, options: GraftOptions
) -> GraftOrder:
    """What AMD cards get: the wheel's code for a chip of the same kind, then code from the package's sources."""
    facts = load_facts()
    tree = Path(options.sources).absolute() if options.sources else None
    if tree is not None and not tree.is_dir():
        message = f"{options.sources} is no folder with the package's sources"
        raise BadInput(message, remedy="unpack them, and name it: --source DIR")
    compiler = _find_hip_compiler(host, options.toolkit) if tree else None
    targets: list[CardTarget] = []
    for name, card in cards.items():
        ways: tuple[Way, ...] = (TwinWay(card=card, facts=facts),)
        if tree and compiler:
            words = (*(f"-I{path}" for path in options.headers), *(f"-D{define}" for define in options.defines))
            told = (f"{tree.name} (sources of the package)",)
            ways += (HipSourceWay(card=card, tree=tree, clang=compiler[0], options=words, sources=told),)
        targets.append(CardTarget(name=name, arch=card, ways=ways))
    tools = Tools(release="", versions={"clang": compiler[1]} if compiler else {})
    beside = tuple(row for card in cards.values() for row in judge_chip_files(opened.members, card, facts))
    return replace(order, targets=tuple(targets), tools=tools, libraries=beside, device_library=HipLibrary)


def _find_hip_compiler(host: Host, folder: Path | None) -> tuple[str, str]:
    inside = [folder / place for place in ("bin/hipcc", "llvm/bin/clang++", "lib/llvm/bin/clang++")] if folder else []
    paths = [str(path.absolute()) for path in inside if host.glob(str(path))]
    if not folder:
        paths = [path for name in ("hipcc", "amdclang++", "/opt/rocm/bin/hipcc") if (path := host.which(name))]
    for path in paths:
        reply = host.run([*HIP, path, "--version"], timeout=30.0)
        if reply.ok and (version := re.search(r"clang version (\d[\w.]*)", reply.out)):
            return path, version[1]
    text = f"there is no hipcc {f'in {folder}' if folder else 'on this machine'}, which compiles for AMD's cards"
    raise MissingTool(text, remedy="install it (Debian: apt install hipcc), or name ROCm's folder with --toolkit DIR")


def with_time(report: GraftReport, wheel: str, jobs: int | None) -> GraftReport:
    """How long what is planned takes here, where the release (or a neighbour of it) was measured."""
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


def with_driver(report: GraftReport, release: str) -> GraftReport:
    """What the new code asks of the driver, which may be more than the wheel asks."""
    if not (report.count("added") or report.count("planned")):
        return report
    needed = toolkit_driver(release, "windows" if "-win_" in report.wheel else "linux", load_facts())
    made = f"CUDA {release}'s ptxas makes the code for {report.arch}"
    text = f"{made}: it needs an NVIDIA driver {needed.floor} or newer"
    return msgspec.structs.replace(report, notes=(*report.notes, text)) if needed.floor else report
