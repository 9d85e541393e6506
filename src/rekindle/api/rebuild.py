"""``rebuild``: repeat a build from its own provenance statement and compare the two wheels."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from rekindle.api.build import admit_here, build_one
from rekindle.api.rebuild_graft import rebuild_graft
from rekindle.api.source import source_status
from rekindle.build.wheelfile import compare_wheels
from rekindle.errors import BadInput, StageFailed
from rekindle.formats.dsse import IN_TOTO, Envelope, read_envelope, signed_by
from rekindle.formats.statement import fill_places
from rekindle.host.workspace import Workspace
from rekindle.model.build import BuildFailure
from rekindle.model.build_options import BuildOptions
from rekindle.model.claims import Rebuilt
from rekindle.model.document import decode
from rekindle.model.plan import Plan

if TYPE_CHECKING:
    from rekindle.model.progress import Progress
    from rekindle.model.source import SourceTree


MAX_STATEMENT = 64 << 20
GRAFT_TYPE = "rekindle/graft/v1"


def rebuild(
    statement: Path,
    *,
    source: Path | None = None,
    wheel: Path | None = None,
    workspace: Path | None = None,
    python: str | None = None,
    trust: bool = False,
    progress: Progress | None = None,
) -> Rebuilt:
    """Build again what the statement describes, somewhere else, and say whether it is the same wheel.

    ``source`` is the tree (the miniature brings its own); ``wheel`` the original (default: beside the statement;
    without it only the digest can be compared). A statement holds a plan: one that was not built here before is
    refused (:class:`rekindle.errors.Untrusted`, with what it would run and who signed it) unless ``trust`` is given.
    """
    said, signed = _read(statement)
    definition = _inside(said)
    written = None if definition.get("buildType") == GRAFT_TYPE else _written_plan(definition, statement)
    name, sha256 = _subject(said, statement)
    original = wheel or statement.with_name(name)
    place = Workspace((workspace or statement.parent / f"rebuilt-{sha256[:12]}").absolute())
    if definition.get("buildType") == GRAFT_TYPE:
        return rebuild_graft(
            definition,
            statement,
            name,
            sha256,
            source=source,
            wheel=wheel,
            workspace=place.root,
            progress=progress,
        )
    here = {"source": str(source or place.source / "spark"), "workspace": str(place.root), "home": str(Path.home())}
    plan = decode(json.dumps(fill_places(written, here)).encode(), Plan, origin=statement.name)
    admit_here(plan, trust=trust, kind="statement", signed=signed)
    if (place.root / "wheels" / name).resolve() == original.resolve():
        raise BadInput("the rebuilt wheel would replace the original", remedy="give another place with --workspace DIR")
    tree = _tree(said, plan, source, place)
    # The miniature needs nothing but a compiler, unless its plan names packages of its own.
    as_is = plan.project == "spark" and not (plan.build and plan.build.pins)
    with place.lock("rebuild"):
        chosen = BuildOptions(
            plan=plan, source=tree, workspace=place.root, pythons=(python or sys.executable,), as_is=as_is
        )
        built = build_one(chosen, progress, trust=True)
    if isinstance(built, BuildFailure):
        raise StageFailed(f"the build could not be repeated: {built.message}", remedy=f"rekindle explain {built.log}")
    answer = Rebuilt(
        statement=str(statement), wheel=built.wheel, sha256=built.wheel_sha256, claimed=sha256, verdict="identical"
    )
    if built.wheel_sha256 == sha256:
        return answer
    if not original.is_file():
        words = f"sha256 {built.wheel_sha256[:12]}…, not {sha256[:12]}…; the original is not here to look into"
        return msgspec.structs.replace(answer, verdict="different", difference=words)
    found = compare_wheels(Path(built.wheel), original)
    first = found.difference
    if first and (letter := next((one for one in '="\\$;<>' if one in tree.root), None)):
        first += f"; the path of the tree has a {letter} in it, which not every compiler can keep out: try one without"
    return msgspec.structs.replace(answer, verdict=found.verdict, rule=found.rule, difference=first)


def _read(path: Path) -> tuple[Mapping[str, Any], str]:
    """A statement, plain or in its envelope, and who signed it, in words."""
    signed = "nobody signed it"
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_STATEMENT)
        read = json.loads(raw)
        if isinstance(read, dict) and "payload" in read:
            envelope = read_envelope(raw, path.name)
            signed = _signer(envelope)
            read = json.loads(envelope.payload)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", remedy="the .intoto.json beside a wheel") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{path} is no provenance statement: {error}", remedy="the .intoto.json beside a wheel"
        ) from error
    if not isinstance(read, dict) or "predicate" not in read:
        raise BadInput(f"{path} is no provenance statement", remedy="the .intoto.json beside a wheel")
    return read, signed


def _signer(envelope: Envelope) -> str:
    from rekindle.host.keys import checker, trusted_keys

    name = signed_by(envelope, checker(trusted_keys())) if envelope.payload_type == IN_TOTO else None
    if name is not None:
        return f"by {name}, whose key is believed here"
    claimed = ", ".join(key_id or "no name" for key_id, _ in envelope.signatures)
    return f"by no key that is believed here (it says {claimed})"


def _inside(said: Mapping[str, Any]) -> Mapping[str, Any]:
    place: Any = said
    for name in ("predicate", "buildDefinition"):
        place = place.get(name) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}


def _written_plan(definition: Mapping[str, Any], origin: Path) -> Any:
    if definition.get("buildType") != "rekindle/build/v1":
        raise BadInput(
            f"{origin.name} is about a build of another kind ({definition.get('buildType')!r})",
            remedy="builds and grafts by rekindle can be repeated",
        )
    inner = definition.get("internalParameters")
    written = inner.get("plan") if isinstance(inner, Mapping) else None
    if written is None:
        raise BadInput(f"{origin.name} holds no plan, so it cannot be repeated", remedy="it is from an older version")
    return written


def _subject(said: Mapping[str, Any], origin: Path) -> tuple[str, str]:
    try:
        first = said["subject"][0]
        name, sha256 = str(first["name"]), str(first["digest"]["sha256"])
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise BadInput(f"{origin.name} names no wheel") from error
    if name != Path(name).name:
        raise BadInput(f"{origin.name} names a path, not a file: {name!r}")
    return name, sha256


def _tree(said: Mapping[str, Any], plan: Plan, source: Path | None, place: Any) -> SourceTree:
    """The same source: the miniature's own, or the tree that is given, if it is the one the statement names."""
    if source is None and plan.project == "spark":
        import shutil

        from rekindle.api.source import patch_spark
        from rekindle.spark import unpack

        root = place.source / "spark"
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        unpack.unpack(root)
        return patch_spark(root)
    if source is None:
        raise BadInput(
            f"which source tree of {plan.project}?", remedy="--source DIR, at the commit the statement names"
        )
    tree = source_status(source)
    materials = _inside(said).get("resolvedDependencies")
    rows = materials if isinstance(materials, list) else []
    wanted: Mapping[str, Any] = next((one.get("digest", {}) for one in rows if isinstance(one, dict)), {})
    for kind, found in (("gitCommit", tree.commit), ("sha256", tree.digest)):
        if kind in wanted and found is not None and found != wanted[kind]:
            raise BadInput(
                f"{source} is at {found[:12]}, the statement was made from {str(wanted[kind])[:12]}",
                remedy="check out that commit, with the same patches",
            )
    return tree
