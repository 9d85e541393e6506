"""Takes out of text what tells who and where, and what opens doors: names, serials, addresses, tokens, passwords. The
one redactor: captures, bug reports, saved logs, crash reports and pages all pass through it (``redact.toml``). The same
word always becomes the same substitute, so that paths still match each other in a capture."""

import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from rekindle.host.capture import Record
from rekindle.model.toml import read_beside

_PART = re.compile(r"<<(\w+)>>")
_TABLE = read_beside(__file__, "redact.toml", dict[str, Any])


def _compile_rules(rows: Iterable[Mapping[str, str]]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(_expand_parts(row["pattern"])), row["new"]) for row in rows)


def _expand_parts(pattern: str) -> str:
    return _PART.sub(lambda match: _expand_parts(_TABLE["parts"][match[1]]), pattern)


SECRETS = _compile_rules(_TABLE["secret"])
_IDENTITY = _compile_rules(_TABLE["identity"])
_ON_PAGES = SECRETS + _compile_rules(row for row in _TABLE["identity"] if row.get("on_pages", True))
_IN_ADDRESS = re.compile(_TABLE["parts"]["in_address"])
USER = "user"


def without_secrets(value: Any) -> Any:
    """What a page shows of a value: text without tokens, passwords, addresses, serial numbers; the rest as it is. Made
    to be the ``finalize`` of a template's environment, so that nothing comes onto a page past it."""
    if type(value) is not str:
        return value
    for pattern, new in _ON_PAGES:
        value = pattern.sub(new, value)
    return value


def fill_template(path: Path, **values: Any) -> str:
    """The markup of a template with its values: all are there, escaped, and without secrets."""
    # Late: most commands write no page, and jinja2 takes long to import.
    import jinja2

    template = jinja2.Template(
        path.read_text(encoding="utf-8"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=without_secrets,
    )
    return str(template.render(**values))


def without_password(text: str) -> str:
    """Addresses without who may enter: ``https://user:password@host`` is shown as ``https://redacted@host``."""
    return _IN_ADDRESS.sub(r"\1redacted@", text)


def all_without_secrets(value: Any) -> Any:
    """The same for all text in lists and mappings; what a mapping calls a token is one, whatever it looks like."""
    if isinstance(value, Mapping):
        named = {name: f"{name}={part}" if isinstance(part, str) else part for name, part in value.items()}
        clean = {name: all_without_secrets(part) for name, part in named.items()}
        return {name: part.removeprefix(f"{name}=") if isinstance(part, str) else part for name, part in clean.items()}
    return [all_without_secrets(part) for part in value] if isinstance(value, list | tuple) else without_secrets(value)


class Redactor:
    """Knows who must not be named: the user, the home directory, the host."""

    def __init__(self, *, user: str = "", home: str = "", host: str = "") -> None:
        # What says nothing about anybody stays as it is.
        self._home = home.rstrip("/\\") if len(home) > 3 and home != "/root" else ""
        self._words = [
            (re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE), substitute)
            for name, substitute in ((host, "host"), (host.partition(".")[0], "host"), (user, USER))
            if len(name) >= 3 and name.lower() not in _TABLE["common"]
        ]

    def text(self, text: str) -> str:
        """The home directory first, whole: its parts are words of their own."""
        if self._home:
            text = text.replace(self._home, rf"C:\Users\{USER}" if "\\" in self._home else f"/home/{USER}")
        for pattern, new in (*SECRETS, *_IDENTITY, *self._words):
            text = pattern.sub(new, text)
        return text

    def data(self, raw: bytes) -> bytes:
        """The same for the content of a file."""
        # Latin-1 keeps every byte as it is, and everything the rules look for is ASCII.
        try:
            return self.text(raw.decode("utf-8")).encode("utf-8")
        except UnicodeDecodeError:
            return self.text(raw.decode("latin-1")).encode("latin-1", "replace")

    def value(self, value: Any) -> Any:
        """The same for all text in lists and mappings, names included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(inner) for key, inner in value.items()}
        return [self.value(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    def record(self, record: Record) -> Record:
        """The whole record, redacted in names and contents alike."""
        bare = replace(record, files={}, env={}, cpuid=None)
        clean: Record = msgspec.convert(self.value(msgspec.to_builtins(bare)), Record)
        clean.cpuid = record.cpuid
        # By its name too: a token alone looks like nothing.
        clean.env = {name: self.text(f"{name}={value}").partition("=")[2] for name, value in record.env.items()}
        files = dict(record.files)
        if raw := files.get("/proc/self/mountinfo"):
            # The list of mounts names private places; only the control groups in it are anybody's business.
            kept = [line for line in raw.splitlines(keepends=True) if b" - cgroup" in line]
            files["/proc/self/mountinfo"] = b"".join(kept)
        clean.files = {self.text(path): None if raw is None else self.data(raw) for path, raw in files.items()}
        return clean


def redactor_for(env: Mapping[str, str], host_name: str) -> Redactor:
    """For the words of another machine, by its own variables."""
    home = env.get("HOME") or env.get("USERPROFILE") or ""
    return Redactor(user=env.get("USER") or env.get("USERNAME") or "", home=home, host=host_name)


def redactor_here() -> Redactor:
    """For the words of this machine."""
    import getpass

    try:
        user, home = getpass.getuser(), str(Path.home())
    except (OSError, KeyError, RuntimeError, ImportError):
        user, home = os.environ.get("USER", ""), os.environ.get("HOME", "")
    return Redactor(user=user, home=home, host=platform.node())
