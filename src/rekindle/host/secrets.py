"""What secrets and addresses look like in text, and what stands there instead. Used by the one redactor only."""

from __future__ import annotations

import re

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

SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S), "redacted-key"),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,20}://)[^/\s@'\"]{1,400}@"), r"\1redacted@"),
    (re.compile(rf"(?i)([?&](?:{_QUERY})=)[^&\s'\"]+"), r"\1redacted"),
    (re.compile(r"(?i)\b(hooks\.slack\.com/(?:services|workflows)/)\S+"), r"\1redacted"),
    (re.compile(r"(?i)\b(discord(?:app)?\.com/api/(?:v\d+/)?webhooks/)\S+"), r"\1redacted"),
    (re.compile(r"(/t/)[A-Za-z0-9][\w-]{7,200}(?=/)"), r"\1redacted"),  # a conda channel's token
    (
        re.compile(r"(?<![\w-])((?:-u|--user|--proxy-user)[ =]?['\"]?(?!\d+:\d+\b)[^\s:'\"/]{1,100}:)[^\s'\"]+"),
        r"\1redacted",
    ),
    (re.compile(r"(\bsshpass\s+(?:-\S+\s+){0,5}-p\s*)\S+"), r"\1redacted"),
    (re.compile(r"(?i)(\\?\"(?:auth|identitytoken|registrytoken)\\?\"\s{0,8}:\s{0,8}\\?\")[^\"\\]{4,}"), r"\1redacted"),
    (re.compile(r"(?<![\w.])(?:hv[sbr]|s|b|r)\.[A-Za-z0-9_-]{24,}(?![\w.])"), _TOKEN),  # Vault
    (re.compile(r"\bSG\.[\w-]{16,}\.[\w-]{16,}"), _TOKEN),  # SendGrid
    (re.compile(r"\bdapi[0-9a-f]{32}(?:-\d+)?\b"), _TOKEN),  # Databricks
    (re.compile(r"(?<![\w.-])[MNO][A-Za-z0-9_-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w.-])"), _TOKEN),  # Discord
    (re.compile(r"\beyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)?"), _TOKEN),
    (
        re.compile(r"(?i)\b((?:proxy-)?authorization\s*[:=]\s*['\"]?)(?:(?:basic|bearer|token|digest)\s+)?[^\s'\"]+"),
        r"\1redacted",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}"), r"\1 redacted"),
    (re.compile(r"(?i)\b((?:set-)?cookie\s*:\s*)\S.*"), r"\1redacted"),
    # Quotes may be escaped: JSON inside JSON, a shell line inside a log.
    (
        re.compile(rf"(?i)((?<![\w-]){_NAMED}\\?['\"]?\s{{0,8}}(?:=|:(?!:))\s{{0,8}}\\?['\"]?)[^\s'\",;\\]+"),
        r"\1redacted",
    ),
    (re.compile(rf"(?i)(?<![\w-])(--?{_NAMED}\s+)[^\s-]\S*"), r"\1redacted"),
    (re.compile(r"(?i)\b(machine\s+\S+\s+login\s+)\S+(\s+password\s+)\S+"), r"\1redacted\2redacted"),
    (re.compile(rf"\b(?:{_PREFIXES})[-_][A-Za-z0-9_-]{{12,}}"), _TOKEN),
    (re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{12,}\b"), _TOKEN),
    (re.compile(r"\bAIza[\w-]{30,}"), _TOKEN),
    (re.compile(r"(?i)\b(serial(?: ?(?:number|no\.?))?\s*[:=#]\s*)(?!N/A|not |\[|0\b|redacted)[\w-]+"), r"\1redacted"),
    (re.compile(rf"\b(?:{_PRIVATE.format(_OCTET)})\.{_OCTET}\.{_OCTET}\b(?![.\w])"), _ADDRESS),
    (
        re.compile(
            rf"(?i)(?<![\w.=<>~+-]){_VERSIONED}(?!127\.0\.0\.1\b|0\.0\.0\.0\b){_OCTET}(?:\.{_OCTET}){{3}}\b(?![.\w-])"
        ),
        _ADDRESS,
    ),
    (re.compile(rf"(?<![\w:.])(?:{_HEX}:){{7}}{_HEX}(?![\w:])"), _ADDRESS),
    (
        re.compile(rf"(?<![\w:.])[0-9a-fA-F]{{4}}(?::{_HEX}){{0,6}}::(?:{_HEX}(?::{_HEX}){{0,6}})?(?:%\w+)?(?![\w:])"),
        _ADDRESS,
    ),
    (re.compile(r"(?<![\w.+-])([\w.-]{1,64})@([\w.-]{1,64})(?=[:~$#])"), "user@host"),
)
