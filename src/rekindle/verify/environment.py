"""A fresh throw-away environment with one wheel and its dependencies in it, and whether that wheel is kept apart.

Kept apart, wherever that is possible, is what was not built here: its code runs as soon as it is imported. For such a
wheel nothing is built from source and no program is started on the way, since that would run what it asks for before
any sandbox stands; what its requirements' requirements fetch from addresses of their own is refused.
"""

import functools
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.utils import canonicalize_name

from rekindle.compat.resources import Demand, first_shortage
from rekindle.errors import BadInput, MissingTool, Unprepared
from rekindle.host.files import free_space, read_head
from rekindle.host.made import was_made_here
from rekindle.host.protocol import Host
from rekindle.host.sandbox import Sandbox, Wish, find_sandbox
from rekindle.interpreters.environment import (
    copy_embedded,
    is_embedded,
    make_environment,
    our_pip_fills,
    python_of,
    unpack_wheel,
)
from rekindle.interpreters.installer import (
    REFUSED,
    InstallerRun,
    our_pip_serves,
    our_pip_without_programs,
    quickest_installer,
    run_installer,
)
from rekindle.interpreters.other_machine import OtherMachine
from rekindle.model.interpreter import Interpreter
from rekindle.model.machine import cpu_arch
from rekindle.model.progress import Progress
from rekindle.model.spoken import spoken_bytes
from rekindle.verify.target import Subject

INSTALL_SECONDS = 3600.0
WHEELS_ONLY = "wheels only, and no program ran meanwhile"
_LEAVE_OUT = "--no-deps leaves dependencies out; --sandbox no trusts it"
_INDEX = "is a package index reachable? --find-links DIR takes dependencies from a folder, --no-deps leaves them out"
_NOTE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """How far a wheel is kept apart. ``strange``: it was not built here, and the user did not say to trust it."""

    wish: Wish
    strange: bool
    gpu: bool

    @property
    def wheels_only(self) -> bool:
        """Are only wheels installed for it? What is built would run before any sandbox stands."""
        return self.strange or self.wish == "yes"

    def sandbox(
        self, shown: Iterable[Path], probe: Sequence[str], work: Path, progress: Progress
    ) -> tuple[Sandbox | None, dict[str, str]]:
        """The sandbox, and what the report says about it; a stranger's wheel without one is never passed over."""
        if self.wish == "auto" and not self.strange:
            return None, {}
        work.mkdir(parents=True, exist_ok=True)
        box, words = find_sandbox(self.wish, shown=shown, gpu=self.gpu, probe=probe, work=work)
        if box is None and self.strange:
            why = words.removeprefix("none: ")
            progress.note(f"no sandbox ({why}): this wheel was not built here, and its code runs")
            progress.note("with your rights, your network and your files; a container keeps it apart")
        return box, {"sandbox": words, **({"installed": WHEELS_ONLY} if self.wheels_only else {})}


def judge_wheel(subject: Subject, sha256: str, wish: Wish, gpu: bool | None) -> Isolation:
    """Whether this wheel is a stranger's; one whose dependencies would be built from source is refused."""
    strange = wish != "no" and not was_made_here(sha256)
    for requirement in subject.requirements if strange or wish == "yes" else ():
        if requirement.url is not None:
            wants = f"{subject.path.name} wants {str(requirement)[:200]!r}"
            raise BadInput(f"{wants}: a place of its own choosing, which may run programs", remedy=_LEAVE_OUT)
    return Isolation(wish=wish, strange=strange, gpu=gpu is not False)


def refuse_small_disk(host: Host, subject: Subject, folder: str) -> None:
    """The environment holds the wheel unpacked; what it requires comes on top, and nobody knows how much that is."""
    short = first_shortage([Demand("environment", folder, subject.unpacked)], free_space(host))
    if short is not None:
        text = f"the environment to try {subject.path.name} in needs {spoken_bytes(subject.unpacked)} for that wheel"
        text += f" alone, and {spoken_bytes(short.free)} are free at {tempfile.gettempdir()}"
        raise BadInput(text, remedy="free some space there, or set TMPDIR to another disk")


def check_fits(subject: Subject, interpreter: Interpreter) -> None:
    """Say in one line why a wheel cannot be installed here, before pip says it in ten."""
    name = subject.path.name
    system = {"win32": "windows", "darwin": "macos"}.get(interpreter.system, "linux")
    if subject.system and subject.system != system:
        raise BadInput(f"{name} is for {subject.system}, this machine runs {system}", remedy="verify it there")
    machine = cpu_arch(interpreter.machine)
    if subject.machine and subject.machine != machine:
        emulated = "verify it there, or here on an emulated CPU: --cpu haswell"
        remedy = emulated if subject.machine == "x86_64" else "verify it on such a machine"
        raise BadInput(f"{name} is for {subject.machine}, this Python runs on {machine}", remedy=remedy)
    stable = any(tag.abi == "abi3" for tag in subject.tags)
    here = interpreter.release
    if subject.pythons and (here < min(subject.pythons) if stable else here not in subject.pythons):
        versions = " or ".join(f"{a}.{b}" for a, b in sorted(subject.pythons))
        text = f"{name} is for Python {versions}, {interpreter.path} is {interpreter.short}"
        raise BadInput(text, remedy="give a fitting one with --python EXE")


