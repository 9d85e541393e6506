"""Which release of a companion goes with which torch: the planner's own tables, as fills and conditions."""

import re

from packaging.specifiers import SpecifierSet

from rekindle.compat.companions import TorchSurroundings, judge
from rekindle.explain.conditions import Condition
from rekindle.explain.events import Event
from rekindle.explain.scene import Scene
from rekindle.explain.values import Fill, some
from rekindle.facts.names import find_module
from rekindle.model.companion import CompanionPackageWheel
from rekindle.model.version import minor

_OF_ONE_RELEASE = ("torchvision", "torchaudio")


def _fitting_torch(package: str, version: str, scene: Scene) -> str | None:
    """The torch a release of a companion was made for, as a specifier; None where nobody knows."""
    for row in scene.facts.beside.wheel:
        if row.package == package and row.torch and f"{row.version}.".startswith(f"{version}."):
            return row.torch
    for pair in scene.facts.companions.companion:
        if pair.package == package and pair.torch and pair.version == version:
            first, last = minor(pair.torch[0]), minor(pair.torch[-1])
            return f"=={first}.*" if first == last else f">={first},<={last}.99"
    return None


def _pair_differs(event: Event, scene: Scene) -> bool:
    """Does the log name a companion and a torch that were never made for each other?"""
    torch = scene.values.get("torch_version")
    made_for = _fitting_torch(event.values.get("package", ""), event.values.get("version", ""), scene)
    return bool(torch and made_for and not _holds(made_for, torch))


def _holds(made_for: str, torch: str) -> bool:
    """Of a pin to one patch release its minor release counts."""
    releases = (torch, *(f"{minor(torch)}.{patch}" for patch in range(5)))
    return any(SpecifierSet(made_for).contains(release, prereleases=True) for release in releases)


def _right_pair(event: Event, scene: Scene) -> dict[str, str]:
    """Which torch the companion is for, and the command that brings the companion for this torch."""
    package, torch = event.values.get("package", ""), scene.values.get("torch_version", "")
    made_for = _fitting_torch(package, event.values.get("version", ""), scene) or ""
    rows = (row for row in scene.facts.beside.wheel if row.package == package and row.torch)
    fitting = next((row.version for row in rows if _holds(row.torch or "", torch)), None)
    release = minor(fitting) if fitting else scene.facts.companion_release(package, torch)
    return some(
        pair_spec=made_for.replace(".99", "").replace(",", ", ").replace("==", "").replace(".*", ""),
        right_command=release and f"pip install '{package}=={release}{'.*' if fitting else ''}'",
    )


def _fitting_release(event: Event, scene: Scene) -> dict[str, str]:
    """The companion's release for the torch of the log, and the command that brings it."""
    version, _, flavour = _torch_of(event, scene)
    package = _package_of(event, scene)
    if not version or package is None:
        return {}
    if package in _OF_ONE_RELEASE:
        index = f"--index-url https://download.pytorch.org/whl/{flavour}" if flavour else "(from torch's own index)"
        release = scene.facts.companion_release(package, version)
        return some(fitting_release=release and _spoken_release(package, version, release, f" {index}"))
    cuda = re.fullmatch(r"cu(\d+)(\d)", flavour)
    finding = judge(
        package,
        TorchSurroundings(
            torch=version,
            cuda=f"{cuda[1]}.{cuda[2]}" if cuda else None,
            rocm=flavour.removeprefix("rocm") if flavour.startswith("rocm") else None,
            python=scene.values.get("python_version"),
            platform=scene.platform,
            system=scene.platform.partition("_")[0],
            glibc=None,
            backend=next((name for name in ("rocm", "xpu") if flavour.startswith(name)), "cuda"),
            cards=(),
        ),
        scene.facts,
    )
    row = finding.row
    if finding.kind not in ("runs", "last") or not isinstance(row, CompanionPackageWheel) or not row.torch:
        return {}
    place = row.place.replace("{variant}", flavour or "FLAVOUR") if row.place else ""
    option = f" -f {place}" if place.endswith(".html") else f" --extra-index-url {place}" if place else ""
    words = " ".join(("", *row.flags)) + option
    return {"fitting_release": _spoken_release(row.name or package, version, finding.version or row.version, words)}


def _spoken_release(package: str, torch: str, release: str, words: str) -> str:
    return f"For torch {torch} it is {package} {release}: pip install '{package}=={release}'{words}."


def _torch_of(event: Event, scene: Scene) -> tuple[str, str, str]:
    """The installed torch: as a message about a pair says it, else as the log does."""
    said = event.values.get("have", "") if {"built", "want", "codec"} & event.values.keys() else ""
    if re.match(r"[12]\.\d+\.\d+", said):
        return said.partition("+")
    return scene.values.get("torch_version", ""), "+", scene.values.get("torch_flavour", "")


def _package_of(event: Event, scene: Scene) -> str | None:
    """The companion a message is about: the longest of the names in it."""
    values = event.values
    said = " ".join((values.get("package", ""), values.get("library", ""), event.evidence)).lower().replace("-", "_")
    rows = {package: row.module.lower() for package, row in scene.facts.beside.package.items()}
    named = {**rows, **{package: package for package in _OF_ONE_RELEASE}}
    there = [package for package, module in named.items() if re.search(rf"(?<![a-z]){module}(?![a-z])", said)]
    return max(there, key=lambda package: len(named[package]), default=None)


def _model_release(event: Event, scene: Scene) -> dict[str, str]:
    """Since when transformers has a model type: its modules are called as the types, parts of a model (``gemma3_text``)
    lie in the module of the whole."""
    named = (event.values.get(name, "") for name in ("model", "model2", "model3"))
    model = next(filter(None, named), "").replace("-", "_")
    whole = re.sub(r"_(?:text|vision|audio)(?:_model|_config)?$", "", model)
    span = find_module(f"transformers.models.{model}") or find_module(f"transformers.models.{whole}")
    if span is None or span.came is None:
        return {}
    return {
        "model_release": f"transformers has it from {span.came} on.",
        "model_install": f"pip install -U 'transformers>={span.came}'",
    }


FILLS: dict[str, Fill] = {
    "right-pair": _right_pair,
    "fitting-release": _fitting_release,
    "model-release": _model_release,
}
CONDITIONS: dict[str, Condition] = {"pair-differs": _pair_differs}
