"""What every document shares: strictness, the schema number, and its JSON form. ``Document`` is the base of every value
that is written to disk or printed with ``--json``; ``Part`` is the base of the values inside one. Custom types
(architectures, versions) are strings in JSON."""

import codecs
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from rekindle.errors import BadInput, reading
from rekindle.model.arch import GpuArch, parse_gpu_arch

# Control characters, lone surrogates, the line and paragraph separators that YAML takes for line ends, and the marks
# that make text read in another order than it is written (CVE-2021-42574).
_PLAIN = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
_WORDS: dict[str, str] = {}
SCHEMA = 1
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
D = TypeVar("D")


def _kind(words: str, pattern: str, max_length: int) -> Meta:
    _WORDS[pattern] = words
    return Meta(pattern=pattern, max_length=max_length)


def in_words(message: str) -> str:
    """msgspec's complaint about a pattern, for people."""
    for pattern, words in _WORDS.items():
        message = message.replace(f"Expected `str` matching regex {pattern!r}", f"expected {words}")
    return message


Line = Annotated[str, _kind("one line of text without control characters", rf"\A{_PLAIN}*\Z", 20_000)]
ShortLine = Annotated[str, _kind("a line of at most 300 signs", rf"\A{_PLAIN}{{0,300}}\Z", 300)]
Name = Annotated[str, _kind("a name (letters, digits, dots, dashes)", r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z", 100)]
VersionText = Annotated[str, _kind("a version", r"\Av?[0-9][A-Za-z0-9.+!_-]*\Z", 64)]
# ``cu128``, ``rocm6.2``, ``cpu``, ``sm_86``, ``12.0+PTX``, ``gfx90a:xnack-``
Tag = Annotated[str, _kind("a short tag such as cu128 or 9.0", r"\A[A-Za-z0-9][A-Za-z0-9.+:_-]*\Z", 64)]
EnvName = Annotated[str, _kind("the name of a variable", r"\A[A-Za-z_][A-Za-z0-9_]*\Z", 200)]
CMakeName = Annotated[str, _kind("the name of a CMake setting", r"\A[A-Za-z0-9_./+-]+\Z", 200)]
# What may follow a package's name: nothing, a version, or conditions of PEP 440. No address, no option, no marker.
_CONDITION = r"(?:===?|~=|!=|<=?|>=?) *[A-Za-z0-9.*+!_-]+"
Specifier = Annotated[
    str,
    _kind("versions such as >=1.26,<2", rf"\A(?:[0-9][A-Za-z0-9.*+!_-]*|{_CONDITION}(?: *, *{_CONDITION})*)?\Z", 200),
]
Address = Annotated[str, _kind("an address (https://…)", rf"\A(?:https?|file)://(?:(?!\s){_PLAIN})+\Z", 2000)]
# Where a file lies: an address or a path, never something that a program would take for an option.
Place = Annotated[str, _kind("an address or a path", rf"\A(?!-){_PLAIN}+\Z", 5000)]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value inside a document."""


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that stands alone as JSON."""

    schema: int = SCHEMA
    # What a notebook shows: rendering lies above this room, and the api sets it. None: its plain form.
    _repr_html_: ClassVar[Any] = None


def shared_fields(source: Any, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """What ``source`` knows of the fields of ``kind``, by their names: to make the one from the other."""
    return {name: getattr(source, name) for name in kind.__struct_fields__ if hasattr(source, name)}


def json_form(value: Any) -> Any:
    """As documents write a value that JSON has no form for: architectures and paths by their text."""
    if isinstance(value, (GpuArch, Path)):
        return str(value)
    raise NotImplementedError(f"no JSON form for {type(value).__name__}")


def _from_json(kind: type, value: Any) -> Any:
    if issubclass(kind, GpuArch):
        return parse_gpu_arch(value)
    if issubclass(kind, Path):
        return Path(value)
    raise NotImplementedError(f"no JSON form for {kind.__name__}")


def encode(document: Any) -> bytes:
    """The JSON form of a document, ending in a newline."""
    try:
        raw = msgspec.json.encode(document, enc_hook=json_form)
    except UnicodeEncodeError:
        # A file name that is no text in this locale: shown by its bytes, as everywhere else.
        raw = msgspec.json.encode(_as_text(msgspec.to_builtins(document, enc_hook=json_form)))
    return msgspec.json.format(raw, indent=2) + b"\n"


def _as_text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_as_text(name): _as_text(part) for name, part in value.items()}
    return [_as_text(part) for part in value] if isinstance(value, list | tuple) else value


def decode(raw: bytes, kind: type[D], *, origin: str = "input") -> D:
    """Read a document; anything wrong with it is a :class:`BadInput` that names the place."""
    try:
        return msgspec.json.decode(plain_utf8(raw), type=kind, dec_hook=_from_json)
    except (msgspec.ValidationError, msgspec.DecodeError, ValueError) as error:
        raise BadInput(f"{origin} is not a valid {kind.__name__.lower()} document: {in_words(str(error))}") from error


def plain_utf8(raw: bytes) -> bytes:
    """What Windows PowerShell's ``>`` writes is UTF-16 with a mark, what Notepad saves may be UTF-8 with one."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16").encode("utf-8")
    return raw.removeprefix(codecs.BOM_UTF8)


def load(path: Path, kind: type[D]) -> D:
    """Read a document from a file of bounded size."""
    return decode(read_bounded(path, MAX_DOCUMENT_BYTES, "document"), kind, origin=str(path))


def load_kept(path: Path, kind: type[D]) -> D | None:
    """What we noted in a file to save time; None where it is gone or damaged: it can be found out again."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind, dec_hook=_from_json)
    except (OSError, msgspec.MsgspecError, ValueError):
        return None


def read_bounded(path: Path, limit: int, what: str, *, remedy: str | None = None) -> bytes:
    """A file that a user names, read whole: more bytes than a ``what`` of ours can have are an error, not memory."""
    with reading(path, remedy=remedy), path.open("rb") as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise BadInput(f"{path} is larger than {limit >> 20} MiB, so it is no {what} of ours")
    return raw
