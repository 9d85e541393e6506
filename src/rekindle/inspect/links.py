"""What the libraries need, what the wheel brings, what must come from elsewhere, and what the tag promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rekindle.inspect.libraries import Library, newest
from rekindle.inspect.outside import Needs
from rekindle.inspect.packages import find_provider, promised_glibc
from rekindle.model.wheel import External, Finding, LibraryLinks, Links


def join_links(libraries: Sequence[Library], requires: Sequence[str] = (), platform: str | None = None) -> Links:
    """What ``inspect`` says of all libraries together; ``requires`` are the wheel's own requirements."""
    needs = Needs(libraries)
    users, bundled, external = needs.users, needs.bundled, needs.external
    needed = sorted(users)
    glibc = newest([library.floors["GLIBC"] for library in libraries if "GLIBC" in library.floors])
    # What others link against decides: torch's own libraries, not a runtime that came along.
    faces = [library for library in libraries if library.base.startswith(("libtorch", "libc10"))] or list(libraries)
    abis = Counter(library.cxx_abi for library in faces if library.cxx_abi)
    return Links(
        needed=tuple(needed),
        bundled=tuple(name for name in needed if bundled(name)),
        external=tuple(external),
        glibc=glibc,
        glibcxx=newest([library.floors["GLIBCXX"] for library in libraries if "GLIBCXX" in library.floors]),
        cxx_abi=abis.most_common(1)[0][0] if abis else None,
        manylinux_claim=platform if platform and promised_glibc(platform) else None,
        manylinux_fact=_fact(glibc, libraries),
        sources=tuple(_source(name, users[name], requires) for name in external),
        libraries=tuple(
            LibraryLinks(
                file=library.file,
                soname=library.soname,
                needed=library.needed + library.delayed,
                missing=tuple(name for name in library.needed if not bundled(name)),
                rpath=library.rpath,
                glibc=library.floors.get("GLIBC"),
                glibcxx=library.floors.get("GLIBCXX"),
            )
            for library in libraries
        ),
    )


def _source(name: str, users: Sequence[str], requires: Sequence[str]) -> External:
    package, system = find_provider(name, requires)
    return External(library=name, needed_by=tuple(users), package=package, system=system)


def _fact(glibc: str | None, libraries: Sequence[Library]) -> str | None:
    machines = {library.machine for library in libraries if library.format == "elf"}
    if glibc is None or len(machines) != 1:
        return None
    return f"manylinux_{glibc.replace('.', '_')}_{machines.pop()}"


def link_findings(links: Links, platform: str | None) -> list[Finding]:
    """Promises the wheel does not keep, and libraries nobody brings."""
    out = []
    promised = promised_glibc(platform) if platform else None
    if promised and links.glibc and _number(links.glibc) > _number(promised):
        worst = next(library.file for library in links.libraries if library.glibc == links.glibc).rsplit("/", 1)[-1]
        out.append(
            Finding(
                code="manylinux-claim",
                text=f"the tag {platform} promises glibc {promised}, but {worst} needs {links.glibc}",
            )
        )
    for source in links.sources:
        if source.library.lower().startswith("libomp140."):
            out.append(
                Finding(code="missing-dll", text=f"{source.library} is missing: {source.package}", severity="error")
            )
        elif source.package is None:
            users = ", ".join(source.needed_by[:3])
            out.append(
                Finding(code="unknown-library", text=f"{source.library} (needed by {users}) is not in the wheel")
            )
    for library in links.libraries:
        for path in library.rpath:
            if path.startswith("/") and not path.startswith(("/usr/lib", "/lib")):
                out.append(
                    Finding(
                        code="absolute-rpath", text=f"{library.file} looks for libraries in {path}", severity="note"
                    )
                )
    return out


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
