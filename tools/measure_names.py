"""Since when a Python package has a name, and since when not: read from its published wheels, release by release.

    python tools/measure_names.py                    every package of names_measured.toml
    python tools/measure_names.py transformers peft  only these

Of each minor release the last wheel is read (its .py and .pyi files, by range requests where the wheel is large) and
nothing is run. What all releases have alike is left out: ``facts/names/history/<package>.toml`` holds what came and
what went, as ``explain`` looks it up; a file is written again only where that changed.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path
from typing import NamedTuple

from packaging.version import Version

from rekindle.formats.ranges import RangeFile, tls_context
from rekindle.formats.simple_index import IndexWheel, sdists_of, wheels_of
from rekindle.inspect.published import list_files, pip_places

HERE = Path(__file__).resolve().parent
WANTED = HERE / "names_measured.toml"
HISTORY = HERE.parent / "src/rekindle/facts/names/history"
# A wheel up to this size is fetched whole: faster than many requests.
SMALL = 160 << 20
LARGEST_FILE = 4 << 20


class Wanted(NamedTuple):
    """A package: where measuring begins, and (``outline``) which modules of it count by their classes alone."""

    project: str
    modules: tuple[str, ...]
    since: str
    outline: str = ""


def main() -> int:
    rows = tomllib.loads(WANTED.read_text("utf-8"))["package"]
    for row in rows:
        wanted = Wanted(row["project"], tuple(row["modules"]), row["since"], row.get("outline", ""))
        if len(sys.argv) > 1 and wanted.project not in sys.argv[1:]:
            continue
        try:
            text = measure(wanted)
        except Exception as error:  # noqa: BLE001 (one package that cannot be read leaves the others)
            print(f"{wanted.project}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        place = HISTORY / f"{wanted.modules[0]}.toml"
        place.parent.mkdir(exist_ok=True)
        if not place.exists() or _body(place.read_text("utf-8")) != _body(text):
            place.write_text(text, "utf-8")
        print(f"{wanted.project}: {len(text) // 1000} kB")
    return 0


def _body(text: str) -> str:
    return re.sub(r"(?m)^date = .*$", "", text)


def measure(wanted: Wanted) -> str:
    releases = list(_releases(wanted))
    if len(releases) < 2:
        raise ValueError("fewer than two releases to compare")
    with ProcessPoolExecutor(2) as pool:
        read = list(pool.map(read_release, [wanted] * len(releases), [file for _, file in releases]))
    versions = [version for version, _ in releases]
    came: dict[str, list[str]] = {}
    gone: dict[str, list[str]] = {}
    for name in sorted(frozenset().union(*(release.names for release in read))):
        there = [name in release.names or _may_be_there(name, release) for release in read]
        # A gap between is more often a release that loads its names in another way than one without the name.
        first, last = there.index(True), len(there) - 1 - there[::-1].index(True)
        if first:
            came.setdefault(versions[first], []).append(name)
        if last + 1 < len(there):
            gone.setdefault(versions[last + 1], []).append(name)
    return _written(wanted, versions, came, gone)


def _releases(wanted: Wanted) -> Iterator[tuple[str, IndexWheel]]:
    """The last release of each minor one, oldest first, with the file to read."""
    places = pip_places()
    files, _ = list_files(wanted.project, places)
    wheels: dict[Version, list[IndexWheel]] = {}
    for wheel in [*wheels_of(files, wanted.project), *sdists_of(files, wanted.project)]:
        version = Version(str(wheel.version))
        if not version.is_prerelease and not version.local and version >= Version(wanted.since):
            wheels.setdefault(version, []).append(wheel)
    last: dict[tuple[int, int], Version] = {}
    for version in sorted(wheels):
        last[version.major, version.minor] = version
    for (major, minor), version in sorted(last.items()):
        yield f"{major}.{minor}", min(wheels[version], key=_effort)


def _effort(wheel: IndexWheel) -> tuple[int, str]:
    """A wheel before sources, a pure one before others, then what is smallest."""
    name = wheel.file.name
    order = ("none-any.whl", "macosx", "manylinux", ".whl", ".tar.gz")
    return next((at for at, part in enumerate(order) if part in name), len(order)), name


class Release(NamedTuple):
    """What one release has: ``module:name``, ``module:`` for a module itself, ``Class.method()`` and
    ``Class.method(parameter)``. ``maybe``: for a module that makes names while it runs, or is compiled, the words that
    speak of them; that such a name is not written down as one is no evidence that it is not there."""

    names: frozenset[str]
    maybe: dict[str, frozenset[str]]


def _may_be_there(name: str, release: Release) -> bool:
    """A submodule is there whether or not its package takes it in by a statement."""
    module, _, inside = name.partition(":")
    return bool(inside) and (inside in release.maybe.get(module, ()) or f"{module}.{inside}:" in release.names)


# A module with names that no statement makes.
_DYNAMIC = re.compile(
    r"__getattr__|globals\(\)(?:\[|\.update)|setattr\((?:sys\.modules|module)\b|sys\.modules\[__name__\] ="
)


def _words(tree: ast.Module) -> Iterator[str]:
    """What its code speaks of, by name or as a string."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.Constant(value=str(word)):
                yield word


