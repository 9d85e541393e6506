"""The native files of a target, each opened once: everything that is read from one lands in a ``Library``. And what
all of them need, what the wheel brings, what must come from elsewhere, and what the tag promises."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rekindle.formats.binary import open_binary
from rekindle.formats.elf import Elf
from rekindle.formats.linked import Linked, Needs, link_fields
from rekindle.inspect.cpu import CpuSurvey, survey_cpu
from rekindle.inspect.gpu import GpuSurvey, survey_gpu
from rekindle.inspect.packages import find_provider, promised_glibc
from rekindle.model.document import shared_fields
from rekindle.model.version import key as version_key
from rekindle.model.wheel import External, LibraryLinks, Links, WheelFinding

_VERSION = re.compile(r"(GLIBC|GLIBCXX|CXXABI|GCC)_(\d+(?:\.\d+)*)$")


@dataclass(frozen=True, kw_only=True)
class Library(Linked):
    """``floors`` are the newest symbol versions wanted: {"GLIBC": "2.28", "GLIBCXX": "3.4.25"}."""

    gpu: GpuSurvey
    floors: dict[str, str]
    cpu: CpuSurvey | None = None
    cxx_abi: str | None = None


def read_library(data: Any, file: str, *, cpu: bool = True, step: Callable[[int, int], None]) -> Library | None:
    """``step`` hears how far the audit of the code is, in bytes."""
    if (binary := open_binary(data, file)) is None:
        return None
    gpu = survey_gpu(binary, file)
    code = survey_cpu(binary, file, step) if cpu else None
    floors: dict[str, str] = {}
    for version in [each for need in binary.version_needs for each in need.versions] if isinstance(binary, Elf) else ():
        if match := _VERSION.match(version):
            floors[match[1]] = newest([floors.get(match[1]), match[2]]) or ""
    abi = _cxx_abi(binary) if isinstance(binary, Elf) else None
    return Library(file=file, gpu=gpu, floors=floors, cpu=code, cxx_abi=abi, **link_fields(binary))


def _cxx_abi(elf: Elf) -> str | None:
    """``cxx11`` or ``pre-cxx11``, by how std::string is spelled in the symbols a library takes from libstdc++."""
    if (section := elf.section(".dynstr")) is None:
        return None
    offset, size = elf.content(section)
    names = elf.view.take(offset, size)
    new = names.count(b"St7__cxx1112basic_string")
    old = names.count(b"\0_ZNSs") + names.count(b"\0_ZNKSs") + names.count(b"RKSs")
    if new == old == 0:
        return None
    return "cxx11" if new > old else "pre-cxx11"


def newest(versions: Iterable[str | None]) -> str | None:
    """The highest of dotted versions."""
    return max(filter(None, versions), key=version_key, default=None)


def join_links(libraries: Sequence[Library], requires: Sequence[str] = (), platform: str | None = None) -> Links:
    """What ``inspect`` says of all libraries together; ``requires`` are the wheel's own requirements."""
    needs = Needs(libraries)
    users, bundled, external, needed = needs.users, needs.bundled, needs.external, sorted(needs.users)
    machines = {library.machine for library in libraries if library.format == "elf"}
    glibc = newest(library.floors.get("GLIBC") for library in libraries)
    measured = f"manylinux_{glibc.replace('.', '_')}_{machines.pop()}" if glibc and len(machines) == 1 else None
    # What others link against decides: torch's own libraries, not a runtime that came along.
    faces = [library for library in libraries if library.base.startswith(("libtorch", "libc10"))] or list(libraries)
    abis = Counter(library.cxx_abi for library in faces if library.cxx_abi)
    found = [(name, *find_provider(name, requires)) for name in external]
    sources = [External(library=name, needed_by=tuple(users[name]), package=by, system=own) for name, by, own in found]
    rows = []
    for library in libraries:
        missing = tuple(name for name in library.needed if not bundled(name))
        versions = {kind.lower(): library.floors.get(kind) for kind in ("GLIBC", "GLIBCXX")}
        told = shared_fields(library, LibraryLinks) | versions | {"needed": library.needed + library.delayed}
        rows.append(LibraryLinks(**told, missing=missing))
    return Links(
        needed=tuple(needed),
        bundled=tuple(name for name in needed if bundled(name)),
        external=tuple(external),
        glibc=glibc,
        glibcxx=newest(library.floors.get("GLIBCXX") for library in libraries),
        cxx_abi=max(abis, key=abis.__getitem__, default=None),
        manylinux_claim=platform if platform and promised_glibc(platform) else None,
        manylinux_fact=measured,
        sources=tuple(sources),
        libraries=tuple(rows),
    )


def link_findings(links: Links, platform: str | None) -> list[WheelFinding]:
    """Promises the wheel does not keep, and libraries nobody brings."""
    out: list[WheelFinding] = []

    def tell(code: str, text: str, severity: Literal["error", "warning", "note"] = "warning") -> None:
        out.append(WheelFinding(code=code, text=text, severity=severity))

    promised = promised_glibc(platform) if platform else None
    if promised and links.glibc and version_key(links.glibc) > version_key(promised):
        worst = next(library.file for library in links.libraries if library.glibc == links.glibc).rpartition("/")[2]
        tell("manylinux-claim", f"the tag {platform} promises glibc {promised}, but {worst} needs {links.glibc}")
    for source in links.sources:
        if source.library.lower().startswith("libomp140."):
            tell("missing-dll", f"{source.library} is missing: {source.package}", "error")
        elif source.package is None:
            users = ", ".join(source.needed_by[:3])
            tell("unknown-library", f"{source.library} (needed by {users}) is not in the wheel")
    for library in links.libraries:
        for path in library.rpath:
            if path.startswith("/") and not path.startswith(("/usr/lib", "/lib")):
                tell("absolute-rpath", f"{library.file} looks for libraries in {path}", "note")
    return out
