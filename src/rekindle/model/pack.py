"""A pack: a folder with all that a plan needs on a machine that never sees a network, and what checking it found."""

from pathlib import Path

import msgspec

from rekindle.model.document import Document, Line, Name, Part, Tag, VersionText
from rekindle.model.journey import Card, Package


class PackOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``pack`` can be told; everything but the folder has a default.

    out         the folder; what an interrupted pack left there is continued
    wheel       a torch that is built (or grafted) already, instead of the plan's
    source      also the source tree, the patches, the build tools and a script that builds
    python_too  the Python itself, where an index has one (Windows' embeddable)
    sign        the name of a signing key
    torch_only  without torchvision and torchaudio
    index       this package index instead of the plan's: a mirror, or ``default`` for pip's own
    find_links  folders or pages of wheels that are looked through besides
    offline     ask no index at all
    dry_run     resolve and measure, and write nothing"""

    out: Path
    wheel: Path | None = None
    source: bool = False
    python_too: bool = True
    sign: str | None = None
    torch_only: bool = False
    index: str | None = None
    find_links: tuple[str, ...] = ()
    offline: bool = False
    dry_run: bool = False


class PackedFile(Part, frozen=True, kw_only=True):
    """One file; ``path`` is relative to the pack and written with slashes."""

    path: Line
    sha256: str
    bytes: int


class Pack(Document, frozen=True, kw_only=True):
    """``pack.json`` of a pack, and the answer of ``pack``. ``title`` is what it installs; ``proof`` a line of Python
    that computes with it. ``packages`` is the whole closure, ``files`` what else lies in it. ``left_out`` says what is
    not in it and why. ``folder``, ``card`` and ``install`` are of the run that made it and not part of the file."""

    title: Line
    project: Name = "torch"
    torch: VersionText | None = None
    variant: Tag | None = None
    python: VersionText
    system: Line
    arch: Tag
    glibc: VersionText | None = None
    proof: Line = ""
    packages: tuple[Package, ...] = ()
    files: tuple[PackedFile, ...] = ()
    left_out: tuple[Line, ...] = ()
    notes: tuple[Line, ...] = ()
    tool: Line = ""
    bytes: int = 0
    folder: str = ""
    card: Card | None = None
    install: tuple[str, ...] = ()
    signed: str | None = None


class PackCheck(Document, frozen=True, kw_only=True):
    """``pack check``: every problem found; ``signed`` names the believed key that signed it."""

    folder: str
    good: bool
    title: str = ""
    files: int = 0
    bytes: int = 0
    signed: str | None = None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
