"""The end of a build: the wheel finished and in the wheelhouse, its attestations, ``build.json`` and the report; and
where two wheels differ.

A wheel is written anew: entries sorted, one time stamp, plain modes, our additions in ``.dist-info``, a fresh RECORD;
building the same tree twice then gives the same bytes. So do the attestations: a CycloneDX bill of materials inside the
wheel (``.dist-info/sboms``, PEP 770), an in-toto provenance statement beside it, since it names the wheel's digest.
"""

import configparser
import contextlib
import json
import os
import re
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rekindle import __version__
from rekindle.build.environment import BuildEnvironment
from rekindle.build.launchers import statistics
from rekindle.build.report import write_report
from rekindle.build.work import Work
from rekindle.errors import BadInput, StageFailed, reading
from rekindle.formats.gitmodules import read_gitmodules
from rekindle.formats.rewrite import Rewriter, member_chunks
from rekindle.formats.statement import hide_places, render_bill, write_statement
from rekindle.formats.view import CHUNK
from rekindle.formats.wheel import WheelZip
from rekindle.host.files import sha256_of, whole_file, write_atomically
from rekindle.host.made import mark_made, plan_digest
from rekindle.host.redact import without_password
from rekindle.interpreters.environment import TargetPython
from rekindle.interpreters.packages import ask_contents
from rekindle.model.build import BuildResult, Phase
from rekindle.model.document import encode
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree

# What names the builder and not the product: the list of tools, and RECORD, which repeats its digest.
_BUILDER = re.compile(r"\.dist-info/(?:sboms/[^/]+|rekindle\.json|RECORD)$")


def finish(work: Work, wheel: Path | None, env: BuildEnvironment, target: TargetPython) -> BuildResult:
    """Everything beside the wheel carries the wheel's name; ``build.json`` and ``report.html`` are the latest."""
    digest = plan_digest(work.plan)
    place = sha256 = ""
    bill_file = statement_file = None
    with work.phase("finish"):
        if wheel is not None:
            packages = {}
            # What the build environment held, asked of the interpreter itself.
            with contextlib.suppress(BadInput):
                contents = ask_contents(work.host, target.python)
                packages = {package.name: package.version for package in contents.packages}
            tools = {name: text.split(" ")[0] for name, text in work.toolchain.items()}
            bill = bill_of_materials(work.tree, work.version, packages, tools)
            final = work.workspace.wheels / wheel.name
            # What a wheel says about its own making is the same for the same plan and source.
            made_from = {"source_commit": work.tree.commit, "source_digest": work.tree.digest}
            patches = [{"id": patch.id, "sha256": patch.sha256} for patch in work.tree.patched]
            identity = encode({"schema": 1, "plan_digest": digest, **made_from, "patches": patches})
            added = {"rekindle.json": identity, f"sboms/{work.tree.project}.cdx.json": bill}
            finish_wheel(wheel, final, epoch=int(env.chosen["SOURCE_DATE_EPOCH"]), add=added)
            wheel.unlink()
            place, sha256 = str(final), sha256_of(final)
            mark_made(sha256)
            bill_file = _write_beside(final, ".cdx.json", bill)
            home = work.host.env.get("HOME") or work.host.env.get("USERPROFILE") or ""
            places = {"workspace": str(work.workspace.root), "home": home}
            statement = provenance(work.plan, digest, work.tree, [(final.name, sha256)], env.chosen, tools, places)
            statement_file = _write_beside(final, ".intoto.json", statement)
            _write_beside(final, ".sha256", f"{sha256}  {final.name}\n".encode())
    governor, learnt = (work.jobs.governor, work.jobs.learnt) if work.jobs else (None, None)
    result = BuildResult(
        project=work.tree.project,
        wheel=place,
        wheel_sha256=sha256,
        plan=work.plan,
        plan_digest=digest,
        source_commit=work.tree.commit,
        source_digest=work.tree.digest,
        patches=work.tree.patched,
        toolchain=dict(work.toolchain),
        environment=dict(env.chosen),
        phases=tuple(Phase(name=span.name, seconds=round(span.seconds, 3)) for span in work.spans),
        peak_memory_bytes=governor.peak_bytes if governor else None,
        report=str(work.workspace.reports / "report.html"),
        python=target.interpreter.version,
        target=work.options.target,
        resumed=work.resumed,
        facts=work.facts,
        log=str(work.log.path),
        steps=work.steps,
        memory_budget_bytes=work.options.memory_bytes,
        paused=governor.pauses if governor else 0,
        retried=tuple(work.retried),
        launcher=statistics(work.host, work.launcher) if work.launcher else {},
        farm=work.farm.use(work.compilers) if work.farm else None,
        sbom=bill_file,
        provenance=statement_file,
        notes=tuple(work.notes),
    )
    # A walk writes its own report over the latest one; the build's stays beside it and is led to from there.
    for page in (Path(result.report or ""), work.workspace.reports / "build.html"):
        write_report(page, result, work.front.ninja_tree, governor.samples if governor else [], learnt)
    if place:
        _write_beside(Path(place), ".build.json", encode(result))
    write_atomically(work.workspace.wheels / "build.json", encode(result))
    return result


