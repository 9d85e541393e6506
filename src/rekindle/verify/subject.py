"""The wheel under test: what its name and its metadata promise."""

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, canonicalize_version, parse_wheel_filename

from rekindle.errors import BadInput
from rekindle.formats.wheel import check_wheel
from rekindle.model.machine import platform_of

# distribution -> the package to import, where the two differ
IMPORTS = {"spark-miniature": "spark"}
KNOWN = ("torch", "spark")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A wheel file, read as far as its name and METADATA."""

    path: Path
    distribution: str
    version: str
    tags: frozenset[Tag]
    requires: tuple[str, ...]
    unpacked: int = 0

    @property
    def requirements(self) -> list[Requirement]:
        """What it requires, as far as it can be read."""
        parsed = []
        for text in self.requires:
            with contextlib.suppress(InvalidRequirement):
                parsed.append(Requirement(text))
        return parsed

    @property
    def package(self) -> str:
        return IMPORTS.get(self.distribution, self.distribution.replace("-", "_"))

    @property
    def pythons(self) -> set[tuple[int, int]]:
        """The CPython versions it is for; empty where any will do."""
        matches = (re.fullmatch(r"cp(\d)(\d+)", tag.interpreter) for tag in self.tags)
        return {(int(match[1]), int(match[2])) for match in matches if match}

    @property
    def gil_disabled(self) -> bool:
        """Is it for a Python without the global lock (cp313t) alone?"""
        return bool(self.tags) and all(re.fullmatch(r"cp\d+t", tag.abi) for tag in self.tags)

    @property
    def machine(self) -> str | None:
        """The processor family its native code is for: x86_64, aarch64; None for pure Python."""
        return next((machine for tag in self.tags if (machine := platform_of(tag.platform)[1])), None)

    @property
    def system(self) -> str | None:
        """The system it is for; None where any will do."""
        return next((system for tag in self.tags if (system := platform_of(tag.platform)[0])), None)


def read_subject(path: Path) -> Subject:
    """Read a wheel's name and METADATA; what is not a wheel is :class:`BadInput`."""
    if not path.exists():
        raise BadInput(f"there is no file {path}", remedy="give the path of a .whl file")
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise BadInput(
            f"{path.name} is not a wheel's file name", remedy="name-version-python-abi-platform.whl"
        ) from error
    wheel = check_wheel(path, listed=False)
    fields = wheel.headers("METADATA")
    if not fields:
        raise BadInput(f"{path.name} holds no METADATA, so it is no installable wheel")
    own = next((value.strip()[:80] for key, value in fields if key.lower() == "version"), str(version))
    # uv refuses such a wheel, pip installs it and goes by the file: then the report would name what is not there.
    if canonicalize_version(own) != canonicalize_version(version):
        raise BadInput(f"{path.name} is version {own} by its METADATA", remedy="fetch it again under its own name")
    return Subject(
        path=path.resolve(),
        distribution=str(canonicalize_name(name)),
        version=str(version),
        tags=tags,
        requires=tuple(value for key, value in fields if key.lower() == "requires-dist"),
        unpacked=sum(member.size for member in wheel.members.values()),
    )
