"""What tables know of the names in an event, as fills and as conditions: whose a name is, what goes with which torch.

For each table of :mod:`rekindle.facts.names` there is a fill ``header-owner`` and a condition ``header-known``. A fill
gives ``owner``, ``install``, ``pip_name``, ``owner_note``, ``headline``, ``remedy``, ``since_sentence`` and
``submodule_step``; what a row does not say is left out. Releases of companions are the planner's own tables.
"""

import functools
import itertools
import re
from collections.abc import Callable

import msgspec
from packaging.specifiers import SpecifierSet

from rekindle.compat.companions import TorchSurroundings, judge
from rekindle.explain.conditions import Condition
from rekindle.explain.events import Event
from rekindle.explain.rule import compiled, load_names
from rekindle.explain.scene import Scene
from rekindle.explain.values import Fill, some
from rekindle.facts.names import NameOwner, Span, find_module, find_name, find_parameter, owner_of
from rekindle.model.companion import CompanionPackageWheel
from rekindle.model.version import compare, minor

_SUBMODULE_STEP = (
    "If the project keeps it as a git submodule: git submodule update --init --recursive"
    " (source archives of GitHub contain no submodules)."
)
_LONGEST_TITLE = 110
_OF_ONE_RELEASE = ("torchvision", "torchaudio")
# Of these tables a row is the whole answer: title, cause, fix and source.
_TOLD_WHOLE = ("message", "wrapper", "status")
# How the tables name the owner of a module whose package is called as the module is.
_SAME_NAME = "a package of that name"


def _last_part(event: Event, *values: str) -> str:
    """The name of the file that the first of these values is, if any."""
    path = next(filter(None, map(event.values.get, values)), "")
    return re.split(r"[\\/]", path)[-1]


def _link_library(event: Event) -> str:
    """``-lcudnn`` and ``cudnn.lib`` are found in the table of libraries as ``libcudnn.so``."""
    name = _last_part(event, "library", "dll")
    return f"lib{re.sub(r'^lib|[.](?:lib|a|so[0-9.]*|dylib|dll)$', '', name)}.so" if name else ""


def _attribute(event: Event) -> str | None:
    name, module = event.values.get("name"), event.values.get("module")
    return f"{module}.{name}" if name and module else None


def api_name(event: Event) -> str | None:
    """The C or C++ name a compiler's message is about, without its scope where only the last part is known."""
    message = event.values.get("message", "")
    matches = (compiled(pattern).search(message) for pattern in load_names().unknown_name)
    return next((match["name"] for match in matches if match), None)


# What stands before the status itself: who speaks is CUDA, unless it says HIP.
_SPEAKER = re.compile(
    r"^(?:Triton Error \[CUDA\]: |CUDA(?: driver| kernel)? [Ee]rror:? ?(?:\d+: )?"
    r"|cuda runtime error \(\d+\) ?: |CUDA_ERROR_|cudaError(?:_enum)?)"
)
_HIP_SPEAKER = re.compile(
    r"^(?:Triton Error \[HIP\]: (?:Code: \d+, Mess+age: )?|HIP(?: driver| kernel)? [Ee]rror:? ?(?:\d+: )?|hipError)"
)


def _status(event: Event) -> str:
    """The status without its speaker (``HIP`` is kept), as the table of statuses names it; Windows' as hexadecimal."""
    values = event.values
    text = next(filter(None, (values.get(name) for name in ("message", "code", "signal"))), "")[:200]
    if re.fullmatch(r"(?:C|LNK)\d{4}", values.get("code", "")):
        return f"{values['code']} {text}"
    if re.fullmatch(r"-?\d{1,10}|0x[0-9A-Fa-f]{8}", text):
        number = int(text, 16 if text.startswith("0x") else 10) & 0xFFFFFFFF
        return f"0x{number:08X}" if 0x80000000 <= number < 0xFFFFFF00 else f"exit {text}"
    return _HIP_SPEAKER.sub("HIP ", _SPEAKER.sub("", text, count=1), count=1)


_NAMED: dict[str, tuple[str, Callable[[Event], str | None]]] = {
    "header": ("headers", lambda event: event.values.get("header", "").replace("\\", "/")),
    "library": ("libraries", lambda event: _last_part(event, "library", "dll")),
    "link-library": ("libraries", _link_library),
    "module": ("modules", lambda event: event.values.get("module")),
    "attribute": ("attributes", _attribute),
    "command": ("commands", lambda event: _last_part(event, "command")),
    "package": ("packages", lambda event: event.values.get("package")),
    "distribution": ("distributions", lambda event: event.values.get("package")),
    "symbol": ("symbols", lambda event: event.values.get("symbol")),
    "api": ("apis", api_name),
    "message": ("messages", lambda event: event.values.get("message", "")[:380]),
    "wrapper": ("wrappers", lambda event: event.values.get("message", "")[:380]),
    "status": ("statuses", _status),
}


