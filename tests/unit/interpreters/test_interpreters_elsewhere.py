"""Pythons where pyenv, uv and conda were told to keep them, not only where they usually do."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.interpreters.search import candidate_paths


class Told:
    """A host that says yes to every pattern without a star, and knows its variables."""

    def __init__(self, system: str, env: dict[str, str]) -> None:
        self.system = system
        self.env = env
        self.asked: list[str] = []

    def glob(self, pattern: str) -> tuple[str, ...]:
        self.asked.append(pattern)
        return ()

    def __getattr__(self, name: str) -> Any:
        return {"which_all": lambda _: (), "read": lambda _: None, "registry": lambda _: None}[name]


@pytest.mark.parametrize(
    ("variable", "value", "pattern"),
    [
        ("PYENV_ROOT", "/srv/py env/", "/srv/py env/versions/*/bin/python"),
        ("UV_PYTHON_INSTALL_DIR", "/srv/uv", "/srv/uv/*/bin/python3"),
        ("XDG_DATA_HOME", "/srv/data", "/srv/data/uv/python/*/bin/python3"),
        ("MAMBA_ROOT_PREFIX", "/srv/mamba", "/srv/mamba/envs/*/bin/python"),
        ("CONDA_EXE", "/srv/conda/bin/conda", "/srv/conda/envs/*/bin/python"),
    ],
)
def test_variables_are_followed(variable: str, value: str, pattern: str) -> None:
    host = Told("linux", {variable: value})
    candidate_paths(host)
    assert pattern in host.asked


@pytest.mark.parametrize(
    ("variable", "value", "pattern"),
    [
        ("PYENV", "D:\\pyenv\\", "D:\\pyenv\\versions\\*\\python.exe"),
        ("UV_PYTHON_INSTALL_DIR", "D:\\uv", "D:\\uv\\*\\python.exe"),
        ("CONDA_EXE", "D:\\conda\\Scripts\\conda.exe", "D:\\conda\\envs\\*\\python.exe"),
    ],
)
def test_on_windows_too(variable: str, value: str, pattern: str) -> None:
    host = Told("windows", {variable: value})
    candidate_paths(host)
    assert pattern in host.asked


@pytest.mark.parametrize(
    ("variable", "value"), [("PYENV_ROOT", "/a*"), ("CONDA_EXE", "/odd/place/conda"), ("PYENV_ROOT", "")]
)
def test_what_is_no_folder_is_left_out(variable: str, value: str) -> None:
    host = Told("linux", {variable: value})
    candidate_paths(host)
    assert not [one for one in host.asked if "/a*" in one or "/odd" in one or one.startswith("/versions")]
