"""Takes out of text what tells who and where, and what opens doors: names, serials, addresses, tokens, passwords.

The one redactor: captures, bug reports, saved logs, crash reports and pages all pass through it.

The same word always becomes the same substitute, so that paths still match each other in a capture.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from rekindle.host.capture import Record

_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_HEX = r"[0-9a-fA-F]{1,4}"
_KEYS = r"api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|token|passw(?:or)?d|passphrase|secret|credential"
# Bounded, because lines of logs can be endless.
_NAMED = rf"[\w-]{{0,60}}(?:{_KEYS})[\w-]{{0,40}}"
_QUERY = r"token|sig|signature|key|password|access_token|x-amz-[a-z-]+"
_PREFIXES = (
    r"hf|gh[opusr]|github_pat|glpat|gldt|glrt|npm|dckr_pat|sk|rk|pk|xox[abeprs]|pypi|shpat|dop_v1|tskey|wandb_v1"
)
_PRIVATE = r"10\.{0}|192\.168|172\.(?:1[6-9]|2\d|3[01])|169\.254|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])"
# A dotted number after one of these is a version (cuDNN 8.9.7.29), not an address.
_VERSIONED = "".join(f"(?<!{word} )" for word in ("version", "cudnn", "nccl", "driver", "cuda", "torch", "cutlass"))

_TOKEN, _ADDRESS = "redacted-token", "redacted-address"

_IN_ADDRESS = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,20}://)[^/\s@'\"]{1,400}@")


def _compiled(*rules: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), new) for pattern, new in rules)


SECRETS = _compiled(
    (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", "redacted-key"),
    (_IN_ADDRESS.pattern, r"\1redacted@"),
    (rf"(?i)([?&](?:{_QUERY})=)[^&\s'\"]+", r"\1redacted"),
    (r"(?i)\b(hooks\.slack\.com/(?:services|workflows)/)\S+", r"\1redacted"),
    (r"(?i)\b(discord(?:app)?\.com/api/(?:v\d+/)?webhooks/)\S+", r"\1redacted"),
    (r"(/t/)[A-Za-z0-9][\w-]{7,200}(?=/)", r"\1redacted"),  # a conda channel's token
    (r"(?<![\w-])((?:-u|--user|--proxy-user)[ =]?['\"]?(?!\d+:\d+\b)[^\s:'\"/]{1,100}:)[^\s'\"]+", r"\1redacted"),
    (r"(\bsshpass\s+(?:-\S+\s+){0,5}-p\s*)\S+", r"\1redacted"),
    (r"(?i)(\\?\"(?:auth|identitytoken|registrytoken)\\?\"\s{0,8}:\s{0,8}\\?\")[^\"\\]{4,}", r"\1redacted"),
    (r"(?<![\w.])(?:hv[sbr]|s|b|r)\.[A-Za-z0-9_-]{24,}(?![\w.])", _TOKEN),  # Vault
    (r"\bSG\.[\w-]{16,}\.[\w-]{16,}", _TOKEN),  # SendGrid
    (r"\bdapi[0-9a-f]{32}(?:-\d+)?\b", _TOKEN),  # Databricks
    (r"(?<![\w.-])[MNO][A-Za-z0-9_-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w.-])", _TOKEN),  # Discord
    (r"\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?", _TOKEN),
    (r"(?i)\b((?:proxy-)?authorization\s*[:=]\s*['\"]?)(?:(?:basic|bearer|token|digest)\s+)?[^\s'\"]+", r"\1redacted"),
    (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}", r"\1 redacted"),
    (r"(?i)\b((?:set-)?cookie\s*:\s*)\S.*", r"\1redacted"),
    # Quotes may be escaped: JSON inside JSON, a shell line inside a log.
    (rf"(?i)((?<![\w-]){_NAMED}\\?['\"]?\s{{0,8}}(?:=|:(?!:))\s{{0,8}}\\?['\"]?)[^\s'\",;\\]+", r"\1redacted"),
    (rf"(?i)(?<![\w-])(--?{_NAMED}\s+)[^\s-]\S*", r"\1redacted"),
    (r"(?i)\b(machine\s+\S+\s+login\s+)\S+(\s+password\s+)\S+", r"\1redacted\2redacted"),
    (rf"\b(?:{_PREFIXES})[-_][A-Za-z0-9_-]{{12,}}", _TOKEN),
    (r"\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{12,}\b", _TOKEN),
    (r"\bAIza[\w-]{30,}", _TOKEN),
    (r"(?i)\b(serial(?: ?(?:number|no\.?))?\s*[:=#]\s*)(?!N/A|not |\[|0\b|redacted)[\w-]+", r"\1redacted"),
    (rf"\b(?:{_PRIVATE.format(_OCTET)})\.{_OCTET}\.{_OCTET}\b(?![.\w])", _ADDRESS),
    (
        rf"(?i)(?<![\w.=<>~+-]){_VERSIONED}(?!127\.0\.0\.1\b|0\.0\.0\.0\b){_OCTET}(?:\.{_OCTET}){{3}}\b(?![.\w-])",
        _ADDRESS,
    ),
    (rf"(?<![\w:.])(?:{_HEX}:){{7}}{_HEX}(?![\w:])", _ADDRESS),
    (rf"(?<![\w:.])[0-9a-fA-F]{{4}}(?::{_HEX}){{0,6}}::(?:{_HEX}(?::{_HEX}){{0,6}})?(?:%\w+)?(?![\w:])", _ADDRESS),
    (r"(?<![\w.+-])([\w.-]{1,64})@([\w.-]{1,64})(?=[:~$#])", "user@host"),
)

USER = "user"
# Names that say nothing about a person, or that are also words tools use.
_COMMON = {
    *("root", "user", "admin", "administrator", "ubuntu", "debian", "fedora", "vagrant", "runner", "public", "default"),
    *("python", "python3", "cuda", "rocm", "nvidia", "conda", "build", "localhost", "host", "linux", "windows", "home"),
}

_RULES = _compiled(
    (r"(?<![\w/])/home/(?!user\b)[^/\s:;'\"]+", f"/home/{USER}"),
    (r"(?<![\w/])/Users/(?!user\b|Shared\b)[^/\s:;'\"]+", f"/Users/{USER}"),
    (r"(?i)\b([A-Z]:\\{1,2}Users\\{1,2})(?!user\b|public\b|default\b)[^\\/:;'\"\n]+", rf"\g<1>{USER}"),
    (r"\b(GPU|MIG)-[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", r"\1-redacted"),
    (r"\bGPU-[0-9a-f]{16}\b", "GPU-redacted"),
    (
        r"(?im)^(\s*(?:[\w .-]*serial(?:[ _]number)?|(?:gpu )?uuid|pdi|unique_id)\s*"
        r"(?:[:=]|(?<=unique_id) )\s*)(?!N/A|not |\[|0\b|[CG]PU-)[^\s:=]\S*",
        r"\1redacted",
    ),
    (r"(?i)(<(?:\w*serial\w*|uuid|pdi|chassis_serial_number|gpu_fabric_guid|module_id)>)[^<]*(</)", r"\1redacted\2"),
    (r"\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b", "00:00:00:00:00:00"),
    (r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}\b", "someone@example.invalid"),
    (r"\b(?:[0-9a-f]{64}|[0-9a-f]{32})\b", "redacted-id"),
)


# A page keeps digests and paths: it holds what to compare and the commands to copy. The rest must not be on it either.
_ON_PAGES = _RULES[3:-1]


def without_secrets(value: Any) -> Any:
    """What a page shows of a value: text without tokens, passwords, addresses, serial numbers; the rest as it is.

    Made to be the ``finalize`` of a template's environment, so that nothing comes onto a page past it.
    """
    if type(value) is not str:
        return value
    for pattern, new in (*SECRETS, *_ON_PAGES):
        value = pattern.sub(new, value)
    return value


def without_password(text: str) -> str:
    """Addresses without who may enter: ``https://user:password@host`` is shown as ``https://redacted@host``."""
    return _IN_ADDRESS.sub(r"\1redacted@", text)


