"""Every Python on the machine, and one of them by path, name or version: one search for all verbs. The list holds what
PATH, the active environment, pyenv, uv, conda, python.org's installer, the registry and the Store offer, then the
Python that runs us. ``doctor`` shows it; whoever asks for a version gets the first of it that fits."""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from rekindle.errors import BadInput
from rekindle.host.protocol import Host
from rekindle.host.text import text_of
from rekindle.model.interpreter import Interpreter, is_version, read_interpreter
from rekindle.model.toml import read_beside

ASK_SECONDS = 30.0
_NAME = re.compile(r"python(\d(?:\.\d+)?t?)?(?:\.exe)?")
_VARIABLE = re.compile(r"\{(\w+)\}")


def find_interpreter(host: Host, wanted: str, *, with_headers: bool = False) -> Interpreter:
    """The Python that ``wanted`` (a path, a name on PATH, or a version such as 3.10) means; BadInput where none does.
    ``with_headers``: of several of one version the first that has Python.h; one without it where none has."""
    if not is_version(wanted):
        return ask_interpreter(host, wanted)
    fitting = search_version(host, wanted)
    if (first := next(fitting, None)) is None:
        remedy = "give a path with --python; 'rekindle doctor' lists them"
        raise BadInput(f"there is no Python {wanted} that runs here", remedy=remedy)
    if with_headers and not first.headers:
        return next((python for python in fitting if python.headers), first)
    return first


def ask_interpreter(host: Host, python: str) -> Interpreter:
    """What the Python at a path, or of a name on PATH, is; BadInput where it does not answer as one."""
    named = python if re.search(r"[/\\]", python) else host.which(python)
    path = str(Path(named).expanduser()) if named and named.startswith("~") else named
    answer = read_interpreter(path, host.python(path, timeout=ASK_SECONDS)) if path else "it is not on PATH"
    if isinstance(answer, str):
        remedy = "give a path or a version: --python /usr/bin/python3, --python 3.12; 'rekindle doctor' lists them"
        raise BadInput(f"{python} is no Python that runs here: {answer}", remedy=remedy)
    return answer


def search_version(host: Host, version: str, *, ours_first: bool = False) -> Iterator[Interpreter]:
    """The Pythons of a version on this machine, in the order of the list; each is asked only when it is its turn.
    ``ours_first``: where any of the version will do, the one that runs us is known to work."""
    identities: set[str] = set()
    by_name = [path for path in host.which_all(f"python{version}") if "/shims/" not in path]
    listed = [*([base_of_ours()] if ours_first else []), *by_name, *candidate_paths(host)]
    for path in distinct_paths(host, (path for path in listed if _name_fits(path, version))):
        answer = read_interpreter(path, host.python(path, timeout=ASK_SECONDS))
        # A version manager's shim that has no such version behind it says nothing.
        if isinstance(answer, str) or not answer.is_of(version):
            continue
        if (identity := identity_of(host, answer)) not in identities:
            identities.add(identity)
            yield started_directly(host, answer)


def usual_python(host: Host) -> str | None:
    """The Python people mean where they name none: the one on PATH; on Windows, where ``python3`` is often only a door
    to the shop and the installer leaves PATH alone, else the one that runs us."""
    names = ("python",) if host.system == "windows" else ("python3", "python")
    paths = [path for path in map(host.which, names) if path and "WindowsApps" not in path]
    if host.system == "windows":
        paths.append(sys.executable)
    return paths[0] if paths else None


def base_of_ours() -> str:
    """The Python that runs us, outside any environment it may be in."""
    return str(getattr(sys, "_base_executable", None) or sys.executable)


def candidate_paths(host: Host) -> list[str]:
    """Where Pythons may lie, the active environment and PATH first; not every path needs to answer."""
    listed = dict.fromkeys(_windows_paths(host) if host.system == "windows" else _unix_paths(host))
    # pyenv's shims take 150 ms each, and what they start is in its folder; Windows' python.exe may open the Store.
    store = [path for path in listed if "\\WindowsApps\\" in path]
    doors = [path for path in store if "PythonSoftwareFoundation" not in host.realpath(path)]
    paths = [path for path in listed if "/shims/" not in path and path not in doors]
    # It lies wherever the user put it. A machine that was recorded elsewhere does not have it.
    ours = base_of_ours()
    return list(dict.fromkeys([*paths, *([] if _is_pattern(ours) else host.glob(ours))]))


def distinct_paths(host: Host, paths: Iterable[str]) -> list[str]:
    """Each Python once, however many links lead to it."""
    chosen: dict[str, str] = {}
    for path in paths:
        # A virtual environment's python is a link to its base, but has packages of its own: keep both.
        root = re.split(r"[/\\](?:bin|Scripts)[/\\]", path)[0]
        settings = host.read(root + ("\\" if "\\" in path else "/") + "pyvenv.cfg")
        chosen.setdefault(host.realpath(path) if settings is None else path, path)
    return list(chosen.values())


