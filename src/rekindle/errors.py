"""Every exception Rekindle raises on purpose, with the exit code it leads to.

A library raises; only ``cli/main.py`` prints and exits. A "no" that is an answer (a refusal, a failed
verification) is a value, not one of these.
"""

from __future__ import annotations

import contextlib
import enum
import importlib.util
import sys
from collections.abc import Iterator, Sequence


class Exit(enum.IntEnum):
    """Process exit codes; other programs rely on them."""

    YES = 0
    NO = 1
    USAGE = 2
    INTERRUPTED = 3
    BUG = 4


class RekindleError(Exception):
    """A fact, its reason and the next step, in the user's terms."""

    exit_code = Exit.USAGE

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class BadInput(RekindleError):
    """Usage is wrong or an input cannot be read."""


@contextlib.contextmanager
def tell_os_errors(doing: str, *, end: str = "", remedy: str | None = None) -> Iterator[None]:
    """What the system refuses is the user's to fix: ``doing`` (``cannot read FILE``) with the system's reason."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{doing}: {error.strerror or error}{end}", remedy=remedy) from error


def reading(path: object, *, remedy: str | None = None) -> contextlib.AbstractContextManager[None]:
    """Whatever the system has against reading ``path`` becomes a :class:`BadInput`."""
    return tell_os_errors(f"cannot read {path}", remedy=remedy)


class Declined(BadInput):
    """What needs a yes got none: somebody said no, or (for whom the remedy is) nobody could be asked."""

    def __init__(self, message: str, *, remedy: str = "answer y, or give --yes where nobody can answer") -> None:
        super().__init__(message, remedy=remedy)


class OtherPlan(BadInput):
    """A build tree holds what another plan compiled; only removing it lets this one begin."""


class NeedsInvitation(BadInput):
    """A worker of a farm has neither an invitation nor the farm's own keys."""


class MissingTool(RekindleError):
    """A program that this step needs is not on the machine."""


# Packages that single verbs need: the extra of pyproject.toml that brings each, and the megabytes it takes installed.
EXTRAS = {"botocore": ("s3", 35), "cryptography": ("sign", 20), "distributed": ("matrix", 40), "numpy": ("inspect", 75)}


def has_package(name: str) -> bool:
    """Whether a package can be imported here; it is not imported."""
    return importlib.util.find_spec(name) is not None


def need_package(name: str, purpose: str) -> None:
    """Refuse what needs an optional package, with the line that brings it."""
    if has_package(name):
        return
    extra, size = EXTRAS[name]
    raise MissingTool(
        f"{purpose} needs the package {name}, which is not installed",
        remedy=f"{sys.executable} -m pip install {name} (about {size} MB; rekindle-torch[{extra}] brings it too)",
    )


class WorkspaceBusy(RekindleError):
    """Another process holds the workspace."""


class Untrusted(RekindleError):
    """A document made elsewhere would decide what runs here; ``account`` says what (a finished document)."""

    def __init__(self, message: str, account: object, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.account = account


class Interrupted(RekindleError):
    """Cut short; the same command continues."""

    exit_code = Exit.INTERRUPTED


class StageFailed(RekindleError):
    """A stage was carried out and the answer is no (a build failed, a patch conflicts)."""

    exit_code = Exit.NO


class NotReady(StageFailed):
    """This machine lacks what a step needs; the remedy brings all of it. Nothing was begun."""


class CommandFailed(StageFailed):
    """An external command failed; keeps its argv, exit code and last lines."""

    def __init__(
        self, argv: Sequence[str], code: int | None, last_lines: Sequence[str], *, remedy: str | None = None
    ) -> None:
        tail = f": {last_lines[-1].strip()}" if last_lines else ""
        super().__init__(f"{argv[0]} ended with exit code {code}{tail}", remedy=remedy)
        self.argv = tuple(argv)
        self.code = code
        self.last_lines = tuple(last_lines)


class Unprepared(CommandFailed):
    """What a step needs first could not be made ready (an environment, a root); nothing was answered."""

    exit_code = Exit.USAGE


class BuildFailed(StageFailed):
    """A build ended with no; ``failure`` is its account (:class:`rekindle.model.build.BuildFailure`)."""

    def __init__(self, message: str, failure: object, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.failure = failure