def all_without_secrets(value: Any) -> Any:
    """The same for all text in lists and mappings; what a mapping calls a token is one, whatever it looks like."""
    if isinstance(value, Mapping):
        named = {name: f"{name}={one}" if isinstance(one, str) else one for name, one in value.items()}
        clean = {name: all_without_secrets(one) for name, one in named.items()}
        return {name: one.removeprefix(f"{name}=") if isinstance(one, str) else one for name, one in clean.items()}
    if isinstance(value, list | tuple):
        return [all_without_secrets(one) for one in value]
    return without_secrets(value)


class Redactor:
    """Knows who must not be named: the user, the home directory, the host."""

    def __init__(self, *, user: str = "", home: str = "", host: str = "") -> None:
        self._literal: list[tuple[str, str]] = []
        if len(home) > 3 and home != "/root":
            substitute = rf"C:\Users\{USER}" if "\\" in home else f"/home/{USER}"
            self._literal.append((home.rstrip("/\\"), substitute))
        self._words = [
            (re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE), substitute)
            for name, substitute in ((host, "host"), (host.partition(".")[0], "host"), (user, USER))
            if len(name) >= 3 and name.lower() not in _COMMON
        ]

    def text(self, text: str) -> str:
        for old, new in self._literal:
            text = text.replace(old, new)
        for pattern, new in (*SECRETS, *_RULES):
            text = pattern.sub(new, text)
        for pattern, new in self._words:
            text = pattern.sub(new, text)
        return text

    def data(self, raw: bytes) -> bytes:
        # Latin-1 keeps every byte as it is, and everything the rules look for is ASCII.
        try:
            return self.text(raw.decode("utf-8")).encode("utf-8")
        except UnicodeDecodeError:
            return self.text(raw.decode("latin-1")).encode("latin-1", "replace")

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(inner) for inner in value]
        return value

    def record(self, record: Record) -> Record:
        """The whole record, redacted in names and contents alike."""
        bare = replace(record, files={}, env={}, cpuid=None)
        clean: Record = msgspec.convert(self.value(msgspec.to_builtins(bare)), Record)
        clean.cpuid = record.cpuid
        # By its name too: a token alone looks like nothing.
        clean.env = {name: self.text(f"{name}={value}").partition("=")[2] for name, value in record.env.items()}
        clean.files = {
            self.text(path): None if raw is None else self.data(_less(path, raw)) for path, raw in record.files.items()
        }
        return clean


def _less(path: str, raw: bytes) -> bytes:
    """The list of mounts names private places; only the control groups in it are anybody's business."""
    if path != "/proc/self/mountinfo":
        return raw
    return b"".join(line for line in raw.splitlines(keepends=True) if b" - cgroup" in line)


def redactor_for(env: Mapping[str, str], host_name: str) -> Redactor:
    """For the person who runs this."""
    home = env.get("HOME") or env.get("USERPROFILE") or ""
    return Redactor(user=env.get("USER") or env.get("USERNAME") or "", home=home, host=host_name)


def redactor_here() -> Redactor:
    """For the person who runs this process."""
    import getpass
    import os
    import platform
    from pathlib import Path

    try:
        user, home = getpass.getuser(), str(Path.home())
    except (OSError, KeyError, RuntimeError, ImportError):
        user, home = os.environ.get("USER", ""), os.environ.get("HOME", "")
    return Redactor(user=user, home=home, host=platform.node())
