"""Files that keep a torch where it is: limits for pip, a list to install the same again, lines for ``pyproject.toml``.

pip and uv replace a torch without a word when another package asks for a different one; each of these says which one
is meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rekindle.model.plan import Request


def pinned(requests: Sequence[Request], installed: Mapping[str, str]) -> dict[str, str]:
    """The packages that must stay, with the versions that are really there."""
    return {one.name: installed[one.name] for one in requests if one.name in installed}


def constraints_text(pins: Mapping[str, str]) -> str:
    """For ``pip install -c FILE`` or ``PIP_CONSTRAINT``: a package that wants another torch is refused, aloud."""
    head = "# Keeps these versions: pip install -c THIS-FILE PACKAGE (or set PIP_CONSTRAINT / UV_CONSTRAINT to it).\n"
    return head + "".join(f"{name}=={version}\n" for name, version in pins.items())


def requirements_text(pins: Mapping[str, str], requests: Sequence[Request]) -> str:
    """For ``pip install -r FILE``: the same again elsewhere."""
    by_name = {one.name: one for one in requests}
    places = [f"--extra-index-url {one.index}" for one in requests if one.index]
    places += [f"--find-links {one.links}" for one in requests if one.links]
    rows = []
    for name, version in pins.items():
        url = by_name[name].url if name in by_name else None
        rows.append(f"{name} @ {_as_url(url)}" if url else f"{name}=={version}")
    return "".join(f"{line}\n" for line in (*dict.fromkeys(places), *rows))


def pyproject_text(pins: Mapping[str, str], requests: Sequence[Request]) -> str:
    """Lines for a ``pyproject.toml`` that uv reads: the version, and the only index it may come from."""
    rows = ["[tool.uv]", "# What any dependency may say about these, these versions are taken."]
    rows += ["override-dependencies = [", *(f"    {_quoted(f'{name}=={pins[name]}')}," for name in pins), "]"]
    sources = []
    indexes: dict[str, str] = {}
    for one in requests:
        if one.name not in pins:
            continue
        if one.url:
            key = "url" if "://" in one.url else "path"
            sources.append(f"{one.name} = {{ {key} = {_quoted(one.url)} }}")
        elif one.index:
            name = indexes.setdefault(one.index, f"torch-{one.index.rstrip('/').rpartition('/')[2]}")
            sources.append(f"{one.name} = {{ index = {_quoted(name)} }}")
    if sources:
        rows += ["", "[tool.uv.sources]", *sources]
    for url, name in indexes.items():
        rows += ["", "[[tool.uv.index]]", f"name = {_quoted(name)}", f"url = {_quoted(url)}", "explicit = true"]
    return "\n".join(rows) + "\n"


def _as_url(place: str) -> str:
    return place if "://" in place else Path(place).absolute().as_uri()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
