"""Which libraries a wheel lacks, and where they lie: the closure over what its libraries need. The name of one inside
the wheel is the one others ask for (a soname), whatever the file is called on disk."""

import fnmatch
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.bundle.rules import Rules, load_rules
from rekindle.errors import BadInput
from rekindle.formats.binary import map_binary
from rekindle.formats.linked import Linked, link_fields
from rekindle.formats.pe import Pe
from rekindle.host.protocol import Host
from rekindle.model.build import Left

MAX_LIBRARIES = 2_000
# Those of a wheel by their place in it.
Libraries = Mapping[str, Linked]


@dataclass(frozen=True, kw_only=True)
class BroughtLibrary:
    """``opened_by`` is who opens it by name while running (folded); "" for what stands in a header."""

    name: str
    path: Path
    why: str
    opened_by: str = ""
    data: tuple[tuple[str, Path], ...] = ()


@dataclass
class Collection:
    """What goes in by its folded name, and what does not."""

    brought: dict[str, BroughtLibrary] = field(default_factory=dict)
    left: dict[str, Left] = field(default_factory=dict)
    missing: dict[str, Left] = field(default_factory=dict)


def read_native(path: Path) -> Linked | None:
    """What a library needs; None for a file that is none."""
    with map_binary(path) as binary:
        forwards = tuple(f"{name}.dll" for name in binary.forwards) if isinstance(binary, Pe) else ()
        return Linked(file=path.name, forwards=forwards, **link_fields(binary)) if binary else None


def collect(
    wheel_libs: Libraries, rules: Rules, places: Sequence[Path], *, exclude: Iterable[str], requires: Iterable[str]
) -> Collection:
    """``wheel_libs`` by member name; ``places`` are searched in order; ``requires`` is installed with the wheel."""
    result, requires, excluded = Collection(), frozenset(requires), tuple(exclude)
    sonames = (lib.soname for lib in wheel_libs.values() if lib.soname)
    in_wheel = {fold(name) for name in (*map(posixpath.basename, wheel_libs), *sonames)}
    systems = {lib.system for lib in wheel_libs.values()}
    if len(systems) > 1:
        raise BadInput("the wheel holds libraries for both Linux and Windows, so it is no wheel of either")
    machines = {lib.machine for lib in wheel_libs.values()}
    waiting = [(name, posixpath.basename(member), "") for member, lib in wheel_libs.items() for name in lib.wishes]
    system = next(iter(systems), "linux")
    while waiting:
        name, who, opened_by = waiting.pop(0)
        key = fold(name)
        if key in in_wheel or key in result.brought or name in result.left or name in result.missing:
            continue
        why = rules.why_left(name, system, requires)
        if why is None and any(fnmatch.fnmatchcase(name, pattern) for pattern in excluded):
            why = "excluded by --exclude"
        if why:
            result.left[name] = Left(name=name, why=why, needed_by=who)
            continue
        if (path := _find_library(name, places, machines)) is None:
            if not opened_by:
                result.missing[name] = Left(name=name, why="not found", needed_by=who)
            continue
        patterns, folders = rules.companions(name)
        data = tuple((folder, path.parent / folder) for folder in folders if (path.parent / folder).is_dir())
        why = f"needed by {who}"
        result.brought[key] = BroughtLibrary(name=name, path=path, why=why, opened_by=opened_by, data=data)
        if len(result.brought) > MAX_LIBRARIES:
            raise BadInput(f"the wheel would need more than {MAX_LIBRARIES} libraries; something is wrong")
        native = read_native(path)
        waiting += [(need, name, "") for need in (native.wishes if native else ())]
        # The names under which a library opens its companions: their sonames, from beside it.
        files = [file for pattern in patterns for file in sorted(path.parent.glob(pattern))]
        others = ((file, read_native(file)) for file in files if file.resolve() != path.resolve())
        opened = dict.fromkeys(native.soname or file.name for file, native in others if native)
        waiting += [(other, f"{name} (opened while running)", key) for other in opened]
    return result


def _find_library(name: str, places: Sequence[Path], machines: set[str]) -> Path | None:
    """The first file of that name made for the same processor. ``name`` comes from a header: it is only a name."""
    if "/" in name or "\\" in name or name in ("", ".", ".."):
        return None
    for place in places:
        candidates = [place / name]
        if name.lower().endswith(".dll") and not candidates[0].exists():
            # DLL names ignore case, and so must we, also on a Linux disk.
            candidates = [file for file in place.glob("*.[dD][lL][lL]") if file.name.lower() == name.lower()]
        for path in filter(Path.is_file, candidates):
            native = read_native(path)
            if native and (not machines or native.machine in machines):
                return path
    return None


def fold(name: str) -> str:
    """Windows does not tell names apart by case; Linux does."""
    return name.lower() if name.lower().endswith((".dll", ".pyd")) else name


def search_places(folders: Sequence[str], host: Host) -> list[Path]:
    """The user's directories first (with the ``lib`` and ``bin`` below them), then the machine's."""
    places: list[Path] = []
    for text in folders:
        path = Path(text)
        if not path.is_dir():
            raise BadInput(f"--library-path {text} is no directory")
        places += [path, *(sub for name in ("lib64", "lib", "bin") if (sub := path / name).is_dir())]
        # NVIDIA's packages on PyPI: site-packages/nvidia/cublas/lib, …/bin on Windows.
        places += sorted(sub for pattern in ("nvidia/*/lib", "nvidia/*/bin", "*/lib") for sub in path.glob(pattern))
    variable, separator = ("PATH", ";") if host.system == "windows" else ("LD_LIBRARY_PATH", ":")
    places += [Path(part) for part in host.env.get(variable, "").split(separator) if part]
    roots = (host.env.get(name) for name in ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "CUDNN_ROOT"))
    places += [Path(root) / sub for root in roots if root for sub in ("lib64", "lib", "bin")]
    for pattern in load_rules().search["windows" if host.system == "windows" else "linux"]:
        # Newest toolkit first: names carry the version, so a wrong one cannot be taken.
        places += [Path(path) for path in reversed(host.glob(pattern))]
    return [path for path in dict.fromkeys(places) if path.is_dir()]
