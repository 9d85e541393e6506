"""A capture: a directory whose ``*.toml`` files hold everything a machine answered; and the machine replayed from it.
``capture.toml`` is what ``doctor --capture`` writes. A capture may also be written by hand from documented tool output;
``[about]`` then says so and names the sources. Long files may lie beside it, named by ``[[file]]`` entries."""

import base64
import fnmatch
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from rekindle.errors import BadInput, reading
from rekindle.host.protocol import Completed, Cpuid, Disk, Memory, RegistryKey
from rekindle.model.toml import render_table, toml_key

SCHEMA = 1
_MAX_BYTES = 16 << 20
_SLASHES = re.compile(r"[/\\]")
_TABLES_BY_PLACE = ("disks", "pythons", "torches", "registry")
_TABLES = ("about", "env", "programs", "links", "access", "memory", "disks", "cpuid", "nvml", *_TABLES_BY_PLACE[1:])


class Record(msgspec.Struct, kw_only=True):
    """Everything a machine answered, by question. ``None`` as a value means: asked, and there was nothing."""

    system: str = "linux"
    machine: str = ""
    about: dict[str, Any] = msgspec.field(default_factory=dict)
    runs: list[Completed] = msgspec.field(default_factory=list)
    files: dict[str, bytes | None] = msgspec.field(default_factory=dict)
    paths: dict[str, None] = msgspec.field(default_factory=dict)
    programs: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    links: dict[str, str] = msgspec.field(default_factory=dict)
    env: dict[str, str] = msgspec.field(default_factory=dict)
    disks: dict[str, Disk | None] = msgspec.field(default_factory=dict)
    registry: dict[str, RegistryKey | None] = msgspec.field(default_factory=dict)
    pythons: dict[str, Mapping[str, Any] | None] = msgspec.field(default_factory=dict)
    torches: dict[str, Mapping[str, Any] | None] = msgspec.field(default_factory=dict)
    access: dict[str, bool | None] = msgspec.field(default_factory=dict)
    hwcap: tuple[int, int] | None = None
    cores: int | None = None
    memory: Memory | None = None
    cpuid: Cpuid | None = None
    nvml: Mapping[str, Any] | None = None


def join_records(records: Iterable[Record]) -> Record:
    """One record of all probes; where two asked the same, the later answer stands, of commands the first."""
    whole = Record()
    runs: dict[tuple[str, ...], Completed] = {}
    for record in records:
        if record.machine:
            whole.system, whole.machine = record.system, record.machine
        for run in list(record.runs):
            runs.setdefault(run.argv, run)
        for name in Record.__struct_fields__:
            answers, known = getattr(record, name), getattr(whole, name)
            if isinstance(known, dict) and name != "nvml":
                known.update(dict(answers))
            elif name in ("cores", "hwcap", "memory", "cpuid", "nvml"):
                setattr(whole, name, answers or known)
    whole.runs = list(runs.values())
    return whole


def render_capture(record: Record) -> str:
    """The text of a ``capture.toml``; the record is already redacted."""
    head = {name: getattr(record, name) for name in ("system", "machine", "cores", "hwcap")}
    parts = [render_table({"schema": SCHEMA, **head, "paths": sorted(record.paths) or None})]
    plain = msgspec.to_builtins(replace(record, cpuid=None, files={}))
    plain["programs"] = {name: places for name, places in plain["programs"].items() if places}
    if record.cpuid:
        leaves = [[*where, *registers] for where, registers in record.cpuid.leaves.items()]
        plain["cpuid"] = {"xcr0": record.cpuid.xcr0, "leaves": leaves}
    for name in _TABLES:
        by_place = {f"{name}.{toml_key(path)}": answer for path, answer in (plain[name] or {}).items()}
        tables = by_place if name in _TABLES_BY_PLACE else {name: plain[name]}
        parts += [f"\n[{title}]\n{render_table(values)}" for title, values in tables.items() if values]
    for run in record.runs:
        outcome = {"argv": list(run.argv), "code": run.code, "timed_out": run.timed_out or None}
        parts.append(f"\n[[run]]\n{render_table({**outcome, 'out': run.out or None, 'err': run.err or None})}")
    for path, raw in record.files.items():
        if raw is not None:
            try:
                content = {"text": raw.decode("utf-8")}
            except UnicodeDecodeError:
                content = {"base64": base64.b64encode(raw).decode("ascii")}
            parts.append(f"\n[[file]]\n{render_table({'path': path, **content})}")
    return "".join(parts)