def find_owner(what: str, event: Event) -> NameOwner | None:
    """The row of the table for what the event names so."""
    table, name_of = _NAMED[what]
    name = name_of(event)
    if not name:
        return None
    # A scoped C++ name may be listed whole or by its last part.
    return owner_of(table, name) or (owner_of(table, name.rpartition("::")[2]) if "::" in name else None)


def _spoken_since(owner: NameOwner) -> str | None:
    words = f"It is there from {owner.came} on" if owner.came else ""
    words = f"It is gone since {owner.gone}" if owner.gone else words
    if not words and not owner.instead:
        return None
    return (words or "It has another name now") + (f"; use {owner.instead} instead." if owner.instead else ".")


def _headline(owner: NameOwner) -> str | None:
    """Whose it is and the beginning of what is known of it, as a title."""
    if owner.note is None:
        return None
    note = re.sub(r" \([^()]*\)", "", owner.note)
    words = re.sub(r"(?<=.{20})(?:[:;.] |, (?:and|so|but) ).*", "", note).rstrip(".")
    if len(words) > _LONGEST_TITLE:
        words = words[:_LONGEST_TITLE].rpartition(", ")[0]
    return words if words.startswith(owner.owner) else f"{owner.owner}: {words}"


def _values(what: str, event: Event, scene: Scene) -> dict[str, str]:
    owner = find_owner(what, event)
    values = some(name=api_name(event) if what == "api" else None)
    if owner is None:
        return values
    if what == "attribute" and (span := _measured(event, scene)):
        # One release for one name: what was measured, where both tables know of it.
        came, gone = (new if new and old else old for new, old in ((span.came, owner.came), (span.gone, owner.gone)))
        owner = msgspec.structs.replace(owner, came=came, gone=gone)
    # None where what pip calls it is a sentence, or nothing brings it.
    pip_name = event.values.get("module", "").split(".")[0] if owner.owner == _SAME_NAME else owner.pip
    return values | some(
        owner=owner.owner,
        install=owner.install(scene.system),
        pip_name=pip_name if re.fullmatch(r"[\w.-]+", pip_name or "") else None,
        owner_note=owner.note,
        headline=_headline(owner) if what in _TOLD_WHOLE else None,
        row_source=owner.source if what in _TOLD_WHOLE else None,
        since_sentence=_spoken_since(owner),
        remedy=_remedy(what, owner.remedy, scene.system),
        submodule_step=_SUBMODULE_STEP if owner.submodule else None,
    )


_LINUX = re.compile(
    r"\b(?:apt|sudo|dnf|export|ulimit|dmesg|ldd|ldconfig|bash|chmod|chown|modprobe|journalctl)\b"
    r"|LD_LIBRARY_PATH|\$[(A-Z]|~/|/(?:usr|opt|dev)/"
)


def _remedy(what: str, remedy: str | None, system: str | None) -> str | None:
    """On Windows only what can be done there; None where a status leaves nothing (its rules have an own answer)."""
    if not remedy or system != "windows" or what not in _TOLD_WHOLE:
        return remedy
    parts = re.split(r"(?<=[;.]) ", remedy)
    kept = " ".join(part for part in parts if not _LINUX.search(part)).rstrip(";. ")
    return f"{kept}." if kept else (None if what == "status" else remedy)


def _is_known(what: str, event: Event, scene: Scene) -> bool | None:
    return find_owner(what, event) is not None


def _is_of_newer_owner(event: Event, scene: Scene) -> bool | None:
    """Did a later release of its owner bring the name?"""
    owner, span = find_owner("attribute", event), _measured(event, scene)
    if span is not None:
        have, is_too_old = _compare_installed(span, event, scene)
        # A name that came and went again says nothing of an unknown release.
        if have or not span.gone:
            return bool(is_too_old)
    return bool(owner and owner.came)


def _measured(event: Event, scene: Scene) -> Span | None:
    """Which releases have the name (module, parameter) that the event misses."""
    values = event.values
    name, module = values.get("name", ""), values.get("module", "")
    if function := values.get("function"):
        return find_parameter(function, name, f"{event.around}\n{scene.reading.tail}")
    if not module:
        return None
    return find_name("numpy" if module == "np" else module, name) if name else find_module(module)


