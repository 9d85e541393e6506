"""The programs a build uses, and their versions."""

from __future__ import annotations

from rekindle.host.asking import Asking, ask_each
from rekindle.host.protocol import Completed
from rekindle.host.text import version_in

# Program -> what to ask it. The first dotted number in the answer is the version.
_QUESTIONS = {
    "git": ("--version",), "cmake": ("--version",), "ninja": ("--version",), "ccache": ("--version",),
    "sccache": ("--version",), "distcc": ("--version",), "icecc": ("--version",), "patchelf": ("--version",),
    "conda": ("--version",), "uv": ("--version",), "ld": ("--version",), "lld": ("--version",),
    "mold": ("--version",), "make": ("--version",), "7z": ("i",),
}  # fmt: skip
_OTHER_NAMES = {"ninja": ("ninja-build",), "lld": ("ld.lld",), "cmake": ("cmake3",), "7z": ("7zz",)}
_ONLY = {"7z": "windows", "ld": "linux", "mold": "linux", "patchelf": "linux", "make": "linux"}

# Tools answer in milliseconds; one that does not is broken, and others wait behind it.
_PATIENCE_S = 2.0
_AT_ONCE = 6


def probe_tools(host: Asking) -> dict[str, str | None]:
    names = [name for name in _QUESTIONS if _ONLY.get(name, host.system) == host.system]
    paths = {name: _place(host, name) for name in names}
    found: dict[str, str | None] = dict.fromkeys(names)
    here = [name for name in names if paths[name]]
    said = ask_each(
        host,
        here,
        lambda name: host.run([paths[name] or name, *_QUESTIONS[name]], timeout=host.left(_PATIENCE_S)),
        at_once=_AT_ONCE,
    )
    for name in here:
        done = said.get(name)
        version = (version_in(done.out) or version_in(done.err)) if done else None
        if version is None:
            host.gap(f"version of {name}", _why(done))
        # It is there, which is what most questions are about.
        found[name] = version or "?"
    return found


def _place(host: Asking, name: str) -> str | None:
    return next(filter(None, map(host.which, (name, *_OTHER_NAMES.get(name, ())))), None)


def _why(done: Completed | None) -> str:
    if done is None or done.timed_out:
        return "it did not answer in time"
    return f"exit code {done.code}" + (
        f": {done.err.strip()[:200]}" if done.err.strip() else ", no version in what it said"
    )
