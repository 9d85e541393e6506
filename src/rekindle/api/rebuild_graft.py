"""``rebuild`` of a graft: the official wheel its statement names, grafted again, and the two held side by side.

Nothing that a statement says is run: it names a wheel by its digest and cards, and the tools are those of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from rekindle.api.graft import graft
from rekindle.build.wheelfile import compare_wheels
from rekindle.errors import BadInput, StageFailed
from rekindle.host.files import sha256_of
from rekindle.model.claims import Rebuilt
from rekindle.model.document import Part

if TYPE_CHECKING:
    from rekindle.model.graft import GraftReport
    from rekindle.model.progress import Progress


class GraftStatement(Part, frozen=True, kw_only=True):
    """What a statement must say for a graft to be repeated: the official ``wheel`` and its digest, the ``archs``, the
    units that were not wanted, and the ``tools`` that made the code."""

    wheel: str
    wheel_sha256: str
    archs: tuple[str, ...]
    without: tuple[str, ...] = ()
    tools: dict[str, str] = {}


def read_graft_statement(definition: Mapping[str, Any], origin: str) -> GraftStatement:
    """From the ``buildDefinition`` of a statement; a :class:`BadInput` where it says too little."""
    try:
        asked, settings = definition["externalParameters"], definition["internalParameters"]
        said = {
            "wheel": asked["wheel"],
            "wheel_sha256": definition["resolvedDependencies"][0]["digest"]["sha256"],
            "archs": asked["archs"],
            "without": asked.get("without", []),
            "tools": settings.get("tools", {}),
        }
        found = msgspec.convert(said, GraftStatement)
        parse_wheel_filename(found.wheel)
    except (KeyError, IndexError, TypeError, AttributeError, msgspec.ValidationError, InvalidWheelFilename) as error:
        raise BadInput(f"{origin} does not say what was grafted, so it cannot be repeated: {error}") from error
    if not found.archs:
        raise BadInput(f"{origin} names no architecture that was grafted")
    return found


def rebuild_graft(
    definition: Mapping[str, Any],
    statement: Path,
    name: str,
    claimed: str,
    *,
    source: Path | None,
    wheel: Path | None,
    workspace: Path,
    progress: Progress | None,
) -> Rebuilt:
    """Graft again what the statement names, and say whether it is the same wheel, byte for byte."""
    said = read_graft_statement(definition, statement.name)
    original = wheel or statement.with_name(name)
    beside = [statement.with_name(said.wheel), original.with_name(said.wheel)]
    official = next((path for path in beside if path.is_file() and sha256_of(path) == said.wheel_sha256), None)
    # What one chip alone has (sm_90a) comes with its card.
    cards = [arch for arch in said.archs if arch[-1].isdigit()] or list(said.archs)
    project, version, _, tags = parse_wheel_filename(said.wheel)
    tag = next(iter(sorted(tags, key=str)))
    report = graft(
        str(official or f"{project}=={version}"),
        gpu=cards,
        out=workspace / "rebuilt",
        workspace=workspace,
        python=f"{tag.interpreter[2]}.{tag.interpreter[3:]}" if tag.interpreter.startswith("cp") else None,
        platform=tag.platform,
        sources=str(source) if source else None,
        without=said.without,
        leave_out=True,
        progress=progress,
    )
    if report.wheel_sha256 != said.wheel_sha256:
        raise BadInput(
            f"the statement is about {said.wheel} with SHA-256 {said.wheel_sha256[:12]}…, and what was found has"
            f" {report.wheel_sha256[:12]}…",
            remedy="lay the official wheel beside the statement",
        )
    if report.out is None or report.sha256 is None:
        why = next((unit.why for unit in report.units if unit.state in ("refused", "left-out") and unit.why), "")
        raise StageFailed(f"nothing was grafted, so there is nothing to compare: {why}"[:400])
    answer = Rebuilt(
        statement=str(statement), wheel=report.out, sha256=report.sha256, claimed=claimed, verdict="identical"
    )
    if report.sha256 == claimed:
        return answer
    others = _other_tools(said.tools, report)
    if not original.is_file():
        first = f"sha256 {report.sha256[:12]}…, not {claimed[:12]}…; the original is not here to look into"
        return msgspec.structs.replace(answer, verdict="different", difference="; ".join([first, *others]))
    found = compare_wheels(Path(report.out), original)
    words = "; ".join([*([found.difference] if found.difference else []), *others]) or None
    return msgspec.structs.replace(answer, verdict=found.verdict, rule=found.rule, difference=words)


def _other_tools(wanted: Mapping[str, str], report: GraftReport) -> Sequence[str]:
    """Tools that are of another version here than the statement names: why the code may differ."""
    return [
        f"{name} {version} made it, and here is {report.tools.get(name, 'none')}"
        for name, version in sorted(wanted.items())
        if report.tools.get(name) != version
    ]
