"""The program that installs: the target's own pip, ours in its stead, or uv; how it is called, run and understood, and
where it looks for packages. No index is named here: where pip would look is read from pip itself (``pip config``, its
variables and its default)."""

import ast
import functools
import importlib.metadata
import importlib.util
import math
import os
import re
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from rekindle.errors import BadInput, MissingTool
from rekindle.host.process import Running, run_long
from rekindle.host.protocol import Host
from rekindle.model.toml import read_beside

_DEFAULT = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
PATIENCE = "300"
_LONGER = "PIP_DEFAULT_TIMEOUT=900 (uv: UV_HTTP_TIMEOUT=900) waits longer"
WAIT_LONGER = f"the index is slow: the same command goes on; {_LONGER}"
_WAITS = ("PIP_DEFAULT_TIMEOUT", "UV_HTTP_TIMEOUT")
_GAVE_UP = ("timed out", "network timeout")
SLOW_INDEX = f"the index was slow: once more, waiting up to {PATIENCE} s for each answer"
_QUIETLY = ("--disable-pip-version-check", "--no-input")
_KEEP_LAST = 200
# They would change what an interpreter is that is only meant to install, and let packages elsewhere count as its own.
_NOT_PASSED_ON = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONSAFEPATH", "PYTHONPLATLIBDIR")
_OF_UV = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_CONFIG_FILE")
# pip itself never starts a program to install a wheel; it does to build one, and for git. Old syntax: any Python runs
# this. The loader of musl is asked for its version by pip's own code.
_NO_PROGRAM = Path(__file__).with_name("no_program.py.txt").read_text(encoding="utf-8")
_OTHER_MARKERS = Path(__file__).with_name("other_markers.py.txt").read_text(encoding="utf-8")
# A dry run reads what a wheel says of itself and fetches none whole, which pip else does at its end, to have a report.
_BY_METADATA = Path(__file__).with_name("by_metadata.py.txt").read_text(encoding="utf-8")
REFUSED = "no program is started while wheels of strangers are installed"


@dataclass(frozen=True, kw_only=True)
class PipSettings:
    """``index`` is None with ``--no-index`` or where no pip answers; ``extra`` and ``links`` come after it.
    ``index_was_told``: by a setting or a variable; else it is pip's own default."""

    index: str | None = None
    index_was_told: bool = False
    no_index: bool = False
    extra: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    certificates: str | None = None


def read_pip_settings(host: Host) -> PipSettings:
    """What our own ``pip install`` would use."""
    listed = host.run([sys.executable, "-m", "pip", "config", "list"], timeout=20)
    values: dict[str, str] = {}
    # `pip config list` prints key='value'; sections global, install, download and :env: in rising order here.
    order = ("global", "install", "download", ":env:")
    rows = re.findall(rf"^({'|'.join(order)})\.([^=\n]*)=(.*)$", listed.out, re.MULTILINE)
    for _, name, shown in sorted(rows, key=lambda row: order.index(row[0])):
        try:
            values[name] = str(ast.literal_eval(shown))
        except (ValueError, SyntaxError):
            values[name] = shown.strip("'\"")
    index = values.get("index-url") or host.env.get("UV_DEFAULT_INDEX")
    told = index is not None
    if index is None:
        reply = host.run([sys.executable, "-c", _DEFAULT], timeout=20)
        index = reply.out.strip() or None if reply.ok else None
    if no_index := values.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        index, told = None, False
    extra, links = (tuple(values.get(name, "").split()) for name in ("extra-index-url", "find-links"))
    cert = values.get("cert")
    return PipSettings(index=index, index_was_told=told, no_index=no_index, extra=extra, links=links, certificates=cert)