def read_release(wanted: Wanted, wheel: IndexWheel) -> Release:
    outline = re.compile(wanted.outline) if wanted.outline else None
    trees: dict[str, tuple[ast.Module, bool]] = {}
    names: set[str] = set()
    maybe: dict[str, set[str]] = {}
    uses = re.compile(rf"\b({'|'.join(map(re.escape, wanted.modules))})\.(?:(_C)\.)?([A-Za-z_]\w+)")
    # A stub stands for the compiled module of its name, a .py file for itself; so stubs come first.
    for path, raw in sorted(_sources(wanted, wheel), key=lambda item: item[0].endswith(".py")):
        module = _module_of(path)
        whole = raw.decode("utf-8", "replace")
        for package, compiled, name in uses.findall(whole):
            maybe.setdefault(f"{package}.{compiled}" if compiled else package, set()).add(name)
        is_package = path.rsplit("/", 1)[-1].startswith("__init__.")
        if outline and outline.match(module) and not is_package:
            text = raw.decode("utf-8", "replace")
            names |= {f"{module}:", *(f"{module}:{name}" for name in _DEFINED.findall(text))}
            # What its package takes from it by a star.
            raw = "".join(listed[0] for listed in [_LISTED.search(text)] if listed).encode()
        try:
            tree = ast.parse(raw)
        except (SyntaxError, ValueError, RecursionError):
            # Written for a newer Python than this one: the module is there, and any of its words may be a name.
            names.add(f"{module}:")
            maybe.setdefault(module, set()).update(re.findall(r"[A-Za-z_]\w*", whole))
            continue
        if _DYNAMIC.search(whole):
            maybe.setdefault(module, set()).update(_words(tree))
            if module in trees:  # its stub says which names it makes (lazy_loader reads them there)
                tree.body = [*trees[module][0].body, *tree.body]
        trees[module] = (tree, is_package)
    names.update(_Package(trees, outline).names())
    return Release(frozenset(names), {module: frozenset(words) for module, words in maybe.items()})


# Classes at the top of a module: much faster than parsing thousands of models.
_DEFINED = re.compile(r"^class ([A-Z]\w+)", re.MULTILINE)
_LISTED = re.compile(r"^__all__ = \[[^\]]*\]", re.MULTILINE)


def _module_of(path: str) -> str:
    return re.sub(r"(/__init__)?\.pyi?$", "", path).replace("/", ".")


def _sources(wanted: Wanted, wheel: IndexWheel) -> Iterator[tuple[str, bytes]]:
    """The Python files of the wanted modules, by path."""
    file = RangeFile(wheel.file.url, context=tls_context())
    if wheel.file.name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(file.read_at(0, file.length)), mode="r:gz") as archive:
            for entry in archive:
                path = re.sub(r"^[^/]+/(?:src/|python/)?", "", entry.name)
                if entry.isfile() and _is_wanted(path, entry.size, wanted) and (body := archive.extractfile(entry)):
                    yield path, body.read()
        return
    stream = io.BytesIO(file.read_at(0, file.length)) if file.length <= SMALL else file.stream()
    with zipfile.ZipFile(stream) as archive:
        for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
            if _is_wanted(info.filename, info.file_size, wanted):
                yield info.filename, archive.read(info)


def _is_wanted(path: str, size: int, wanted: Wanted) -> bool:
    inside = path.startswith(tuple(f"{module}/" for module in wanted.modules)) or path.split(".")[0] in wanted.modules
    other = re.search(
        r"/(?:tests?|testing|benchmarks?|examples?|commands|_vendor|vendored|third_party)/|/dummy_|testing_utils", path
    )
    return inside and not other and path.endswith((".py", ".pyi")) and size <= LARGEST_FILE


# Names that no other package asks for.
_UNASKED = re.compile(r"^__|_ARCHIVE_(?:LIST|MAP)$")