def prepare_environment(
    host: Host,
    folder: Path,
    interpreter: Interpreter,
    subject: Subject,
    *,
    extra: Sequence[str] = (),
    dependencies: bool = True,
    find_links: Sequence[str] = (),
    wheels_only: bool = False,
    progress: Progress,
) -> Path:
    """An environment in ``folder`` with the wheel installed; its interpreter."""
    check_fits(subject, interpreter)
    installer, where = quickest_installer(host, links=find_links, wheels_only=wheels_only), subject.path.parent
    if is_embedded(interpreter):
        python, site = copy_embedded(interpreter, folder)
        progress.stage("installing", subject.path.name)
        if not dependencies:
            unpack_wheel(subject.path, site)
            return python
        words = ["--only-binary", ":all:", "--target", str(site), *installer.places, str(subject.path), *extra]
        if installer.uv:
            argv = installer.command(host, str(python), words)
        elif our_pip_serves(interpreter.release) and our_pip_fills(interpreter):
            argv = [*our_pip_without_programs(), "install", *words]
        else:
            text = f"{interpreter.path} is the embeddable Python, and there is no pip or uv to bring the wheel's"
            remedy = "install uv or a full Python (--python EXE), or try the wheel alone with --no-deps"
            raise MissingTool(f"{text} dependencies", remedy=remedy)
        _install(argv, where, subject.path.name)
    else:
        with_pip = not installer.uv and not our_pip_serves(interpreter.release)
        run = functools.partial(run_installer, cwd=folder.parent, seconds=INSTALL_SECONDS)
        _raise_if_failed(make_environment(interpreter.path, folder, run, with_pip=with_pip), subject.path.name)
        python = python_of(folder)
        progress.stage("installing", subject.path.name)
        # From the wheel's own folder: uv 0.13 decodes an address before it splits it, so "%23" ends the path.
        wheel = f"./{subject.path.name}" if installer.uv else subject.path.as_uri()
        words = [*installer.places, *([] if dependencies else ["--no-deps"]), wheel, *(extra if dependencies else ())]
        _install(installer.command(host, str(python.absolute()), words), where, subject.path.name)
    if wheels_only:
        refuse_addresses(folder, subject)
    return python


def install_for_emulation(wishes: Sequence[str], folder: Path, machine: OtherMachine, links: Sequence[str]) -> None:
    """Wheels for an emulated Python, put into ``folder`` by the pip of this Python; nothing is built."""
    if not wishes:
        return
    argv = [*our_pip_without_programs(), "install", "--disable-pip-version-check", "--no-input", "--no-compile"]
    argv += machine.pip_words(folder)
    for place in links:
        argv += ["--find-links", str(Path(place).absolute()) if Path(place).exists() else place]
    _install([*argv, *wishes], folder, "the wheel")


def refuse_addresses(folder: Path, subject: Subject) -> None:
    """Refuse what came from an address that a requirement named: an installer notes it beside each such package."""
    for note in folder.rglob("*.dist-info/direct_url.json"):
        name = note.parent.name.removesuffix(".dist-info").rpartition("-")[0]
        try:
            url = str(json.loads(read_head(note, _NOTE_BYTES)).get("url"))
        except (OSError, ValueError, AttributeError):
            url = "an address nobody can read"
        parts = urlsplit(url)
        is_wheel = parts.scheme == "file" and Path(url2pathname(parts.path)).resolve() == subject.path.resolve()
        if not is_wheel or canonicalize_name(name) != subject.distribution:
            places = f"{subject.path.name} leads to {name} from {url[:200]!r}"
            raise BadInput(f"{places}: a place of its own choosing, and nothing of it was run", remedy=_LEAVE_OUT)


def _install(argv: Sequence[str], cwd: Path, name: str) -> None:
    _raise_if_failed(run_installer(argv, cwd=cwd, seconds=INSTALL_SECONDS), name)


def _raise_if_failed(done: InstallerRun, name: str) -> None:
    if done.ok:
        return
    if any(REFUSED in line for line in done.lines):
        text = f"{name} leads to a package that would have to be built, which runs its programs outside any sandbox"
        raise BadInput(text, remedy=_LEAVE_OUT)
    text = " ".join(done.lines)
    lacking = any(words in text for words in ("No matching distribution", "Could not find a version", "No solution"))
    remedy = done.remedy or (_INDEX if lacking else "the same command by hand shows more")
    raise Unprepared(done.argv, done.code, [*done.lines[-20:], done.reason], remedy=remedy)
