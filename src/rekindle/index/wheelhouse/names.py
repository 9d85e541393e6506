"""Names from strangers, made safe: a wheel's file name is parsed and judged before it touches the disk.

``WheelName`` is what a file name promises. Only a name that packaging accepts, that is a plain file name
and that is spelt in the narrow alphabet of the wheel specification gets one; ``../``, separators, control
characters and markup never do.
"""

import re
from dataclasses import dataclass

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from rekindle.errors import BadInput
from rekindle.host.text import version_key

# The longest file name that common file systems take, less room for ".metadata" and temporary suffixes.
MAX_NAME = 200
_ALPHABET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl")
_PROJECT = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class WheelName:
    """What a wheel's file name says."""

    file: str
    project: str
    version: Version
    tags: tuple[Tag, ...]

    @property
    def tag_strings(self) -> tuple[str, ...]:
        """As the file name writes them, one by one."""
        return tuple(sorted(str(tag) for tag in self.tags))

    @property
    def pythons(self) -> tuple[str, ...]:
        """``cp311`` as ``3.11``; ``py3`` and ``cp3x-abi3`` stay as they are."""
        return tuple(sorted({_python(tag) for tag in self.tags}, key=version_key))

    @property
    def systems(self) -> tuple[str, ...]:
        """linux, windows, macos or any."""
        return tuple(sorted({_platform(tag.platform)[0] for tag in self.tags}))

    @property
    def machines(self) -> tuple[str, ...]:
        """Processor architectures, or any."""
        return tuple(sorted({_platform(tag.platform)[1] for tag in self.tags}))


def parse_name(file: str) -> WheelName:
    """What a wheel's file name says; a :class:`BadInput` where it is no wheel's name."""
    shown = ascii(file)[:120]
    if len(file) > MAX_NAME:
        raise BadInput(f"a wheel's file name has at most {MAX_NAME} characters, this has {len(file)}: {shown}")
    if not _ALPHABET.fullmatch(file):
        raise BadInput(
            f"{shown} is no wheel's file name",
            remedy="it must look like torch-2.6.0-cp311-cp311-linux_x86_64.whl (letters, digits, . _ + ! - only)",
        )
    try:
        project, version, _, tags = parse_wheel_filename(file)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise BadInput(
            f"{shown} is no wheel's file name: {error}", remedy="rebuild or rename it as the wheel specification says"
        ) from error
    if not _PROJECT.fullmatch(project):
        raise BadInput(f"{shown} names no project that an index can list")
    return WheelName(file=file, project=project, version=version, tags=tuple(sorted(tags, key=str)))


def _python(tag: Tag) -> str:
    match = re.fullmatch(r"cp(\d)(\d+)", tag.interpreter)
    if not match or tag.abi == "abi3":
        return f"{tag.interpreter}-abi3" if match else tag.interpreter
    free_threaded = "t" if tag.abi.endswith("t") else ""
    return f"{match[1]}.{match[2]}{free_threaded}"


def _platform(tag: str) -> tuple[str, str]:
    """``manylinux_2_28_x86_64`` -> ("linux", "x86_64")."""
    if tag == "any":
        return "any", "any"
    if tag.startswith("win"):
        return "windows", {"win_amd64": "x86_64", "win_arm64": "aarch64", "win32": "x86"}.get(tag, tag)
    system = "macos" if tag.startswith("macosx") else "linux" if "linux" in tag else tag
    machine = re.search(r"(x86_64|aarch64|arm64|universal2|i686|ppc64le|s390x|armv7l|riscv64)$", tag)
    return system, {"arm64": "aarch64"}.get(machine[1], machine[1]) if machine else tag
