"""The packages of an interpreter as they are now, to be put back exactly if a change was not the right one.

Every file is linked, not copied, so that an environment with torch costs no space and about a second. Installers
replace files and never write into them; what they put in their place is thrown away when the old ones return.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.protocol import Host

_ASK = (
    "import json, os, sys, sysconfig; paths = sysconfig.get_paths();"
    "managed = sys.prefix == sys.base_prefix"
    " and os.path.exists(os.path.join(paths['stdlib'], 'EXTERNALLY-MANAGED'));"
    "print(json.dumps([managed, paths['purelib'], paths['platlib'], paths['scripts']]))"
)


class PackageSnapshot:
    """Taken before packages change; ``restore`` or ``forget`` it afterwards."""

    def __init__(self, places: Sequence[Path]) -> None:
        self._kept: dict[Path, Path] = {}
        for place in places:
            copy = Path(tempfile.mkdtemp(prefix=".rekindle-before-", dir=place.parent))
            shutil.copytree(place, copy, symlinks=True, copy_function=_link, dirs_exist_ok=True)
            self._kept[place] = copy

    def restore(self) -> None:
        """Put everything back as it was."""
        for place, copy in self._kept.items():
            changed = copy.with_name(f"{copy.name}-changed")
            place.rename(changed)
            copy.rename(place)
            shutil.rmtree(changed, ignore_errors=True)
        self._kept.clear()

    def forget(self) -> None:
        """The change stays: throw the links away."""
        for copy in self._kept.values():
            shutil.rmtree(copy, ignore_errors=True)
        self._kept.clear()


def package_places(host: Host, python: str) -> list[Path]:
    """The directories an installer changes for this interpreter; refused where they are not the user's to change."""
    said = host.run([python, "-c", _ASK], timeout=30.0)
    if not said.ok:
        raise BadInput(f"{python} does not answer", remedy="name a Python that works")
    managed, *names = json.loads(said.out.strip().splitlines()[-1])
    # The scripts of a Python outside an environment lie beside every other program: those are left alone.
    packages = dict.fromkeys(Path(name) for name in names[:2])
    scripts = [Path(names[2])] if (Path(names[2]).parent / "pyvenv.cfg").is_file() else []
    if managed or not all(os.access(place, os.W_OK) and os.access(place.parent, os.W_OK) for place in packages):
        raise BadInput(
            f"the packages of {python} belong to the system",
            remedy="make an environment of your own (python3 -m venv env) and run the command with it",
        )
    return [place for place in (*packages, *scripts) if place.is_dir()]


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
