"""Each torch that is installed, read without importing it, and why it does or does not work here.

Its ``version.py`` says what it was built for. Whether it loads is tried in its own Python: by default the
native libraries only (a fraction of a second), with ``try_it`` a real import and a kernel on the card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from rekindle.doctor.answers import Tried, read_answer
from rekindle.host.asking import Asking
from rekindle.host.text import text_of
from rekindle.model.interpreter import Interpreter
from rekindle.model.machine import InstalledTorch

_MAX_TRIED = 3
# The switches a user asks about; the others are the build system's own business.
_SWITCHES = {"mkl", "mkldnn", "mkldnn_acl", "openmp", "lapack", "nnpack", "cudnn", "magma", "cusparselt", "kleidiai"}


def find_torches(host: Asking, answers: Mapping[str, Interpreter], *, try_it: bool) -> tuple[InstalledTorch, ...]:
    """Every torch of these interpreters; the first few are tried as well."""
    found: dict[str, InstalledTorch] = {}
    for python, answer in answers.items():
        package = answer.packages.get("torch")
        if package is None or package.path in found:
            continue
        place = package.path
        torch = _read(host, python, place, package.version)
        if len(found) < _MAX_TRIED:
            torch = _try(host, torch, deep=try_it)
        found[place] = torch
    return tuple(found.values())


def _read(host: Asking, python: str, place: str, version: str) -> InstalledTorch:
    slash = "\\" if "\\" in place else "/"
    path = f"{place}{slash}torch"
    said = text_of(host.read(f"{path}{slash}version.py"))

    def value(name: str) -> str | None:
        match = re.search(rf"^{name}(?:\s*:[^=]+)?\s*=\s*['\"]([^'\"]+)['\"]", said, re.MULTILINE)
        return match[1] if match else None

    return InstalledTorch(
        version=value("__version__") or version,
        python=python,
        path=path,
        cuda=value("cuda"),
        rocm=value("hip"),
        built_with=_built_with(host, f"{path}{slash}include{slash}ATen", slash),
    )


def _built_with(host: Asking, headers: str, slash: str) -> tuple[str, ...]:
    """The build's switches, from the headers it installs: ``#define AT_MKL_ENABLED() 1``."""
    said = text_of(host.read(f"{headers}{slash}Config.h")) + text_of(
        host.read(f"{headers}{slash}cuda{slash}CUDAConfig.h")
    )
    found = re.findall(r"^#define AT_(?:BUILD_WITH_|PARALLEL_)?(\w+?)(?:_ENABLED)?(?:\(\))? 1\s*$", said, re.MULTILINE)
    return tuple(sorted({name.lower() for name in found if name.lower() in _SWITCHES}))


def _try(host: Asking, torch: InstalledTorch, *, deep: bool) -> InstalledTorch:
    raw = host.torch(torch.python, deep=deep, timeout=host.left(50 if deep else 4))
    if raw is None:
        return torch
    answer = read_answer(raw, Tried)
    if answer.timed_out:
        host.gap(f"torch {torch.version}", "it did not load in time")
        return torch
    works, why = answer.works, answer.error or answer.gpu_error
    if works is None and answer.exit_code is not None:
        works, why = False, _died(answer.exit_code, why)
    return replace(torch, works=works, gpu_works=answer.gpu_works, archs=answer.arch_list, why=why)


def _died(code: int, said: object) -> str:
    """A process killed by a signal ends with its negative number (Linux), or an NTSTATUS (Windows)."""
    if code in (-4, 0xC000001D, -1073741795):
        return "illegal instruction: it was built for a newer processor"
    if code in (-11, 0xC0000005, -1073741819):
        return "it crashes while loading"
    if code in (-9,):
        return "it was killed while loading (out of memory?)"
    return f"loading it ends with exit code {code}: {said}"
