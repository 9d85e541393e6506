"""What a fat wheel says about itself: METADATA without what it now brings, licences, and a bill of materials."""

import contextlib
import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rekindle import __version__
from rekindle.bundle.rules import Rules
from rekindle.formats.cyclonedx import render_bill
from rekindle.formats.wheel import read_headers
from rekindle.model.bundle import Brought

# The packages through which official wheels get the same libraries.
_VENDOR = re.compile(r"Requires-Dist:\s*(?i:nvidia[-_]|cuda-toolkit\b|cuda-bindings\b|rocm\b|rocm-sdk)")
_LICENCE_FILES = ("LICENSE*", "License*", "LICENCE*", "EULA*", "COPYING*", "NOTICE*")
_MAX_LICENCE = 1 << 20


def without_vendor_packages(metadata: str, brought: Iterable[str]) -> str:
    """METADATA without ``Requires-Dist`` on packages whose libraries are inside now."""
    if not any(name.startswith(("libcu", "libnv", "libnccl", "libroc", "libhip", "cu", "nv")) for name in brought):
        return metadata
    lines = metadata.splitlines(keepends=True)
    # Behind the first blank line stands the description.
    end = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
    head = [line for line in lines[:end] if not _VENDOR.match(line)]
    return "".join([*head, *lines[end:]])


def required_packages(metadata: bytes) -> frozenset[str]:
    """The packages that are always installed with the wheel; those of an extra may not be."""
    found = set()
    for name, value in read_headers(metadata):
        with contextlib.suppress(InvalidRequirement):
            if name == "Requires-Dist" and "extra" not in str((wanted := Requirement(value)).marker or ""):
                found.add(str(canonicalize_name(wanted.name)))
    return frozenset(found)


def with_build_tag(wheel: str, tag: str) -> str:
    """``Build:`` in the WHEEL file, which must agree with the file name."""
    lines = [line for line in wheel.splitlines() if line.strip() and not line.startswith("Build:")]
    return "\n".join([*lines, f"Build: {tag}"]) + "\n"


def licence_files(paths: Sequence[Path]) -> dict[str, Path]:
    """Licence texts that lie beside the libraries (in their directory, the one above, or a .dist-info there)."""
    found: dict[str, Path] = {}
    for folder in dict.fromkeys(path.resolve().parent for path in paths):
        # A system directory's licences are not this library's.
        near = [folder, folder.parent] if not str(folder).startswith(("/usr/lib", "/lib")) else []
        for place in near:
            for pattern in _LICENCE_FILES:
                for file in sorted(place.glob(pattern)):
                    if file.is_file() and file.stat().st_size <= _MAX_LICENCE:
                        found.setdefault(f"{place.name}-{file.name}", file)
    return found


def bill_of_materials(subject: str, brought: Sequence[tuple[Brought, Path]], rules: Rules) -> bytes:
    """CycloneDX 1.5, kept in ``.dist-info/sboms`` as PEP 770 asks."""
    components = []
    for item, path in brought:
        licence = rules.licence_of(path.name)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        components.append(
            {
                "type": "library",
                "name": Path(item.file).name,
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "licenses": [{"license": {"name": licence.name if licence else "unknown"}}],
                "properties": [
                    {"name": "rekindle:in-wheel", "value": item.file},
                    {"name": "rekindle:why", "value": item.why},
                ],
            }
        )
    return render_bill({"type": "library", "name": subject}, components, tool_version=__version__)
