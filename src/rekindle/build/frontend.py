"""How a source tree wants to be turned into a wheel, read from what the tree has.

``cmake-setup``  setup.py that drives CMake and can stop after configuring, by ``--cmake-only`` (PyTorch) or
                 ``CMAKE_ONLY=1``: configured first, so that it can be checked before the hours are spent
``pep517``       pyproject.toml with a build backend (scikit-build-core in the newest trees)
``setup``        any other setup.py (torchvision, torchaudio)
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import BadInput

_PROVIDED = ("cmake", "ninja")


@dataclass(frozen=True, kw_only=True)
class FrontEnd:
    kind: str
    root: Path
    requires: tuple[str, ...] = ()
    only_flag: bool = False

    @property
    def build_tree(self) -> Path:
        return self.root / "build"

    def configure(self, python: str, *, again: bool) -> list[str] | None:
        """The command that only configures; ``again`` forces it over an old configuration."""
        if self.kind != "cmake-setup":
            return None
        if not self.only_flag:
            return [python, "setup.py", "build"]
        return [python, "setup.py", "build", "--cmake-only", *(["--cmake"] if again else [])]

    @property
    def configure_environment(self) -> dict[str, str]:
        return {} if self.only_flag else {"CMAKE_ONLY": "1"}

    def wheel(self, python: str, out: Path) -> list[str]:
        if self.kind == "pep517":
            return [
                python, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out),
                *(["-Cbuild-dir=build"] if any(r.startswith("scikit-build-core") for r in self.requires) else []),
                str(self.root),
            ]  # fmt: skip
        return [python, "setup.py", "bdist_wheel", "--dist-dir", str(out)]


def find_front_end(root: Path) -> FrontEnd:
    setup, project = root / "setup.py", root / "pyproject.toml"
    requires: tuple[str, ...] = ()
    backend = ""
    if project.is_file():
        try:
            system = tomllib.loads(project.read_text(encoding="utf-8")).get("build-system", {})
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadInput(f"{project} cannot be read: {error}") from error
        requires = tuple(r for r in system.get("requires", ()) if not r.lower().startswith(_PROVIDED))
        backend = str(system.get("build-backend", ""))
    if backend.startswith("scikit_build_core"):
        return FrontEnd(kind="pep517", root=root, requires=requires)
    if setup.is_file():
        text = setup.read_text(encoding="utf-8", errors="replace")
        if "--cmake-only" in text or "CMAKE_ONLY" in text:
            return FrontEnd(kind="cmake-setup", root=root, requires=requires, only_flag="--cmake-only" in text)
        if not backend:
            return FrontEnd(kind="setup", root=root, requires=requires)
    if backend or project.is_file():
        return FrontEnd(kind="pep517", root=root, requires=requires)
    raise BadInput(
        f"{root} has neither setup.py nor pyproject.toml, so it is no tree that makes a wheel",
        remedy="give the root of a PyTorch, torchvision or torchaudio tree with --source DIR",
    )
