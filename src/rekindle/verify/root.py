"""An x86-64 root file system with a Python in it, assembled from Debian packages and kept.

apt does the work with its own signatures and checksums, in a private state directory, from the sources this
machine already uses; nothing is installed and nothing needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import MissingTool, Unprepared
from rekindle.host.protocol import Host
from rekindle.model.progress import Progress
from rekindle.verify.bytecode import compile_ahead

# libgomp and libstdc++ are what a manylinux wheel may expect of the system besides glibc.
PACKAGES = ("libgomp1", "libstdc++6")
DOWNLOAD_SECONDS = 900.0
COMPLETE = ".rekindle-root"


@dataclass(frozen=True, kw_only=True)
class Root:
    """``python`` is the emulated interpreter, of version ``version`` such as (3, 11)."""

    path: Path
    python: Path
    version: tuple[int, int]
    packages: int

    @property
    def library_folders(self) -> tuple[Path, ...]:
        inside = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib64")
        return tuple(self.path / one for one in inside)


def user_cache() -> Path:
    """Where the root is kept between runs."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("rekindle", appauthor=False))


def prepare_root(host: Host, cache: Path, progress: Progress, version: tuple[int, int] | None = None) -> Root:
    """The cached root, made first where there is none. Two runs at once: the second waits.

    ``version`` asks for a Python beside the distribution's own, where apt offers one.
    """
    import filelock

    name = "amd64-root" if version is None else f"amd64-root-{version[0]}.{version[1]}"
    python = "python3" if version is None else f"python{version[0]}.{version[1]}"
    folder = cache / name
    if (found := _read(folder)) is not None:
        return found
    for tool in ("apt-get", "dpkg-deb"):
        if host.which(tool) is None:
            raise MissingTool(
                f"an x86-64 root is assembled with {tool}, which this machine lacks",
                remedy="run this on Debian or Ubuntu, or on an x86-64 machine, where no root is needed",
            )
    cache.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(cache / f"{name}.lock"):
        if (found := _read(folder)) is not None:
            return found
        progress.stage("x86-64 root", "from Debian packages, once (about 18 MB)")
        with tempfile.TemporaryDirectory(prefix="root-", dir=cache, ignore_cleanup_errors=True) as place:
            work = Path(place)
            debs = _download(work, python)
            made = work / "root"
            for done, deb in enumerate(debs):
                progress.step(done, len(debs), deb.name)
                _run(["dpkg-deb", "-x", str(deb), str(made)], seconds=120.0)
            _settle(made)
            inside = _python(made)
            if inside is not None:
                progress.note("compiling its Python library")
                compile_ahead(host, made / "usr/lib" / f"python3.{inside[1][1]}", inside[1])
            (made / COMPLETE).write_text(f"{len(debs)}\n", encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            # Renamed only when complete: a kill leaves the old root or none.
            made.rename(folder)
    found = _read(folder)
    if found is None:
        raise Unprepared(["apt-get"], 0, ["the packages it brought hold no Python"])
    return found


def _read(folder: Path) -> Root | None:
    try:
        packages = int((folder / COMPLETE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    inside = _python(folder)
    return Root(path=folder, python=inside[0], version=inside[1], packages=packages) if inside else None


def _python(folder: Path) -> tuple[Path, tuple[int, int]] | None:
    for python in sorted((folder / "usr/bin").glob("python3.*")):
        minor = python.name.removeprefix("python3.")
        if minor.isdigit():
            return python, (3, int(minor))
    return None


def _download(work: Path, python: str) -> list[Path]:
    """The packages and all they depend on, as apt resolves it on an empty amd64 system."""
    state, archive = work / "state", work / "cache"
    (state / "lists" / "partial").mkdir(parents=True)
    (archive / "archives" / "partial").mkdir(parents=True)
    (state / "status").touch()
    settings = {
        "APT::Architecture": "amd64",
        "Dir::State": str(state),
        "Dir::State::status": str(state / "status"),
        "Dir::Cache": str(archive),
        "Dir::Log": str(work),
        "Debug::NoLocking": "true",
        # Dropping to the user _apt would need root and a directory that user may write.
        "APT::Sandbox::User": "",
        "APT::Install-Recommends": "false",
        "Acquire::Languages": "none",
        "APT::Keep-Downloaded-Packages": "true",
    }
    config = work / "apt.conf"
    lines = [f'{name} "{value}";' for name, value in settings.items()]
    config.write_text("\n".join([*lines, 'APT::Architectures { "amd64"; };', ""]), encoding="utf-8")
    env = {**os.environ, "APT_CONFIG": str(config), "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    _run(["apt-get", "-q", "update"], env=env, seconds=DOWNLOAD_SECONDS)
    _run(["apt-get", "-q", "-y", "install", "--download-only", python, *PACKAGES], env=env, seconds=DOWNLOAD_SECONDS)
    debs = sorted((archive / "archives").glob("*.deb"))
    if not debs:
        raise Unprepared(["apt-get"], 0, ["apt brought no packages"], remedy="does apt offer amd64 packages here?")
    return debs


def _settle(root: Path) -> None:
    """Make links lead inside the root, and add those a package's installation script would make."""
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder) / name
            if path.is_symlink() and (target := path.readlink()).is_absolute():
                path.unlink()
                path.symlink_to(os.path.relpath(root / target.relative_to("/"), path.parent))
    # A merged-/usr Debian leaves these to its base-files package, which is not among ours.
    for name in ("lib", "lib64"):
        if not (root / name).exists() and (root / "usr" / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    loader = "ld-linux-x86-64.so.2"
    if not (root / "lib64" / loader).exists():
        found = next(root.glob(f"*lib/x86_64-linux-gnu/{loader}"), None) or next(root.rglob(loader), None)
        if found is not None:
            (root / "lib64").mkdir(exist_ok=True)
            link = root / "lib64" / loader
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(found, root / "lib64"))


def _run(argv: Sequence[str], *, seconds: float, env: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            list(argv), stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Unprepared(argv, None, [f"no end within {seconds:.0f} s"], remedy="is the mirror reachable?") from error
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).decode("utf-8", "replace").splitlines() if line.strip()]
        telling = [line for line in lines if line.startswith("E:")] or lines
        remedy = "do this machine's apt sources offer amd64 packages?"
        if any("No space left" in line for line in lines):
            remedy = "free some disk space"
        raise Unprepared(argv, done.returncode, telling[-5:], remedy=remedy)