def _compare_installed(span: Span, event: Event, scene: Scene) -> tuple[str | None, bool | None]:
    """The release that the log names, nearest to the event first, and is it older than the name? None: it has it."""
    name = re.sub("[-_]", "[-_]", span.project)
    words = rf"(?<![\w-]){name}[`'\"]?(?: version| \(|:|=|==|-| |@| v)* ?v?(\d+\.\d+(?:\.\d+)?)"
    named = (re.findall(words, text, re.IGNORECASE)[-1:] for text in (event.around, scene.reading.tail))
    torch = scene.values.get("torch_version") if span.project == "torch" else None
    have: str | None = torch or next((versions[0] for versions in named if versions), None)
    is_before = span.came is not None and (have is None or compare(have, span.came) < 0)
    is_after = span.gone is not None and (have is None or compare(have, span.gone) >= 0)
    return have, is_before if is_before or is_after else None


def _measured_name(event: Event, scene: Scene) -> dict[str, str]:
    """Which releases of which package have the name, and the command that brings one of them."""
    span = _measured(event, scene)
    if span is None:
        return {}
    have, is_old = _compare_installed(span, event, scene)
    limits = (f">={span.came}" if span.came else "", f"<{span.gone}" if span.gone else "")
    return some(
        project=span.project,
        since_release=_spoken_span(span),
        installed_sentence=have and f"Installed is {have}, too {'old' if is_old else 'new'} for this code.",
        wanted_release=f"{span.project}{','.join(filter(None, limits))}",
    )


def _spoken_span(span: Span) -> str:
    project, came, gone = span
    if came and gone:
        return f"only releases {came} to before {gone} of {project} have it (later ones removed or moved it)"
    if came:
        return f"{project} has it only from release {came} on, so the installed one is too old"
    return f"it was removed from (or moved within) {project} with release {gone}, so the installed one is too new"


def _is_measured(event: Event, scene: Scene) -> bool:
    span = _measured(event, scene)
    return span is not None and _compare_installed(span, event, scene)[1] is not None


def _fitting_torch(package: str, version: str, scene: Scene) -> str | None:
    """The torch a release of a companion was made for, as a specifier; None where nobody knows."""
    for row in scene.facts.packages.wheel:
        # 3.1 is 3.1.0, but 0.0.29 is none of its later builds (.post1), which are for other releases.
        if row.package == package and row.torch and re.fullmatch(rf"{re.escape(version)}(\.\d+)*", row.version):
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
    rows = (row for row in scene.facts.packages.wheel if row.package == package and row.torch)
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
    rows = {package: row.module.lower() for package, row in scene.facts.packages.package.items()}
    named = {**rows, **{package: package for package in _OF_ONE_RELEASE}}
    there = [package for package, module in named.items() if re.search(rf"(?<![a-z]){module}(?![a-z])", said)]
    return max(there, key=lambda package: len(named[package]), default=None)


def _model_release(event: Event, scene: Scene) -> dict[str, str]:
    """Since when transformers has a model type: modules are called so; parts (``gemma3_text``) lie in the whole's."""
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


def _cuda_majors(event: Event, scene: Scene) -> dict[str, str]:
    """Two of NVIDIA's packages of one library for two CUDA versions, where the log lists such."""
    seen = scene.reading.signals.get("nvidia-part")
    names = sorted({each.values["nvidia_part"] for each in seen.all} if seen else ())
    pair = next(((one, two) for one, two in itertools.pairwise(names) if one[:-2] == two[:-2]), None)
    return {"first": pair[0], "second": pair[1]} if pair else {}


FILLS: dict[str, Fill] = {f"{what}-owner": functools.partial(_values, what) for what in _NAMED}
FILLS |= {"measured-name": _measured_name, "model-release": _model_release}
FILLS |= {"right-pair": _right_pair, "fitting-release": _fitting_release, "cuda-majors": _cuda_majors}
CONDITIONS: dict[str, Condition] = {f"{what}-known": functools.partial(_is_known, what) for what in _NAMED}
CONDITIONS |= {"name-of-newer-owner": _is_of_newer_owner, "name-is-measured": _is_measured}
CONDITIONS["pair-differs"] = _pair_differs
CONDITIONS["two-cuda-majors"] = lambda event, scene: bool(_cuda_majors(event, scene))