@dataclass(frozen=True, kw_only=True)
class Installer:
    """``uv`` is its path where uv is to install; ``links`` are pages and folders of files looked through besides,
    ``indexes`` whole indexes; ``offline`` asks none; ``wheels_only`` builds nothing, and pip can start no program."""

    uv: str | None = None
    links: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    offline: bool = False
    wheels_only: bool = False

    @property
    def name(self) -> str:
        """What a person calls it."""
        return "uv" if self.uv else "pip"

    @property
    def places(self) -> list[str]:
        """The words about where to look that every call gets."""
        indexes = [] if self.offline else _words("--extra-index-url", self.indexes)
        return [*(["--no-index"] if self.offline else []), *indexes, *_words("-f", self.links)]

    def command(self, host: Host, python: str, words: Sequence[str]) -> list[str]:
        """The call that installs what the words name into that Python."""
        binary = ["--only-binary", ":all:"] if self.wheels_only else []
        if self.uv:
            places = [] if self.offline or "--index-url" in words else _pip_places(host)
            return [self.uv, "pip", "install", "--no-progress", "--python", python, *binary, *places, *words]
        if not self.wheels_only:
            return [*pip_of(host, python), "install", *_QUIETLY, *words]
        # In the interpreter itself, so that it starts no program: whoever asks for it, nothing can be built.
        runner = "" if _pip_answers(host, [python, "-m", "pip"]) else our_pip_runner()
        pip = [python, "-I", "-c", _NO_PROGRAM.replace("REFUSED", REFUSED), runner]
        return [*pip, "install", *_QUIETLY, *binary, *words]


def choose_installer(name: str | None, *, links: Sequence[str] = (), offline: bool = False) -> Installer:
    """``pip`` unless uv was asked for."""
    if name not in (None, "pip", "uv"):
        raise BadInput(f"--installer {name}: there is no such installer here", remedy="pip or uv")
    uv = None
    if name == "uv" and (uv := shutil.which("uv")) is None:
        raise MissingTool("uv is not on PATH", remedy="pip install uv, or leave --installer uv out")
    return Installer(uv=uv, links=tuple(links), offline=offline)


def quickest_installer(host: Host, *, links: Sequence[str] = (), wheels_only: bool = False) -> Installer:
    """uv where there is one: for an environment that is thrown away."""
    whole = (str(Path(place).absolute()) if Path(place).exists() else place for place in links)
    return Installer(uv=host.which("uv"), links=tuple(whole), wheels_only=wheels_only)


def pip_of(host: Host, python: str) -> list[str]:
    """The pip that serves an interpreter. An environment of uv's has none of its own: then ours does it."""
    own = [python, "-m", "pip"]
    ours = [sys.executable, "-m", "pip", "--python", python]
    return ours if not _pip_answers(host, own) and _pip_answers(host, ours) else own


def our_pip_without_programs(markers: Mapping[str, str] | None = None) -> list[str]:
    """The pip beside us, for files that go into a folder. ``markers`` (``sys_platform`` and such) are of another
    machine: pip alone would ask this one which dependencies a platform needs, whatever ``--platform`` says."""
    answer = "" if markers is None else _OTHER_MARKERS.replace("TOLD", repr(dict(markers))) + _BY_METADATA
    return [sys.executable, "-I", "-c", answer + _NO_PROGRAM.replace("REFUSED", REFUSED), ""]


def pip_by_metadata(python: str) -> list[str]:
    """An interpreter's pip for dry runs, which reads wheels' metadata alone; it fails where that pip differs inside."""
    run = 'import runpy\nrunpy.run_module("pip", run_name="__main__", alter_sys=True)'
    return [python, "-c", f"import sys\nsys.path[:] = [path for path in sys.path if path]{_BY_METADATA}{run}"]


def our_pip_serves(release: tuple[int, int]) -> bool:
    """Can the pip beside us run in a Python of that release?"""
    if not our_pip_runner():
        return False
    requires = importlib.metadata.metadata("pip").json.get("requires_python")
    return SpecifierSet(str(requires or "")).contains(f"{release[0]}.{release[1]}.99")


@functools.cache
def our_pip_runner() -> str:
    """The file by which pip (from 22.2 on) runs in another Python; empty where we have no such pip."""
    spec = importlib.util.find_spec("pip")
    file = Path(spec.origin).with_name("__pip-runner__.py") if spec is not None and spec.origin else None
    return str(file) if file is not None and file.is_file() else ""


def _pip_answers(host: Host, pip: Sequence[str]) -> bool:
    return host.run([*pip, "--version"], timeout=60.0).ok


