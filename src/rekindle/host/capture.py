"""A capture: a directory whose ``*.toml`` files hold everything a machine answered.

``capture.toml`` is what ``doctor --capture`` writes. A capture may also be written by hand from documented
tool output; ``[about]`` then says so and names the sources. Long files may lie beside it: a ``[[file]]``
entry names its path on the machine and the file that holds it here.
"""

from __future__ import annotations

import base64
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rekindle.errors import BadInput
from rekindle.host.files import write_for_user
from rekindle.host.protocol import Cpuid
from rekindle.host.record import Record, join_records
from rekindle.model.toml import render_table, render_value, toml_key

SCHEMA = 1
_MAX_BYTES = 16 << 20


def write_capture(record: Record, directory: Path) -> Path:
    """Write ``capture.toml``; the record is already redacted."""
    path = directory / "capture.toml"
    write_for_user(path, render_capture(record))
    return path


def render_capture(record: Record) -> str:
    """The text of ``capture.toml``."""
    head = {name: getattr(record, name) for name in ("system", "machine", "cores", "hwcap")}
    parts = [render_table({"schema": SCHEMA, **head})]
    if record.paths:
        parts.append(f"paths = {render_value(sorted(record.paths))}\n")

    def table(name: str, values: Mapping[str, Any]) -> None:
        if values:
            parts.append(f"\n[{name}]\n{render_table(values)}")

    table("about", record.about)
    table("env", record.env)
    table("programs", {name: list(places) for name, places in record.programs.items() if places})
    table("links", record.links)
    table("access", record.access)
    table("memory", _fields(record.memory))
    for path, disk in record.disks.items():
        table(f"disks.{toml_key(path)}", _fields(disk))
    if record.cpuid:
        leaves = [[*where, *registers] for where, registers in record.cpuid.leaves.items()]
        table("cpuid", {"xcr0": record.cpuid.xcr0, "leaves": leaves})
    table("nvml", record.nvml or {})
    for kind, answers in (("pythons", record.pythons), ("torches", record.torches)):
        for path, answer in answers.items():
            table(f"{kind}.{toml_key(path)}", answer or {})
    for name, key in record.registry.items():
        if key is not None:
            table(f"registry.{toml_key(name)}", {"values": dict(key.values), "keys": list(key.keys)})
    for run in record.runs:
        said = {"argv": list(run.argv), "code": run.code, "timed_out": run.timed_out or None}
        parts.append(f"\n[[run]]\n{render_table({**said, 'out': run.out or None, 'err': run.err or None})}")
    for path, raw in record.files.items():
        if raw is not None:
            parts.append(f"\n[[file]]\n{render_table({'path': path, **_content(raw)})}")
    return "".join(parts)


def _fields(value: Any) -> dict[str, Any]:
    return {} if value is None else {name: getattr(value, name) for name in value.__struct_fields__}


def _content(raw: bytes) -> dict[str, str]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode("ascii")}
    return {"text": text}


def read_capture(directory: Path) -> Record:
    """Read every ``*.toml`` in the directory into one record; what is wrong with it is a BadInput."""
    sources = sorted(directory.glob("*.toml")) if directory.is_dir() else [directory]
    if not sources:
        raise BadInput(f"{directory} holds no capture", remedy="make one with 'rekindle doctor --capture DIR'")
    parts: list[Record] = []
    for source in sources:
        try:
            if source.stat().st_size > _MAX_BYTES:
                raise BadInput(f"{source} is too large to be a capture")
            parts.append(_read_part(tomllib.loads(source.read_text(encoding="utf-8")), source.parent))
        except OSError as error:
            raise BadInput(f"cannot read {source}: {error.strerror or error}") from error
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
        raise ValueError(f"its schema is not {SCHEMA}; a newer rekindle wrote it")
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