def _write_beside(wheel: Path, suffix: str, content: bytes) -> str:
    path = wheel.with_name(wheel.name + suffix)
    write_atomically(path, content)
    return str(path)


def third_party(root: Path) -> dict[str, str]:
    """What lies in the tree's submodule folders, by name: where it is from, where .gitmodules tells it."""
    try:
        named = read_gitmodules((root / ".gitmodules").read_text(encoding="utf-8", errors="replace"))
    except (OSError, configparser.Error):
        named = {}
    unnamed = {place: "" for place in (root / "third_party").glob("*") if not place.is_symlink()}
    places = unnamed | {root / path: url or "" for path, url in named.items() if ".." not in Path(path).parts}
    return {place.name: url for place, url in places.items() if place.is_dir() and any(place.iterdir())}


def bill_of_materials(tree: SourceTree, version: str, packages: Mapping[str, str], tools: Mapping[str, str]) -> bytes:
    """CycloneDX 1.5: the product, what is compiled into it, and what only built it (scope "excluded")."""
    name = {"spark": "spark-miniature"}.get(tree.project, tree.project)
    inside: list[dict[str, Any]] = []
    for part, url in sorted(third_party(Path(tree.root)).items()):
        origin = {"externalReferences": [{"type": "vcs", "url": url}]} if url else {}
        inside.append({"type": "library", "name": part, "scope": "required", **origin})
    for package, release in sorted(packages.items()):
        purl = f"pkg:pypi/{package.lower()}@{release}"
        inside.append({"type": "library", "name": package, "version": release, "scope": "excluded", "purl": purl})
    for tool, edition in sorted(tools.items()):
        inside.append({"type": "application", "name": tool, "version": edition, "scope": "excluded"})
    own = f"pkg:pypi/{name}@{version}"
    product: dict[str, Any] = {"type": "library", "name": name, "version": version, "purl": own, "bom-ref": own}
    contents = [f"{patch.id} sha256:{patch.sha256 or 'unknown'}" for patch in tree.patched]
    if rows := [{"type": "unofficial", "diff": {"text": {"content": content}}} for content in contents]:
        product["pedigree"] = {"patches": rows}
    return render_bill(product, inside, tool_version=__version__)


