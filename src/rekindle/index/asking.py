"""A search as the user words it, into a :class:`Wanted`; what cannot be understood is said so."""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from rekindle.errors import BadInput
from rekindle.index.names import normal_project
from rekindle.index.search import Wanted
from rekindle.model.arch import GpuArch


def wanted_from(
    *,
    gpus: Sequence[GpuArch] = (),
    system: str | None = None,
    machine: str | None = None,
    python: str | None = None,
    glibc: str | None = None,
    project: str | None = None,
    versions: str | None = None,
) -> Wanted:
    if python is not None and not re.fullmatch(r"3\.\d{1,2}t?", python):
        raise BadInput(f"{python!r} is no Python version", remedy="write it as 3.11")
    if glibc is not None:
        _version(glibc, "glibc version")
    return Wanted(
        gpus=tuple(gpus),
        system=system,
        machine=machine,
        python=python,
        glibc=glibc,
        project=normal_project(project) if project else None,
        versions=_specifier(versions) if versions else None,
    )


def _version(text: str, what: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise BadInput(f"{text!r} is no {what}") from None


def _specifier(text: str) -> SpecifierSet:
    """``2.6`` means any 2.6.x, ``2.6.0`` means that one with any local part; operators as pip reads them."""
    if re.fullmatch(r"\d+\.\d+", text):
        return SpecifierSet(f"=={text}.*")
    try:
        return SpecifierSet(text if re.match(r"[<>=!~]", text) else f"=={text}")
    except InvalidSpecifier:
        raise BadInput(f"{text!r} is no version", remedy="write 2.6.0 or >=2.0,<2.4") from None