class _Package:
    """The modules of one release, parsed."""

    def __init__(self, trees: dict[str, tuple[ast.Module, bool]], outline: re.Pattern[str] | None = None) -> None:
        self._trees = trees
        self._outline = outline
        self._known: dict[str, set[str]] = {}

    def names(self) -> Iterator[str]:
        for module, (tree, is_package) in self._trees.items():
            yield f"{module}:"
            is_whole = self._outline is None or not self._outline.match(module)
            if is_whole or is_package:
                yield from (f"{module}:{name}" for name in self._names_of(module) if not _UNASKED.search(name))
            if is_whole:
                yield from _parameters(tree)

    def _names_of(self, module: str) -> set[str]:
        """Every name at the top of a module that it makes, or takes from its own package."""
        if module not in self._known:
            self._known[module] = set()  # a circle of stars ends here
            self._known[module] = set(self._collected(module))
        return self._known[module]

    def _collected(self, module: str) -> Iterator[str]:
        tree, is_package = self._trees[module]
        for node in _statements(tree.body):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield node.name
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    parts = target.elts if isinstance(target, ast.Tuple) else [target]
                    yield from (part.id for part in parts if isinstance(part, ast.Name))
            elif isinstance(node, ast.ImportFrom):
                yield from self._imported(node, module, is_package)

    def _imported(self, node: ast.ImportFrom, module: str, is_package: bool) -> Iterator[str]:
        base = module.split(".")
        base = base[: len(base) - node.level + (1 if is_package else 0)] if node.level else []
        source = ".".join([*base, *([node.module] if node.module else [])])
        if source.split(".")[0] != module.split(".")[0]:
            return
        for alias in node.names:
            if alias.name != "*":
                yield alias.asname or alias.name
            elif source in self._trees:
                listed = _listed(self._trees[source][0])
                public = (name for name in self._names_of(source) if not name.startswith("_"))
                yield from public if listed is None else listed


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a module, also inside if, try and with."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.With)):
                yield from _statements(getattr(node, part, []))
        for handler in node.handlers if isinstance(node, ast.Try) else []:
            yield from _statements(handler.body)


def _listed(tree: ast.Module) -> list[str] | None:
    """``__all__``, where it is a plain list."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=parts) | ast.Tuple(elts=parts)):
                return [str(part.value) for part in parts if isinstance(part, ast.Constant)]
    return None


def _parameters(tree: ast.Module) -> Iterator[str]:
    """``Class.method(parameter)``, as Python's TypeError names it, and ``Class.method()`` for what it belongs to."""
    for node in _statements(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _of_function(node.name, node)
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield from _of_function(f"{node.name}.{part.name}", part)


def _of_function(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """A function with ``**kwargs`` takes any."""
    if not re.search(r"\._(?!_init__)", f".{name}"):
        yield f"{name}()"
        for argument in [*node.args.args, *node.args.kwonlyargs]:
            if argument.arg not in ("self", "cls") and not node.args.kwarg:
                yield f"{name}({argument.arg})"


def _written(wanted: Wanted, versions: list[str], came: dict[str, list[str]], gone: dict[str, list[str]]) -> str:
    lines = [
        f"# What came to {wanted.project} and left it, by its wheels {versions[0]} to {versions[-1]}: measure_names.py",
        f'source = "https://pypi.org/project/{wanted.project}/"',
        f'date = "{date.today().isoformat()}"',
        'how = "measured"',
        f'project = "{wanted.project}"',
        f'first = "{versions[0]}"',
        f'last = "{versions[-1]}"',
    ]
    for title, table in (("came", came), ("gone", gone)):
        lines += ["", f"[{title}]"]
        for version in (version for version in versions if version in table):
            lines += [f'"{version}" = """', *_by_module(table[version]), '"""']
    return "\n".join(lines) + "\n"


def _by_module(names: list[str]) -> Iterator[str]:
    """A line per module, its names behind it; what comes or goes with its module or function is not said again."""
    whole = {name for name in names if name.endswith((":", "()"))}
    groups: dict[str, list[str]] = {}
    for name in names:
        if name.endswith(":"):
            if f"{name.rpartition('.')[0]}:" not in whole:
                groups.setdefault(":", []).append(name[:-1])
        elif "(" not in name:
            module, _, inside = name.partition(":")
            if f"{module}:" not in whole:
                groups.setdefault(module, []).append(inside)
        elif not name.endswith("()"):
            function, _, parameter = name.rstrip(")").partition("(")
            if f"{function}()" not in whole:
                groups.setdefault(f"{function}()", []).append(parameter)
    for module, rest in sorted(groups.items()):
        yield f"{module} {' '.join(rest)}"


if __name__ == "__main__":
    sys.exit(main())
