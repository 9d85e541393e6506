"""Recognises a source tree: which project, which version, with git or without, and a digest of its content.

The digest is cheap enough to be taken every time. With git it stands for the commit and every uncommitted change of
tracked files; without, for the content itself where the tree is small, else for what is known of where it came from.

Which submodules it should have is known here too, and which are missing (an empty or absent directory, or a checkout at
another commit), the commonest source error of all. Without git the tree's own ``.gitmodules`` names them; where that is
gone too (a Debian tarball), only what ``setup.py`` would look for can be told.
"""

import ast
import configparser
import hashlib
import re
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.formats.gitmodules import read_gitmodules
from rekindle.host.files import read_head
from rekindle.host.git import Git
from rekindle.model.source import TreeRecord
from rekindle.model.toml import read_beside
from rekindle.source import journal
from rekindle.source.paths import check_relative, plain_files

_MARKS = read_beside(__file__, "marks.toml", dict[str, dict[str, tuple[str, ...]]])
MARKS = _MARKS["now"]
SMALL_FILES = 2000
SMALL_BYTES = 32 << 20
_SKIPPED = frozenset({".git", journal.FOLDER, "__pycache__", "build", "dist"})
# What a build writes into the tree is no source: counting it would make every continued build look changed.
_BUILT = (".so", ".dll", ".dylib", ".pyd", ".lib", ".a", ".pyc")
OURS = "Written by rekindle"


def recognise(root: Path) -> tuple[str, str]:
    """Project and release of a tree, or a refusal that says what is not there. ``version.txt`` of a release tag says
    ``1.13.0a0`` also in 1.13.1, so only its first two numbers are sure."""
    if not root.is_dir():
        raise BadInput(f"{root} is not a directory", remedy="rekindle source fetch --help")
    marks = (*MARKS.items(), *_MARKS["before"].items())
    project = next((name for name, files in marks if all((root / file).is_file() for file in files)), None)
    if project is None:
        lacks = [[file for file in files if not (root / file).is_file()] for files in MARKS.values()]
        message = f"{root} is not a source tree of {', '.join(MARKS)}: it lacks {min(lacks, key=len)[0]}"
        raise BadInput(message, remedy="give the top directory of the tree, or get one with 'rekindle source fetch'")
    text = (root / "version.txt").read_text(encoding="utf-8", errors="replace").strip()[:64]
    from packaging.version import InvalidVersion, Version

    try:
        # Without what marks it as not yet released.
        return project, Version(text).base_version
    except InvalidVersion as error:
        raise BadInput(f"{root / 'version.txt'} says {text!r}, which is no version") from error


def exact_version(version: str, commit_tag: str | None) -> str:
    """The release a git tag names (v1.13.1), where there is one; else what version.txt says."""
    match = re.fullmatch(r"v?(\d+\.\d+\.\d+)(?:-rc\d+)?", commit_tag or "")
    return match[1] if match else version


def tree_version(root: Path) -> tuple[str, str]:
    """Project and exact release: what fetch noted, else the git tag, else version.txt."""
    project, version = recognise(root)
    git = Git(root)
    noted = journal.read_record(root).version
    return project, noted or exact_version(version, git.tag_at_head() if git.present else None)


def check_wanted(root: Path, version: str, wanted: str | None) -> None:
    """A tree of another release than the plan's is the wrong tree. version.txt is sure only to the minor."""
    if wanted and version.split(".")[:2] != wanted.split("+")[0].split(".")[:2]:
        remedy = "give the tree of that release, or get it with 'rekindle source fetch'"
        raise BadInput(f"{root} is release {version}, and {wanted} is wanted; nothing was changed", remedy=remedy)


def tree_digest(root: Path, git: Git | None, record: TreeRecord, project: str, version: str) -> str:
    """SHA-256, in hexadecimal."""
    total = hashlib.sha256()

    def add(*words: str | None) -> None:
        total.update(b"".join((word or "").encode("utf-8", "surrogateescape") + b"\0" for word in words))

    add(project, version, str(record.hipified))
    if git is not None:
        plain = ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules")
        add(git.head(), git.ask("diff", "HEAD", "--binary", *plain).out)
    elif not _add_content(root, total, made=f"{project}/version.py"):
        add(record.origin)
    for part in record.supply:
        add(part.path, part.way, part.origin)
    for file in sorted(record.files, key=lambda file: file.path):
        add(file.path, file.left)
    return total.hexdigest()


