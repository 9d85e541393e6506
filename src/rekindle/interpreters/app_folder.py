"""An application in a folder: which one it is, its version, its Python, and what it and its extensions require. Nothing
is run here: files are looked at, with bounds. What lies in the folder was written by strangers."""

import contextlib
import difflib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.markers import UndefinedEnvironmentName, default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.host.files import read_head
from rekindle.model.companion import App, AppUse, Wanted

_MOST_BYTES = 256 << 10
_MOST_FILES = 2000
_NUMBERS = re.compile(r"\d+(?:\.\d+)+")
_SITE = ("lib/python*/site-packages", "Lib/site-packages")


@dataclass(frozen=True, kw_only=True)
class AppFolder:
    """``root`` is where its sources (or its settings) lie; ``python`` is None where no interpreter was found."""

    name: str
    app: App
    root: Path
    version: str | None
    python: Path | None
    torch: str | None = None

    @property
    def use(self) -> AppUse:
        """What the planner needs to know of it."""
        release = _python_release(self.python) if self.python else None
        return AppUse(name=self.app.backend or self.name, version=self.version, torch=self.torch, python=release)

    @property
    def words(self) -> str:
        """Its title with its version."""
        return " ".join(filter(None, (self.app.title, self.version if self.app.backend is None else None)))


def find_app_name(text: str, facts: Facts) -> str | None:
    """The application that people mean by a name: ``comfy``, ``A1111``, ``text generation webui``."""
    plain, apps = _plain_name(text), facts.apps.app.items()
    return next((name for name, app in apps if plain in map(_plain_name, (name, app.title, *app.names))), None)


def read_app_use(given: str, facts: Facts) -> AppUse:
    """What ``plan --for`` was given: an application's folder, or its name (``comfyui``, ``vllm==0.10.2``)."""
    if Path(given).is_dir():
        return find_app(Path(given), facts).use
    text, _, version = given.partition("==")
    name = find_app_name(text, facts)
    if name is None:
        names = {_plain_name(each): key for key, app in facts.apps.app.items() for each in (key, *app.names)}
        near = difflib.get_close_matches(_plain_name(text), names)
        hint = f"did you mean {names[near[0]]}?" if near else f"known are {', '.join(sorted(facts.apps.app))}"
        raise BadInput(f"--for {given}: neither a folder nor an application that is known here", remedy=hint)
    if version and not _NUMBERS.match(version):
        raise BadInput(f"--for {given}: {version!r} is no version", remedy=f"for example --for {name}==1.2.3")
    backend = facts.apps.app[name].backend
    return AppUse(name=backend or name, version=None if backend else version or None)


def _plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find_app(folder: Path, facts: Facts, *, windows: bool = os.name == "nt") -> AppFolder:
    """The application that lies in a folder; BadInput where none that is known does."""
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}", remedy="name the folder that the application was unpacked into")
    for name, app in facts.apps.app.items():
        for root in (folder, *(folder / inside for inside in app.inside)):
            marked = all((root / mark).exists() for mark in app.marks)
            if marked and not any((root / other).exists() for other in app.lacks):
                python = _find_python(root, app.pythons, windows)
                said = (_NUMBERS.search(_head_text(root / file, 4096)) for file in app.version)
                version, torch = next((match[0] for match in said if match), None), None
                if app.package and python is not None:
                    version, torch = _installed_version(python, app.package)
                return AppFolder(name=name, app=app, root=root, version=version, python=python, torch=torch)
    # An application of the package index leaves nothing but an environment that holds it.
    for name, app in facts.apps.app.items():
        python = _find_python(folder, (".", *app.pythons), windows) if app.package else None
        version, torch = _installed_version(python, app.package or "") if python else (None, None)
        if version is not None:
            return AppFolder(name=name, app=app, root=folder, version=version, python=python, torch=torch)
    titles = ", ".join(app.title for app in facts.apps.app.values())
    remedy = f"name the folder it was unpacked into; known are {titles}. For any other Python: rekindle up --python EXE"
    raise BadInput(f"{folder} is no application that is known here", remedy=remedy)


def _find_python(root: Path, places: Iterable[str], windows: bool) -> Path | None:
    names = ("Scripts/python.exe", "python.exe") if windows else ("bin/python", "bin/python3")
    # A link inside the environment leads to its base: the folders are made plain, never the link.
    pythons = (Path(os.path.normpath(root / place)) / name for place in places for name in names)
    return next((python for python in pythons if python.is_file()), None)


def _head_text(file: Path, limit: int = _MOST_BYTES) -> str:
    """How a file begins; empty where it cannot be read."""
    with contextlib.suppress(OSError):
        return read_head(file, limit).decode("utf-8-sig", "replace")
    return ""


