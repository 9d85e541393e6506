"""What the user named: a path, an installed package, or a requirement on the index."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.inspect.published import Places, find_wheels, open_wheel
from rekindle.inspect.reader import DirectorySource, Source, open_local
from rekindle.model.progress import Progress


@contextlib.contextmanager
def open_target(
    target: str,
    *,
    places: Callable[[], Places],
    progress: Progress,
    python: str | None = None,
    platform: str | None = None,
) -> Iterator[Source]:
    """A path wins over a name; ``places`` is asked only if an index is needed."""
    if not target.strip():
        raise BadInput("name a wheel, a library or a package", remedy="rekindle inspect --help")
    path = Path(target)
    if path.exists():
        yield open_local(path)
        return
    if "/" in target or "\\" in target or target.lower().endswith((".whl", ".so", ".dll", ".pyd")):
        raise BadInput(f"there is no file {target}")
    where = places()
    progress.stage("looking up", target)
    wheel = find_wheels(target, where, python=python, platform=platform)[0]
    progress.note(f"{wheel.file.name}")
    with tempfile.TemporaryDirectory(prefix="rekindle-") as folder:
        yield open_wheel(wheel, where, progress=progress, folder=Path(folder))


def open_installed(folder: Path, name: str) -> Source:
    """An installed package: its directory, and the libraries beside it that wheels put there (NAME.libs)."""
    wanted = (f"{name}/", f"{name}.libs/")
    return DirectorySource(folder, label=f"{name} in {folder}", only=lambda file: file.startswith(wanted))
