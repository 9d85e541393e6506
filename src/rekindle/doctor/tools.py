"""The programs a build uses, and their versions."""

from __future__ import annotations

from rekindle.doctor.probing import Asking
from rekindle.doctor.text import version_in

# Program -> what to ask it. The first dotted number in the answer is the version.
_QUESTIONS = {
    "git": ("--version",), "cmake": ("--version",), "ninja": ("--version",), "ccache": ("--version",),
    "sccache": ("--version",), "distcc": ("--version",), "icecc": ("--version",), "patchelf": ("--version",),
    "conda": ("--version",), "uv": ("--version",), "ld": ("--version",), "lld": ("--version",),
    "mold": ("--version",), "make": ("--version",), "7z": ("i",),
}  # fmt: skip
_OTHER_NAMES = {"ninja": ("ninja-build",), "lld": ("ld.lld",), "cmake": ("cmake3",), "7z": ("7zz",)}
_ONLY = {"7z": "windows", "ld": "linux", "mold": "linux", "patchelf": "linux", "make": "linux"}


def probe_tools(host: Asking) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name, arguments in _QUESTIONS.items():
        if _ONLY.get(name, host.system) != host.system:
            continue
        path = next(filter(None, (host.which(candidate) for candidate in (name, *_OTHER_NAMES.get(name, ())))), None)
        if path is None:
            found[name] = None
            continue
        done = host.run([path, *arguments], timeout=host.left(3))
        found[name] = version_in(done.out) or version_in(done.err)
        if found[name] is None:
            host.gap(f"version of {name}", _why(done.timed_out, done.code, done.err))
            # It is there, which is what most questions are about.
            found[name] = "?"
    return found


def _why(timed_out: bool, code: int | None, err: str) -> str:
    if timed_out:
        return "it did not answer in time"
    return f"exit code {code}" + (f": {err.strip()[:200]}" if err.strip() else ", no version in what it said")
