"""What the user named: a path, an installed package, or a requirement on the index."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.inspect.reader import DirectorySource, Source, open_local
from rekindle.model.progress import Progress
from rekindle.model.wheel import WheelFinding

if TYPE_CHECKING:
    from rekindle.inspect.published import Places

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@contextlib.contextmanager
def open_target(
    target: str,
    *,
    progress: Progress,
    places: Callable[[], Places] | None = None,
    installed: Callable[[str, str | None], Path | None] | None = None,
    python: str | None = None,
    platform: str | None = None,
    tell: Callable[[WheelFinding], None] = lambda _: None,
) -> Iterator[Source]:
    """A path wins over a name, an installed package over the index unless a version or platform is named.

    ``places`` (default: pip's) and ``installed`` are asked only if needed; ``installed(name, interpreter)`` gives the
    folder a package is installed in (default: as the interpreter says). ``tell`` hears what the user ought to
    know of the choice.
    """
    if not target.strip():
        raise BadInput("name a wheel, a library or a package", remedy="rekindle inspect --help")
    path = Path(target)
    if path.exists():
        yield open_local(path)
        return
    if "/" in target or "\\" in target or target.lower().endswith((".whl", ".so", ".dll", ".pyd")):
        raise BadInput(f"there is no file {target}")
    interpreter = python if python and not python[:1].isdigit() else None
    if interpreter or (python is None and platform is None and _NAME.fullmatch(target)):
        folder = (installed or installed_in)(target, interpreter)
        if folder is not None:
            yield open_installed(folder, target)
            return
        if interpreter:
            raise BadInput(f"{target} is not installed in {interpreter}", remedy=f"{interpreter} -m pip list")
    # What reads an index takes longer to load than a library takes to read.
    from rekindle.inspect.published import find_wheels, is_linked, open_wheel, pip_places

    where = (places or pip_places)()
    progress.stage("looking up", target)
    wheel = find_wheels(target, where, python=python, platform=platform)[0]
    progress.note(f"{wheel.file.name}")
    if python is None and platform is None and _NAME.fullmatch(target):
        text = (
            f"{target} is not installed in the Python found here, so this is {wheel.file.name} from the index. For an "
            f"installed one: rekindle inspect {target} --python PATH/TO/python"
        )
        progress.note(text)
        tell(WheelFinding(code="read-from-index", text=text, severity="note"))
    if where.indexes and is_linked(wheel, where):
        text = f"{wheel.file.name} comes from a folder of wheels that pip is set up for; no index has one that fits"
        progress.note(text)
        tell(WheelFinding(code="read-from-folder", text=text, severity="note"))
    import tempfile

    with tempfile.TemporaryDirectory(prefix="rekindle-") as temporary:
        yield open_wheel(wheel, where, progress=progress, folder=Path(temporary))


def open_installed(folder: Path, name: str) -> Source:
    """An installed package: its directory, what wheels put beside it (NAME.libs), and its metadata."""
    module = name.replace("-", "_").lower()
    wanted = [
        path.name
        for path in sorted(folder.iterdir())
        if path.is_dir() and re.fullmatch(rf"{re.escape(module)}(?:\.libs|-[^-]+\.dist-info)?", path.name.lower())
    ]
    return DirectorySource(folder, label=f"{name} in {folder}", folders=wanted)


def installed_in(name: str, interpreter: str | None) -> Path | None:
    """The folder a package is installed in, asked of interpreters without importing it: the one named, or else those
    a person here would mean (the active environment, this one, the first on PATH)."""
    from packaging.utils import canonicalize_name

    from rekindle.interpreters.packages import ask_contents

    host = LiveHost()
    for python in [interpreter] if interpreter else usual_pythons():
        try:
            held = ask_contents(host, python, isolated=False)
        except BadInput:
            continue
        for package in held.packages:
            if canonicalize_name(package.name) == canonicalize_name(name) and Path(package.folder).is_dir():
                return Path(package.folder)
    return None


def usual_pythons() -> list[str]:
    """Interpreters to ask where none was named, in order, each once."""
    # What asks interpreters takes longer to load than a library takes to read.
    from rekindle.interpreters.environment import python_of

    host = LiveHost()
    found = [str(python_of(Path(root))) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if (root := host.env.get(name))]
    found += [sys.executable, *(path for name in ("python3", "python") if (path := host.which(name)))]
    # Two names of one environment are one; two environments may share the program their links lead to.
    return list({Path(path).parent: path for path in reversed(found) if Path(path).exists()}.values())[::-1]