def _installed_version(python: Path, package: str) -> tuple[str | None, str | None]:
    """The version of a package beside a Python, and the torch that this very version asks for."""
    inside = package.replace("-", "_")
    for dist_info in (path for site in _SITE for path in _python_home(python).glob(f"{site}/{inside}-*.dist-info")):
        if match := _NUMBERS.match(dist_info.name.removeprefix(f"{inside}-")):
            stated = HeaderParser().parsestr(_head_text(dist_info / "METADATA")).get_all("Requires-Dist") or []
            release = _python_release(python)
            values = marker_values(release, f"{release}.0") if release else marker_values()
            bounds = [str(wish.specifier) for wish in named_packages(stated, ("torch",), values)]
            return match[0].rstrip("."), ",".join(filter(None, bounds)) or None
    return None, None


def _python_home(python: Path) -> Path:
    return python.parent.parent if python.parent.name in ("bin", "Scripts") else python.parent


def _python_release(python: Path) -> str | None:
    """Such as 3.11, by the names of folders and files: lib/python3.11, python311.dll or pyvenv.cfg's own word."""
    names = [entry.name for pattern in ("lib/python3*", "python3*.dll") for entry in _python_home(python).glob(pattern)]
    text = _head_text(_python_home(python) / "pyvenv.cfg")
    names += re.findall(r"^version(?:_info)?\s*=\s*(\S+)", text, re.MULTILINE)
    found = filter(None, (re.match(r"(?:python)?3\.?(\d+)", name) for name in names))
    return next((f"3.{match[1]}" for match in found), None)


def marker_values(release: str | None = None, version: str | None = None) -> dict[str, str]:
    """The values that markers of requirements have on this machine; the Python may be another than ours."""
    values = {name: str(value) for name, value in default_environment().items()}
    answers = {"python_version": release, "python_full_version": version, "extra": ""}
    return values | {name: value for name, value in answers.items() if value is not None}


def extension_files(folder: AppFolder) -> Iterator[tuple[str, Path]]:
    """Every extension that is switched on and states requirements, with the file that does."""
    off = folder.app.disabled
    files = (file for pattern in folder.app.extensions for file in sorted(folder.root.glob(pattern)))
    on = ((file.parent.name, file) for file in files if off is None or not file.parent.name.endswith(off))
    yield from itertools.islice(on, _MOST_FILES)


def wanted_packages(folder: AppFolder, names: Iterable[str], environment: Mapping[str, str]) -> tuple[Wanted, ...]:
    """What the application and its extensions require of the packages named; ``environment`` are values of markers."""
    files: list[tuple[str | None, Path]] = [(None, folder.root / name) for name in folder.app.requirements]
    files += extension_files(folder)
    return tuple(
        Wanted(requirement=str(wish), file=str(file), extension=extension)
        for extension, file in files
        for wish in named_packages(_requirement_lines(file, set()), names, environment)
    )


def named_packages(lines: Iterable[str], names: Iterable[str], environment: Mapping[str, str]) -> Iterator[Requirement]:
    """The requirements among these lines that name one of the packages and whose marker applies."""
    about = {str(canonicalize_name(name)) for name in names}
    for line in lines:
        wish = _read_requirement(line, environment)
        if wish is not None and str(canonicalize_name(wish.name)) in about:
            yield wish


def _requirement_lines(file: Path, seen: set[Path]) -> Iterator[str]:
    """The lines of a requirements file and of the files it includes; options stay in, and their reader skips them."""
    if file in seen or len(seen) > 20:
        return
    seen.add(file)
    for raw in _head_text(file).splitlines():
        line = re.sub(r"(?:^|\s)#.*", "", raw).strip()
        if included := re.fullmatch(r"(?:-r|--requirement)[ =]?\s*(\S+)", line):
            yield from _requirement_lines(file.parent / included[1], seen)
        else:
            yield line


def _read_requirement(line: str, environment: Mapping[str, str]) -> Requirement | None:
    """A line as a requirement; None where it is none, or its marker does not apply."""
    address, _, marker = line.partition(";")
    if address.startswith(("http://", "https://")):
        try:
            name, version, *_ = parse_wheel_filename(address.strip().rpartition("/")[2].replace("%2B", "+"))
            line = f"{name}=={version}" + (f" ;{marker}" if marker else "")
        except (InvalidWheelFilename, InvalidVersion):
            return None
    try:
        wish = Requirement(line)
        counts = wish.marker is None or wish.marker.evaluate(dict(environment))
    except (InvalidRequirement, UndefinedEnvironmentName):
        return None
    return wish if counts else None


def conflicts_with(stated: Iterable[Wanted], versions: Mapping[str, str]) -> tuple[Wanted, ...]:
    """Those that the versions to be installed do not satisfy."""
    return tuple(entry for entry in stated if not _is_satisfied(Requirement(entry.requirement), versions))


def _is_satisfied(wish: Requirement, versions: Mapping[str, str]) -> bool:
    version = versions.get(str(canonicalize_name(wish.name)))
    with contextlib.suppress(InvalidVersion):
        return version is None or wish.specifier.contains(Version(version), prereleases=True)
    return True
