"""How DLLs go into a Windows wheel: one folder beside the packages, names that no other wheel uses, and who finds them.

Windows keeps one DLL of a name in a process, whoever asks for it. So a brought DLL gets a hash into its name, made of
its content and of the names of what it needs, and all that ask for it get new import tables. These names stay: those
that programs ask for while they run, those that exports are forwarded to, and those of DLLs already in the wheel.

Python asks Windows to search only folders named with ``os.add_dll_directory``: lines in ``__init__.py`` do so.
"""

import ast
import hashlib
import itertools
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zipfile import ZipFile

from rekindle.bundle.collect import Collection, Libraries, fold, read_native
from rekindle.bundle.rules import Rules
from rekindle.formats.linked import Linked
from rekindle.host.files import sha256_of

_DIGITS = 16
_LOST = (
    "{names}: asked for by name at the first use, by a module outside any package; Windows will not look beside "
    "that module then. Put the module into a package with an __init__.py"
)


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where brought DLLs go. ``names``: folded old name -> name in the wheel. ``folders``: folded old name -> folders
    it lies in. ``starts``: ``__init__.py`` members with their new content. ``order``: what is loaded in which order."""

    names: Mapping[str, str]
    folders: Mapping[str, tuple[str, ...]]
    starts: Mapping[str, bytes] = field(default_factory=dict)
    order: tuple[str, bytes] | None = None
    notes: tuple[str, ...] = ()

    def renamed(self, native: Linked) -> dict[str, str]:
        """Old -> new for those of its wishes that got another name."""
        pairs = ((need, self.names.get(fold(need))) for need in native.wishes)
        return {old: new for old, new in pairs if new is not None and fold(new) != fold(old)}


def place_dlls(
    wheel_libs: Libraries, collection: Collection, rules: Rules, wheel: ZipFile, *, home: str, version: str, salt: str
) -> Placement:
    """``home`` is the folder ``name.libs``; ``salt`` is what else decides on the content (device code taken out)."""
    natives = {key: native for key, lib in collection.brought.items() if (native := read_native(lib.path))}
    order = _load_order(natives)
    names = _new_names(collection, natives, wheel_libs, rules, order, salt)
    opened: dict[str, list[str]] = {}
    for key, lib in collection.brought.items():
        opened.setdefault(lib.opened_by, []).append(key)
    inside = {fold(posixpath.basename(member)): native for member, native in wheel_libs.items()}
    members = {*wheel.namelist()}
    marker = f".load-order-{posixpath.basename(home).removesuffix('.libs')}-{version}"
    starts: dict[str, bytes] = {}
    folders: dict[str, dict[str, None]] = {key: {} for key in collection.brought}
    for member, native in wheel_libs.items():
        needs = [key for key in _reached(native, inside | natives, opened) if key in natives]
        # The outermost package a module lies in: its __init__.py runs before the module is loaded.
        parts = posixpath.dirname(member).split("/")
        outer = (f"{folder}/__init__.py" for folder in itertools.accumulate(parts, posixpath.join))
        init = next((name for name in outer if name in members), None)
        if needs and init and init not in starts:
            way = tuple(posixpath.relpath(home, _installed_path(posixpath.dirname(init))).split("/"))
            if (new_init := with_search(wheel.read(init), way, marker)) is not None:
                starts[init] = new_init
        # Where no package can be told, Windows still looks beside the module that is loaded.
        folder = home if init in starts else posixpath.dirname(member)
        for key in needs:
            folders[key][folder] = None
    at_once = {key for native in (*wheel_libs.values(), *natives.values()) for key in map(fold, native.delayed)}
    at_once |= {key for key, lib in collection.brought.items() if lib.opened_by}
    lost = [names[key] for key in order if key in at_once and set(folders[key]) - {home}]
    rows = [f"{names[key]}\t{'now' if key in at_once else ''}\n" for key in order if home in folders[key]]
    return Placement(
        names=names,
        folders={key: tuple(places) or (home,) for key, places in folders.items()},
        starts=starts,
        order=(f"{home}/{marker}", "".join(rows).encode()) if starts else None,
        notes=(_LOST.format(names=", ".join(lost)),) if lost else (),
    )


def _new_names(
    collection: Collection, natives: Libraries, wheel_libs: Libraries, rules: Rules, order: list[str], salt: str
) -> dict[str, str]:
    forwarded = {fold(name) for native in (*wheel_libs.values(), *natives.values()) for name in native.forwards}
    names: dict[str, str] = {}
    for key in order:
        lib = collection.brought[key]
        if key in forwarded or lib.opened_by or rules.asked_by_name(lib.name) or not lib.name.isascii():
            names[key] = lib.name
            continue
        digest = hashlib.sha256(salt.encode())
        digest.update(bytes.fromhex(sha256_of(lib.path)))
        for need in sorted(map(fold, natives[key].wishes)):
            # In a circle the later DLL has no new name yet; its content decides on its own name alone.
            digest.update(names.get(need, need).encode())
        stem, dot, ending = lib.name.rpartition(".")
        names[key] = f"{stem}-{digest.hexdigest()[:_DIGITS]}{dot}{ending}"
    return names


def _load_order(natives: Libraries) -> list[str]:
    """Each DLL after those it needs; circles are cut where they are met."""
    out: dict[str, None] = {}
    begun: set[str] = set()
    for first in natives:
        waiting = [(first, False)]
        while waiting:
            key, done = waiting.pop()
            if done:
                out[key] = None
            elif key not in begun:
                begun.add(key)
                waiting.append((key, True))
                needs = [fold(need) for need in natives[key].wishes]
                waiting += [(need, False) for need in reversed(needs) if need in natives and need not in begun]
    return list(out)


def _reached(first: Linked, known: Libraries, opened: Mapping[str, list[str]]) -> dict[str, None]:
    """The DLLs that must be found when one is loaded: through others, too, and those opened by name."""
    seen: dict[str, None] = {}
    waiting = [fold(need) for need in first.wishes]
    while waiting:
        key = waiting.pop()
        if key in known and key not in seen:
            seen[key] = None
            waiting += [*map(fold, known[key].wishes), *opened.get(key, ())]
    return seen


def _installed_path(path: str) -> str:
    """Where a folder of the wheel lies once it is installed: ``name.data/platlib`` is no part of the way."""
    first, _, below = path.partition("/")
    kind, _, inner = below.partition("/")
    return inner if first.endswith(".data") and kind in ("platlib", "purelib") else path


MARK = "# Libraries brought along by rekindle bundle"
_MOST = 4 << 20


def with_search(source: bytes, way: tuple[str, ...], order: str) -> bytes | None:
    """``source`` with the lines in front of its first statement; ``way`` leads from its folder to the libraries. None
    where no such place can be found, so that the libraries must be found another way."""
    at = _first_statement(source)
    if at is None or MARK.encode() in source:
        return None
    steps = ", ".join("os.pardir" if part == ".." else repr(part) for part in way)
    template = Path(__file__).with_name("load_libraries.txt").read_text("utf-8")
    lines = template.format(mark=MARK, way=steps, order=order)
    head, tail = source[:at], source[at:]
    end = "\r\n" if b"\r\n" in source else "\n"
    if head and not head.endswith((b"\n", b"\r")):
        head += end.encode()
    # ASCII in every encoding that Python reads.
    return head + lines.replace("\n", end).encode("ascii") + tail


def _first_statement(source: bytes) -> int | None:
    """The offset of the line behind the documentation string and the ``from __future__`` lines."""
    if len(source) > _MOST:
        return None
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    is_text = bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    head = itertools.takewhile(lambda n: isinstance(n, ast.ImportFrom) and n.module == "__future__", body[is_text:])
    first = is_text + len(list(head))
    lines = source.splitlines(keepends=True)
    # An encoding must stay in the first two lines: what is blank or a comment at the top stays above.
    bare = (line.removeprefix(b"\xef\xbb\xbf").strip() for line in lines)
    top = next((number for number, line in enumerate(bare) if line and not line.startswith(b"#")), len(lines))
    last = (first and body[first - 1].end_lineno) or top
    if first < len(body) and body[first].lineno <= last:
        return None  # two statements on one line
    return sum(map(len, lines[:last]))
