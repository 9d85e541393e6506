"""A git checkout at a tag or commit with all its submodules: shallow, resumable, from mirrors, checked.

Every step can be cut and run again: the fetch leaves a repository that continues, each finished submodule
stays. ``Mirror`` maps the beginning of an address to another (git's ``url.*.insteadOf``), for the project and
its submodules alike. Long paths and line ends are settled in the repository itself, and nothing is written to the
user's git configuration.
"""

import os
import re
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rekindle.errors import BadInput, Interrupted, MissingTool
from rekindle.host.git import Git
from rekindle.host.process import run_long
from rekindle.model.progress import Progress
from rekindle.source.patches import BASE_TAG
from rekindle.source.tree import find_submodules, missing_submodules

ATTEMPTS = 3
_PERCENT = re.compile(
    r"(?:remote: )?([A-Za-z ]+):\s+(\d+)% \((\d+)/(\d+)\)(?:, ([\d.]+ [KMG]?i?B))?(?: \| ([\d.]+ \S+/s))?"
)
_CHECKED_OUT = re.compile(r"Submodule path '(.+)': checked out")
_WINDOWS_DEEPEST = 150  # characters below the top of a torch checkout with its submodules, rounded up
_WINDOWS_LIMIT = 260


class Mirror(NamedTuple):
    """Addresses that begin with ``prefix`` are taken from ``instead``."""

    prefix: str
    instead: str


def parse_mirror(text: str) -> Mirror:
    """``https://github.com/=https://mirror.example/github/``"""
    prefix, mark, instead = text.partition("=")
    if not mark or not prefix or not instead:
        raise BadInput(f"{text!r} is no mirror", remedy="--mirror https://github.com/=https://mirror.example/github/")
    return Mirror(prefix, instead)


def check_place(target: Path, *, windows: bool) -> list[str]:
    """Refuse a place where a checkout cannot work; notes are what the user should know."""
    if target.exists() and not target.is_dir():
        raise BadInput(f"{target} is not a directory")
    if target.is_dir() and any(target.iterdir()) and not (target / ".git").exists():
        raise BadInput(f"{target} exists and is no git checkout", remedy="give an empty or new directory")
    if not windows or len(str(target.resolve())) + _WINDOWS_DEEPEST <= _WINDOWS_LIMIT:
        return []
    copes = "some files below it pass 260 characters. git copes (core.longpaths is set); compilers may not"
    return [f"{target} is a long path: {copes}. A short place such as C:\\r\\pytorch is safer."]


def check_out(
    url: str,
    target: Path,
    revision: str,
    *,
    mirrors: Sequence[Mirror] = (),
    reference: Path | None = None,
    submodules: bool = True,
    progress: Progress,
) -> str:
    """Bring ``target`` to ``revision`` (a tag or a full commit) of ``url``; gives the commit."""
    git = Git(target)
    if git.host.which("git") is None:
        remedy = "install git, or fetch a release's archive: --from tarball, or --from ADDRESS.tar.gz --sha256 …"
        raise MissingTool("git is not installed, and fetching with it needs it", remedy=remedy)
    target.mkdir(parents=True, exist_ok=True)
    _prepare(git, url, reference)
    commit = revision if re.fullmatch(r"[0-9a-f]{40}", revision) else None
    question = ("rev-parse", "-q", "--verify", f"{commit or 'refs/tags/' + revision}^{{commit}}")
    if not (answer := git.ask(*question)).ok:
        progress.stage("fetch", f"{revision} of {url}")
        want = commit or f"+refs/tags/{revision}:refs/tags/{revision}"
        _insist(git, ["fetch", "--depth", "1", "--no-tags", "--progress", "origin", want], mirrors, progress)
        answer = git.ask(*question)
    head = answer.out.strip()
    if git.head() != head:
        if dirty := git.dirty():
            message = f"{target} has changes of its own ({dirty[0]}), so it is not moved to {revision}"
            raise BadInput(message, remedy="commit or undo them, or fetch into another directory")
        git.run("-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", head, timeout=1800.0)
    elif not (target / "version.txt").exists() and git.dirty():
        # The checkout itself was cut: the commit is set, files are missing.
        git.run("reset", "--hard", "--quiet", timeout=1800.0)
    if submodules:
        _submodules(git, mirrors, progress)
    git.tag(BASE_TAG)
    return head


def _prepare(git: Git, url: str, reference: Path | None) -> None:
    if not (git.root / ".git").exists():
        git.run("init", "--quiet")
    for name, value in (
        ("core.longpaths", "true"),
        ("core.autocrlf", "false"),
        # Submodules find their own objects inside the reference checkout.
        ("submodule.alternateLocation", "superproject"),
        ("submodule.alternateErrorStrategy", "info"),
    ):
        git.run("config", name, value)
    for lock in ("shallow.lock", "index.lock"):
        # Left by a kill; nobody else works in this repository.
        (git.root / ".git" / lock).unlink(missing_ok=True)
    if not git.ask("remote", "set-url", "origin", url).ok:
        git.run("remote", "add", "origin", url)
    if reference is not None:
        objects = next((place for place in (reference / ".git/objects", reference / "objects") if place.is_dir()), None)
        if objects is None:
            raise BadInput(f"{reference} is no git repository, so it cannot serve as --reference")
        alternates = git.root / ".git/objects/info/alternates"
        alternates.parent.mkdir(parents=True, exist_ok=True)
        alternates.write_text(f"{objects.resolve().as_posix()}\n", encoding="utf-8")