def _pip_places(host: Host) -> list[str]:
    """Where pip was told to look: uv reads none of pip's settings. What uv was told itself counts more."""
    if any(host.env.get(name) for name in _OF_UV):
        return []
    settings = read_pip_settings(host)
    links = _words("--find-links", settings.links)
    if settings.no_index:
        return ["--no-index", *links]
    told = [settings.index] if settings.index and settings.index_was_told else []
    # As pip takes them: the best of all, not the first that has the name.
    strategy = ["--index-strategy", "unsafe-best-match"] if settings.extra else []
    return [*_words("--default-index", told), *_words("--index", settings.extra), *strategy, *links]


def _words(option: str, values: Iterable[str]) -> list[str]:
    """The option once for each value."""
    return [word for value in values for word in (option, value)]


@dataclass(frozen=True, kw_only=True)
class InstallerRun:
    """How a call of an installer ended; ``lines`` are the last it printed. ``code`` is None where it took too long."""

    argv: tuple[str, ...]
    code: int | None
    lines: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def reason(self) -> str:
        """One line that says why: pip's last ERROR, uv's whole sentence, which it draws over several lines, or the last
        line that speaks of an error."""
        if errors := [line for line in self.lines if line.startswith("ERROR:")]:
            # A trouble that pip does not know itself is followed by a traceback, whose last line names it.
            return (self.lines if errors[-1].strip() == "ERROR: Exception:" else errors)[-1].strip()
        for number, line in enumerate(self.lines):
            if line.lstrip().lower().startswith(("error", "×")):
                return " ".join(line.strip(" ×╰╭│─▶├└→") for line in self.lines[number:])[:400]
        telling = [line for line in self.lines if "error" in line.lower()] or self.lines or ["it said nothing"]
        return telling[-1].strip()

    @property
    def remedy(self) -> str | None:
        """What is known to help; None where it is not one of the usual troubles."""
        if gave_up_waiting(self.lines):
            return WAIT_LONGER
        rows = read_beside(__file__, "troubles.toml", dict[str, list[dict[str, str]]])["trouble"]
        row = next((row for row in rows if re.search(row["pattern"], " ".join(self.lines))), {})
        return (row.get("windows") if os.name == "nt" else None) or row.get("remedy")


class _TooLong(Exception):
    """It did not end in the time it had."""


def run_installer(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] = lambda line: None,
    on_slow: Callable[[str], None] | None = None,
    seconds: float | None = None,
) -> InstallerRun:
    """Run an installer to its end, and once more with patience where it gave up waiting for an index. ``on_slow``
    (default: ``on_line``) hears of the second try. Variables that would change its Python are left out."""
    clean = {name: value for name, value in (env or os.environ).items() if name not in _NOT_PASSED_ON}
    last: deque[str] = deque(maxlen=_KEEP_LAST)
    deadline = time.monotonic() + (seconds or math.inf)

    def keep(line: str) -> None:
        if line.strip():
            last.append(line)
        on_line(line)

    def look_at_clock(_running: Running) -> None:
        if time.monotonic() > deadline:
            raise _TooLong

    try:
        while code := run_long(argv, cwd=cwd, env=clean, on_line=keep, tick=look_at_clock):
            # Once more only, and not where it was told how long to wait.
            if not gave_up_waiting(last) or any(name in clean for name in _WAITS):
                break
            clean |= dict.fromkeys(_WAITS, PATIENCE)
            (on_slow or on_line)(SLOW_INDEX)
            last.clear()
    except _TooLong:
        return InstallerRun(argv=tuple(argv), code=None, lines=(*last, f"no end within {seconds:.0f} s"))
    return InstallerRun(argv=tuple(argv), code=code, lines=tuple(last))


def telling_lines(text: str) -> list[str]:
    """The lines with its errors, or all that say anything where none is marked so; empty where it said nothing."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [line.removeprefix("ERROR: ") for line in lines if "ERROR" in line] or lines


def gave_up_waiting(lines: Iterable[str]) -> bool:
    """Was an answer of the index awaited in vain? A mirror that first fetches a torch itself takes longer than pip's 15
    seconds, and pip's own repetitions wait no longer than that."""
    return any(words in line.lower() for line in lines for words in _GAVE_UP)
