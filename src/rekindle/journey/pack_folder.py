"""The folder of a pack: while it is made, which files are ours, each written whole, all named in ``SHA256SUMS`` at
last, without which it is no pack; when it is finished, checked by file and signature, and taken by ``up`` in place of
an index. With sources in it a torch can be built years later, by compilers and toolkits that its README names."""

import contextlib
import hashlib
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace
from packaging.requirements import InvalidRequirement, Requirement

from rekindle.api.export_plan import recipe_of
from rekindle.api.source import source_fetch
from rekindle.errors import BadInput, StageFailed
from rekindle.facts import PAIRED_PACKAGES
from rekindle.formats.statement import MAX_ENVELOPE_BYTES, PACK_SUMS, read_envelope, seal, signed_by
from rekindle.host.files import read_head, sha256_of, write_atomically
from rekindle.host.keys import PublicKey, checker, read_private, read_public, trusted_keys
from rekindle.model.document import encode, load
from rekindle.model.journey import UpOptions
from rekindle.model.pack import Pack, PackCheck, PackedFile
from rekindle.model.plan import BuildRecipe, Plan, Request
from rekindle.model.progress import Progress
from rekindle.scripts.formats import encode as encode_script
from rekindle.scripts.pack_install import SIGNATURE, SUMS, problems_of
from rekindle.scripts.templates import find_template, render_script

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

    def finish(self, sign: str | None) -> None:
        """Name every file; ``sign`` names the key that vouches for them. What an earlier pack left is taken away: all
        is ours."""
        for path in sorted(self.out.rglob("*"), reverse=True):
            if path.is_dir():
                with contextlib.suppress(OSError):
                    path.rmdir()
            elif path.relative_to(self.out).as_posix() not in self.files:
                path.unlink()
        sums = "".join(f"{file.sha256}  {path}\n" for path, file in sorted(self.files.items()))
        if sign is not None:
            signer = read_private(sign)
            write_atomically(self.out / SIGNATURE, seal(PACK_SUMS, sums.encode(), signer.id, signer.sign))
        write_atomically(self.out / SUMS, sums)


def pack_check(folder: Path, *, keys: Sequence[Path] = ()) -> PackCheck:
    """Is every file of a pack what it was when it was made, and who vouches for it?

    ``keys`` are the only ones believed (default: those of ``rekindle key``); where they are given, a pack that none of
    them signed is not good.

    >>> pack_check(folder / "nothing here").good
    False
    """
    if not folder.is_dir():
        return PackCheck(folder=str(folder), good=False, problems=(f"{folder} is no folder",))
    problems = problems_of(folder)
    made: Pack | None = None
    notes: list[str] = []
    if not problems:
        try:
            made = load(folder / "pack.json", Pack)
        except BadInput as error:
            problems.append(error.message)
    signed, words = _signer(folder, [read_public(key) for key in keys] if keys else None)
    if words is not None:
        (problems if keys or (signed is None and (folder / SIGNATURE).exists()) else notes).append(words)
    checked = PackCheck(
        folder=str(folder), good=not problems, signed=signed, problems=tuple(problems), notes=tuple(notes)
    )
    return replace(checked, title=made.title, files=len(made.files), bytes=made.bytes) if made else checked


def _signer(folder: Path, keys: Sequence[PublicKey] | None) -> tuple[str | None, str | None]:
    """The name of the believed key that signed the sums, or why there is none."""
    path = folder / SIGNATURE
    if not path.is_file() or path.is_symlink():
        return None, "nobody signed it: its sums tell accidents, not who made it"
    try:
        envelope = read_envelope(read_head(path, MAX_ENVELOPE_BYTES), SIGNATURE)
        sums = read_head(folder / SUMS, MAX_ENVELOPE_BYTES)
        believed = signed_by(envelope, checker(trusted_keys() if keys is None else keys))
    except (BadInput, OSError) as error:
        return None, f"its signature cannot be read: {error}"
    if envelope.payload_type != PACK_SUMS or envelope.payload != sums:
        return None, f"{SIGNATURE} is about other sums than those in {SUMS}"
    if believed is None:
        return None, "no key that is believed here signed it (rekindle key trust FILE.pub)"
    return believed, None