def provenance(
    plan: Plan,
    plan_digest: str,
    tree: SourceTree,
    wheels: Sequence[tuple[str, str]],
    env: Mapping[str, str],
    tools: Mapping[str, str],
    places: Mapping[str, str],
) -> bytes:
    """An in-toto statement with an SLSA 1.0 predicate: from which plan and source, with which settings and tools. To be
    published: ``places`` of this machine stand in it by their names (``<workspace>``) alone."""
    origin = without_password(tree.origin or tree.project)
    if Path(origin).is_absolute():
        origin = tree.project
    digest = {"gitCommit": tree.commit} if tree.commit else {"sha256": tree.digest} if tree.digest else None
    materials = [{"uri": origin, "digest": digest}] if digest else []
    patches = {patch.id: patch.sha256 for patch in tree.patched if patch.sha256}
    materials += [{"uri": f"patch:{name}", "digest": {"sha256": sha256}} for name, sha256 in patches.items()]
    return write_statement(
        wheels,
        kind="rekindle/build/v1",
        asked={"project": tree.project, "version": plan.torch or tree.version},
        # The whole plan: with it and the source anybody can repeat the build (rekindle rebuild).
        settings=hide_places(
            {"environment": dict(sorted(env.items())), "planDigest": plan_digest, "plan": json.loads(encode(plan))},
            {"source": tree.root, **places},
        ),
        materials=materials,
        tools=tools,
    )


def finish_wheel(source: Path, target: Path, *, epoch: int, add: Mapping[str, bytes]) -> None:
    """``add`` maps names inside ``.dist-info`` to contents. ``target`` appears whole or not at all."""
    with whole_file(target) as part:
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as new:
            infos = {info.filename: info for info in old.infolist() if not info.is_dir()}
            folders = {top for name in infos if (top := name.partition("/")[0]).endswith(".dist-info")}
            if len(folders) != 1:
                raise StageFailed(f"the wheel has {len(folders)} .dist-info folders instead of one")
            (folder,) = folders
            extra = {f"{folder}/{name}": content for name, content in add.items()}
            stale = {f"{folder}/{name}" for name in ("RECORD", "RECORD.jws", "RECORD.p7s")}
            writer = Rewriter(old, new, folder, stamp=time.gmtime(max(epoch, 315532800)), fresh=True)
            # Metadata last, as PEP 427 recommends: readers find it near the end.
            for name in sorted((infos.keys() | extra.keys()) - stale, key=lambda n: (n.startswith(folder), n)):
                runs = name in infos and infos[name].external_attr >> 16 & 0o100
                chunks = [extra[name]] if name in extra else member_chunks(old, name)
                writer.add(name, chunks, mode=0o755 if runs else 0o644)
            writer.finish()
        # Opened for writing: Windows refuses to flush what may only be read.
        with part.open("r+b") as file:
            os.fsync(file.fileno())


class Comparison(NamedTuple):
    """``rule`` is set where the two are the same only after it; ``difference`` where they are not."""

    verdict: str
    rule: str | None = None
    difference: str | None = None


def compare_wheels(ours: Path, theirs: Path) -> Comparison:
    """Members by name and content; how they are packed comes second, who built them third."""
    with reading(theirs):
        a, b = WheelZip(lambda: ours.open("rb"), ours.name), WheelZip(lambda: theirs.open("rb"), theirs.name)
    left, right = (dict(wheel.digests(wheel.members)) for wheel in (a, b))
    if left == right:
        return Comparison("normalised", rule="packed differently: every file inside has the same bytes")
    left, right = ({k: v for k, v in each.items() if not _BUILDER.search(k)} for each in (left, right))
    if left == right:
        own = "rekindle.json, the bill of materials and RECORD, which name each builder's plan and tools"
        return Comparison("normalised", rule=f"without {own}")
    name = min(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
    if name in left and name in right:
        at = 0
        with zipfile.ZipFile(ours) as one, zipfile.ZipFile(theirs) as other, one.open(name) as x, other.open(name) as y:
            while (mine := x.read(CHUNK)) == (yours := y.read(CHUNK)) and mine:
                at += len(mine)
        pairs = enumerate(zip(mine, yours, strict=False))
        at += next((number for number, (p, q) in pairs if p != q), min(len(mine), len(yours)))
        return Comparison("different", difference=f"{name} from byte {at} on")
    owner = "rebuilt wheel" if name in left else "original"
    return Comparison("different", difference=f"{name} is only in the {owner}")