def identity_of(host: Host, python: Interpreter) -> str:
    """What two answers of one Python have in common."""
    return (python.prefix or python.path) if python.is_environment else host.realpath(python.executable or python.path)


def started_directly(host: Host, python: Interpreter) -> Interpreter:
    """The Python itself instead of the program that starts it: pyenv's shims, the Store's aliases."""
    if python.is_environment or python.executable is None or host.realpath(python.path) == identity_of(host, python):
        return python
    return msgspec.structs.replace(python, path=python.executable)


def _name_fits(path: str, version: str) -> bool:
    """Can the file of this name be a Python of that version? ``python3.9`` is none of 3.10."""
    match = _NAME.fullmatch(re.split(r"[/\\]", path)[-1])
    if match is None or not match[1]:
        return True
    named, asked = match[1].removesuffix("t"), version.removesuffix("t")
    return f"{named}.".startswith(f"{asked}.") or f"{asked}.".startswith(f"{named}.")


def _unix_paths(host: Host) -> Iterator[str]:
    yield from (f"{prefix}/bin/python" for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if (prefix := host.env.get(name)))
    yield from (*host.which_all("python3"), *host.which_all("python"))
    # Windows' folders on WSL's PATH are large, slow, and hold no Python of Linux.
    on_path = [folder for folder in host.env.get("PATH", "").split(":") if folder[:1] == "/" and folder[:5] != "/mnt/"]
    patterns = [f"{folder.rstrip('/')}/python3*" for folder in on_path if not _is_pattern(folder)]
    environments = _conda_environments(host, f"{host.env.get('HOME', '')}/.conda/environments.txt")
    for pattern in (*patterns, *_known_patterns(host, "unix"), *(f"{prefix}/bin/python" for prefix in environments)):
        yield from (path for path in host.glob(pattern) if _NAME.fullmatch(path.rsplit("/", 1)[-1]))


def _windows_paths(host: Host) -> Iterator[str]:
    active = (("VIRTUAL_ENV", r"\Scripts\python.exe"), ("CONDA_PREFIX", r"\python.exe"))
    yield from (prefix + program for name, program in active if (prefix := host.env.get(name)))

    def keys(key: str) -> tuple[str, ...]:
        entry = host.registry(key)
        return entry.keys if entry else ()

    # PEP 514: every installer registers Company\Tag\InstallPath under one of these; the py launcher reads them too.
    for root in (r"HKLM\SOFTWARE\Python", r"HKCU\SOFTWARE\Python"):
        companies = [rf"{root}\{company}" for company in keys(root)]
        tags = [rf"{company}\{tag}" for company in companies for tag in keys(company)]
        for key in filter(None, (host.registry(rf"{tag}\InstallPath") for tag in tags)):
            yield str(key.values.get("ExecutablePath") or str(key.values.get("", "")).rstrip("\\") + r"\python.exe")
    yield from (*host.which_all("python"), *host.which_all("python3"))
    environments = _conda_environments(host, rf"{host.env.get('USERPROFILE', '')}\.conda\environments.txt")
    for pattern in (*_known_patterns(host, "windows"), *(rf"{prefix}\python.exe" for prefix in environments)):
        yield from host.glob(pattern)


def _known_patterns(host: Host, system: str) -> Iterator[str]:
    """The patterns of ``places.toml`` with this machine's folders in them."""
    places = read_beside(__file__, "places.toml", dict[str, list[str]])
    for pattern in places[system]:
        for conda in places["conda"] if "{conda}" in pattern else ("",):
            spelled = pattern.replace("{conda}", conda)
            folders = {name: _folder_of(host, name) for name in _VARIABLE.findall(spelled)}
            if all(folder and not _is_pattern(folder) for folder in folders.values()):
                yield spelled.format_map(folders)


def _folder_of(host: Host, variable: str) -> str:
    """The folder that a variable names; for CONDA_ROOT the one whose conda the shell uses (``…/bin/conda``)."""
    if variable == "CONDA_ROOT":
        match = re.fullmatch(r"(.*)(?:/bin/conda|\\Scripts\\conda\.exe)", host.env.get("CONDA_EXE", ""))
        return match[1] if match else ""
    return host.env.get(variable, "").rstrip("/\\")


def _is_pattern(path: str) -> bool:
    """Would a search take this folder's name for a pattern?"""
    return any(mark in path for mark in "*?[")


def _conda_environments(host: Host, path: str) -> list[str]:
    """conda keeps a list of every environment it made, wherever that lies."""
    lines = [line.strip().rstrip("/\\") for line in text_of(host.read(path)).splitlines()]
    return [line for line in lines if line and not _is_pattern(line)]
