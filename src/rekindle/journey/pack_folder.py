"""The folder of a pack while it is made: which files are ours, each written whole, all of them named at last.

``SHA256SUMS`` is written last and names every file: without it a folder is no pack.
"""

import contextlib
import hashlib
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.formats.dsse import PACK_SUMS, seal
from rekindle.host.files import sha256_of, write_atomically
from rekindle.host.keys import read_private
from rekindle.model.pack import PackedFile
from rekindle.scripts.pack_install import SIGNATURE, SUMS

WHEELS = "wheels"
PYTHON = "python"
SOURCE = "source"
_OURS = (
    *(WHEELS, PYTHON, SOURCE, SUMS, SIGNATURE, "pack.json", "plan.json", "requirements.txt", "constraints.txt"),
    *("README.txt", "install.py", "install.sh", "install.bat"),
)


class PackFolder:
    """The files of a pack by their paths in it, with digest and size."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.files: dict[str, PackedFile] = {}

    def refuse_foreign(self) -> None:
        """A folder with anything that is no part of a pack is left alone: nothing of the user's is mixed in or lost."""
        if not self.out.exists():
            return
        if not self.out.is_dir():
            raise BadInput(f"{self.out} is no folder", remedy="name a new folder with --out")
        for path in self.out.rglob("*"):
            top = path.relative_to(self.out).parts[0]
            half = top.startswith(tuple(f".{name}." for name in _OURS))
            if path.is_symlink() or not (top in _OURS or half):
                what = "is a link" if path.is_symlink() else "is no part of a pack"
                raise BadInput(f"{path} {what}", remedy="name a new folder with --out")

    def begin(self) -> None:
        """From here on it is no pack, until it is finished."""
        for name in (SUMS, SIGNATURE):
            (self.out / name).unlink(missing_ok=True)

    def note(self, name: str, sha256: str | None = None) -> PackedFile:
        """A file that lies there already, with its digest as it is."""
        path = self.out / name
        self.files[name] = PackedFile(path=name, sha256=sha256 or sha256_of(path), bytes=path.stat().st_size)
        return self.files[name]

    def note_all(self, folder: str) -> None:
        """Every whole file below a folder of the pack."""
        for path in sorted((self.out / folder).rglob("*")):
            name = path.relative_to(self.out).as_posix()
            if path.is_file() and name not in self.files and not name.endswith((".part", ".part.json")):
                self.note(name)

    def write(self, name: str, content: bytes | str) -> None:
        """One file of the pack, whole or not at all."""
        raw = content.encode("utf-8") if isinstance(content, str) else content
        path = self.out / name
        if not path.is_file() or path.read_bytes() != raw:
            write_atomically(path, raw)
        if name.endswith(".sh"):
            path.chmod(path.stat().st_mode | 0o111)
        self.files[name] = PackedFile(path=name, sha256=hashlib.sha256(raw).hexdigest(), bytes=len(raw))

    def sweep(self) -> None:
        """Take away what an earlier, interrupted or other pack left; :meth:`refuse_foreign` saw that all is ours."""
        for path in sorted(self.out.rglob("*"), reverse=True):
            if path.is_dir():
                with contextlib.suppress(OSError):
                    path.rmdir()
            elif path.relative_to(self.out).as_posix() not in self.files:
                path.unlink()

    def finish(self, sign: str | None) -> None:
        """Name every file; ``sign`` names the key that vouches for them."""
        self.sweep()
        sums = "".join(f"{file.sha256}  {path}\n" for path, file in sorted(self.files.items()))
        if sign is not None:
            signer = read_private(sign)
            write_atomically(self.out / SIGNATURE, seal(PACK_SUMS, sums.encode(), signer.id, signer.sign))
        write_atomically(self.out / SUMS, sums)
