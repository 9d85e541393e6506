"""A root file system for another kind of machine, with a Python in it, assembled from Debian packages and kept.

apt does the work with its own signatures and checksums, in a private state directory, from the sources this
machine already uses; nothing is installed and nothing needs root.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.emulate.qemu import X86, EmulatedMachine
from rekindle.errors import MissingTool, Unprepared
from rekindle.host.made import own_directories
from rekindle.host.protocol import Host
from rekindle.model.progress import Progress

# libgomp and libstdc++ are what a manylinux wheel may expect of the system besides glibc.
PACKAGES = ("libgomp1", "libstdc++6")
DOWNLOAD_SECONDS = 900.0
COMPLETE = ".rekindle-root"
COMPILE_SECONDS = 1200.0


@dataclass(frozen=True, kw_only=True)
class Root:
    """``python`` is the emulated interpreter, of version ``version`` such as (3, 11)."""

    path: Path
    python: Path
    version: tuple[int, int]
    packages: int
    emulated: EmulatedMachine = X86

    @property
    def library_folders(self) -> tuple[Path, ...]:
        return self.emulated.library_folders(self.path)


def user_cache() -> Path:
    """Where the root is kept between runs."""
    return own_directories()[1]


def prepare_root(
    host: Host, cache: Path, progress: Progress, version: tuple[int, int] | None = None, emulated: EmulatedMachine = X86
) -> Root:
    """The cached root, made first where there is none. Two runs at once: the second waits.

    ``version`` asks for a Python beside the distribution's own, where apt offers one.
    """
    import filelock

    name = f"{emulated.debian}-root" + (f"-{version[0]}.{version[1]}" if version else "")
    python = "python3" if version is None else f"python{version[0]}.{version[1]}"
    folder = cache / name
    if (found := _read(folder, emulated)) is not None:
        return found
    for tool in ("apt-get", "dpkg-deb"):
        if host.which(tool) is None:
            raise MissingTool(
                f"the root for {emulated.words} is assembled with {tool}, which this machine lacks",
                remedy=f"run this on Debian or Ubuntu, or on a machine with {emulated.words}, where no root is needed",
            )
    cache.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(cache / f"{name}.lock"):
        if (found := _read(folder, emulated)) is not None:
            return found
        progress.stage(f"{emulated.words} root", "from Debian packages, once (about 18 MB)")
        with tempfile.TemporaryDirectory(prefix="root-", dir=cache, ignore_cleanup_errors=True) as place:
            work = Path(place)
            debs = _download(host, work, python, emulated)
            made = work / "root"
            for done, deb in enumerate(debs):
                progress.step(done, len(debs), deb.name)
                _run(host, ["dpkg-deb", "-x", str(deb), str(made)], seconds=120.0)
            _settle(made, emulated)
            inside = _python(made)
            if inside is not None:
                progress.note("compiling its Python library")
                compile_ahead(host, made / "usr/lib" / f"python3.{inside[1][1]}", inside[1])
            (made / COMPLETE).write_text(f"{len(debs)}\n", encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            # Renamed only when complete: a kill leaves the old root or none.
            made.rename(folder)
    found = _read(folder, emulated)
    if found is None:
        raise Unprepared(["apt-get"], 0, ["the packages it brought hold no Python"])
    return found


def _read(folder: Path, emulated: EmulatedMachine = X86) -> Root | None:
    try:
        packages = int((folder / COMPLETE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    inside = _python(folder)
    if inside is None:
        return None
    return Root(path=folder, python=inside[0], version=inside[1], packages=packages, emulated=emulated)


def _python(folder: Path) -> tuple[Path, tuple[int, int]] | None:
    for python in sorted((folder / "usr/bin").glob("python3.*")):
        minor = python.name.removeprefix("python3.")
        if minor.isdigit():
            return python, (3, int(minor))
    return None


def _download(host: Host, work: Path, python: str, emulated: EmulatedMachine) -> list[Path]:
    """The packages and all they depend on, as apt resolves it on an empty system of that kind."""
    state, archive = work / "state", work / "cache"
    (state / "lists" / "partial").mkdir(parents=True)
    (archive / "archives" / "partial").mkdir(parents=True)
    (state / "status").touch()
    settings = {
        "APT::Architecture": emulated.debian,
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
    config.write_text("\n".join([*lines, f'APT::Architectures {{ "{emulated.debian}"; }};', ""]), encoding="utf-8")
    env = {"APT_CONFIG": str(config), "DEBIAN_FRONTEND": "noninteractive"}
    _run(host, ["apt-get", "-q", "update"], env=env, seconds=DOWNLOAD_SECONDS)
    _run(
        host,
        ["apt-get", "-q", "-y", "install", "--download-only", python, *PACKAGES],
        env=env,
        seconds=DOWNLOAD_SECONDS,
    )
    debs = sorted((archive / "archives").glob("*.deb"))
    if not debs:
        raise Unprepared(
            ["apt-get"], 0, ["apt brought no packages"], remedy=f"does apt offer {emulated.debian} packages here?"
        )
    return debs


def _settle(root: Path, emulated: EmulatedMachine = X86) -> None:
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
    link = root / emulated.loader
    if not link.exists():
        found = next(root.glob(f"*lib/{emulated.triplet}/{link.name}"), None) or next(root.rglob(link.name), None)
        if found is not None:
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(found, link.parent))


def _run(host: Host, argv: Sequence[str], *, seconds: float, env: Mapping[str, str] | None = None) -> None:
    done = host.run(argv, timeout=seconds, env=env)
    if done.timed_out:
        raise Unprepared(argv, None, [f"no end within {seconds:.0f} s"], remedy="is the mirror reachable?")
    if not done.ok:
        lines = [line for line in (done.out + done.err).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("E:")] or lines
        remedy = "do this machine's apt sources offer packages for that architecture?"
        if any("No space left" in line for line in lines):
            remedy = "free some disk space"
        raise Unprepared(argv, done.code, errors[-5:], remedy=remedy)


def compile_ahead(host: Host, folder: Path, version: tuple[int, int]) -> bool:
    """Compile every file under ``folder``; False where no Python of that version is here, and nothing is lost.

    Measured: a bare emulated Python 3.11 starts in 38 s without byte code and in 2 s with it.
    """
    name = f"{version[0]}.{version[1]}"
    python = sys.executable if sys.version_info[:2] == version else host.which(f"python{name}")
    if python is None:
        return False
    # unchecked-hash: the emulated Python then need not look at each source file's date. Some packages ship files that
    # do not compile (templates, old syntax): that is no failure.
    argv = [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(folder)]
    return host.run(argv, timeout=COMPILE_SECONDS).code is not None