def _add_content(root: Path, total: "hashlib._Hash", *, made: str) -> bool:
    """Hash names and contents if the tree is small; False, and nothing hashed, if it is not. ``made`` is the file that
    setup.py writes at each run (all of these projects do)."""
    paths: list[str] = []
    size = 0
    for path in plain_files(root, lambda name: name in _SKIPPED or name.endswith(".egg-info")):
        inside = path.relative_to(root).as_posix()
        if path.name.startswith(".rekindle") or path.name.endswith(_BUILT) or inside == made:
            continue
        paths.append(inside)
        size += path.stat().st_size
        if len(paths) > SMALL_FILES or size > SMALL_BYTES:
            return False
    for name in sorted(paths):
        content = hashlib.sha256((root / name).read_bytes()).digest()
        total.update(name.encode("utf-8", "surrogateescape") + b"\0" + content)
    return True


def find_submodules(root: Path) -> dict[str, str | None]:
    """The paths and addresses that ``.gitmodules`` of a tree names; a path that leads out of it is refused."""
    file = root / ".gitmodules"
    if not file.is_file():
        return {}
    try:
        named = read_gitmodules(file.read_text(encoding="utf-8", errors="replace"))
    except configparser.Error as error:
        raise BadInput(f"cannot read {file}: {str(error).splitlines()[0]}") from error
    for path in named:
        check_relative(path, origin=str(file))
    return dict(sorted(named.items()))


def is_empty(folder: Path) -> bool:
    """Is there nothing in it, or no such folder?"""
    return not folder.is_dir() or not any(entry.name != ".git" for entry in folder.iterdir())


def is_ours(root: Path, path: str) -> bool:
    """Is it a stand-in that we wrote?"""
    listing = root / path / "CMakeLists.txt"
    return listing.is_file() and OURS.encode() in read_head(listing, 400)


def missing_submodules(root: Path) -> tuple[str, ...]:
    """Paths of submodules, nested ones too, that are not there as they should be; each with its reason."""
    git = Git(root)
    if not git.present:
        return tuple(_missing_on_disk(root, ""))
    done = git.ask("submodule", "status", "--recursive", timeout=300.0)
    # A sign, then the commit, the path and a description.
    why = {"-": "not checked out", "+": "at another commit than recorded", "U": "has conflicts"}
    rows = ((line[:1], line[1:].split()) for line in done.out.splitlines())
    missing = [f"{rest[1]} ({why[sign]})" for sign, rest in rows if sign in why and len(rest) >= 2]
    # Git calls a submodule whose clone is there and whose files are not (a kill in between) up to date.
    known = {name.rpartition(" (")[0] for name in missing}
    missing += [name for name in _missing_on_disk(root, "") if name.rpartition(" (")[0] not in known]
    return tuple(sorted(missing))


def listed_by_setup(root: Path) -> tuple[str, ...]:
    """Third-party folders torch's setup.py looks for before it starts: the list in its get_submodule_folders."""
    try:
        code = ast.parse((root / "setup.py").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    names = [
        item.value
        for function in ast.walk(code)
        if isinstance(function, ast.FunctionDef) and function.name == "get_submodule_folders"
        for node in ast.walk(function)
        if isinstance(node, ast.List)
        for item in node.elts
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    ]
    return tuple(dict.fromkeys(f"third_party/{name}" for name in names))


def _missing_on_disk(root: Path, prefix: str) -> list[str]:
    missing: list[str] = []
    for path in find_submodules(root) or (listed_by_setup(root) if not prefix else ()):
        folder = root / path
        if is_empty(folder):
            missing.append(f"{prefix}{path} ({'empty' if folder.is_dir() else 'not there'})")
        else:
            missing += _missing_on_disk(folder, f"{prefix}{path}/")
    return missing
