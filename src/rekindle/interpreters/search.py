"""Every Python on the machine, and one of them by path, name or version: one search for all verbs.

The list holds what PATH, the active environment, pyenv, uv, conda, python.org's installer, the registry and the Store
offer, then the Python that runs us. ``doctor`` shows it; whoever asks for a version gets the first of it that fits.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from rekindle.errors import BadInput
from rekindle.host.protocol import Host
from rekindle.model.interpreter import Interpreter, is_version, read_interpreter

ASK_SECONDS = 30.0
_CONDA_FOLDERS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba")
_NAME = re.compile(r"python(\d(?:\.\d+)?t?)?(?:\.exe)?")


def find_interpreter(host: Host, wanted: str, *, with_headers: bool = False) -> Interpreter:
    """The Python that ``wanted`` (a path, a name on PATH, or a version such as 3.10) means; BadInput where none does.

    ``with_headers``: of several of one version the first that has Python.h; one without it where none has.
    """
    if not is_version(wanted):
        return ask_interpreter(host, wanted)
    fitting = search_version(host, wanted)
    first = next(fitting, None)
    if first is None:
        raise BadInput(
            f"there is no Python {wanted} that runs here",
            remedy="give a path with --python; 'rekindle doctor' lists them",
        )
    if with_headers and not first.headers:
        return next((found for found in fitting if found.headers), first)
    return first


def ask_interpreter(host: Host, python: str, *, timeout: float = ASK_SECONDS) -> Interpreter:
    """What the Python at a path, or of a name on PATH, is; BadInput where it does not answer as one."""
    named = python if re.search(r"[/\\]", python) else host.which(python)
    path = str(Path(named).expanduser()) if named and named.startswith("~") else named
    found = read_interpreter(path, host.python(path, timeout=timeout)) if path else "it is not on PATH"
    if isinstance(found, str):
        raise BadInput(
            f"{python} is no Python that runs here: {found}",
            remedy="give a path or a version: --python /usr/bin/python3, --python 3.12; 'rekindle doctor' lists them",
        )
    return found


def search_version(host: Host, version: str, *, ours_first: bool = False) -> Iterator[Interpreter]:
    """The Pythons of a version on this machine, in the order of the list; each is asked only when it is its turn.

    ``ours_first``: where any of the version will do, the one that runs us is known to work.
    """
    known: set[str] = set()
    by_name = [path for path in host.which_all(f"python{version}") if "/shims/" not in path]
    listed = [*([base_of_ours()] if ours_first else []), *by_name, *candidate_paths(host)]
    for path in distinct_paths(host, (path for path in listed if _may_be_of(path, version))):
        answer = read_interpreter(path, host.python(path, timeout=ASK_SECONDS))
        # A version manager's shim that has no such version behind it says nothing.
        if isinstance(answer, str) or not answer.is_of(version):
            continue
        if (identity := identity_of(host, answer)) not in known:
            known.add(identity)
            yield started_directly(host, answer)


def usual_python(host: Host) -> str | None:
    """The Python people mean where they name none: the one on PATH; on Windows, where ``python3`` is often only a door
    to the shop and the installer leaves PATH alone, else the one that runs us."""
    names = ("python",) if host.system == "windows" else ("python3", "python")
    found = [path for path in map(host.which, names) if path and "WindowsApps" not in path]
    if host.system == "windows":
        found.append(sys.executable)
    return found[0] if found else None


def base_of_ours() -> str:
    """The Python that runs us, outside any environment it may be in."""
    return str(getattr(sys, "_base_executable", None) or sys.executable)


def candidate_paths(host: Host) -> list[str]:
    """Where Pythons may lie, the active environment and PATH first; not every path needs to answer."""
    found = dict.fromkeys(_windows_paths(host) if host.system == "windows" else _unix_paths(host))
    # It lies wherever the user put it. A machine that was recorded elsewhere does not have it.
    own = base_of_ours()
    if not _is_pattern(own):
        found.update(dict.fromkeys(host.glob(own)))
    return list(found)


def distinct_paths(host: Host, paths: Iterable[str]) -> list[str]:
    """Each Python once, however many links lead to it."""
    chosen: dict[str, str] = {}
    for path in paths:
        # A virtual environment's python is a link to its base, but has packages of its own: keep both.
        chosen.setdefault(path if _is_environment(host, path) else host.realpath(path), path)
    return list(chosen.values())


def identity_of(host: Host, found: Interpreter) -> str:
    """What two answers of one Python have in common."""
    return (found.prefix or found.path) if found.is_environment else host.realpath(found.executable or found.path)


def started_directly(host: Host, found: Interpreter) -> Interpreter:
    """The Python itself where a program of its own started it: pyenv's shims, the Store's aliases."""
    if found.is_environment or found.executable is None or host.realpath(found.path) == identity_of(host, found):
        return found
    return msgspec.structs.replace(found, path=found.executable)


def _may_be_of(path: str, version: str) -> bool:
    """Can the file of this name be a Python of that version? ``python3.9`` is none of 3.10."""
    match = _NAME.fullmatch(re.split(r"[/\\]", path)[-1])
    if match is None or not match[1]:
        return True
    named, asked = match[1].removesuffix("t"), version.removesuffix("t")
    return f"{named}.".startswith(f"{asked}.") or f"{asked}.".startswith(f"{named}.")


def _unix_paths(host: Host) -> list[str]:
    home = host.env.get("HOME", "")
    found: dict[str, None] = {}
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if prefix := host.env.get(variable):
            found[f"{prefix}/bin/python"] = None
    found.update(dict.fromkeys((*host.which_all("python3"), *host.which_all("python"))))
    # Windows' folders on WSL's PATH are large, slow, and hold no Python of Linux.
    on_path = [folder for folder in host.env.get("PATH", "").split(":") if folder[:1] == "/" and folder[:5] != "/mnt/"]
    patterns = [
        *(f"{folder.rstrip('/')}/python3*" for folder in on_path if not _is_pattern(folder)),
        "/usr/bin/python3*",
        "/usr/local/bin/python3*",
        "/opt/python/*/bin/python3",
        "/opt/python3*/bin/python3",
    ]
    if home:
        patterns += [
            f"{home}/.pyenv/versions/*/bin/python",
            f"{home}/.local/share/uv/python/*/bin/python3",
            f"{home}/.local/bin/python3*",
            *(f"{home}/{name}/bin/python" for name in _CONDA_FOLDERS),
            *(f"{home}/{name}/envs/*/bin/python" for name in _CONDA_FOLDERS),
        ]
    patterns += [
        *_below(host, host.env.get("PYENV_ROOT", ""), "versions/*/bin/python"),
        *_below(host, host.env.get("UV_PYTHON_INSTALL_DIR", ""), "*/bin/python3"),
        *_below(host, host.env.get("XDG_DATA_HOME", ""), "uv/python/*/bin/python3"),
        *_below(host, host.env.get("MAMBA_ROOT_PREFIX", ""), "bin/python", "envs/*/bin/python"),
        *_below(host, host.env.get("CONDA_ENVS_PATH", ""), "*/bin/python"),
        *_below(host, _conda_root(host, "/bin/conda"), "bin/python", "envs/*/bin/python"),
    ]
    for name in ("conda", "miniconda3", "miniforge3"):
        patterns += [f"/opt/{name}/bin/python", f"/opt/{name}/envs/*/bin/python"]
    patterns += [f"{prefix}/bin/python" for prefix in _conda_environments(host, f"{home}/.conda/environments.txt")]
    for pattern in patterns:
        found.update(dict.fromkeys(path for path in host.glob(pattern) if _is_python(path)))
    # pyenv's shims are shell scripts of 150 ms each; the Pythons they start are found in its folder.
    return [path for path in found if "/shims/" not in path]


def _windows_paths(host: Host) -> list[str]:
    found: dict[str, None] = {}
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if prefix := host.env.get(variable):
            found[prefix + (r"\Scripts\python.exe" if variable == "VIRTUAL_ENV" else r"\python.exe")] = None
    # PEP 514: every installer registers Company\Tag\InstallPath under one of these; the py launcher reads them too.
    for root in (r"HKLM\SOFTWARE\Python", r"HKCU\SOFTWARE\Python"):
        for company in _registry_keys(host, root):
            for tag in _registry_keys(host, rf"{root}\{company}"):
                key = host.registry(rf"{root}\{company}\{tag}\InstallPath")
                if key is None:
                    continue
                exe = key.values.get("ExecutablePath") or str(key.values.get("", "")).rstrip("\\") + r"\python.exe"
                found[str(exe)] = None
    for path in (*host.which_all("python"), *host.which_all("python3")):
        found[path] = None
    home = host.env.get("USERPROFILE", "")
    local = host.env.get("LOCALAPPDATA", "")
    patterns = [
        rf"{local}\Programs\Python\Python*\python.exe",
        rf"{host.env.get('APPDATA', '')}\uv\python\*\python.exe",
        rf"{home}\.pyenv\pyenv-win\versions\*\python.exe",
        *(rf"{home}\{name}\python.exe" for name in _CONDA_FOLDERS),
        *(rf"{home}\{name}\envs\*\python.exe" for name in _CONDA_FOLDERS),
        *(rf"{prefix}\python.exe" for prefix in _conda_environments(host, rf"{home}\.conda\environments.txt")),
        r"C:\ProgramData\miniconda3\python.exe",
        r"C:\Program Files\Python3*\python.exe",
        r"C:\Python3*\python.exe",
    ]
    patterns += [
        *_below(host, host.env.get("PYENV_ROOT", ""), r"versions\*\python.exe"),
        *_below(host, host.env.get("PYENV", ""), r"versions\*\python.exe"),
        *_below(host, host.env.get("UV_PYTHON_INSTALL_DIR", ""), r"*\python.exe"),
        *_below(host, host.env.get("MAMBA_ROOT_PREFIX", ""), "python.exe", r"envs\*\python.exe"),
        *_below(host, _conda_root(host, r"\Scripts\conda.exe"), "python.exe", r"envs\*\python.exe"),
    ]
    for pattern in patterns:
        found.update(dict.fromkeys(host.glob(pattern)))
    return [path for path in found if not _is_store_stub(host, path)]


def _is_python(path: str) -> bool:
    return _NAME.fullmatch(re.split(r"[/\\]", path)[-1]) is not None


def _is_pattern(path: str) -> bool:
    """Would a search take this folder's name for a pattern?"""
    return any(mark in path for mark in "*?[")