def pack_links(places: Sequence[str]) -> tuple[tuple[str, ...], Pack | None]:
    """Where installers find wheels: of a pack among ``places`` its folder of wheels, after it was checked; the pack."""
    packs = {place: Path(place) for place in places if (Path(place) / "pack.json").is_file()}
    for place, folder in packs.items():
        checked = pack_check(folder)
        if not checked.good:
            raise StageFailed(
                f"the pack {place} is not as it was made: {'; '.join(checked.problems[:4])}",
                remedy="copy it again from where it was made; rekindle pack check says all that is wrong",
            )
    links = tuple(str(packs[place].absolute() / WHEELS) if place in packs else place for place in places)
    return links, next((load(folder / "pack.json", Pack) for folder in packs.values()), None)


def up_from_pack(options: UpOptions) -> UpOptions:
    """What ``up`` is told where ``--find-links`` names a pack: its wheels and, without another wish, its torch."""
    links, packed = pack_links(options.find_links)
    if packed is None:
        return options
    wish = options.wish
    if packed.torch and not (wish.torch or wish.variant or wish.build):
        release, _, local = packed.torch.partition("+")
        wish = replace(wish, torch="+".join(filter(None, (release, local or packed.variant))))
    python = options.python or (packed.python if options.venv is None else None)
    alone = not any(package.name in PAIRED_PACKAGES for package in packed.packages)
    return replace(options, find_links=links, wish=wish, python=python, torch_only=options.torch_only or alone)


def pack_source(
    plan: Plan, folder: Path, add: Callable[[Sequence[Request]], None], *, windows: bool, progress: Progress
) -> list[str]:
    """Write the plan's tree, patches and script into ``folder``; ``add`` resolves build tools. What could not be
    had."""
    recipe, patches = recipe_of(plan)
    for patch, raw in patches.items():
        write_atomically(folder / "patches" / f"{patch}.patch", raw)
    kind: Literal["sh", "bat"] = "bat" if windows else "sh"
    write_atomically(folder / f"build.{kind}", encode_script(render_script(recipe, kind), kind))
    release = (plan.torch or "").split("+")[0]
    name = f"{plan.project}-{release}"
    archive, tree = folder / f"{name}.tar.gz", folder / "tree"
    if not archive.is_file():
        progress.stage("source", f"{plan.project} {release}")
        origin = plan.build.origin if plan.build else None
        source_fetch(tree, project=plan.project, release=release, place=origin, progress=progress)
        half = archive.with_name(archive.name + ".part")
        with tarfile.open(half, "w:gz", compresslevel=6) as tar:
            tar.add(tree, arcname=name, filter=_without_owner)
        half.replace(archive)
    shutil.rmtree(tree, ignore_errors=True)
    # The recipe's tools must be there; what the tree asks for besides is taken where it can be had.
    add([request for line in recipe.requirements if (request := _read_requirement(line))])
    notes = []
    for line in _tree_requirements(archive, name):
        try:
            if request := _read_requirement(line):
                add([request])
        except StageFailed as error:
            notes.append(f"the tree also asks for {line}: {error.message}")
    write_atomically(folder / "plan.json", encode(plan))
    values = {"title": recipe.title, "tree": name, "windows": windows}
    readme = find_template("source.txt.j2").render(values, build=plan.build or BuildRecipe(source=""))
    write_atomically(folder / "README.txt", readme)
    return notes


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without the name of the owner; None for git's own folders and our notes, which stay outside."""
    if {".git", ".rekindle"} & set(info.name.split("/")):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _tree_requirements(archive: Path, tree: str) -> list[str]:
    """The lines of ``requirements.txt`` in the tree; none where it has no such file."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name == f"{tree}/requirements.txt" and member.isfile() and (file := tar.extractfile(member)):
                return file.read(1 << 20).decode("utf-8", "replace").splitlines()
    return []


def _read_requirement(line: str) -> Request | None:
    """A requirement that names a package and versions; anything else (an option, an address) is no tool."""
    try:
        wish = Requirement(line.partition("#")[0].strip())
    except InvalidRequirement:
        return None
    return None if wish.url else Request(name=wish.name, specifier=str(wish.specifier) or None, why="builds torch")
