"""What keeps a torch in an application's environment: constraints that its pip and uv obey by themselves, its extension
manager's lists, its launcher's own settings, and variables that are set whenever its Python starts. Here is said which
text belongs into which file; writing and taking back is the kept environment's."""

import itertools
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.host.files import write_atomically
from rekindle.host.live import question_text
from rekindle.host.made import MARK
from rekindle.host.protocol import Host
from rekindle.interpreters.app_folder import AppFolder
from rekindle.interpreters.packages import package_places
from rekindle.model.guard import constraints_text

MODULE = "rekindle_adopted"
NOTE = "kept by rekindle adopt"


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """What is kept in the environment ``root`` with its packages in ``site``: ``pins`` with the digests of their files,
    variables, and the words after a refusal."""

    root: Path
    site: Path
    pins: Mapping[str, str]
    contents: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    undo: str = ""
    windows: bool = os.name == "nt"

    @property
    def constraints(self) -> Path:
        """Where the pins stand, and where ``guard`` looks for them."""
        return self.root / "rekindle" / "constraints.txt"

    @property
    def why(self) -> str:
        """What a person reads after pip refused a package."""
        kept = ", ".join(f"{name} {version}" for name, version in self.pins.items())
        return (
            f"this environment keeps {kept} ({self.constraints}): others do not fit this machine. A package that wants"
            " another cannot come in: take a version of it that allows this one, leave it out"
            + (f", or take the keeping back: {self.undo}" if self.undo else "")
        )


def environment_files(keeping: Keeping) -> dict[Path, str]:
    """Inside the environment: pins, pip's own configuration, and what its Python loads at its start."""
    address = keeping.constraints.as_uri()  # pip and uv take a path with a space in it for two
    settings = keeping.root / ("pip.ini" if keeping.windows else "pip.conf")
    there = settings.read_text(encoding="utf-8") if settings.is_file() else ""
    return {
        keeping.constraints: constraints_text(keeping.pins, keeping.contents),
        settings: with_constraint(there, address),
        **start_files(keeping, {"UV_CONSTRAINT": address}),
    }


def start_files(keeping: Keeping, more: Mapping[str, str] | None = None) -> dict[Path, str]:
    """What sets variables whenever this Python starts, before any program can load torch."""
    settings = {"env": {**keeping.env, **(more or {})}, "why": keeping.why if keeping.pins else ""}
    return {
        keeping.root / "rekindle" / "adopted.json": json.dumps(settings, indent=1) + "\n",
        keeping.site / f"{MODULE}.py": question_text("adopted"),
        keeping.site / f"{MODULE}.pth": f"import {MODULE}\n",
    }


def set_variables(host: Host, python: str, folder: Path | None, env: Mapping[str, str]) -> None:
    """What torch needs whenever it is used is set by an environment's own Python, where that is of our making."""
    if env and folder is not None and (folder / MARK).is_file():
        keeping = Keeping(root=folder, site=package_places(host, python)[0], pins={}, env=env)
        for path, text in start_files(keeping).items():
            write_atomically(path, text)


def with_constraint(text: str, address: str) -> str:
    """pip's settings with one more file of constraints; what stands there stays."""
    if address in text:
        return text
    lines = text.splitlines()
    if "[global]" not in map(str.strip, lines):
        lines.append("[global]")
    start = [line.strip() for line in lines].index("[global]") + 1
    own = itertools.takewhile(lambda row: not row[1].startswith("["), enumerate(lines[start:], start))
    if (number := next((number for number, line in own if re.match(r"constraint\s*[=:]", line)), None)) is not None:
        lines[number] += f" {address}"
    else:
        lines.insert(start, f"constraint = {address}")
    return "\n".join(lines) + "\n"


def app_files(app_folder: AppFolder, keeping: Keeping, pip_args: Iterable[str], system: str) -> dict[Path, str | bytes]:
    """Outside the environment: uv's settings in the folder, the manager's list, the launcher's settings."""
    return {
        **_uv_settings(app_folder.root, keeping),
        **_manager_lists(app_folder, keeping),
        **_launcher_settings(app_folder, keeping, pip_args, system),
    }


def _uv_settings(root: Path, keeping: Keeping) -> dict[Path, str]:
    """``uv.toml``: for a uv that is started in the folder. It would hide settings of uv in a pyproject.toml, and one
    that is there is somebody's own; then only a uv that the environment's Python starts obeys."""
    project, own = root / "pyproject.toml", root / "uv.toml"
    try:
        settings = tomllib.loads(project.read_text(encoding="utf-8")).get("tool", {}).get("uv")
    except (OSError, ValueError, AttributeError):
        settings = None
    if settings is not None or (own.is_file() and NOTE not in own.read_text(encoding="utf-8", errors="replace")):
        return {}
    pins = ", ".join(json.dumps(f"{name}=={version}") for name, version in keeping.pins.items())
    return {own: f"# {NOTE}\nconstraint-dependencies = [{pins}]\n"}


def _manager_lists(app_folder: AppFolder, keeping: Keeping) -> dict[Path, str]:
    """An extension manager installs none of the packages on its list, whatever an extension asks for."""
    files = {}
    for file in [app_folder.root / name for name in app_folder.app.never_installed]:
        if file.parent.is_dir():
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
            files[file] = "\n".join([*lines, *(name for name in keeping.pins if name not in lines)]) + "\n"
    return files


def _launcher_settings(
    app_folder: AppFolder, keeping: Keeping, pip_args: Iterable[str], system: str
) -> dict[Path, bytes]:
    """The command by which the launcher brings torch, and the variables, at the end of the file it reads first."""
    app, values = app_folder.app, dict(keeping.env)
    file = app_folder.root / app.settings.get(system, "")
    if not file.is_file():  # the folder itself, where no such file is known
        return {}
    if app.torch_variable:
        values[app.torch_variable] = " ".join(("pip", "install", *pip_args))
    text = file.read_bytes()
    if file.suffix == ".bat":
        added = "".join(f'set "{key}={value.replace("%", "%%")}"\r\n' for key, value in values.items())
        # What follows the line that starts the program is only read when it has ended.
        before, start, after = text.partition((app.start_line or "\0").encode())
        return {file: before + f"rem {NOTE}\r\n{added}".encode() + start + after}
    added = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in values.items())
    return {file: text.rstrip() + f"\n# {NOTE}\n{added}".encode()}
