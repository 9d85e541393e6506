"""Whose is the name an event speaks of? The look-ups of :mod:`rekindle.facts.names`, as fills and as conditions.

For each table there is a fill ``header-owner`` and a condition ``header-known``. A fill gives ``owner``, ``install``,
``pip_name``, ``owner_note``, ``headline``, ``remedy``, ``since_sentence`` and ``submodule_step``; what a row does not
say is left out.
"""

import functools
import re
from collections.abc import Callable

from rekindle.explain.conditions import Condition
from rekindle.explain.events import Event
from rekindle.explain.rule import compiled, load_names
from rekindle.explain.scene import Scene
from rekindle.explain.values import Fill, some
from rekindle.facts.names import NameOwner, owner_of

_SUBMODULE_STEP = (
    "If the project keeps it as a git submodule: git submodule update --init --recursive"
    " (source archives of GitHub contain no submodules)."
)
_LONGEST_TITLE = 110
# How the tables name the owner of a module whose package is called as the module is.
_SAME_NAME = "a package of that name"


def _header(event: Event) -> str | None:
    name = event.values.get("header")
    return name.replace("\\", "/") if name else None


def _library(event: Event) -> str | None:
    return _last_part(event.values.get("library") or event.values.get("dll"))


def _last_part(path: str | None) -> str | None:
    return re.split(r"[\\/]", path)[-1] if path else None


def _link_library(event: Event) -> str | None:
    """``-lcudnn`` and ``cudnn.lib`` are found in the table of libraries as ``libcudnn.so``."""
    name = _library(event)
    if not name:
        return None
    stem = re.sub(r"^lib|\.(?:lib|a|so[\d.]*|dylib|dll)$", "", name)
    return f"lib{stem}.so"


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


_NAMED: dict[str, tuple[str, Callable[[Event], str | None]]] = {
    "header": ("headers", _header),
    "library": ("libraries", _library),
    "link-library": ("libraries", _link_library),
    "module": ("modules", lambda event: event.values.get("module")),
    "attribute": ("attributes", _attribute),
    "command": ("commands", lambda event: _last_part(event.values.get("command"))),
    "package": ("packages", lambda event: event.values.get("package")),
    "symbol": ("symbols", lambda event: event.values.get("symbol")),
    "api": ("apis", api_name),
    "message": ("messages", lambda event: event.values.get("message", "")[:380]),
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
    return values | some(
        owner=owner.owner,
        install=owner.install(scene.system),
        pip_name=_pip_name(owner, event),
        owner_note=owner.note,
        headline=_headline(owner) if what == "message" else None,
        since_sentence=_spoken_since(owner),
        remedy=owner.remedy,
        submodule_step=_SUBMODULE_STEP if owner.submodule else None,
    )


def _pip_name(owner: NameOwner, event: Event) -> str | None:
    """What pip calls it; None where that is a sentence, or nothing brings it."""
    name = event.values.get("module", "").split(".")[0] if owner.owner == _SAME_NAME else owner.pip
    return name if name and re.fullmatch(r"[\w.-]+", name) else None


def _is_known(what: str, event: Event, scene: Scene, *, newer: bool = False) -> bool | None:
    """Has the name an owner, or (``newer``) one whose later release brought it?"""
    owner = find_owner(what, event)
    return owner is not None and (owner.came is not None or not newer)


FILLS: dict[str, Fill] = {f"{what}-owner": functools.partial(_values, what) for what in _NAMED}
CONDITIONS: dict[str, Condition] = {f"{what}-known": functools.partial(_is_known, what) for what in _NAMED}
CONDITIONS["name-of-newer-owner"] = functools.partial(_is_known, "attribute", newer=True)
