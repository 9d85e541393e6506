"""How a source tree wants to be turned into a wheel, read from what the tree has.

``cmake-setup``  setup.py that drives CMake and can stop after configuring, by ``--cmake-only`` (torch until 2.13) or
                 ``CMAKE_ONLY=1``: configured first, so that it can be checked before the hours are spent
``scikit``       scikit-build-core (torch since 2.14, whose setup.py is only a signpost): it has no "configure only",
                 so its own settings are used to build and install nothing the first time
``pep517``       any other build backend; CMake is checked as soon as it says that it has configured
``setup``        any other setup.py (torchvision, torchaudio); the same. ``serial``: it asks torch not to use Ninja

A tree that names its backend gets its wheel by ``python -m build``; without one by ``setup.py bdist_wheel``.
"""

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import BadInput

# A setup.py that tells torch not to use Ninja compiles one file after another, and from the start after each stop. Such
# trees (torch-scatter and its family) do so because Ninja works in another folder, where include paths relative to the
# tree lead nowhere. With those paths made absolute it serves them too: files side by side under the governor of memory,
# and an interrupted build goes on. USE_NINJA=0 in the settings leaves such a tree as it is.
_SERIAL = re.compile(r"use_ninja\s*=\s*False")
_CHOOSES = re.compile(r"environ\[\s*['\"]MAX_JOBS['\"]\s*\]\s*=")
_COUNTS = re.compile(r"int\([^)]*MAX_JOBS")
# torch takes digits alone for a number of jobs; with any other word Ninja asks the jobserver.
BY_JOBSERVER = "jobserver"
# Run by the target's Python in the tree, in place of "setup.py"; the rest of the command line is setup.py's.
DRIVER = Path(__file__).with_name("serial_setup.py.txt").read_text(encoding="utf-8")

_PROVIDED = ("cmake", "ninja")
# Read by scikit-build-core or CMake itself; as -D they would be refused or mean something else.
_NOT_DEFINED = ("CMAKE_GENERATOR", "CMAKE_BUILD_TYPE", "CMAKE_PREFIX_PATH", "CMAKE_EXECUTABLE")
# "help" is a target of every Ninja tree and makes nothing; no tree has a component of that name.
NOTHING = ("-Cbuild.targets=help", "-Cinstall.components=rekindle-nothing")


@dataclass(frozen=True, kw_only=True)
class FrontEnd:
    """``kind`` as above. ``only_flag``: it stops after configuring by the option; ``chooses_jobs``: it must be given a
    word for their number (:func:`chooses_jobs`)."""

    kind: str
    root: Path
    requires: tuple[str, ...] = ()
    only_flag: bool = False
    backend: str = ""
    serial: bool = False
    chooses_jobs: bool = False

    @property
    def build_tree(self) -> Path:
        return self.root / "build"

    @property
    def ninja_tree(self) -> Path:
        """Where build.ninja lies: setuptools compiles extensions in a folder per Python."""
        if (self.build_tree / "build.ninja").is_file():
            return self.build_tree
        files = sorted(self.build_tree.glob("temp.*/build.ninja"), key=lambda path: path.stat().st_mtime)
        return files[-1].parent if files else self.build_tree

    @property
    def takes_cmake_settings(self) -> bool:
        """Whether settings can be given to CMake beyond what the environment says."""
        return self.kind in ("cmake-setup", "scikit")

    def configure(self, python: str, *, again: bool, out: Path, defines: Mapping[str, str]) -> list[str] | None:
        """The command that only configures; ``again`` forces it over an old configuration. None: there is none."""
        if self.kind == "scikit":
            return [*self.wheel(python, out, defines), *NOTHING]
        if self.kind != "cmake-setup":
            return None
        if not self.only_flag:
            return [python, "setup.py", "build"]
        return [python, "setup.py", "build", "--cmake-only", *(["--cmake"] if again else [])]

    @property
    def configure_environment(self) -> dict[str, str]:
        """What joins the environment of the command that only configures."""
        return {} if self.only_flag or self.kind != "cmake-setup" else {"CMAKE_ONLY": "1"}

    def wheel(self, python: str, out: Path, defines: Mapping[str, str] | None = None) -> list[str]:
        """The command that makes the wheel, in ``out``."""
        if not self.backend:
            setup = ["-c", DRIVER] if self.serial else ["setup.py"]
            return [python, *setup, "bdist_wheel", "--dist-dir", str(out)]
        # Our CMake and Ninja are on PATH, not packages of the target: the check of requirements would miss them.
        argv = [python, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", str(out)]
        if self.kind == "scikit":
            rows = sorted((defines or {}).items())
            argv += ["-Cbuild-dir=build"]
            argv += [f"-Ccmake.define.{name}={value}" for name, value in rows if name not in _NOT_DEFINED]
            argv += [f"-Ccmake.build-type={value}" for name, value in rows if name == "CMAKE_BUILD_TYPE" and value]
        return [*argv, str(self.root)]


def find_front_end(root: Path) -> FrontEnd:
    """What the tree has; a tree that has none makes no wheel."""
    setup, project = root / "setup.py", root / "pyproject.toml"
    requires, backend = (), ""
    if project.is_file():
        try:
            system = tomllib.loads(project.read_text(encoding="utf-8")).get("build-system", {})
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise BadInput(f"{project} cannot be read: {error}") from error
        requires = tuple(r for r in system.get("requires", ()) if not r.lower().startswith(_PROVIDED))
        backend = str(system.get("build-backend", ""))
    front = functools.partial(FrontEnd, root=root, requires=requires)
    if backend.startswith("scikit_build_core"):
        return front(kind="scikit", backend=backend)
    if setup.is_file():
        text = setup.read_text(encoding="utf-8", errors="replace")
        if "--cmake-only" in text or "CMAKE_ONLY" in text:
            return front(kind="cmake-setup", only_flag="--cmake-only" in text, backend=backend)
        if not backend:
            return front(kind="setup", serial=bool(_SERIAL.search(text)), chooses_jobs=chooses_jobs(text))
    if backend or requires:
        return front(kind="pep517", backend=backend or "setuptools.build_meta")
    why = f"{root} has neither setup.py nor a pyproject.toml with a build backend"
    remedy = "give the root of a PyTorch, torchvision or torchaudio tree with --source DIR"
    raise BadInput(f"{why}, so it is no tree that makes a wheel", remedy=remedy)


def chooses_jobs(setup: str) -> bool:
    """Whether a setup.py fixes the number of jobs where MAX_JOBS is not set (flash-attn does). Ninja would then ask no
    jobserver, and all compilers start at once. One that reads the variable as a number itself is left alone."""
    return bool(_CHOOSES.search(setup)) and not _COUNTS.search(setup)
