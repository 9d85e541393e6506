"""``rebuild``: repeat a build or a graft from its own provenance statement and compare the two wheels."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from rekindle.api.build_wheels import admit_here, build_one
from rekindle.api.source import patch_spark, source_status
from rekindle.build.finish import compare_wheels
from rekindle.errors import BadInput, StageFailed
from rekindle.formats import statement as statements
from rekindle.host.files import sha256_of
from rekindle.host.keys import believed_keys, checker
from rekindle.host.workspace import Workspace
from rekindle.model.build import BuildFailure
from rekindle.model.build_options import BuildOptions
from rekindle.model.claims import Rebuilt
from rekindle.model.document import Part, decode, read_bounded
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress
from rekindle.model.source import SourceTree

BUILD_TYPE = "rekindle/build/v1"
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
    parsed, signed = _read_statement(statement)
    definition = parsed.definition
    kind, written = definition.get("buildType"), statements.sub_table(definition, "internalParameters").get("plan")
    if kind not in (BUILD_TYPE, GRAFT_TYPE):
        remedy = "builds and grafts by Rekindle can be repeated"
        raise BadInput(f"{statement.name} is about a build of another kind ({kind!r})", remedy=remedy)
    if kind == BUILD_TYPE and written is None:
        remedy = "it is from an older version"
        raise BadInput(f"{statement.name} holds no plan, so it cannot be repeated", remedy=remedy)
    name, sha256 = next(iter(parsed.subjects.items()), (None, ""))
    if name is None:
        raise BadInput(f"{statement.name} names no wheel")
    if name != Path(name).name:
        raise BadInput(f"{statement.name} names a path, not a file: {name!r}")
    original = wheel or statement.with_name(name)
    place = Workspace((workspace or statement.parent / f"rebuilt-{sha256[:12]}").absolute())
    if kind == GRAFT_TYPE:
        return _rebuild_graft(parsed, statement, original, sha256, source, place, progress)
    places = {"source": str(source or place.source / "spark"), "workspace": str(place.root), "home": str(Path.home())}
    plan = decode(json.dumps(statements.fill_places(written, places)).encode(), Plan, origin=statement.name)
    admit_here(plan, trust=trust, kind="statement", signed=signed)
    if (place.root / "wheels" / name).resolve() == original.resolve():
        raise BadInput("the rebuilt wheel would replace the original", remedy="give another place with --workspace DIR")
    tree = _find_tree(parsed, plan, source, place)
    # The miniature needs nothing but a compiler, unless its plan names packages of its own.
    as_is = plan.project == "spark" and not (plan.build and plan.build.pins)
    pythons = (python or sys.executable,)
    with place.lock("rebuild"):
        chosen = BuildOptions(plan=plan, source=tree, workspace=place.root, pythons=pythons, as_is=as_is)
        built = build_one(chosen, progress, trust=True)
    if isinstance(built, BuildFailure):
        raise StageFailed(f"the build could not be repeated: {built.message}", remedy=f"rekindle explain {built.log}")
    doubt = "the path of the tree has a {} in it, which not every compiler can keep out: try one without"
    doubts = [doubt.format(letter) for letter in '="\\$;<>' if letter in tree.root]
    return _compare_new(statement, built.wheel, built.wheel_sha256, original, sha256, doubts)


def _compare_new(
    statement: Path, new: str, new_sha256: str, original: Path, claimed: str, doubts: Sequence[str]
) -> Rebuilt:
    """The two wheels side by side; ``doubts`` are why they may differ, told where they do."""
    answer = Rebuilt(statement=str(statement), wheel=new, sha256=new_sha256, claimed=claimed, verdict="identical")
    if new_sha256 == claimed:
        return answer
    if not original.is_file():
        first = f"sha256 {new_sha256[:12]}…, not {claimed[:12]}…; the original is not here to look into"
        return replace(answer, verdict="different", difference="; ".join([first, *doubts]))
    comparison = compare_wheels(Path(new), original)
    words = [*filter(None, [comparison.difference]), *doubts]
    return replace(answer, verdict=comparison.verdict, rule=comparison.rule, difference="; ".join(words) or None)


def _read_statement(path: Path) -> tuple[statements.Statement, str]:
    """A statement, plain or in its envelope, and who signed it, in words."""
    remedy = "the .intoto.json beside a wheel"
    raw = read_bounded(path, statements.MAX_ENVELOPE_BYTES, "statement", remedy=remedy)
    try:
        statement = statements.read_statement(raw, path.name)
    except BadInput as error:
        raise BadInput(f"{path} is no provenance statement: {error.message}", remedy=remedy) from error
    if "predicate" not in statement.content:
        raise BadInput(f"{path} is no provenance statement", remedy=remedy)
    if statement.envelope is None:
        return statement, "nobody signed it"
    is_statement = statement.envelope.payload_type == statements.IN_TOTO
    name = statements.signed_by(statement.envelope, checker(believed_keys())) if is_statement else None
    if name is not None:
        return statement, f"by {name}, whose key is believed here"
    claimed = ", ".join(key_id or "no name" for key_id, _ in statement.envelope.signatures)
    return statement, f"by no key that is believed here (it says {claimed})"


def _find_tree(statement: statements.Statement, plan: Plan, source: Path | None, place: Workspace) -> SourceTree:
    """The same source: the miniature's own, or the tree that is given, if it is the one the statement names."""
    if source is None and plan.project == "spark":
        from rekindle.spark import unpack

        root = place.source / "spark"
        unpack.unpack(root)
        return patch_spark(root)
    if source is None:
        remedy = "--source DIR, at the commit the statement names"
        raise BadInput(f"which source tree of {plan.project}?", remedy=remedy)
    tree = source_status(source)
    materials = statement.definition.get("resolvedDependencies")
    digests = statements.sub_table(materials[0], "digest") if isinstance(materials, list) and materials else {}
    for kind, actual in (("gitCommit", tree.commit), ("sha256", tree.digest)):
        if kind in digests and actual is not None and actual != digests[kind]:
            raise BadInput(
                f"{source} is at {actual[:12]}, the statement was made from {str(digests[kind])[:12]}",
                remedy="check out that commit, with the same patches",
            )
    return tree