def read_capture(directory: Path) -> Record:
    """Read every ``*.toml`` in the directory into one record; what is wrong with it is a BadInput."""
    sources = sorted(directory.glob("*.toml")) if directory.is_dir() else [directory]
    if not sources:
        raise BadInput(f"{directory} holds no capture", remedy="make one with 'rekindle doctor --capture DIR'")
    parts: list[Record] = []
    for source in sources:
        try:
            with reading(source):
                if source.stat().st_size > _MAX_BYTES:
                    raise BadInput(f"{source} is too large to be a capture")
                parts.append(_read_part(tomllib.loads(source.read_text(encoding="utf-8")), source.parent))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadInput(f"{source} is no capture: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"{source} is no capture: {type(error).__name__}: {error}") from error
    record = join_records(parts)
    if not record.machine:
        raise BadInput(f"{directory} is no capture: it does not say which machine it is of")
    return record


def _read_part(values: dict[str, Any], beside: Path) -> Record:
    if values.pop("schema", SCHEMA) != SCHEMA:
        raise ValueError(f"its schema is not {SCHEMA}; a newer Rekindle wrote it")
    files: dict[str, bytes | None] = {file["path"]: _read_content(file, beside) for file in values.pop("file", ())}
    paths = dict.fromkeys(values.pop("paths", ()))
    cpuid = values.pop("cpuid", None)
    part = msgspec.convert({**values, "runs": values.pop("run", [])}, Record)
    if cpuid is not None:
        leaves = {(leaf[0], leaf[1]): (leaf[2], leaf[3], leaf[4], leaf[5]) for leaf in cpuid["leaves"]}
        part.cpuid = Cpuid(leaves=leaves, xcr0=cpuid.get("xcr0"))
    part.files, part.paths = files, paths
    return part


def _read_content(file: Mapping[str, Any], beside: Path) -> bytes:
    if "text" in file:
        return str(file["text"]).encode("utf-8")
    if "base64" in file:
        return base64.b64decode(file["base64"], validate=True)
    name = str(file["from"])
    if Path(name).name != name:
        raise ValueError(f"{name!r} does not lie beside the capture")
    return (beside / name).read_bytes()


class RecordedHost:
    """Satisfies :class:`rekindle.host.protocol.Host`. What the capture does not hold, the machine does not have."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.system, self.machine = record.system, record.machine
        self.env: Mapping[str, str] = record.env
        self._runs = {run.argv: run for run in record.runs}
        self._by_name = {(_name(run.argv[0]), *run.argv[1:]): run for run in record.runs}
        self._files = {self._fold(path): raw for path, raw in record.files.items()}
        self._known: dict[str, str] = {}
        programs = (place for places in record.programs.values() for place in places)
        for path in (*record.paths, *record.files, *record.links, *programs):
            # Where a file is, its directories are too.
            while path and self._fold(path) not in self._known:
                self._known[self._fold(path)] = path
                path = path[: max(path.rfind("/"), path.rfind("\\"))] if _SLASHES.search(path) else ""

    def _fold(self, path: str) -> str:
        """Windows compares without case, and takes both slashes."""
        return path.replace("/", "\\").lower() if self.system == "windows" else path

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        """What was said then, also where the tool now has another path."""
        key = tuple(argv)
        recorded = self._runs.get(key) or self._by_name.get((_name(key[0]), *key[1:]))
        return recorded or Completed(argv=key, code=None, err="not in the capture")

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        raw = self._files.get(self._fold(path))
        return None if raw is None else raw[:limit]

    def glob(self, pattern: str) -> tuple[str, ...]:
        """As the shell matches, among all paths that the capture names."""
        patterns = _SLASHES.split(self._fold(pattern))
        if not any(mark in pattern for mark in "*?["):
            return (pattern,) if self._fold(pattern) in self._known else ()
        known = ((_SLASHES.split(folded), path) for folded, path in self._known.items())
        same_depth = ((parts, path) for parts, path in known if len(parts) == len(patterns))
        return tuple(sorted(path for parts, path in same_depth if all(map(_matches, parts, patterns))))

    def which(self, name: str) -> str | None:
        return next(iter(self.which_all(name)), None)

    def which_all(self, name: str) -> tuple[str, ...]:
        return self.glob(name) if _SLASHES.search(name) else self.record.programs.get(name, ())

    def realpath(self, path: str) -> str:
        """The path itself where no link was recorded."""
        return self.record.links.get(path, path)

    def access(self, path: str) -> bool | None:
        return self.record.access.get(path)

    def hwcap(self) -> tuple[int, int] | None:
        return self.record.hwcap

    def disk(self, path: str) -> Disk | None:
        """The nearest place that was asked about: a capture does not hold every directory of a machine."""
        near = [known for known in self.record.disks if self._fold(path).startswith(self._fold(known))]
        return self.record.disks[max(near, key=len)] if near else next(iter(self.record.disks.values()), None)

    def memory(self) -> Memory | None:
        return self.record.memory

    def cores(self) -> int | None:
        return self.record.cores

    def cpuid(self) -> Cpuid | None:
        return self.record.cpuid

    def registry(self, key: str) -> RegistryKey | None:
        return self.record.registry.get(key)

    def nvml(self, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        return self.record.nvml

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        return self.record.pythons.get(path)

    def torch(self, path: str, *, deep: bool = False, timeout: float = 6.0) -> Mapping[str, Any] | None:
        """The one answer that was recorded, deep or not."""
        return self.record.torches.get(path)


def _name(path: str) -> str:
    return _SLASHES.split(path)[-1].removesuffix(".exe")


def _matches(part: str, pattern: str) -> bool:
    # As the shell does: a star does not match a hidden name.
    return (pattern.startswith(".") or not part.startswith(".")) and fnmatch.fnmatchcase(part, pattern)
