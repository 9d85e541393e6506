"""Every Python on the machine and where it came from: system, python.org, conda, pyenv, uv, the Store."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rekindle.doctor.answers import Interpreter, read_answer
from rekindle.host.asking import Asking, ask_each
from rekindle.host.text import lines_of, version_key
from rekindle.model.machine import Python

_MAX_PYTHONS = 24
_AT_ONCE = 4


def probe_pythons(host: Asking) -> tuple[tuple[Python, ...], Mapping[str, Interpreter]]:
    """The Pythons, and what each said about itself by its path."""
    candidates = _windows(host) if host.system == "windows" else _unix(host)
    chosen: dict[str, str] = {}
    for path in candidates:
        # A virtual environment's python is a link to its base, but has packages of its own: keep both.
        identity = path if _is_environment(host, path) else host.realpath(path)
        chosen.setdefault(identity, path)
    paths = list(chosen.values())[:_MAX_PYTHONS]
    if len(chosen) > _MAX_PYTHONS:
        host.gap("some Pythons", f"only the first {_MAX_PYTHONS} of {len(chosen)} were asked")
    answers = ask_each(
        host, paths, lambda path: read_answer(host.python(path, timeout=host.left(4)), Interpreter), at_once=_AT_ONCE
    )
    found = []
    known: set[str] = set()
    for path in paths:
        answer = answers.pop(path, None) or Interpreter(error="it did not answer in time")
        if not answer.version:
            host.gap(f"Python {path}", answer.error or "no answer")
            continue
        program = answer.executable or path
        identity = (answer.prefix or path) if answer.environment else host.realpath(program)
        if identity in known:
            continue
        known.add(identity)
        if not answer.environment and host.realpath(path) != identity:
            # pyenv's shims and the Store's aliases are programs of their own that start another Python.
            path = program
        answers[path] = answer
        note = None if answer.headers else "no headers (Python.h)"
        if answer.bits == 32:
            note = "32 bit: no torch is published for it"
        found.append(
            Python(version=answer.version, path=path, abi=abi_of(answer), kind=kind_of(path, answer), note=note)
        )
    found.sort(key=lambda p: version_key(p.version), reverse=True)
    return tuple(found), answers


def _unix(host: Asking) -> list[str]:
    home = host.env.get("HOME", "")
    found: dict[str, None] = {}
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if prefix := host.env.get(variable):
            found[f"{prefix}/bin/python"] = None
    found.update(dict.fromkeys((*host.which_all("python3"), *host.which_all("python"))))
    # pyenv's shims are shell scripts of 150 ms each; the Pythons they start are found below.
    found = {path: None for path in found if "/shims/" not in path}
    patterns = [
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
            *(f"{home}/{name}/bin/python" for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge")),
            *(f"{home}/{name}/envs/*/bin/python" for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge")),
        ]
    patterns += [
        *_below(host, "PYENV_ROOT", "versions/*/bin/python"),
        *_below(host, "UV_PYTHON_INSTALL_DIR", "*/bin/python3"),
        *_below(host, "XDG_DATA_HOME", "uv/python/*/bin/python3"),
        *_below(host, "MAMBA_ROOT_PREFIX", "bin/python", "envs/*/bin/python"),
        *_below(host, "CONDA_ENVS_PATH", "*/bin/python"),
        *_beside(host, "CONDA_EXE", "/bin/conda", "bin/python", "envs/*/bin/python"),
    ]
    patterns += ["/opt/conda/bin/python", "/opt/conda/envs/*/bin/python", "/opt/miniconda3/bin/python"]
    patterns += [f"{prefix}/bin/python" for prefix in _conda_environments(host, f"{home}/.conda/environments.txt")]
    for pattern in patterns:
        found.update(dict.fromkeys(path for path in host.glob(pattern) if _is_python(path)))
    return list(found)


def _is_python(path: str) -> bool:
    return re.fullmatch(r"python(\d(\.\d+)?t?)?(\.exe)?", re.split(r"[/\\]", path)[-1]) is not None


def _windows(host: Asking) -> list[str]:
    found: dict[str, None] = {}
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if prefix := host.env.get(variable):
            found[prefix + (r"\Scripts\python.exe" if variable == "VIRTUAL_ENV" else r"\python.exe")] = None
    # PEP 514: every installer registers Company\Tag\InstallPath under one of these.
    for root in (r"HKLM\SOFTWARE\Python", r"HKCU\SOFTWARE\Python"):
        for company in _keys(host, root):
            for tag in _keys(host, rf"{root}\{company}"):
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
        *(rf"{home}\{name}\python.exe" for name in ("miniconda3", "anaconda3", "miniforge3")),
        *(rf"{home}\{name}\envs\*\python.exe" for name in ("miniconda3", "anaconda3", "miniforge3")),
        *(rf"{prefix}\python.exe" for prefix in _conda_environments(host, rf"{home}\.conda\environments.txt")),
        r"C:\ProgramData\miniconda3\python.exe",
        r"C:\Python3*\python.exe",
    ]
    patterns += [
        *_below(host, "PYENV_ROOT", r"versions\*\python.exe"),
        *_below(host, "PYENV", r"versions\*\python.exe"),
        *_below(host, "UV_PYTHON_INSTALL_DIR", r"*\python.exe"),
        *_below(host, "MAMBA_ROOT_PREFIX", "python.exe", r"envs\*\python.exe"),
        *_beside(host, "CONDA_EXE", r"\Scripts\conda.exe", "python.exe", r"envs\*\python.exe"),
    ]
    for pattern in patterns:
        found.update(dict.fromkeys(host.glob(pattern)))
    return [path for path in found if not _is_store_stub(host, path)]


def _below(host: Asking, variable: str, *patterns: str) -> list[str]:
    """Patterns below the folder that a variable names; a folder whose name is a pattern itself is left out."""
    root = host.env.get(variable, "").rstrip("/\\")
    if not root or any(mark in root for mark in "*?["):
        return []
    slash = "\\" if host.system == "windows" else "/"
    return [f"{root}{slash}{pattern}" for pattern in patterns]


def _beside(host: Asking, variable: str, ending: str, *patterns: str) -> list[str]:
    """Patterns below the root of a program that a variable names (``CONDA_EXE``: …/bin/conda)."""
    program = host.env.get(variable, "")
    root = program.removesuffix(ending)
    if root == program or any(mark in root for mark in "*?["):
        return []
    slash = "\\" if host.system == "windows" else "/"
    return [f"{root}{slash}{pattern}" for pattern in patterns]


def _conda_environments(host: Asking, path: str) -> list[str]:
    """conda keeps a list of every environment it made, wherever that lies."""
    lines = [line.strip().rstrip("/\\") for line in lines_of(host.read(path))]
    return [line for line in lines if line and not any(mark in line for mark in "*?[")]


def _keys(host: Asking, key: str) -> tuple[str, ...]:
    found = host.registry(key)
    return found.keys if found else ()


def _is_store_stub(host: Asking, path: str) -> bool:
    """Windows puts a python.exe on PATH that only opens the Store; it is an empty file."""
    return "\\WindowsApps\\" in path and "PythonSoftwareFoundation" not in host.realpath(path)


def _is_environment(host: Asking, path: str) -> bool:
    root = re.split(r"[/\\](?:bin|Scripts)[/\\]", path)[0]
    slash = "\\" if "\\" in path else "/"
    return host.read(f"{root}{slash}pyvenv.cfg") is not None


def abi_of(answer: Interpreter) -> str | None:
    """The tag a wheel must carry: cp311, cp313t, pp310."""
    version = re.match(r"(\d+)\.(\d+)", answer.version or "")
    prefix = {"CPython": "cp", "PyPy": "pp"}.get(answer.implementation or "")
    if version is None or prefix is None:
        return None
    return f"{prefix}{version[1]}{version[2]}{'t' if answer.gil_disabled else ''}"


def kind_of(path: str, answer: Interpreter) -> str:
    said = f"{path} {answer.base_prefix} {answer.prefix}".lower().replace("\\", "/")
    if answer.environment:
        return "venv"
    if any(word in said for word in ("conda", "miniforge", "mambaforge")) or "conda" in answer.compiler.lower():
        return "conda"
    if "/pyenv" in said or "/.pyenv" in said:
        return "pyenv"
    if "/uv/python" in said:
        return "uv"
    if "windowsapps" in said or "pythonsoftwarefoundation" in said:
        return "store"
    if said.startswith(("/usr/bin", "/bin")):
        return "system"
    return "python.org" if ":/" in said else "local"