class _GraftStatement(Part, frozen=True, kw_only=True):
    """What repeats a graft: the official wheel, its digest, the archs, units that were not wanted, and the code's
    makers."""

    wheel: str
    wheel_sha256: str
    archs: tuple[str, ...]
    without: tuple[str, ...] = ()
    tools: dict[str, str] = {}


def _read_graft_statement(definition: Mapping[str, Any], origin: str) -> _GraftStatement:
    """From the ``buildDefinition`` of a statement; a :class:`BadInput` where it says too little."""
    try:
        asked, settings = definition["externalParameters"], definition["internalParameters"]
        fields = {
            "wheel": asked["wheel"],
            "wheel_sha256": definition["resolvedDependencies"][0]["digest"]["sha256"],
            "archs": asked["archs"],
            "without": asked.get("without", []),
            "tools": settings.get("tools", {}),
        }
        graft = msgspec.convert(fields, _GraftStatement)
        parse_wheel_filename(graft.wheel)
    except (KeyError, IndexError, TypeError, AttributeError, msgspec.ValidationError, InvalidWheelFilename) as error:
        raise BadInput(f"{origin} does not say what was grafted, so it cannot be repeated: {error}") from error
    if not graft.archs:
        raise BadInput(f"{origin} names no architecture that was grafted")
    return graft


def _rebuild_graft(
    parsed: statements.Statement,
    statement: Path,
    original: Path,
    claimed: str,
    source: Path | None,
    place: Workspace,
    progress: Progress | None,
) -> Rebuilt:
    """The official wheel, grafted again. Nothing of a statement is run: it names a wheel and cards, the tools are
    ours."""
    from rekindle.api.graft_wheel import graft  # needs NumPy, which a build does without

    details = _read_graft_statement(parsed.definition, statement.name)
    beside = [statement.with_name(details.wheel), original.with_name(details.wheel)]
    official = next((path for path in beside if path.is_file() and sha256_of(path) == details.wheel_sha256), None)
    # What one chip alone has (sm_90a) comes with its card.
    cards = [arch for arch in details.archs if arch[-1].isdigit()] or list(details.archs)
    project, version, _, tags = parse_wheel_filename(details.wheel)
    tag = next(iter(sorted(tags, key=str)))
    report = graft(
        str(official or f"{project}=={version}"),
        gpu=cards,
        out=place.root / "rebuilt",
        workspace=place.root,
        python=f"{tag.interpreter[2]}.{tag.interpreter[3:]}" if tag.interpreter.startswith("cp") else None,
        platform=tag.platform,
        sources=str(source) if source else None,
        without=details.without,
        leave_out=True,
        progress=progress,
    )
    if report.wheel_sha256 != details.wheel_sha256:
        raise BadInput(
            f"the statement is about {details.wheel} with SHA-256 {details.wheel_sha256[:12]}…, and what was found has"
            f" {report.wheel_sha256[:12]}…",
            remedy="lay the official wheel beside the statement",
        )
    if report.out is None or report.sha256 is None:
        why = next((unit.why for unit in report.units if unit.state in ("refused", "left-out") and unit.why), "")
        raise StageFailed(f"nothing was grafted, so there is nothing to compare: {why}"[:400])
    others = [
        f"{name} {version} made it, and here is {report.tools.get(name, 'none')}"
        for name, version in sorted(details.tools.items())
        if report.tools.get(name) != version
    ]
    return _compare_new(statement, report.out, report.sha256, original, claimed, others)
