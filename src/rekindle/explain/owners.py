"""Whose is the name an event speaks of? The look-ups of :mod:`rekindle.facts.names`, as fills and as conditions.

For each table there is a fill ``header-owner`` and a condition ``header-known``. A fill gives ``owner``, ``install``,
``pip_name``, ``owner_note``, ``headline``, ``remedy``, ``since_sentence`` and ``submodule_step``; what a row does not
say is left out.
"""

import functools
import re
from collections.abc import Callable

import msgspec

from rekindle.explain.conditions import Condition
from rekindle.explain.events import Event
from rekindle.explain.rule import compiled, load_names
from rekindle.explain.scene import Scene
from rekindle.explain.values import Fill, some
from rekindle.facts.names import NameOwner, Span, find_module, find_name, find_parameter, owner_of
from rekindle.model.version import compare

_SUBMODULE_STEP = (
    "If the project keeps it as a git submodule: git submodule update --init --recursive"
    " (source archives of GitHub contain no submodules)."
)
_LONGEST_TITLE = 110
# How the tables name the owner of a module whose package is called as the module is.
_SAME_NAME = "a package of that name"


def _last_part(event: Event, *values: str) -> str:
    """The name of the file that the first of these values is, if any."""
    path = next(filter(None, map(event.values.get, values)), "")
    return re.split(r"[\\/]", path)[-1]


def _link_library(event: Event) -> str:
    """``-lcudnn`` and ``cudnn.lib`` are found in the table of libraries as ``libcudnn.so``."""
    name = _last_part(event, "library", "dll")
    stem = re.sub(r"^lib|\.(?:lib|a|so[\d.]*|dylib|dll)$", "", name)
    return f"lib{stem}.so" if name else ""


def _attribute(event: Event) -> str | None:
    name, module = event.values.get("name"), event.values.get("module")
    return f"{module}.{name}" if name and module else None


def api_name(event: Event) -> str | None:
    """The C or C++ name a compiler's message is about, without its scope where only the last part is known."""
    message = event.values.get("message", "")
    for pattern in load_names().unknown_name:
        if match := compiled(pattern).search(message):
            return match["name"]
    return None


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
        number = int(text, 0) & 0xFFFFFFFF
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
    "status": ("statuses", _status),
}


def find_owner(what: str, event: Event) -> NameOwner | None:
    table, name_of = _NAMED[what]
    name = name_of(event)
    if not name:
        return None
    # A scoped C++ name may be listed whole or by its last part.
    return owner_of(table, name) or (owner_of(table, name.rsplit("::", 1)[-1]) if "::" in name else None)


def _spoken_since(owner: NameOwner) -> str | None:
    words = f"It is there from {owner.came} on" if owner.came else ""
    if owner.gone:
        words = f"It is gone since {owner.gone}"
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
        headline=_headline(owner) if what in ("message", "status") else None,
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
    if not remedy or system != "windows" or what not in ("message", "status"):
        return remedy
    parts = re.split(r"(?<=[;.]) ", remedy)
    kept = " ".join(part for part in parts if not _LINUX.search(part)).rstrip(";. ")
    return f"{kept}." if kept else (remedy if what == "message" else None)


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
    return find_name(_LONG_NAMES.get(module, module), name) if name else find_module(module)


# What people import these as.
_LONG_NAMES = {"np": "numpy"}


def _compare_installed(span: Span, event: Event, scene: Scene) -> tuple[str | None, bool | None]:
    """The release of the package that the log names, nearest to the event first. Is it older than the name, or newer?
    None where it has the name."""
    name = re.sub("[-_]", "[-_]", span.project)
    words = rf"(?<![\w-]){name}[`'\"]?(?: version| \(|:|=|==|-| |@| v)* ?v?(\d+\.\d+(?:\.\d+)?)"
    named = (re.findall(words, text, re.IGNORECASE)[-1:] for text in (event.around, scene.reading.tail))
    torch = scene.values.get("torch_version") if span.project == "torch" else None
    have: str | None = torch or next((versions[0] for versions in named if versions), None)
    is_before = span.came is not None and (have is None or compare(have, span.came) < 0)
    is_after = span.gone is not None and (have is None or compare(have, span.gone) >= 0)
    return have, is_before if is_before or is_after else None


def measured_name(event: Event, scene: Scene) -> dict[str, str]:
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


FILLS: dict[str, Fill] = {f"{what}-owner": functools.partial(_values, what) for what in _NAMED}
CONDITIONS: dict[str, Condition] = {f"{what}-known": functools.partial(_is_known, what) for what in _NAMED}
CONDITIONS["name-of-newer-owner"] = _is_of_newer_owner
FILLS["measured-name"] = measured_name
CONDITIONS["name-is-measured"] = _is_measured
