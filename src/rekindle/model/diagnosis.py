"""What ``explain`` says: causes found in a log, best first."""

import re
from typing import Literal

from rekindle.model.document import Document, Part

Confidence = Literal["high", "medium", "low"]
_PLACEHOLDER = re.compile(r"\{([\w,]+)(?:\|([^{}]*))?\}")


class InstallPackages(Part, frozen=True, kw_only=True, tag_field="do", tag="install"):
    """Packages into the Python of the command, from ``index`` where that matters; ``remove`` goes first."""

    packages: tuple[str, ...]
    index: str = ""
    remove: tuple[str, ...] = ()
    again: bool = False


class ConstrainBuild(Part, frozen=True, kw_only=True, tag_field="do", tag="constrain"):
    """Versions that pip and uv must keep to, also in the environments they make for building."""

    packages: tuple[str, ...]


class AddOption(Part, frozen=True, kw_only=True, tag_field="do", tag="option"):
    """Words for an install command (pip, uv) that was run."""

    words: tuple[str, ...]


class SetVariable(Part, frozen=True, kw_only=True, tag_field="do", tag="set"):
    """Variables of the environment for the command; an empty value takes one away, ``~`` is the user's home."""

    variables: dict[str, str]


class SetCMake(Part, frozen=True, kw_only=True, tag_field="do", tag="cmake"):
    """A variable of CMake, however CMake is started."""

    name: str
    value: str


class FewerJobs(Part, frozen=True, kw_only=True, tag_field="do", tag="fewer-jobs"):
    """Half as many compilers at once."""


class RemoveCache(Part, frozen=True, kw_only=True, tag_field="do", tag="remove-cache"):
    """A cache that is made again by itself: one of the known ones, or the CMake cache of a build directory."""

    cache: Literal["triton", "torchinductor", "torch-extensions", "pip", "uv", "cmake"]


class ApplyPatch(Part, frozen=True, kw_only=True, tag_field="do", tag="patch"):
    """One of our patches to the source tree the command builds."""

    patch: str


class AskPerson(Part, frozen=True, kw_only=True, tag_field="do", tag="ask"):
    """What needs root or a decision: it is printed, never run."""

    line: str


_ForInstallers = InstallPackages | ConstrainBuild | AddOption
Action = _ForInstallers | SetVariable | SetCMake | FewerJobs | RemoveCache | ApplyPatch | AskPerson


class Match(Part, frozen=True, kw_only=True):
    """One cause that fits, with what shows it and what helps; ``actions`` are what Rekindle can do about it."""

    id: str
    confidence: Confidence
    cause: str
    fix: tuple[str, ...] = ()
    line: int | None = None
    evidence: str = ""
    source: str | None = None
    title: str = ""
    stage: str | None = None
    actions: tuple[Action, ...] = ()


class Unexplained(Part, frozen=True, kw_only=True):
    """What is known where no cause is: the first real error, its kind in words, and how to go on."""

    kind: str
    words: str
    quote: str
    line: int | None = None
    place: str | None = None
    facts: dict[str, str] = {}
    steps: tuple[str, ...] = ()
    post: str = ""


class Diagnosis(Document, frozen=True, kw_only=True):
    """``lines`` is how many lines were read; ``facts`` what the log says of the machine and the versions.
    ``unexplained`` is there where no cause is known; ``exit_code`` where a command was run."""

    matches: tuple[Match, ...] = ()
    lines: int | None = None
    facts: dict[str, str] = {}
    unexplained: Unexplained | None = None
    exit_code: int | None = None


class FixAttempt(Part, frozen=True, kw_only=True):
    """One fix that was shown: for which cause, what exactly, and how it ended. ``helped``: the command got past this
    cause and failed later for another. ``printed``: only a person may do it."""

    cause: str
    title: str
    action: Action
    shown: tuple[str, ...]
    outcome: Literal["fixed", "helped", "undone", "refused", "printed"]
    said: str = ""


class FixReport(Document, frozen=True, kw_only=True):
    """``explain --fix -- COMMAND``: the attempts in order, the last exit code, and what is still wrong. ``keep`` are
    settings that lived only for the repeated command: it goes on working only with them."""

    command: tuple[str, ...]
    exit_code: int
    attempts: tuple[FixAttempt, ...] = ()
    keep: tuple[str, ...] = ()
    diagnosis: Diagnosis | None = None

    @property
    def fixed(self) -> bool:
        """Does the command pass now, although it failed at first?"""
        return self.exit_code == 0 and bool(self.attempts)


class RulePage(Part, frozen=True, kw_only=True):
    """What is known about one cause; texts still hold their placeholders, samples are the words that fire it."""

    id: str
    family: str
    title: str
    stage: str
    confidence: Confidence
    cause: str
    fix: tuple[str, ...]
    source: str
    windows: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    variant: str = ""
    asks: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None


class Catalogue(Document, frozen=True, kw_only=True):
    """``explain --list`` and ``--rule``."""

    rules: tuple[RulePage, ...] = ()
    families: dict[str, str] = {}


class RuleTrial(Part, frozen=True, kw_only=True):
    """What became of one rule on a log: ``place`` among the answers, ``winner`` the first of them, and every step."""

    rule: str
    outcome: Literal["won", "lost", "did not fire"]
    place: int | None = None
    winner: str | None = None
    steps: tuple[str, ...] = ()


class Trials(Document, frozen=True, kw_only=True):
    """``explain --try``: a rule with all its variants, or the rules of a file."""

    trials: tuple[RuleTrial, ...] = ()


def readable(template: str) -> str:
    """A text without its placeholders: ``{arch|this one}`` reads "this one", ``{arch}`` reads "<arch>"."""

    def words(match: re.Match[str]) -> str:
        if match[2] is not None or match[1].endswith("_sentence"):
            return match[2] or ""
        return f"<{match[1].split(',')[0].replace('_', ' ')}>"

    return re.sub(r"\s+([.,;:)])", r"\1", _PLACEHOLDER.sub(words, template)).strip()
