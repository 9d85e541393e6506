"""Which library goes into a fat wheel, from ``rules.toml``: leave, bring, bring along, under which licence; and
what the wheel then says of itself: METADATA without what it now brings, licences, and a bill of materials."""

import contextlib
import fnmatch
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rekindle import __version__
from rekindle.formats.statement import render_bill
from rekindle.formats.wheel import read_headers
from rekindle.host.files import sha256_of
from rekindle.model.build import Brought
from rekindle.model.toml import read_beside


class LeaveRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What stays outside; with a ``package`` only of wheels that require it."""

    system: str
    why: str
    source: str
    names: tuple[str, ...]
    package: str | None = None


class RuntimeLoad(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a library opens by name while it runs."""

    when: tuple[str, ...]
    source: str
    bring: tuple[str, ...] = ()
    data: tuple[str, ...] = ()


class Licence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: tuple[str, ...]
    name: str
    spdx: str
    source: str


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of ``rules.toml``; ``search`` are the folders of a system where libraries are looked for."""

    schema: int
    retrieved: str
    search: dict[str, tuple[str, ...]]
    leave: tuple[LeaveRule, ...]
    loaded: tuple[RuntimeLoad, ...]
    licence: tuple[Licence, ...]

    def why_left(self, name: str, system: str, requires: Collection[str] = ()) -> str | None:
        """Why a library must stay outside of a wheel that requires these packages; None if it is to be brought."""
        rows = [row for row in self.leave if row.system == system and (not row.package or row.package in requires)]
        return next((row.why for row in rows if _matches(name, row.names)), None)

    def companions(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(patterns of libraries, data directories) that a library opens while it runs."""
        rows = [row for row in self.loaded if _matches(name, row.when)]
        return tuple(p for row in rows for p in row.bring), tuple(d for row in rows for d in row.data)

    def asked_by_name(self, name: str) -> bool:
        """Is the library, or one that it opens, looked for by its name while programs run? It must keep that name."""
        return any(_matches(name, row.when) or _matches(name, row.bring) for row in self.loaded)

    def licence_of(self, name: str) -> Licence | None:
        """Under which terms a library may be passed on, as far as it is listed."""
        return next((row for row in self.licence if _matches(name, row.names)), None)


def load_rules() -> Rules:
    """What lies beside this file."""
    return read_beside(__file__, "rules.toml", Rules)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    # Windows does not tell Cudart64.DLL from cudart64.dll; Linux names are matched as they are.
    if name.lower().endswith((".dll", ".drv")):
        name, patterns = name.lower(), tuple(pattern.lower() for pattern in patterns)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


# The packages through which official wheels get the same libraries.
_VENDOR = re.compile(r"Requires-Dist:\s*(?i:nvidia[-_]|cuda-toolkit\b|cuda-bindings\b|rocm\b|rocm-sdk)")
# What these packages bring; libcurl and libcups are others'.
_VENDORS = re.compile(r"(lib)?(cu(blas|d|f|inj|pti|rand|s|tensor)|nv)|lib(nccl|roc|hip)", re.IGNORECASE)
_LICENCE_FILES = ("LICENSE*", "License*", "LICENCE*", "EULA*", "COPYING*", "NOTICE*")
_MAX_LICENCE = 1 << 20


def without_vendor_packages(metadata: str, brought: Iterable[str]) -> str:
    """METADATA without ``Requires-Dist`` on packages whose libraries are inside now."""
    if not any(_VENDORS.match(name) for name in brought):
        return metadata
    lines = metadata.splitlines(keepends=True)
    # Behind the first blank line stands the description.
    end = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
    return "".join([*(line for line in lines[:end] if not _VENDOR.match(line)), *lines[end:]])


def required_packages(metadata: bytes) -> frozenset[str]:
    """The packages that are always installed with the wheel; those of an extra may not be."""
    packages = set()
    for name, value in read_headers(metadata):
        with contextlib.suppress(InvalidRequirement):
            if name == "Requires-Dist" and "extra" not in str((wish := Requirement(value)).marker or ""):
                packages.add(str(canonicalize_name(wish.name)))
    return frozenset(packages)


def licence_files(paths: Sequence[Path]) -> dict[str, Path]:
    """Licence texts that lie beside the libraries (in their directory, the one above, or a .dist-info there)."""
    files: dict[str, Path] = {}
    for folder in dict.fromkeys(path.resolve().parent for path in paths):
        # A system directory's licences are not this library's.
        for place in [folder, folder.parent] if not str(folder).startswith(("/usr/lib", "/lib")) else []:
            for file in (file for pattern in _LICENCE_FILES for file in sorted(place.glob(pattern))):
                if file.is_file() and file.stat().st_size <= _MAX_LICENCE:
                    files.setdefault(f"{place.name}-{file.name}", file)
    return files


def bill_of_materials(subject: str, brought: Sequence[tuple[Brought, Path]], rules: Rules) -> bytes:
    """CycloneDX 1.5, kept in ``.dist-info/sboms`` as PEP 770 asks."""
    components: list[dict[str, Any]] = []
    for item, path in brought:
        licence = rules.licence_of(path.name)
        row = {"type": "library", "name": Path(item.file).name}
        hashes = [{"alg": "SHA-256", "content": sha256_of(path)}]
        licences = [{"license": {"name": licence.name if licence else "unknown"}}]
        told = {"rekindle:in-wheel": item.file, "rekindle:why": item.why}
        properties = [{"name": name, "value": value} for name, value in told.items()]
        components.append(row | {"hashes": hashes, "licenses": licences, "properties": properties})
    return render_bill({"type": "library", "name": subject}, components, tool_version=__version__)