def _submodules(git: Git, mirrors: Sequence[Mirror], progress: Progress) -> None:
    if not (named := find_submodules(git.root)) or not missing_submodules(git.root):
        return
    progress.stage("submodules", f"{len(named)} and those inside them")
    for path in named:
        if _is_half(git.root, path):
            _forget(git.root, path)
    # A nested one that a kill left half done makes this fail; the update below fetches it anew.
    git.ask("submodule", "sync", "--quiet", "--recursive", timeout=300.0)
    update = ["submodule", "update", "--init", "--checkout", "--recursive", "--depth", "1", "--progress"]
    ended, words = _run(git, [*update, "--jobs", "4"], mirrors, progress, total=len(named))
    missing = missing_submodules(git.root)
    for _ in range(ATTEMPTS - 1):
        if ended and not missing:
            return
        # Git gives up at the first that fails; one by one, the others still come. What a kill left of one, be it
        # deep inside, is beyond what git repairs: it is fetched anew, and it alone.
        ended = True
        for path in sorted({_top(name, named) for name in missing}):
            lacking = [name for name in missing if _top(name, named) == path]
            keeps = any(" (" in name and not name.endswith(" (empty)") for name in lacking)
            force = [] if keeps or _has_edits(git.root, path) else ["--force"]
            if force:
                _forget(git.root, path)
            fine, last_words = _run(git, [*update, *force, "--", path], mirrors, progress)
            ended, words = (ended, words) if fine else (False, last_words)
        missing = missing_submodules(git.root)
    if not ended or missing:
        names = f"{', '.join(missing[:4])}{' …' * (len(missing) > 4)}"
        remedy = "the same command continues with those that are missing"
        raise Interrupted(f"{len(missing)} submodules are missing: {names} ({words})", remedy=remedy)


def _top(name: str, tops: Iterable[str]) -> str:
    """The submodule of this tree that a missing one, maybe nested, lies in."""
    path, _, _ = name.partition(" (")
    return next((top for top in tops if path == top or path.startswith(f"{top}/")), path)


def _is_half(root: Path, path: str) -> bool:
    """Was the clone of this submodule killed half way? Then its HEAD names no commit that is there."""
    folder = root / path
    return (folder / ".git").exists() and not Git(folder).ask("rev-parse", "--verify", "-q", "HEAD^{commit}").ok


def _has_edits(root: Path, path: str) -> bool:
    """Has somebody worked in this submodule: files of their own, or edits?"""
    git = Git(root / path)
    if not (root / path / ".git").exists() or _is_half(root, path):
        return False
    # Files that a killed checkout did not write yet show as deleted; those are nobody's work.
    lines = git.ask("status", "--porcelain", "--ignore-submodules=all").out.splitlines()
    return any("D" not in line[:2] for line in lines)


def _forget(root: Path, path: str) -> None:
    """Remove one submodule and its repository, so that git begins it anew. Only ever one that is not whole."""
    for folder in (root / ".git/modules" / path, root / path):
        shutil.rmtree(folder, ignore_errors=True)
    (root / path).mkdir(parents=True, exist_ok=True)


def _insist(git: Git, arguments: Sequence[str], mirrors: Sequence[Mirror], progress: Progress) -> None:
    words = ""
    for attempt in range(ATTEMPTS):
        ended, words = _run(git, arguments, mirrors, progress)
        if ended:
            return
        if "couldn't find remote ref" in words or "not our ref" in words:
            remedy = "check the release"
            raise BadInput(f"{arguments[-1].split(':')[0].lstrip('+')} is not in that repository", remedy=remedy)
        time.sleep(0.5 * attempt)
    remedy = "the same command continues; --mirror names another server"
    raise Interrupted(f"git fetch did not succeed: {words}", remedy=remedy)


def _run(
    git: Git, arguments: Sequence[str], mirrors: Sequence[Mirror], progress: Progress, total: int | None = None
) -> tuple[bool, str]:
    """One long git command with its progress; whether it succeeded, and its last words."""
    settings = [(f"url.{mirror.instead}.insteadOf", mirror.prefix) for mirror in mirrors]
    if any(mirror.instead.startswith(("file:", "/", ".")) for mirror in mirrors):
        # Git refuses local submodule sources since CVE-2022-39253; here the user named the place.
        settings.append(("protocol.file.allow", "always"))
    last: list[str] = []
    done = 0

    def on_line(line: str) -> None:
        nonlocal done
        if submodule := _CHECKED_OUT.match(line):
            done += 1
            progress.step(min(done, total or done), total, submodule[1])
        elif match := _PERCENT.match(line):
            extra = ", ".join(word for word in match.groups()[4:] if word)
            progress.step(float(match[3]), float(match[4]), f"{match[1].strip()} {extra}")
        elif line.strip():
            last[:] = [*last[-3:], line.strip()]

    environment = {**os.environ, **git.environment(settings, modules=True), "LC_ALL": "C.UTF-8"}
    argv = ["git", *git.place, *arguments]
    code = run_long(argv, cwd=git.root, env=environment, on_line=on_line)
    errors = [line for line in last if line.startswith(("fatal:", "error:"))]
    return code == 0, (errors or last or [f"exit code {code}"])[-1]
