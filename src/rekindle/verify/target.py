"""What is under test: a wheel (what its name and its metadata promise), an interpreter (how to start it), and what is
asked of it, one real operation of each companion beside it included."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, canonicalize_version, parse_wheel_filename

from rekindle.compat.companions import find_package, near_packages
from rekindle.compat.processor import Suspicion
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.formats.wheel import check_wheel
from rekindle.host.sandbox import Sandbox
from rekindle.model.machine import platform_of
from rekindle.model.plan import Plan
from rekindle.model.toml import read_beside
from rekindle.model.verify import ForetoldFailure, VerifyOptions

# Values of these are told; of anything else only the name, since a value may be a secret.
_TELLING = re.compile(r"^(?:ATEN|OMP|MKL|OPENBLAS|DNNL|ONEDNN|SPARK)_[A-Z0-9_]+$|^(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES$")
CHECKS = Path(__file__).with_name("checks")
# distribution -> the package to import, where the two differ
IMPORTS = {"spark-miniature": "spark"}
KNOWN = ("torch", "spark")


@dataclass(frozen=True, kw_only=True)
class Target:
    """One interpreter that can run checks. ``command`` starts it, perhaps through an emulator."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    package: str = "torch"
    subject: str = ""
    # Timeouts are multiplied by this: emulation is some twenty times slower than the machine.
    patience: float = 1.0
    cpu: str | None = None
    cpu_features: Mapping[str, Sequence[str]] | None = None
    # Why the package cannot be imported here, where only what needs no import is to be tried.
    no_import: str | None = None
    no_import_remedy: str | None = None
    # All checks in one process, started again after a crash, as where there is no fork.
    inline: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    # A stranger's wheel is tried apart from the rest of the machine.
    sandbox: Sandbox | None = None


class Trial(VerifyOptions, frozen=True, kw_only=True):
    """What was asked for, and what is known of it: ``expect`` holds what the plan promised; ``suspects`` are operators
    that the wheel's own bytes make doubtful; ``foretold`` are checks that a grafted wheel says must fail."""

    expect: dict[str, Any] = {}
    suspects: Sequence[Suspicion] = ()
    foretold: tuple[ForetoldFailure, ...] = ()


SMOKE = Trial()


def promises(plan: Plan) -> dict[str, Any]:
    """What a plan promises of its torch, in the words the checks compare with; only what it really says."""
    promise = {
        "version": plan.torch,
        "cuda": plan.cuda,
        "rocm": plan.rocm,
        "arch_list": [] if plan.build and plan.build.taken else list(plan.arch_list),
        "settings": dict(plan.build.asserts) if plan.build else {},
    }
    return {name: value for name, value in promise.items() if value}


def settings_words(shell: Mapping[str, str], given: Mapping[str, str]) -> str:
    """Settings that change which code runs, as one word of a report: those of the shell that matter, and all given."""
    settings = {name: value for name, value in shell.items() if _TELLING.match(name)} | dict(given)
    words = [f"{name}={value[:60]}" if _TELLING.match(name) else name for name, value in sorted(settings.items())]
    return " ".join(words)


class CompanionCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of ``companions.toml``: what Python imports, the operation, and whether it needs a GPU."""

    module: str
    call: str
    gpu: bool = False


def load_table() -> dict[str, CompanionCheck]:
    """The companions of which an operation is known."""
    return read_beside(__file__, "companions.toml", dict[str, CompanionCheck])


def provable(names: Sequence[str]) -> list[str]:
    """Those of the names that the table has an operation for."""
    return [name for name in names if name in load_table()]


def companion_rows(names: Sequence[str]) -> list[dict[str, object]]:
    """The rows for these names, as the agent takes them; a name without a row is refused."""
    table, facts = load_table(), load_facts()
    rows: dict[str, dict[str, object]] = {}
    for name in names:
        package = find_package(name, facts)
        if package is None or package not in table:
            near = [other for other in near_packages(name, facts) if other in table] if package is None else []
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(table)}"
            raise BadInput(f"no check is known for {name}", remedy=hint)
        row = table[package]
        remedy = f"rekindle plan --with {package} names the version that goes with this torch"
        rows[package] = {"name": package, "remedy": remedy, **msgspec.structs.asdict(row)}
    return list(rows.values())


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A wheel file, read as far as its name and METADATA."""

    path: Path
    distribution: str
    version: str
    tags: frozenset[Tag]
    requires: tuple[str, ...]
    unpacked: int = 0

    @property
    def requirements(self) -> list[Requirement]:
        """What it requires, as far as it can be read."""
        parsed = []
        for text in self.requires:
            with contextlib.suppress(InvalidRequirement):
                parsed.append(Requirement(text))
        return parsed

    @property
    def package(self) -> str:
        """What Python imports of it."""
        return IMPORTS.get(self.distribution, self.distribution.replace("-", "_"))

    @property
    def pythons(self) -> set[tuple[int, int]]:
        """The CPython versions it is for; empty where any will do."""
        matches = (re.fullmatch(r"cp(\d)(\d+)", tag.interpreter) for tag in self.tags)
        return {(int(match[1]), int(match[2])) for match in matches if match}

    @property
    def gil_disabled(self) -> bool:
        """Is it for a Python without the global lock (cp313t) alone?"""
        return bool(self.tags) and all(re.fullmatch(r"cp\d+t", tag.abi) for tag in self.tags)

    @property
    def machine(self) -> str | None:
        """The processor family its native code is for: x86_64, aarch64; None for pure Python."""
        return next((machine for tag in self.tags if (machine := platform_of(tag.platform)[1])), None)

    @property
    def system(self) -> str | None:
        """The system it is for; None where any will do."""
        return next((system for tag in self.tags if (system := platform_of(tag.platform)[0])), None)


def read_subject(path: Path) -> Subject:
    """Read a wheel's name and METADATA; what is not a wheel is :class:`BadInput`."""
    if not path.exists():
        raise BadInput(f"there is no file {path}", remedy="give the path of a .whl file")
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        form = "name-version-python-abi-platform.whl"
        raise BadInput(f"{path.name} is not a wheel's file name", remedy=form) from error
    wheel = check_wheel(path, listed=False)
    if not (fields := wheel.headers("METADATA")):
        raise BadInput(f"{path.name} holds no METADATA, so it is no installable wheel")
    own = next((value.strip()[:80] for key, value in fields if key.lower() == "version"), str(version))
    # uv refuses such a wheel, pip installs it and goes by the file: then the report would name what is not there.
    if canonicalize_version(own) != canonicalize_version(version):
        raise BadInput(f"{path.name} is version {own} by its METADATA", remedy="fetch it again under its own name")
    return Subject(
        path=path.resolve(),
        distribution=str(canonicalize_name(name)),
        version=str(version),
        tags=tags,
        requires=tuple(value for key, value in fields if key.lower() == "requires-dist"),
        unpacked=sum(member.size for member in wheel.members.values()),
    )
