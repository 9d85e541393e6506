"""A strange program run apart by bubblewrap: no network, no home, no other processes, none of the user's variables. It
sees the system's programs and libraries read-only, what it is shown by name, one folder to write in, and the GPUs where
they are asked for. Without bubblewrap, or where the kernel forbids it, there is no sandbox, and that is said."""

import fnmatch
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rekindle.errors import MissingTool
from rekindle.host.text import last_line, text_of
from rekindle.model.toml import read_beside

Wish = Literal["auto", "yes", "no"]
PROGRAM = "bwrap"
PROBE_SECONDS = 60.0
FILE_BYTES = 8 << 30  # no library of any torch is as large
_SHOWN = read_beside(__file__, "sandbox.toml", dict[str, tuple[str, ...]])
_SYSTEM = _SHOWN["system"]


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """How to start something apart. ``shown`` can be read inside; ``gpu`` lets it reach the graphics devices."""

    program: str
    shown: tuple[Path, ...] = ()
    gpu: bool = True

    def wrap(
        self, argv: Sequence[str], *, work: Path, env: Mapping[str, str], shown: Iterable[Path] = ()
    ) -> tuple[list[str], dict[str, str]]:
        """The command and its variables; ``work`` is the one folder it may write, and its /tmp lies in it."""
        (work / "tmp").mkdir(exist_ok=True)
        (work / "home").mkdir(exist_ok=True)
        told = _SHOWN["variables"]
        inside = {name: value for name, value in env.items() if any(fnmatch.fnmatchcase(name, p) for p in told)}
        inside |= {"HOME": str(work / "home"), "TMPDIR": "/tmp", "USER": "rekindle", "LOGNAME": "rekindle"}  # noqa: S108
        words = ["--die-with-parent", "--unshare-all", "--cap-drop", "ALL"]
        for path in map(Path, _SYSTEM):
            # On merged systems a link stands in the place of a top-level folder.
            words += ["--symlink", str(path.readlink()), str(path)] if path.is_symlink() else _bind_read_only(path)
        for pattern in _SHOWN["etc"]:
            words += [word for path in sorted(Path("/etc").glob(pattern)) for word in _bind_read_only(path)]
        home = _home()
        if any(home.is_relative_to(name) for name in _SYSTEM):
            words += ["--tmpfs", str(home)]
        words += ["--proc", "/proc", "--dev", "/dev"]
        words += _bind_read_only(Path("/sys" if self.gpu else "/sys/devices/system"))
        patterns = _SHOWN["gpu_nodes"] if self.gpu else ()
        for path in sorted(path for pattern in patterns for path in Path("/dev").glob(pattern)):
            words += ["--dev-bind", str(path), str(path)]
        words += ["--bind", str(work / "tmp"), "/tmp"]  # noqa: S108
        for path in _outermost_paths([*self.shown, *shown, *_named_folders(inside)], home):
            words += _bind_read_only(path)
        words += ["--bind", str(work), str(work), "--remount-ro", "/", "--chdir", str(work)]
        # No file of its own, and no log it fills through us, grows past FILE_BYTES.
        limiter = shutil.which("prlimit")
        limit = [limiter, f"--fsize={FILE_BYTES}:{FILE_BYTES}", "--"] if limiter else []
        return [*limit, self.program, *words, "--", *argv], inside


def find_sandbox(
    wish: Wish, *, shown: Iterable[Path], gpu: bool, probe: Sequence[str], work: Path
) -> tuple[Sandbox | None, str]:
    """A sandbox that ``probe`` starts in, and one line about it; None with the reason where there is none."""
    if wish == "no":
        return None, "none: switched off"
    linux = sys.platform == "linux"
    why: str | None = "bubblewrap is not installed (apt install bubblewrap)" if linux else "only Linux has one"
    if linux and (program := shutil.which(PROGRAM)):
        box = Sandbox(program=program, shown=tuple(shown), gpu=gpu)
        if (why := _trouble(box, probe, work)) is None:
            return box, "bubblewrap: no network, no home" + ("" if gpu else ", no GPU")
    if wish == "yes":
        raise MissingTool(f"there is no sandbox here: {why}", remedy="--sandbox no runs it with your rights")
    return None, f"none: {why}"


def parts_of(prefix: Path) -> list[Path]:
    """The folders of a Python installation. Its top is not shown whole: it may be someone's home."""
    tops = dict.fromkeys((prefix, prefix.resolve()))
    return [top / name for top in tops for name in ("bin", "lib", "lib64", "include") if (top / name).is_dir()]


def links_of(path: Path) -> list[Path]:
    """Each file a link leads over, one after the other."""
    files: list[Path] = []
    while path.is_symlink() and len(files) < 40:
        path = path.parent / path.readlink()
        files.append(path)
    return files


def _trouble(box: Sandbox, probe: Sequence[str], work: Path) -> str | None:
    argv, env = box.wrap(probe, work=work, env={"PATH": "/usr/bin:/bin"})
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    why = last_line(text_of(done.stderr), f"exit code {done.returncode}")
    return f"bubblewrap cannot work here: {why}" if done.returncode else None


def _bind_read_only(path: Path) -> list[str]:
    return ["--ro-bind", str(path), str(path)] if path.exists() else []


def _outermost_paths(paths: Iterable[Path], home: Path) -> list[Path]:
    """Without what lies in another of them, or in the system: nothing can be mounted inside what is read-only."""
    outermost: list[Path] = []
    for path in sorted(paths, key=lambda path: len(path.parts)):
        is_system = any(path.is_relative_to(name) for name in _SYSTEM) and not path.is_relative_to(home)
        if not is_system and not any(path.is_relative_to(other) for other in outermost):
            outermost.append(path)
    return outermost


def _named_folders(env: Mapping[str, str]) -> list[Path]:
    """Folders the user's own variables name for libraries; a home, or what holds it, is not shown for that."""
    home = _home()
    parts = (part for name in _SHOWN["folders_in"] for part in env.get(name, "").split(":"))
    named = [Path(part) for part in parts if part.startswith("/")]
    return [path for path in named if path.is_dir() and not home.is_relative_to(path.resolve())]


def _home() -> Path:
    try:
        return Path.home().resolve()
    except (RuntimeError, OSError):
        return Path("/nonexistent")