def _below(host: Host, root: str, *patterns: str) -> list[str]:
    """Patterns below a folder that a variable names."""
    slash = "\\" if host.system == "windows" else "/"
    return [f"{root.rstrip(slash)}{slash}{pattern}" for pattern in patterns] if root and not _is_pattern(root) else []


def _conda_root(host: Host, ending: str) -> str:
    """The folder whose conda the shell uses (``CONDA_EXE``: …/bin/conda)."""
    program = host.env.get("CONDA_EXE", "")
    return program.removesuffix(ending) if program.endswith(ending) else ""


def _conda_environments(host: Host, path: str) -> list[str]:
    """conda keeps a list of every environment it made, wherever that lies."""
    text = (host.read(path) or b"").decode("utf-8", "replace")
    lines = [line.strip().rstrip("/\\") for line in text.splitlines()]
    return [line for line in lines if line and not _is_pattern(line)]


def _registry_keys(host: Host, key: str) -> tuple[str, ...]:
    found = host.registry(key)
    return found.keys if found else ()


def _is_store_stub(host: Host, path: str) -> bool:
    """Windows puts a python.exe on PATH that only opens the Store; it is an empty file."""
    return "\\WindowsApps\\" in path and "PythonSoftwareFoundation" not in host.realpath(path)


def _is_environment(host: Host, path: str) -> bool:
    root = re.split(r"[/\\](?:bin|Scripts)[/\\]", path)[0]
    slash = "\\" if "\\" in path else "/"
    return host.read(f"{root}{slash}pyvenv.cfg") is not None
