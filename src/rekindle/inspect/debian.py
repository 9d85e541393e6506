"""The Debian packages of the libraries that wheels need and do not bring: ``python -m rekindle.inspect.debian``. Run
where the wheels were built (an exported Dockerfile carries it there, so it needs nothing but Python's own library and
the files beside it). Into a folder go ``packages.txt``, one name a line; ``libraries.txt``, what the loader must find
later, and where it was; ``libraries/``, copies of what belongs to no package. One that is nowhere is an error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path

from rekindle.formats.elf import Elf, is_elf
from rekindle.formats.linked import Linked, Needs, is_native, link_fields
from rekindle.formats.view import Malformed, map_file
from rekindle.inspect.packages import comes_along

# The loader's own places, after what LD_LIBRARY_PATH says and what ldconfig has listed.
_PLACES = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")


@dataclass(frozen=True)
class OutsideLibraries:
    """The Debian packages to install, where each library from outside lies, and those that belong to no package."""

    packages: tuple[str, ...]
    libraries: dict[str, Path]
    loose: dict[str, Path]


def read_wheel(path: Path) -> tuple[list[Linked], list[str]]:
    """Its libraries, and what it requires of pip."""
    libraries: list[Linked] = []
    requires: list[str] = []
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            if name.endswith(".dist-info/METADATA"):
                requires += BytesParser().parsebytes(wheel.read(name)).get_all("Requires-Dist", [])
            elif is_native(name):
                # On disk, not in memory: a library may have gigabytes.
                with tempfile.NamedTemporaryFile() as copy, wheel.open(name) as member:
                    shutil.copyfileobj(member, copy)
                    copy.flush()
                    libraries += read_library(Path(copy.name), name.rpartition("/")[2])
    return libraries, requires


def read_library(path: Path, base: str) -> Iterator[Linked]:
    with map_file(path) as mapped:
        if is_elf(mapped):
            yield Linked(file=base, **link_fields(Elf(mapped, base)))


def find_library(name: str, machine: str, places: Sequence[str], listed: dict[str, list[str]]) -> Path | None:
    """As the loader looks for it: a library for another machine is passed over."""
    asked = [Path(place, name) for place in places if place.startswith("/")]
    for path in [*asked, *map(Path, listed.get(name, ())), *(Path(place, name) for place in _PLACES)]:
        if path.is_file() and _machine_of(path) == machine:
            return path
    return None


def _machine_of(path: Path) -> str | None:
    try:
        return next((library.machine for library in read_library(path, path.name)), None)
    except Malformed:
        return None


def listed_libraries() -> dict[str, list[str]]:
    tool = shutil.which("ldconfig") or "/sbin/ldconfig"
    out: dict[str, list[str]] = {}
    for line in subprocess.run([tool, "-p"], capture_output=True, text=True, check=True).stdout.splitlines():
        name, arrow, path = line.strip().partition(" => ")
        if arrow:
            out.setdefault(name.split(" ")[0], []).append(path)
    return out


def package_of(path: Path) -> str | None:
    """Where /lib is a link to /usr/lib the package may know the file by either name."""
    real = str(path.resolve())
    for name in (real, real.removeprefix("/usr") if real.startswith("/usr/") else "/usr" + real):
        reply = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True)
        if reply.returncode == 0:
            return reply.stdout.split(":")[0].split(",")[0]
    return None


def ask(wheels: Sequence[Path]) -> OutsideLibraries:
    """Raises LookupError where a library is nowhere on this system."""
    read = [read_wheel(wheel) for wheel in wheels]
    libraries = [library for brought, _ in read for library in brought]
    requires = [line for _, required in read for line in required]
    listed = listed_libraries()
    packages: set[str] = set()
    paths: dict[str, Path] = {}
    loose: dict[str, Path] = {}
    missing: dict[str, list[str]] = {}
    waiting = libraries
    while waiting:
        # What a library of no package needs must come along as well; packages name what they need themselves.
        needs = Needs(libraries)
        for name in needs.external:
            if name in paths or name in missing or comes_along(name, requires):
                continue
            users = [library for library in libraries if name in library.needed]
            places = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *(at for user in users for at in user.rpath)]
            if (path := find_library(name, users[0].machine, places, listed)) is None:
                missing[name] = needs.users[name]
            elif package := package_of(path):
                paths[name] = path
                packages.add(package)
            else:
                paths[name] = loose[name] = path
        read_names = {library.base for library in libraries}
        strays = [(name, path) for name, path in loose.items() if name not in read_names]
        waiting = [library for name, path in strays for library in read_library(path, name)]
        libraries = [*libraries, *waiting]
    if missing:
        raise LookupError("; ".join(f"{name} (needed by {', '.join(by[:3])})" for name, by in sorted(missing.items())))
    return OutsideLibraries(tuple(sorted(packages)), dict(sorted(paths.items())), loose)


def main(arguments: Sequence[str]) -> int:
    if len(arguments) < 2:
        sys.stderr.write("usage: python -m rekindle.inspect.debian FOLDER WHEEL...\n")
        return 2
    folder, wheels = Path(arguments[0]), [Path(name) for name in arguments[1:]]
    try:
        answer = ask(wheels)
    except (LookupError, Malformed, OSError, zipfile.BadZipFile) as error:
        lack = "the wheel needs what is not on this system: " if isinstance(error, LookupError) else ""
        sys.stderr.write(f"{lack}{error}\n")
        return 1
    (folder / "libraries").mkdir(parents=True, exist_ok=True)
    (folder / "packages.txt").write_text("".join(f"{name}\n" for name in answer.packages))
    (folder / "libraries.txt").write_text("".join(f"{name} {path}\n" for name, path in answer.libraries.items()))
    for name, path in answer.loose.items():
        shutil.copyfile(path, folder / "libraries" / name)
    sys.stdout.write(f"{len(answer.libraries)} libraries from outside; packages: {' '.join(answer.packages)}\n")
    if answer.loose:
        sys.stdout.write(f"of no package, so copied: {' '.join(sorted(answer.loose))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
